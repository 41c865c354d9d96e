"""What commands print: data on standard output, all else on standard error."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import track

from fewbits.search import BitMeaning, DecidingWord, ExplainedBit, Explanation, Hit

SNIPPET = 160
LONGEST_TITLE = 200
SHOWN_BITS = 4  # of those that agree, and of those that differ; --json has all
SHOWN_WORDS = 5
Item = TypeVar("Item")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def print_error(error: Exception) -> None:
    """Print an error on one line of standard error."""
    err.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, default=_plain, ensure_ascii=False))


def print_hits(query: str, hits: list[Hit], n_bits: int, reasons: Sequence[Explanation] = ()) -> None:
    """Print a query and its hits for a person, with the reasons for each where they are given."""
    out.print(f"[bold]{escape(query)}[/bold]", soft_wrap=True)
    room = len(str(n_bits))
    indent = " " * (2 * room + 3)
    for hit, reason in zip_longest(hits, reasons):
        beside = [", ".join(hit.labels), *(f"{name}={_short(value)}" for name, value in hit.metadata.items())]
        told = "".join(f"  [dim]{escape(part)}[/dim]" for part in beside if part)
        place = f"{hit.distance:>{room}}/{n_bits}  {hit.score:.2f}"
        out.print(f"{place}  [cyan]{escape(str(hit.id))}[/cyan]{told}", soft_wrap=True)
        title, rest = split_title(hit.text)
        for text, style in ((title, "bold"), (snippet(rest), None)):
            lines = textwrap.wrap(text, out.width, initial_indent=indent, subsequent_indent=indent)
            if lines:
                out.print("\n".join(lines), markup=False, soft_wrap=True, style=style)
        if reason is not None:
            _print_reason(reason, n_bits, indent)


def print_meaning(meaning: BitMeaning) -> None:
    """Print what a bit is about on one line."""
    out.print(f"{meaning.bit:>4}  {_about(meaning)}", markup=False, soft_wrap=True)


def _print_reason(reason: Explanation, n_bits: int, indent: str) -> None:
    def say(text: str) -> None:
        out.print(indent + text, markup=False, soft_wrap=True)

    shared = ", ".join(f"{word.word} {word.weight:.2f}" for word in reason.shared_words[:SHOWN_WORDS])
    say(f"words in common (cosine {reason.cosine:.2f}): {shared or 'none'}")
    say(f"bits that agree: {n_bits - reason.distance}, the surest:")
    for bit in reason.agreeing[:SHOWN_BITS]:
        say(f"  {bit.bit:>3} = {bit.hit}  {_about(bit)}")
        say(f"        decided by  query: {_words(bit.query_words)}  hit: {_words(bit.hit_words)}")
    if reason.distance:
        say(f"bits that differ: {reason.distance}, the surest:")
    for bit in reason.differing[:SHOWN_BITS]:
        say(f"  {bit.bit:>3}: {bit.query} in the query, {bit.hit} in the hit  {_about(bit)}")
        say(f"        decided by  query: {_words(bit.query_words)}  hit: {_words(bit.hit_words)}")


def _about(bit: BitMeaning | ExplainedBit) -> str:
    return f"more: {' '.join(bit.raises) or 'nothing'}; less: {' '.join(bit.lowers) or 'nothing'}"


def _words(words: Sequence[DecidingWord]) -> str:
    return " ".join(word.word for word in words) or "no word"


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


def split_title(text: str) -> tuple[str, str]:
    """The first line of a text where it is short and others follow, and the rest."""
    first, _, rest = text.strip().partition("\n")
    return (first, rest) if rest and len(first) <= LONGEST_TITLE else ("", text)


def _short(value: Any) -> str:
    return snippet(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


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
