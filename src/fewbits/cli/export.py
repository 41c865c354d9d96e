"""Commands that write files for other tools: card, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fewbits.cli.options import Engine
from fewbits.cli.output import plural, print_status
from fewbits.export import render_card, write_encoder, write_faiss, write_npy, write_parquet
from fewbits.search import SearchEngine
from fewbits.storage import atomic_write


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
