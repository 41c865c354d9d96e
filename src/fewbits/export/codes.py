"""Export of codes to files that other tools read.

The bit order is that of :mod:`fewbits.codes`: bit 0 is the highest bit of byte 0, and the last byte is padded with
zeros. npy and faiss files only have row numbers, so the ids of the rows are written to a second file, one JSON value
per line: JSON distinguishes 7 from "7".
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


def ids_path(path: Path) -> Path:
    """Return the path of the ids that belong to a file of codes.

    >>> ids_path(Path("codes.npy")).name
    'codes.npy.ids.jsonl'
    """
    return path.with_name(f"{path.name}.ids.jsonl")


def write_npy(documents: EncodedDocuments, path: Path) -> None:
    """Write packed codes as a NumPy array of bytes, (documents, bytes), and the ids."""
    _write_ids(ids_path(path), documents.ids)
    with atomic_write(path) as stream:
        np.save(stream, documents.codes, allow_pickle=False)


def write_faiss(documents: EncodedDocuments, path: Path) -> None:
    """Write a faiss binary index (exact, flat), whose ids are row numbers, and the ids of the rows."""
    index = faiss.IndexBinaryFlat(8 * n_bytes(documents.n_bits))
    index.add(to_faiss(documents.codes, documents.n_bits))
    _write_ids(ids_path(path), documents.ids)
    with atomic_write(path) as stream:
        stream.write(faiss.serialize_index_binary(index).tobytes())


def write_parquet(documents: EncodedDocuments, path: Path) -> None:
    """Write a Parquet table of id, code (fixed-length binary) and labels; the metadata has the number of bits."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("writing Parquet", extra="parquet") from error
    id_type = pyarrow.int64() if documents.ids and isinstance(documents.ids[0], int) else pyarrow.string()
    schema = pyarrow.schema(
        [
            ("id", id_type),
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
