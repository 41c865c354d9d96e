"""What was learnt: how texts become features and features become codes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fewbits.codes import Packed, n_bytes, pack
from fewbits.errors import DataError
from fewbits.features import Embeddings, TextVectorizer
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import read_hasher, write_hasher
from fewbits.storage import read_json, write_json

BLOCK = 65_536  # rows whose bits are held unpacked at one time
FEATURES: dict[str, type[TextVectorizer] | type[Embeddings]] = {
    "text": TextVectorizer,
    "embeddings": Embeddings,
}


@dataclass(frozen=True)
class Model:
    """Features, hasher, and facts about how they were learnt; never changes."""

    features: TextVectorizer | Embeddings
    hasher: Hasher
    facts: dict[str, Any]

    @property
    def kind(self) -> str:
        """What documents are made of: text or embeddings."""
        return next(name for name, kind in FEATURES.items() if type(self.features) is kind)

    @property
    def documents_when_learnt(self) -> int:
        """How many documents there were, also those that nothing was learnt from."""
        return int(self.facts.get("documents_when_learnt", self.facts["documents_learnt_from"]))

    @property
    def takes_text(self) -> bool:
        """Whether queries are texts."""
        return isinstance(self.features, TextVectorizer)

    def rows(self, inputs: Any) -> Any:
        """Features of texts or embeddings."""
        return self.features.transform(inputs)

    def encode(self, rows: Any) -> Packed:
        """Packed codes of features."""
        blocks = [pack(self.hasher.transform(rows[start : start + BLOCK])) for start in range(0, rows.shape[0], BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros((0, n_bytes(self.hasher.n_bits)), dtype=np.uint8)

    def query_row(self, query: str | ArrayLike) -> Any:
        """Features of one query; one that says nothing is refused, since its hits would look like an answer."""
        if isinstance(query, str) != self.takes_text:
            expected = "a text" if self.takes_text else "an embedding"
            raise DataError("the query is of another kind", allowed=expected, got=type(query).__name__)
        row = self.rows([query] if isinstance(query, str) else query)
        if row.shape[0] != 1:
            raise DataError("one query at a time", got=row.shape[0])
        if not nonzero_rows(row).all():
            raise empty_query_error(query)
        return row

    def write(self, folder: Path) -> None:
        """Write everything into an empty folder."""
        for name in ("features", "hasher"):
            (folder / name).mkdir()
        self.features.write(folder / "features")
        write_hasher(self.hasher, folder / "hasher")
        write_json(folder / "engine.json", {"features": self.kind, **self.facts})

    @classmethod
    def read(cls, folder: Path) -> Model:
        """Read what :meth:`write` wrote."""
        facts = read_json(folder / "engine.json")
        return cls(FEATURES[facts.pop("features")].read(folder / "features"), read_hasher(folder / "hasher"), facts)


def empty_query_error(query: object) -> DataError:
    """The error of a query whose code would say nothing."""
    return DataError(
        "the query says nothing to this engine",
        allowed="one word or more of its vocabulary",
        got=repr(query)[:60],
        hint="Use other or more words.",
    )


def nonzero_rows(rows: Any) -> NDArray[np.bool_]:
    """Which rows are not zero throughout; a zero row's code says nothing."""
    return np.diff(rows.indptr) > 0 if sparse.issparse(rows) else rows.any(axis=1)
