"""Commands that read an engine: search, similar, bits; and the demonstration."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from fewbits.benchmark.demo import demonstrate
from fewbits.cli.engine import read_lines
from fewbits.cli.options import (
    AsJson,
    Bits,
    Encoding,
    Engine,
    IdField,
    SearchOptions,
    TextFields,
    expand_options,
)
from fewbits.cli.output import (
    err,
    print_bit_meaning,
    print_error,
    print_hits,
    print_json,
    print_status,
    print_suggestion,
    print_table,
    print_text,
    track_progress,
)
from fewbits.data import Document, DocumentId, read_documents
from fewbits.data.io import ReadReport
from fewbits.errors import DataError, UnknownIdError
from fewbits.search import Explanation, Hit, SearchEngine, Suggestion, suggest
from fewbits.search.facets import parsed_for
from fewbits.search.snippets import highlighter_for


@dataclass(frozen=True)
class Queries:
    """Queries of a command: one, or several from standard input or a file."""

    documents: Iterable[Document]
    are_many: bool = False
    have_ids: bool = False
    report: ReadReport = field(default_factory=ReadReport)  # complete when the queries have been read


def demo(
    folder: Annotated[Path, typer.Option(help="Folder for the engine.")] = Path("fewbits-demo"),
    n_bits: Bits = 64,
    as_json: AsJson = False,
) -> None:
    """Index the documentation of this Python installation, search it, and measure the codes.

    Example: fewbits demo
    """
    done = demonstrate(
        folder, n_bits, lambda documents: track_progress(documents, "Reading documentation"), verbose=err.is_terminal
    )
    if as_json:
        return print_json(done)
    print_text(
        f"Encoded {done.documents:,} docstrings of this Python with {done.bits} bits ({done.bytes_per_document} bytes)"
        f" each: {done.seconds_reading:.1f} s to read, {done.seconds_learning:.1f} s to train {done.method}.\n"
    )
    for query, hits in done.queries.items():
        print_hits(query, hits, done.bits)
        print_text()
    print_text(
        f"Share of the 10 nearest documents that have the label of the query ({done.held_out:,} test documents):\n"
    )
    rows = [
        [row.label, f"{row.floor:.3f}", f"{row.without_labels:.3f}", f"{row.with_labels:.3f}"] for row in done.agreement
    ]
    print_table(["label", "random", done.method, f"{done.method_with_labels} (trained with labels)"], rows)
    command = "fewbits" if shutil.which("fewbits") else sys.argv[0]  # a virtual environment may not be on the path
    print_text("\nTry next:")
    for arguments in (
        f'search {done.folder} "sort a list in place"',
        f"similar {done.folder} json.dumps",
        "fit your-file.jsonl --output your-engine",
    ):
        print_text(f"  {command} {arguments}")
    return None


@expand_options
def search(
    engine: Engine,
    options: SearchOptions,
    query: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUERY",
            help="Query text, one word or several; - reads one query per line from standard input.",
        ),
    ] = None,
    radius: Annotated[
        int | None, typer.Option(help="Return all documents within this Hamming distance, instead of k.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="File of documents whose texts are the queries.")] = None,
    field: TextFields = None,
    id: IdField = None,
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Find the documents nearest to a text.

    A query that fails among several is reported, and the others are answered; the exit code is then 1.

    Example: fewbits search fewbits-demo "open a file for reading" -k 5
    """
    ranking = options.ranking()
    if radius is not None and (options.k is not None or any(value is not None for value in ranking.values())):
        raise typer.BadParameter("--radius cannot be combined with --k, --rank or --weight")
    if bool(query) == (source is not None):
        raise typer.BadParameter("give either QUERY (or - for standard input) or --source")
    if source is not None:
        stream = read_documents(
            source, text=field or "text", id=id, encoding=encoding, on_error="skip", warn=print_status
        )
        queries = Queries(stream, are_many=True, have_ids=True, report=stream.report)
    else:
        queries = _read_queries(" ".join(query or ()))
    loaded = _load(engine)

    def find(text: str) -> list[Hit]:
        if radius is not None:
            return loaded.within(text, radius, **options.filters())
        return loaded.search(text, options.k, **options.filters(), **ranking)

    def spell(text: str) -> Suggestion:
        with loaded.snapshot() as snapshot:
            return suggest(snapshot, text)

    _print_answers(loaded, queries, options, find, loaded.explain, spell, as_json=as_json)


