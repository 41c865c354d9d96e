"""Commands that read an engine: search, similar, bits, duplicates, encode; and the demonstration."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
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
    renamed,
)
from fewbits.cli.output import (
    err,
    plural,
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
from fewbits.codes import Packed, to_bit_strings, to_hex, to_integers
from fewbits.data import Document, DocumentId, read_documents, write_documents
from fewbits.errors import DataError, UnknownIdError
from fewbits.search import MIN_SIMILARITY, Explanation, Hit, SearchEngine, Suggestion, suggest, without_duplicates
from fewbits.validation import batched

BLOCK = 4096


class CodeFormat(str, Enum):
    """Text form of a code."""

    hex = "hex"
    bits = "bits"
    integer = "integer"


WRITERS: dict[CodeFormat, Callable[[Packed, int], Iterable[Any]]] = {
    CodeFormat.hex: to_hex,
    CodeFormat.bits: to_bit_strings,
    CodeFormat.integer: to_integers,
}


@dataclass(frozen=True)
class Queries:
    """Queries of a command: one, or several from standard input or a file."""

    documents: Iterable[Document]
    are_many: bool = False
    have_ids: bool = False


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
    as_json: AsJson = False,
) -> None:
    """Find the documents nearest to a text.

    Example: fewbits search fewbits-demo "open a file for reading" -k 5
    """
    ranking = options.ranking()
    if radius is not None and (options.k is not None or any(value is not None for value in ranking.values())):
        raise typer.BadParameter("--radius cannot be combined with --k, --rank or --weight")
    if bool(query) == (source is not None):
        raise typer.BadParameter("give either QUERY (or - for standard input) or --source")
    if source is not None:
        queries = Queries(read_documents(source, text=field or "text", id=id), are_many=True, have_ids=True)
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
        lambda text, other: loaded.explain_similar(_parse_id(loaded, text), other),
        as_json=as_json,
    )


def encode(
    engine: Engine,
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Text to encode, one word or several; - reads one text per line from standard input.",
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(help="File of documents to encode, instead of TEXT.")] = None,
    field: TextFields = None,
    id: IdField = None,
    encoding: Encoding = "utf-8",
    code_format: Annotated[CodeFormat, typer.Option("--format", help="Text form of the codes.")] = CodeFormat.hex,
    as_json: AsJson = False,
) -> None:
    """Print the codes of texts.

    Example: fewbits encode fewbits-demo "open a file for reading" --format bits
    """
    if bool(text) == (source is not None):
        raise typer.BadParameter("give either TEXT (or - for standard input) or --source")
    loaded = _load(engine)
    if source is None:
        documents = _read_queries(" ".join(text or ())).documents
    else:
        documents = read_documents(source, text=field or "text", id=id, encoding=encoding)
    for document, code in _encode(loaded, documents, code_format):
        if as_json:
            print_json({"id": document.id, "code": code})
        else:
            print(code if source is None else f"{document.id}\t{code}")


def bits(engine: Engine, as_json: AsJson = False) -> None:
    """Describe each bit by the words that are more frequent where it is 1, and where it is 0.

    Example: fewbits bits fewbits-demo
    """
    for meaning in _load(engine).bits():
        if as_json:
            print_json(meaning)
        else:
            print_bit_meaning(meaning)


def duplicates(
    engine: Engine,
    radius: Annotated[
        int, typer.Option("--radius", "-r", help="Maximum Hamming distance between near-duplicates.")
    ] = 3,
    min_similarity: Annotated[
        float | None,
        typer.Option(
            help=f"Minimum cosine similarity of near-duplicates; 0 compares only codes. [default: {MIN_SIMILARITY}]",
            min=0,
            max=1,
        ),
    ] = None,
    alike: Annotated[float | None, typer.Option(hidden=True, min=0, max=1)] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the documents as JSON Lines, with one per group."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Group near-duplicates, and optionally write the corpus without them.

    Groups are formed by chaining, so two documents of a group may differ in more bits than the radius. The document
    that was added first represents its group.

    Example: fewbits duplicates news-engine --radius 3 --output unique.jsonl
    """
    similarity = renamed("min-similarity", min_similarity, "alike", alike)
    loaded = _load(engine)
    groups = loaded.duplicates(radius, MIN_SIMILARITY if similarity is None else similarity)
    n_duplicates = sum(len(group.others) for group in groups)
    print_status(f"{plural(len(groups), 'group')} with {plural(n_duplicates, 'duplicate')}.")
    if output is not None:
        count = write_documents(output, without_duplicates(loaded.documents(), groups))
        print_status(f"Wrote {plural(count, 'document')} to {output}, omitting {plural(n_duplicates, 'duplicate')}.")
    for group in groups:
        if as_json:
            print_json(group)
        else:
            print("\t".join(map(str, (group.representative, *group.others))))


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
        if as_json:
            ids = {"id": query.id} if queries.have_ids else {}
            extra: dict[str, Any] = {"explanations": explanations} if options.explain else {}
            if spell is not None:
                extra |= {"unknown_words": suggestion.unknown, "suggestion": suggestion.corrected}
            print_json({**ids, "query": query.text, "hits": hits, **extra})
        else:
            print_hits(query.text, hits, engine.n_bits, explanations)
            print_suggestion(suggestion)
        if not hits:
            with engine.snapshot() as snapshot:
                unknown = snapshot.unknown_in_filters(**options.filters())
            print_status(" ".join(["No hits.", *unknown]))
    if failed:
        raise typer.Exit(1)


def _encode(engine: SearchEngine, documents: Iterable[Document], form: CodeFormat) -> Iterator[tuple[Document, Any]]:
    for block in batched(documents, BLOCK):
        packed = engine.encode(document.text for document in block)
        yield from zip(block, WRITERS[form](packed, engine.n_bits), strict=True)
