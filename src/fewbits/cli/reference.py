"""The page of all commands, made from their help: ``python -m fewbits.cli.reference > docs/commands.md``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from fewbits.cli import app

WIDTH = 100  # of the lines, whatever terminal it is made on
HEAD = """\
# The commands

`fewbits COMMAND --help` prints the same. This page is made by

```sh
python -m fewbits.cli.reference > docs/commands.md
```
"""


def render_reference() -> str:
    """The help of every command as Markdown."""
    commands = list(_commands(get_command(app), "fewbits", None))
    contents = "\n".join(f"| [{name}](#{name.replace(' ', '-')}) | {purpose} |" for name, purpose, _ in commands)
    sections = "\n".join(f"## {name}\n\n```text\n{text}\n```\n" for name, _, text in commands)
    return f"{HEAD}\n| command | what it does |\n| --- | --- |\n{contents}\n\n{sections}"


def _commands(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str, str]]:
    """Full name, purpose and help of a command and of all under it."""
    context = command.context_class(command, info_name=name.split()[-1], parent=parent, terminal_width=WIDTH)
    purpose = " ".join((command.help or "").split("\n\n")[0].split())
    yield name, purpose, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    for word, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{name} {word}", context)


if __name__ == "__main__":
    print(render_reference(), end="")
