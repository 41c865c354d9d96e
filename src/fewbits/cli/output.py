"""Output of commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.text import Text

from fewbits.search import BitMeaning, DecidingWord, ExplainedBit, Explanation, Hit, Suggestion
from fewbits.search.snippets import Highlighter

SNIPPET_LENGTH = 160
NO_WORDS = Highlighter(None)  # marks nothing
MAX_EXPLAINED_BITS = 4  # that agree, and that differ; --json prints all
MAX_SHARED_WORDS = 5
NUMBER = re.compile(r"[-+]?[0-9.,]+|None|")  # cells of columns that are aligned to the right
Item = TypeVar("Item")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
LONGEST_HEADER = 300  # characters of a query that are printed


def print_text(text: str = "") -> None:
    """Print text on standard output; lines are not wrapped."""
    out.print(text, markup=False, soft_wrap=True)


def print_status(text: str) -> None:
    """Print text on standard error; lines are not wrapped."""
    err.print(text, markup=False, soft_wrap=True)


def print_error(error: Exception) -> None:
    """Print an error on one line of standard error."""
    err.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, default=_to_builtin, ensure_ascii=False))


def print_table(header: list[str], rows: Iterable[list[str]]) -> None:
    """Print an aligned table: numbers to the right, texts to the left.

    Rich's tables fold or cut cells at the width of the terminal; these lines stay whole, also for grep and awk.
    """
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    are_texts = [any(not NUMBER.fullmatch(line[column]) for line in lines[1:]) for column in range(len(header))]
    for line in lines:
        cells = (
            cell.ljust(width) if is_text else cell.rjust(width)
            for cell, width, is_text in zip(line, widths, are_texts, strict=True)
        )
        print_text("  ".join(cells).rstrip())


def print_hits(
    query: str,
    hits: list[Hit],
    n_bits: int,
    explanations: Sequence[Explanation] = (),
    highlighter: Highlighter | None = None,
) -> None:
    """Print a query, a header, and its hits, each with its explanation if there are any.

    The score of a hit is made of that of the words and that of the codes, in every ranking.
    """
    shown = query if len(query) <= LONGEST_HEADER else f"{query[:LONGEST_HEADER]}…"
    out.print(f"[bold]{escape(shown)}[/bold]", soft_wrap=True)
    if not hits:
        return
    width = max(len(f"{n_bits}/{n_bits}"), len("differ"))
    out.print(f"[dim]score  words  codes  {'differ':>{width}}  document[/dim]", soft_wrap=True)
    indent = " " * 7
    for hit, explanation in zip_longest(hits, explanations):
        details = [", ".join(hit.labels), *(f"{name}={_one_line(value)}" for name, value in hit.metadata.items())]
        dimmed = "".join(f"  [dim]{escape(detail)}[/dim]" for detail in details if detail)
        codes = hit.score if hit.semantic is None else hit.semantic
        words = "-" if hit.lexical is None else f"{hit.lexical:.2f}"
        differ = f"{hit.distance}/{n_bits}"
        numbers = f"{hit.score:>5.2f}  {words:>5}  {codes:>5.2f}  {differ:>{width}}"
        out.print(f"{numbers}  [cyan]{escape(str(hit.id))}[/cyan]{dimmed}", soft_wrap=True)
        found = (highlighter or NO_WORDS).snippet(hit.text, SNIPPET_LENGTH)
        for text, marks, style in ((found.title, found.title_marks, "bold"), (found.text, found.marks, "")):
            _print_marked(text, marks, style, indent)
        if explanation is not None:
            _print_explanation(explanation, n_bits, indent)


def _print_marked(text: str, marks: Sequence[tuple[int, int]], style: str, indent: str) -> None:
    """Print a text in indented lines, with the words of the query in color on a terminal."""
    styled = Text(text, style)
    for start, end in marks:
        styled.stylize("yellow", start, end)
    for line in styled.wrap(out, max(20, out.width - len(indent))) if text else ():
        line.rstrip()
        out.print(Text(indent) + line, soft_wrap=True)


def print_suggestion(suggestion: Suggestion) -> None:
    """Print the words of a query that no document has, and the corrected query, on standard error."""
    if suggestion.unknown:
        print_status(f"No document has {', '.join(map(repr, suggestion.unknown))}.")
    if suggestion.corrected is not None:
        print_status(f"Did you mean: {suggestion.corrected}")


def print_bit_meaning(meaning: BitMeaning) -> None:
    """Print the words that are more frequent where a bit is 1, and where it is 0, on one line."""
    print_text(f"bit {meaning.bit:>3}  {_raising_and_lowering(meaning)}")


def _print_explanation(explanation: Explanation, n_bits: int, indent: str) -> None:
    shared = ", ".join(f"{word.word} {word.weight:.2f}" for word in explanation.shared_words[:MAX_SHARED_WORDS])
    agree = [(bit, f"{bit.bit:>3} = {bit.hit}") for bit in explanation.agreeing]
    differ = [(bit, f"{bit.bit:>3}: {bit.query} in the query, {bit.hit} in the hit") for bit in explanation.differing]
    print_text(f"{indent}shared words (cosine {explanation.cosine:.2f}): {shared or 'none'}")
    for title, count, bits in (
        ("matching bits", n_bits - explanation.distance, agree),
        ("differing bits", explanation.distance, differ),
    ):
        if count:
            print_text(f"{indent}{title}: {count}, most confident first:")
        for bit, values in bits[:MAX_EXPLAINED_BITS]:
            print_text(f"{indent}  bit {values}  {_raising_and_lowering(bit)}")
            print_text(f"{indent}    deciding words  query: {_words(bit.query_words)}  hit: {_words(bit.hit_words)}")


def _raising_and_lowering(bit: BitMeaning | ExplainedBit) -> str:
    return f"(1: {' '.join(bit.raises) or 'none'}; 0: {' '.join(bit.lowers) or 'none'})"


def _words(words: Sequence[DecidingWord]) -> str:
    return " ".join(word.word for word in words) or "none"


def snippet(text: str) -> str:
    """Return the beginning of a text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= SNIPPET_LENGTH else flat[: SNIPPET_LENGTH - 1].rsplit(" ", 1)[0] + " …"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "document"), plural(2000, "document")
    ('1 document', '2,000 documents')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def track_progress(items: Iterable[Item], description: str, total: int | None = None) -> Iterable[Item]:
    """Show a progress bar on a terminal; elsewhere print nothing."""
    return track(items, description=description, total=total, console=err, disable=not err.is_terminal, transient=True)


def _one_line(value: Any) -> str:
    return snippet(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _to_builtin(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value.item()  # a numpy scalar
