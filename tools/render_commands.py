"""Render the help of all commands as Markdown: ``python tools/render_commands.py > docs/commands.md``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from fewbits.cli import app

WIDTH = 100  # fixed, so that the page does not depend on the terminal
HEAD = """\
# Commands

This page contains the output of `--help` for every command. `make commands` regenerates it.
"""


def render() -> str:
    """Return the help of every command as Markdown."""
    commands = list(_commands(get_command(app), "fewbits", None))
    contents = "\n".join(f"| [{name}](#{name.replace(' ', '-')}) | {summary} |" for name, summary, _ in commands)
    sections = "\n".join(f"## {name}\n\n```text\n{text}\n```\n" for name, _, text in commands)
    return f"{HEAD}\n| command | purpose |\n| --- | --- |\n{contents}\n\n{sections}"


def _commands(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the full name, summary and help of a command and its subcommands."""
    context = command.context_class(command, info_name=name.split()[-1], parent=parent, terminal_width=WIDTH)
    summary = " ".join((command.help or "").split("\n\n")[0].split())
    yield name, summary, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    for word, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{name} {word}", context)


if __name__ == "__main__":
    print(render(), end="")
