"""Commands that read an engine: search, similar, bits, duplicates, encode; and the demonstration."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from fewbits.benchmark.demo import demonstrate
from fewbits.cli.engine import lines
from fewbits.cli.options import (
    AsJson,
    Bits,
    Encoding,
    Engine,
    Explain,
    Hits,
    IdField,
    OnlyLabels,
    Rescore,
    Shortlist,
    TextFields,
    Where,
)
from fewbits.cli.output import err, out, print_error, print_hits, print_json, print_meaning, print_table, watch
from fewbits.codes import Packed, to_bit_strings, to_hex, to_integers
from fewbits.data import Document, DocumentId, read_documents, write_documents
from fewbits.errors import DataError, UnknownIdError
from fewbits.search import MIN_SIMILARITY, Explanation, Hit, SearchEngine, without_duplicates

BLOCK = 4096


class CodeFormat(str, Enum):
    """How a code is printed."""

    hex = "hex"
    bits = "bits"
    integer = "integer"


def demo(
    folder: Annotated[Path, typer.Option(help="Where the engine is saved.")] = Path("fewbits-demo"),
    n_bits: Bits = 64,
    as_json: AsJson = False,
) -> None:
    """Learn codes for the documentation of this Python installation, and search it.

    Example: fewbits demo
    """
    done = demonstrate(
        folder, n_bits, lambda documents: watch(documents, "Reading documentation"), verbose=err.is_terminal
    )
    if as_json:
        return print_json(done)
    out.print(
        f"Learnt {done.bits} bits ({done.bytes_per_document} bytes) for each of {done.documents:,} documents, the"
        f" documentation strings of this Python: reading {done.seconds_reading:.1f} s, learning"
        f" {done.seconds_learning:.1f} s (method {done.method}).\n"
    )
    for query, hits in done.queries.items():
        print_hits(query, hits, done.bits)
        out.print()
    out.print(f"Do the 10 nearest of {done.held_out:,} documents that were held out have the same label?\n")
    rows = [
        [found.label, f"{found.floor:.3f}", f"{found.without_labels:.3f}", f"{found.with_labels:.3f}"]
        for found in done.agreement
    ]
    print_table(["label", "random", done.method, f"{done.method_with_labels}, taught by labels"], rows)
    command = "fewbits" if shutil.which("fewbits") else sys.argv[0]  # as it was called, where it is not on the path
    out.print("\nNow type:")
    for arguments in (
        f'search {done.folder} "sort a list in place"',
        f"similar {done.folder} json.dumps",
        "fit your-file.jsonl --output your-engine",
    ):
        out.print(f"  {command} {arguments}", markup=False, soft_wrap=True)
    return None


def search(
    engine: Engine,
    query: Annotated[
        str | None, typer.Argument(help="Text to search for; - reads one query a line from standard input.")
    ] = None,
    k: Hits = None,
    radius: Annotated[int | None, typer.Option(help="Instead of k: all within so many differing bits.")] = None,
    source: Annotated[str | None, typer.Option(help="Each document of this file is a query.")] = None,
    field: TextFields = None,
    id: IdField = None,
    label: OnlyLabels = None,
    where: Where = None,
    rescore: Rescore = None,
    shortlist: Shortlist = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Find the documents that are nearest to a text.

    Example: fewbits search fewbits-demo "open a file for reading" -k 5
    """
    if radius is not None and (k is not None or rescore is not None or shortlist is not None):
        raise typer.BadParameter("give --radius, or --k with --rescore and --shortlist, not both")
    queries = _queries(query, source, field, id)
    loaded = _open(engine)
    filters: dict[str, Any] = {"labels": label or (), "where": where or ()}

    def answer(text: str) -> list[Hit]:
        if radius is not None:
            return loaded.within(text, radius, **filters)
        return loaded.search(text, k, rerank=rescore, shortlist=shortlist, **filters)

    _answer_all(
        queries,
        answer,
        loaded.explain if explain else None,
        lambda: _unknown_in_filters(loaded, **filters),
        loaded.n_bits,
        has_ids=source is not None,
        are_many=source is not None or query == "-",
        as_json=as_json,
    )


