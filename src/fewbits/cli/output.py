"""What commands print: data on standard output, all else on standard error."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterable
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import track

from fewbits.search import Hit

SNIPPET = 160
Item = TypeVar("Item")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def print_error(error: Exception) -> None:
    """Print an error on one line of standard error."""
    err.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, default=_plain, ensure_ascii=False))


def print_hits(query: str, hits: list[Hit], n_bits: int) -> None:
    """Print a query and its hits for a person."""
    out.print(f"[bold]{escape(query)}[/bold]", soft_wrap=True)
    room = len(str(n_bits))
    indent = " " * (2 * room + 3)
    for hit in hits:
        labels = f"  [dim]{escape(', '.join(hit.labels))}[/dim]" if hit.labels else ""
        out.print(f"{hit.distance:>{room}}/{n_bits}  [cyan]{escape(str(hit.id))}[/cyan]{labels}", soft_wrap=True)
        lines = textwrap.wrap(snippet(hit.text), out.width, initial_indent=indent, subsequent_indent=indent)
        out.print("\n".join(lines), markup=False, soft_wrap=True)


def print_table(header: list[str], rows: Iterable[list[str]]) -> None:
    """Print a table for a person, never shortened; all columns but the first are numbers."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        out.print("  ".join(cells), markup=False, soft_wrap=True)


def snippet(text: str) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= SNIPPET else flat[: SNIPPET - 1].rsplit(" ", 1)[0] + " …"


def watch(items: Iterable[Item], what: str, total: int | None = None) -> Iterable[Item]:
    """Show progress on a terminal; elsewhere stay silent."""
    return track(items, description=what, total=total, console=err, disable=not err.is_terminal, transient=True)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value.item()  # a number of numpy's
