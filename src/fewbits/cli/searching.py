"""Commands of the search engine: demo, fit, search, similar, encode, info."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from fewbits.benchmark.demo import demonstrate
from fewbits.cli.options import AsJson, Bits, Encoding, Engine, Hits, IdField, TextFields
from fewbits.cli.output import err, out, print_error, print_hits, print_json, print_table, watch
from fewbits.codes import Packed, to_bit_strings, to_hex, to_integers
from fewbits.corpus import Document, DocumentId, read_documents
from fewbits.errors import DataError, UnknownIdError
from fewbits.features import TextVectorizer
from fewbits.features.dense import load_embeddings
from fewbits.search import Hit, SearchEngine

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


def fit(
    source: Annotated[str, typer.Argument(help="JSON Lines, CSV, TSV, Parquet, a folder of .txt files, or - (stdin).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder the engine is saved in.")],
    text: TextFields = None,
    id: IdField = None,
    label: Annotated[str | None, typer.Option(help="Field of the label or labels.")] = None,
    label_separator: Annotated[str | None, typer.Option(help="What separates labels inside the field.")] = None,
    encoding: Encoding = "utf-8",
    embeddings: Annotated[
        Path | None, typer.Option(help="A .npy table of ready-made embeddings, a row a document.")
    ] = None,
    n_bits: Bits = 64,
    method: Annotated[
        str | None,
        typer.Option(help="Method that learns the codes. [default: pairwise with labels, else bernoulli-vae]"),
    ] = None,
    max_features: Annotated[int, typer.Option(help="Words in the vocabulary.")] = 20_000,
    token_pattern: Annotated[
        str | None, typer.Option(help="Regular expression of a word. [default: letters a-z]")
    ] = None,
    random_state: Annotated[int, typer.Option("--random-state", "--seed", help="Seed.", min=0, max=2**32 - 1)] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn codes for your own documents and save an engine.

    Example: fewbits fit news.jsonl --text title --text body --label topic --output news-engine
    """
    start = time.perf_counter()
    SearchEngine.check_folder(output)  # before any long work
    documents = read_documents(
        source, text=text or "text", id=id, label=label, label_separator=label_separator, encoding=encoding
    )
    options: dict[str, Any] = {"n_bits": n_bits, "method": method, "random_state": random_state}
    watched = watch(documents, "Reading documents")
    if embeddings is None:
        vectorizer = TextVectorizer(max_features=max_features, token_pattern=token_pattern)
        engine = SearchEngine.from_documents(watched, vectorizer=vectorizer, verbose=err.is_terminal, **options)
    else:
        engine = SearchEngine.from_embeddings(load_embeddings(embeddings), documents=watched, **options)
    engine.save(output)
    facts = {"folder": str(output), **engine.info(), "seconds": round(time.perf_counter() - start, 2)}
    if as_json:
        return print_json(facts)
    out.print(
        f"Learnt {facts['bits']} bits ({facts['bytes_per_document']} bytes) for each of"
        f" {facts['documents']:,} documents in {facts['seconds']} s (method {facts['method']}). Saved in {output}.",
        markup=False,
        soft_wrap=True,
    )
    return None


def search(
    engine: Engine,
    query: Annotated[str, typer.Argument(help="Text to search for; - reads one query a line from standard input.")],
    k: Hits = None,
    radius: Annotated[int | None, typer.Option(help="Instead of k: all within so many differing bits.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the documents whose codes are nearest to a text.

    Example: fewbits search fewbits-demo "open a file for reading" -k 5
    """
    if k is not None and radius is not None:
        raise typer.BadParameter("give --k or --radius, not both")
    loaded = _open(engine)

    def answer(line: str) -> list[Hit]:
        return loaded.search(line, k) if radius is None else loaded.within(line, radius)

    _answer_all(query, answer, loaded.n_bits, as_json=as_json)


def similar(
    engine: Engine,
    id: Annotated[str, typer.Argument(help="Id of a document; - reads one id a line from standard input.")],
    k: Hits = None,
    as_json: AsJson = False,
) -> None:
    """Find the documents whose codes are nearest to a document's.

    Example: fewbits similar fewbits-demo json.dumps
    """
    loaded = _open(engine)
    _answer_all(id, lambda line: loaded.similar(_own_id(loaded, line), k), loaded.n_bits, as_json=as_json)


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
        documents: Iterable[Document] = (Document(number, line) for number, line in enumerate(_lines(text)))
    else:
        documents = read_documents(source, text=field or "text", id=id, encoding=encoding)
    for document, code in _codes(loaded, documents, code_format):
        if as_json:
            print_json({"id": document.id, "code": code})
        else:
            print(code if source is None else f"{document.id}\t{code}")


def info(engine: Engine, as_json: AsJson = False) -> None:
    """Tell what an engine is made of.

    Example: fewbits info fewbits-demo
    """
    facts = SearchEngine.load(engine, memory_map=True).info()
    if as_json:
        return print_json(facts)
    width = max(map(len, facts))
    for name, value in facts.items():
        out.print(f"{name.replace('_', ' '):<{width}}  {value}", markup=False)
    return None


def _lines(argument: str) -> Iterator[str]:
    if argument == "-":
        yield from (line.rstrip("\r\n") for line in sys.stdin if line.strip())
    else:
        yield argument


def _open(folder: Path) -> SearchEngine:
    """Open an engine for reading: its codes stay on disk, and large files are checked by size (info checks all)."""
    return SearchEngine.load(folder, memory_map=True, verify=False)


def _answer_all(argument: str, answer: Callable[[str], list[Hit]], n_bits: int, *, as_json: bool) -> None:
    """Answer one query, or each line of standard input; a bad line of many loses only itself."""
    failed = False
    for line in _lines(argument):
        try:
            hits = answer(line)
        except (DataError, UnknownIdError) as error:
            if argument != "-":
                raise
            print_error(error)
            failed = True
            continue
        if as_json:
            print_json({"query": line, "hits": hits})
        else:
            print_hits(line, hits, n_bits)
    if failed:
        raise typer.Exit(1)


def _own_id(engine: SearchEngine, written: str) -> DocumentId:
    """Read an id as the engine has it: a number where its ids are numbers."""
    are_numbers = isinstance(next(iter(engine.documents.ids(limit=1)), ""), int)
    return int(written) if are_numbers and re.fullmatch(r"-?\d+", written) else written


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