def similar(
    engine: Engine,
    id: Annotated[str, typer.Argument(help="Id of a document; - reads one id a line from standard input.")],
    k: Hits = None,
    label: OnlyLabels = None,
    where: Where = None,
    rescore: Rescore = None,
    shortlist: Shortlist = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Find the documents that are nearest to a document: by codes alone unless --rescore says else.

    Example: fewbits similar fewbits-demo json.dumps
    """
    loaded = _open(engine)
    options: dict[str, Any] = {"labels": label or (), "where": where or (), "rerank": rescore, "shortlist": shortlist}
    _answer_all(
        _queries(id, None, None, None),
        lambda written: loaded.similar(_parse_id(loaded, written), k, **options),
        (lambda written, other: loaded.explain_similar(_parse_id(loaded, written), other)) if explain else None,
        lambda: _unknown_in_filters(loaded, label or (), where or ()),
        loaded.n_bits,
        has_ids=False,
        are_many=id == "-",
        as_json=as_json,
    )


def encode(
    engine: Engine,
    text: Annotated[str, typer.Argument(help="Text to encode; - reads one text a line from standard input.")] = "",
    source: Annotated[str | None, typer.Option(help="Encode the documents of this file instead.")] = None,
    field: TextFields = None,
    id: IdField = None,
    encoding: Encoding = "utf-8",
    code_format: Annotated[CodeFormat, typer.Option("--format", help="How codes are written.")] = CodeFormat.hex,
    as_json: AsJson = False,
) -> None:
    """Print the codes of texts.

    Example: fewbits encode fewbits-demo "open a file for reading" --format bits
    """
    if bool(text) == bool(source):
        raise typer.BadParameter("give a text, - or --source")
    loaded = _open(engine)
    if source is None:
        documents: Iterable[Document] = (Document(number, line) for number, line in enumerate(lines(text)))
    else:
        documents = read_documents(source, text=field or "text", id=id, encoding=encoding)
    for document, code in _codes(loaded, documents, code_format):
        if as_json:
            print_json({"id": document.id, "code": code})
        else:
            print(code if source is None else f"{document.id}\t{code}")


def bits(engine: Engine, as_json: AsJson = False) -> None:
    """Name each bit by its words: those that there are more of where it is 1, and those that there are less of.

    Example: fewbits bits fewbits-demo
    """
    for meaning in _open(engine).bits():
        if as_json:
            print_json(meaning)
        else:
            print_meaning(meaning)


def duplicates(
    engine: Engine,
    radius: Annotated[int, typer.Option("--radius", "-r", help="Bits in which near-duplicates may differ.")] = 3,
    alike: Annotated[
        float, typer.Option(help="Least cosine of the words of near-duplicates; 0: codes alone decide.", min=0, max=1)
    ] = MIN_SIMILARITY,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the documents without duplicates as JSON Lines.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Group documents whose codes and words hardly differ; the first of a group stands for the others.

    A group is connected by steps: its first and its last document may differ in more.

    Example: fewbits duplicates news-engine --radius 3 --output unique.jsonl
    """
    loaded = _open(engine)
    groups = loaded.duplicates(radius, alike)
    left_out = {id for group in groups for id in group.others}
    err.print(f"{_count(groups, 'group')} of near-duplicates; {_count(left_out, 'document')} have another one.")
    if output is not None:
        kept = write_documents(output, without_duplicates(loaded.documents(), groups))
        err.print(f"Wrote {kept:,} documents to {output}; {len(left_out):,} duplicates left out.", markup=False)
    for group in groups:
        if as_json:
            print_json(group)
        else:
            print("\t".join(map(str, (group.representative, *group.others))))


def _count(things: Sized, name: str) -> str:
    return f"{len(things):,} {name}" + ("s" if len(things) != 1 else "")


def _open(folder: Path) -> SearchEngine:
    """Open an engine without reading all of it: large files are checked by size, and info checks all."""
    return SearchEngine.load(folder, verify=False)


def _parse_id(engine: SearchEngine, text: str) -> DocumentId:
    with engine.snapshot() as snapshot:
        return snapshot.parse_id(text)


def _unknown_in_filters(engine: SearchEngine, labels: Sequence[str], where: Sequence[str]) -> list[str]:
    with engine.snapshot() as snapshot:
        return snapshot.unknown_in_filters(labels, where)


def _queries(argument: str | None, source: str | None, field: list[str] | None, id: str | None) -> Iterator[Document]:
    """Queries as documents: the argument, lines of standard input, or the documents of a file."""
    if (argument is None) == (source is None):
        raise typer.BadParameter("give a query, - or --source")
    if source is not None:
        yield from read_documents(source, text=field or "text", id=id)
    elif argument is not None:
        yield from (Document(number, line) for number, line in enumerate(lines(argument)))


def _answer_all(
    queries: Iterable[Document],
    answer: Callable[[str], list[Hit]],
    explain: Callable[[str, DocumentId], Explanation] | None,
    why_none: Callable[[], list[str]],
    n_bits: int,
    *,
    has_ids: bool,
    are_many: bool,
    as_json: bool,
) -> None:
    """Answer one query or many; a bad one of many loses only itself."""
    failed = False
    for query in queries:
        try:
            hits = answer(query.text)
        except (DataError, UnknownIdError) as error:
            if not are_many:
                raise
            print_error(error)
            failed = True
            continue
        reasons = [] if explain is None else [explain(query.text, hit.id) for hit in hits]
        if as_json:
            extra = {"explanations": reasons} if explain else {}
            print_json({**({"id": query.id} if has_ids else {}), "query": query.text, "hits": hits, **extra})
        else:
            print_hits(query.text, hits, n_bits, reasons)
        if not hits:
            err.print(" ".join(["No hits.", *why_none()]), markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _codes(engine: SearchEngine, documents: Iterable[Document], form: CodeFormat) -> Iterator[tuple[Document, Any]]:
    writers: dict[CodeFormat, Callable[[Packed, int], Iterable[Any]]] = {
        CodeFormat.hex: to_hex,
        CodeFormat.bits: to_bit_strings,
        CodeFormat.integer: to_integers,
    }
    stream = iter(documents)
    while block := list(islice(stream, BLOCK)):
        packed = engine.encode(document.text for document in block)
        yield from zip(block, writers[form](packed, engine.n_bits), strict=True)
