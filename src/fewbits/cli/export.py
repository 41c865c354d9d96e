"""Commands that write for other tools: encode, export, card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from fewbits.cli.engine import read_lines
from fewbits.cli.options import AsJson, Engine, IdField, ReadOptions, TextFields, expand_options
from fewbits.cli.output import plural, print_error, print_json, print_status
from fewbits.codes import Packed, n_bytes, to_bit_strings, to_hex, to_integers
from fewbits.data import Document, read_documents
from fewbits.export import render_card, write_encoder, write_faiss, write_npy, write_parquet
from fewbits.search import SearchEngine
from fewbits.search.encoder import empty_query_error, nonzero_rows
from fewbits.storage import atomic_write
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


@expand_options
def encode(
    engine: Engine,
    options: ReadOptions,
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
    n_bits: Annotated[
        int | None,
        typer.Option(
            "--n-bits", "--bits", help="Print a prefix of this length, if the engine was fitted with --nested."
        ),
    ] = None,
    code_format: Annotated[CodeFormat, typer.Option("--format", help="Text form of the codes.")] = CodeFormat.hex,
    as_json: AsJson = False,
) -> None:
    """Print the codes of texts.

    A text without a known word has no code: it is reported, its code is empty, and the exit code is 1.

    Example: fewbits encode fewbits-demo "open a file for reading" --format bits
    """
    if bool(text) == (source is not None):
        raise typer.BadParameter("give either TEXT (or - for standard input) or --source")
    loaded = SearchEngine.load(engine, verify=False)
    if source is None:
        lines = read_lines(" ".join(text or ()))
        documents: Iterable[Document] = (Document(number, line) for number, line in enumerate(lines))
    else:
        documents = read_documents(source, text=field or "text", id=id, **options.reading())
    are_many = source is not None or text == ["-"]
    failed = False
    for document, code in _encode(loaded, documents, code_format, n_bits):
        if code is None:
            failed = True
            error = empty_query_error(document.text, "text")
            if not are_many:
                raise error
            print_error(error)
        if as_json:
            print_json({"id": document.id, "code": code})
        else:
            shown = "" if code is None else code
            print(shown if source is None else f"{document.id}\t{shown}")
    if failed:
        raise typer.Exit(1)


def _encode(
    engine: SearchEngine, documents: Iterable[Document], form: CodeFormat, n_bits: int | None
) -> Iterator[tuple[Document, Any]]:
    """Yield documents with their codes, None for a text without a known word."""
    length = engine.n_bits if n_bits is None else engine.hasher.truncate(n_bits).n_bits
    with engine.snapshot() as snapshot:
        for block in batched(documents, BLOCK):
            rows = snapshot.model.text_rows([document.text for document in block])
            codes = WRITERS[form](snapshot.model.encode(rows)[:, : n_bytes(length)], length)  # prefixes are whole bytes
            for document, is_known, code in zip(block, nonzero_rows(rows).tolist(), codes, strict=True):
                yield document, code if is_known else None


def card(
    engine: Engine,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the card. [default: standard output]")
    ] = None,
) -> None:
    """Write a model card in Markdown: corpus, method, quality, drift, limitations, versions.

    Example: fewbits card news-engine --output CARD.md
    """
    text = render_card(SearchEngine.load(engine, verify=False), engine.resolve().name)
    if output is None:
        print(text, end="")
        return
    with atomic_write(output) as stream:
        stream.write(text.encode())
    print_status(f"Wrote {output}.")


def export(
    engine: Engine,
    onnx: Annotated[
        Path | None, typer.Option(help="Write the encoder as an ONNX model that maps dense feature rows to bits.")
    ] = None,
    npy: Annotated[
        Path | None, typer.Option(help="Write packed codes as a numpy array, and ids to FILE.ids.jsonl.")
    ] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write ids, codes and labels as Parquet.")] = None,
    faiss: Annotated[
        Path | None, typer.Option(help="Write codes as a faiss binary index, and ids to FILE.ids.jsonl.")
    ] = None,
) -> None:
    """Export the encoder or the codes to other formats.

    Example: fewbits export news-engine --onnx encoder.onnx --parquet codes.parquet
    """
    if onnx is None and npy is None and parquet is None and faiss is None:
        raise typer.BadParameter("give at least one of --onnx, --npy, --parquet and --faiss")
    loaded = SearchEngine.load(engine, verify=False)
    if onnx is not None:
        print_status(f"Wrote {onnx}: {write_encoder(loaded, onnx)}.")
    with loaded.snapshot() as snapshot:
        documents = snapshot.encoded_documents()
    for path, write in ((npy, write_npy), (parquet, write_parquet), (faiss, write_faiss)):
        if path is not None:
            write(documents, path)
            print_status(f"Wrote {path}: {plural(len(documents.ids), 'code')} of {plural(documents.n_bits, 'bit')}.")
