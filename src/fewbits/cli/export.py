"""Commands that write what others read: card, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fewbits.cli.options import Engine
from fewbits.cli.output import err
from fewbits.export import render_card, write_encoder, write_faiss, write_npy, write_parquet
from fewbits.search import SearchEngine
from fewbits.storage import atomic_write


def card(
    engine: Engine,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it to this file instead of printing it.")
    ] = None,
) -> None:
    """Write a model card in Markdown: corpus, method, measured quality, drift, limits, versions.

    Example: fewbits card news-engine --output CARD.md
    """
    text = render_card(SearchEngine.load(engine, verify=False), engine.resolve().name)
    if output is None:
        print(text, end="")
        return
    with atomic_write(output) as stream:
        stream.write(text.encode())
    _say(f"Wrote {output}.")


def export(
    engine: Engine,
    onnx: Annotated[
        Path | None, typer.Option(help="Write the encoder as ONNX: dense rows of features in, bits out.")
    ] = None,
    npy: Annotated[
        Path | None, typer.Option(help="Write codes as a numpy table of bytes, and ids as FILE.ids.jsonl.")
    ] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write ids, codes and labels as Parquet.")] = None,
    faiss: Annotated[
        Path | None, typer.Option(help="Write codes as a faiss binary index, and ids as FILE.ids.jsonl.")
    ] = None,
) -> None:
    """Write the encoder or the codes in forms that other tools read.

    Example: fewbits export news-engine --onnx encoder.onnx --parquet codes.parquet
    """
    if onnx is None and npy is None and parquet is None and faiss is None:
        raise typer.BadParameter("give one or more of --onnx, --npy, --parquet and --faiss")
    loaded = SearchEngine.load(engine, verify=False)
    if onnx is not None:
        _say(f"Wrote {onnx}: {write_encoder(loaded, onnx)}.")
    with loaded.snapshot() as snapshot:
        documents = snapshot.encoded_documents()
    for path, write in ((npy, write_npy), (parquet, write_parquet), (faiss, write_faiss)):
        if path is not None:
            write(documents, path)
            _say(f"Wrote {path}: {len(documents.ids):,} codes of {documents.n_bits} bits.")


def _say(text: str) -> None:
    err.print(text, markup=False, soft_wrap=True)