@expand_options
def similar(
    engine: Engine,
    id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a document; - reads one id per line from standard input.")
    ],
    options: SearchOptions,
    as_json: AsJson = False,
) -> None:
    """Find the documents nearest to a document of the engine, by default by codes.

    A differing bit costs the confidence in it, which is computed from the document's text.

    Example: fewbits similar fewbits-demo json.dumps
    """
    loaded = _load(engine)
    ranking = options.ranking()
    _print_answers(
        loaded,
        _read_queries(id),
        options,
        lambda text: loaded.similar(_parse_id(loaded, text), options.k, **options.filters(), **ranking),
        lambda text, other: loaded.explain(None, other, similar_to=_parse_id(loaded, text)),
        as_json=as_json,
    )


def bits(engine: Engine, as_json: AsJson = False) -> None:
    """Describe each bit by the words that are more frequent where it is 1, and where it is 0.

    Example: fewbits bits fewbits-demo
    """
    for meaning in _load(engine).bits():
        if as_json:
            print_json(meaning)
        else:
            print_bit_meaning(meaning)


def _load(folder: Path) -> SearchEngine:
    """Open an engine without reading its large files; ``fewbits info`` verifies them."""
    return SearchEngine.load(folder, verify=False)


def _parse_id(engine: SearchEngine, text: str) -> DocumentId:
    with engine.snapshot() as snapshot:
        return snapshot.parse_id(text)


def _read_queries(argument: str) -> Queries:
    documents = (Document(number, line) for number, line in enumerate(read_lines(argument)))
    return Queries(documents, are_many=argument == "-")


def _print_answers(
    engine: SearchEngine,
    queries: Queries,
    options: SearchOptions,
    find: Callable[[str], list[Hit]],
    explain: Callable[[str, DocumentId], Explanation],
    spell: Callable[[str], Suggestion] | None = None,
    *,
    as_json: bool,
) -> None:
    """Print the hits of each query; if one of many queries fails, print its error and continue."""
    failed = False
    for query in queries.documents:
        try:
            hits = find(query.text)
        except (DataError, UnknownIdError) as error:
            if not queries.are_many:
                raise
            print_error(error)
            failed = True
            continue
        explanations = [explain(query.text, hit.id) for hit in hits] if options.explain else []
        suggestion = Suggestion() if spell is None else spell(query.text)
        with engine.snapshot() as snapshot:  # an id is not looked for in texts
            parsed = None if spell is None else parsed_for(snapshot, query.text)
            highlighter = highlighter_for(snapshot, parsed)
        notes = () if parsed is None else parsed.notes
        if as_json:
            ids = {"id": query.id} if queries.have_ids else {}
            extra: dict[str, Any] = {"explanations": explanations} if options.explain else {}
            if spell is not None:
                extra |= {"unknown_words": suggestion.unknown, "suggestion": suggestion.corrected, "notes": notes}
            print_json({**ids, "query": query.text, "hits": hits, **extra})
        else:
            print_hits(query.text, hits, engine.n_bits, explanations, highlighter)
            for note in notes:
                print_status(note)
            print_suggestion(suggestion)
        if not hits:
            with engine.snapshot() as snapshot:
                unknown = snapshot.unknown_in_filters(**options.filters())
            print_status(" ".join(["No hits.", *unknown]))
    if failed or queries.report.skipped:
        raise typer.Exit(1)
