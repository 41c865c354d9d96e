"""A fitted model: features, a hasher, and the facts about the fit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fewbits.codes import Packed, n_bytes, pack
from fewbits.data.document import DocumentId
from fewbits.errors import DataError
from fewbits.features import Embeddings, TextVectorizer
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import read_hasher, write_hasher
from fewbits.search.store.reader import Positions, Reader
from fewbits.storage import read_json, write_json

BLOCK = 65_536  # rows whose bits are unpacked at a time
FEATURES: dict[str, type[TextVectorizer] | type[Embeddings]] = {
    "text": TextVectorizer,
    "embeddings": Embeddings,
}


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a fit, saved under the same names in ``engine.json``."""

    documents_learnt_from: int
    method: str
    documents_when_learnt: int  # documents stored at the time of the fit, including those outside the sample
    bit_balance: tuple[float, ...]  # share of ones per bit
    created: str  # ISO 8601
    fewbits: str  # version of the package
    label_names: int | None = None  # number of distinct labels; None if the hasher was fitted elsewhere
    language: str | None = None  # of the stemmer; "none" for no stemming, None in folders of earlier releases
    unknown_words: float | None = None  # share of words outside the vocabulary; None for embeddings
    unseen_words: float | None = None  # the same of all written words, with numbers and words in other scripts
    same_label: Mapping[str, Any] | None = None  # see fewbits.search.calibration; None where it was not measured
    has_texts: bool | None = None  # whether the documents of embeddings have texts
    keeps_embeddings: bool | None = None  # whether the embeddings are stored
    notes: Mapping[str, Any] = field(default_factory=dict)  # JSON from the caller

    def as_json(self) -> dict[str, Any]:
        """Return the facts that are known."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ModelInfo:
        """Read what :meth:`as_json` returned."""
        names = {one.name for one in fields(cls)}
        known = {name: value for name, value in content.items() if name in names}
        known.setdefault("documents_when_learnt", content["documents_learnt_from"])
        return cls(**{**known, "bit_balance": tuple(known["bit_balance"])})


@dataclass(frozen=True, eq=False)
class EncodedQueries:
    """Queries as features, as codes, and the confidence in each bit."""

    rows: Any  # (queries, features)
    codes: Packed  # (queries, bytes)
    confidence: NDArray[np.float32]  # (queries, bits)

    def __len__(self) -> int:
        return len(self.codes)

    def one(self, number: int) -> EncodedQueries:
        """Return one of the queries."""
        if len(self) == 1:
            return self
        return EncodedQueries(self.rows[[number]], self.codes[[number]], self.confidence[[number]])


@dataclass(frozen=True)
class Encoder:
    """Features and a hasher: from texts or embeddings to codes. Immutable."""

    features: TextVectorizer | Embeddings
    hasher: Hasher

    @property
    def kind(self) -> str:
        """Return the kind of input: text or embeddings."""
        return next(name for name, kind in FEATURES.items() if type(self.features) is kind)

    @property
    def takes_text(self) -> bool:
        """Return whether inputs are texts."""
        return isinstance(self.features, TextVectorizer)

    def rows(self, inputs: Any) -> Any:
        """Compute the features of texts or embeddings."""
        return self.features.transform(inputs)

    def encode(self, rows: Any) -> Packed:
        """Compute packed codes from features."""
        blocks = [pack(self.hasher.transform(rows[start : start + BLOCK])) for start in range(0, rows.shape[0], BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros((0, n_bytes(self.hasher.n_bits)), dtype=np.uint8)

    def encode_inputs(self, inputs: Any) -> Packed:
        """Compute packed codes of texts or embeddings; a warning counts those without a known word."""
        rows = self.rows(inputs)
        n_empty = rows.shape[0] - int(nonzero_rows(rows).sum())
        if n_empty:
            message = f"{n_empty:,} of {rows.shape[0]:,} texts have no known word; their codes say nothing about them."
            warnings.warn(message, stacklevel=3)
        return self.encode(rows)

    def text_rows(self, texts: Sequence[str]) -> Any:
        """Compute the features of texts; an encoder of embeddings takes none."""
        if not isinstance(self.features, TextVectorizer):
            raise DataError("the query is of another kind", allowed="an embedding", got="str")
        return self.features.row(texts[0]) if len(texts) == 1 else self.rows(texts)

    def encode_texts(self, texts: Sequence[str]) -> list[EncodedQueries | None]:
        """Encode texts as queries; None for those without a known word."""
        rows = self.text_rows(texts)
        if len(texts) == 1:
            return [self.encode_queries(rows) if rows.nnz else None]
        known = np.flatnonzero(nonzero_rows(rows))
        encoded = self.encode_queries(rows[known])
        numbers = {row: number for number, row in enumerate(known.tolist())}
        return [encoded.one(numbers[row]) if row in numbers else None for row in range(len(texts))]

    def encode_queries(self, rows: Any) -> EncodedQueries:
        """Compute the codes of queries and the confidence in each bit, in one pass through the hasher.

        The rows are those that the features returned, and are not checked again.
        """
        if not rows.shape[0]:
            return EncodedQueries(rows, self.encode(rows), np.zeros((0, self.hasher.n_bits), np.float32))
        bits, confidence = self.hasher.transform_with_confidence(rows, is_valid=True)
        return EncodedQueries(rows, pack(bits), confidence)

    def encode_query(self, query: str | ArrayLike) -> EncodedQueries:
        """Encode one query; one without features is an error, because its hits would be arbitrary."""
        if isinstance(query, str) != self.takes_text:
            expected = "a text" if self.takes_text else "an embedding"
            raise DataError("the query is of another kind", allowed=expected, got=type(query).__name__)
        row = self.rows([query] if isinstance(query, str) else query)
        if row.shape[0] != 1:
            raise DataError("expected one query", got=row.shape[0], hint="Use search_many for several texts.")
        if not nonzero_rows(row).all():
            raise empty_query_error(query)
        return self.encode_queries(row)


@dataclass(frozen=True)
class Model(Encoder):
    """An encoder with the facts about its fit. Immutable."""

    info: ModelInfo

    @property
    def has_words(self) -> bool:
        """Return whether documents have texts, whose words can be searched."""
        return self.takes_text or bool(self.info.has_texts)

    def write(self, folder: Path) -> None:
        """Write everything into an empty folder."""
        for name in ("features", "hasher"):
            (folder / name).mkdir()
        self.features.write(folder / "features")
        write_hasher(self.hasher, folder / "hasher")
        write_json(folder / "engine.json", {"features": self.kind, **self.info.as_json()})

    @classmethod
    def read(cls, folder: Path) -> Model:
        """Read what :meth:`write` wrote."""
        content = read_json(folder / "engine.json")
        features = FEATURES[content["features"]].read(folder / "features")
        return cls(features, read_hasher(folder / "hasher"), ModelInfo.from_json(content))


def empty_query_error(query: object, what: str = "query", corrected: str | None = None) -> DataError:
    """Return the error of a query or text without features, and what may have been meant."""
    if not isinstance(query, str):
        return DataError("the query is a zero vector", allowed="an embedding with a nonzero value")
    return DataError(
        f"the {what} has no known word",
        allowed="one word or more of the vocabulary",
        got=repr(query)[:60],
        hint=f"Did you mean {corrected!r}?" if corrected else "Use other or more words.",
    )


def nonzero_rows(rows: Any) -> NDArray[np.bool_]:
    """Return which rows have a nonzero value; the code of a zero row carries no information."""
    return np.diff(rows.indptr) > 0 if sparse.issparse(rows) else rows.any(axis=1)


@dataclass(frozen=True)
class EncodedDocuments:
    """Documents that have a code, in order of insertion."""

    n_bits: int
    ids: list[DocumentId]
    labels: list[tuple[str, ...]]
    codes: Packed
    is_unseen: NDArray[np.bool_]  # whether the document was added after the fit


def read_encoded(model: Model, reader: Reader, positions: Positions, codes: Packed) -> EncodedDocuments:
    """Read the ids and labels that belong to codes."""
    rows = {position: (one.id, one.labels, one.is_new) for position, one in reader.stored_documents()}
    listed = [rows[position] for position in positions.tolist()]
    old = [position for position, (_, _, is_new) in rows.items() if not is_new]
    # An updated document keeps its position and had a predecessor in the fit; added documents come after the last.
    last = max(model.info.documents_when_learnt, max(old, default=0))
    return EncodedDocuments(
        n_bits=model.hasher.n_bits,
        ids=[id for id, _, _ in listed],
        labels=[labels for _, labels, _ in listed],
        codes=codes,
        is_unseen=positions > last,
    )
