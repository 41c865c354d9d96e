"""Codes of an engine in files that other tools read.

Bits stand in bytes as :mod:`fewbits.codes` says: bit 0 is the highest bit of byte 0, and zeros fill the last byte. npy
and faiss know rows only; the ids of the rows are in a file beside, one JSON value a line, so that 7 and "7" stay apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np

from fewbits.codes import n_bytes, to_faiss, to_milvus
from fewbits.data import DocumentId
from fewbits.errors import MissingExtraError
from fewbits.search import EncodedDocuments
from fewbits.storage import atomic_write


def ids_beside(path: Path) -> Path:
    """Where the ids of the rows of a file are.

    >>> ids_beside(Path("codes.npy")).name
    'codes.npy.ids.jsonl'
    """
    return path.with_name(f"{path.name}.ids.jsonl")


def write_npy(documents: EncodedDocuments, path: Path) -> None:
    """Write packed codes as a numpy table of bytes, (documents, bytes), and the ids beside."""
    _write_ids(ids_beside(path), documents.ids)
    with atomic_write(path) as stream:
        np.save(stream, documents.codes, allow_pickle=False)


def write_faiss(documents: EncodedDocuments, path: Path) -> None:
    """Write a faiss binary index (exact, flat) whose numbers are the lines of the ids beside."""
    index = faiss.IndexBinaryFlat(8 * n_bytes(documents.n_bits))
    index.add(to_faiss(documents.codes, documents.n_bits))
    _write_ids(ids_beside(path), documents.ids)
    with atomic_write(path) as stream:
        stream.write(faiss.serialize_index_binary(index).tobytes())


def write_parquet(documents: EncodedDocuments, path: Path) -> None:
    """Write a table of id, code (binary of a fixed length) and labels; its metadata tell the number of bits."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("writing Parquet", extra="parquet") from error
    kind = pyarrow.int64() if documents.ids and isinstance(documents.ids[0], int) else pyarrow.string()
    schema = pyarrow.schema(
        [
            ("id", kind),
            ("code", pyarrow.binary(n_bytes(documents.n_bits))),
            ("labels", pyarrow.list_(pyarrow.string())),
        ],
        metadata={"n_bits": str(documents.n_bits), "bit_order": "bit 0 is the highest bit of byte 0"},
    )
    codes = to_milvus(documents.codes, documents.n_bits)
    columns = [documents.ids, codes, [list(labels) for labels in documents.labels]]
    arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    with atomic_write(path) as stream:
        parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=schema), stream)


def _write_ids(path: Path, ids: Sequence[DocumentId]) -> None:
    with atomic_write(path) as stream:
        stream.writelines((json.dumps(id, ensure_ascii=False) + "\n").encode() for id in ids)
