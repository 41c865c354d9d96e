"""What commands print: data on standard output, all else on standard error."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from fewbits.search import Hit

SNIPPET = 160
Item = TypeVar("Item")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, default=_plain, ensure_ascii=False))


def print_hits(query: str, hits: list[Hit], n_bits: int) -> None:
    """Print a query and its hits for a person."""
    out.print(f"[bold]{escape(query)}[/bold]")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for hit in hits:
        labels = f"  [dim]{escape(', '.join(hit.labels))}[/dim]" if hit.labels else ""
        body = f"[cyan]{escape(str(hit.id))}[/cyan]{labels}\n{escape(snippet(hit.text))}"
        table.add_row(f"{hit.distance}/{n_bits}", body)
    out.print(table)


def print_table(header: list[str], rows: Iterable[list[str]]) -> None:
    """Print a table for a person; all columns but the first are numbers."""
    table = Table(box=None, pad_edge=False)
    for position, name in enumerate(header):
        table.add_column(name, justify="left" if position == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    out.print(table)


def snippet(text: str) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= SNIPPET else flat[: SNIPPET - 1].rsplit(" ", 1)[0] + " …"


def watch(items: Iterable[Item], what: str) -> Iterable[Item]:
    """Show progress on a terminal; elsewhere stay silent."""
    return track(items, description=what, console=err, disable=not err.is_terminal, transient=True)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value.item()  # a number of numpy's
