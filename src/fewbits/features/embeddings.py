"""Precomputed embeddings, used instead of tf-idf rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted

from fewbits.errors import DataError, MissingFileError
from fewbits.storage import read_json, write_json


class Embeddings(TransformerMixin, BaseEstimator):
    """Check precomputed embeddings and scale every row to unit length.

    >>> Embeddings().fit_transform([[3.0, 4.0]]).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    def fit(self, X: ArrayLike, y: None = None) -> Embeddings:
        """Store the number of dimensions."""
        table = _as_table(X)
        if not table.any():  # also if there are none
            got = "only zeros" if len(table) else "no embeddings"
            raise DataError("there is nothing to learn from", allowed="embeddings with nonzero values", got=got)
        self.n_features_in_ = table.shape[1]
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return rows of unit length (float32)."""
        check_is_fitted(self, "n_features_in_")
        table = _as_table(X)
        if table.shape[1] != self.n_features_in_:
            raise DataError(
                "embeddings differ in dimension from those used in fit", allowed=self.n_features_in_, got=table.shape[1]
            )
        return normalize(table, norm="l2") if len(table) else table

    @property
    def n_features(self) -> int:
        """Return the number of dimensions."""
        return int(self.n_features_in_)

    def write(self, folder: Path) -> None:
        """Write the number of dimensions."""
        write_json(folder / "embeddings.json", {"n_features": self.n_features})

    @classmethod
    def read(cls, folder: Path) -> Embeddings:
        """Read what :meth:`write` has written."""
        embeddings = cls()
        embeddings.n_features_in_ = read_json(folder / "embeddings.json")["n_features"]
        return embeddings


def _as_table(X: Any) -> NDArray[np.float32]:
    try:
        table = np.atleast_2d(np.asarray(X, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise DataError("embeddings must be numbers, one row per document", got=error) from error
    if table.ndim != 2 or table.shape[1] == 0:
        raise DataError("embeddings must be a table", allowed="documents x dimensions", got=table.shape)
    if not np.isfinite(table).all():
        raise DataError("embeddings contain values that are not finite", got="NaN or infinity")
    return table


def load_embeddings(path: Path) -> NDArray[np.float32]:
    """Read a table of embeddings from a ``.npy`` file."""
    if not Path(path).is_file():
        raise MissingFileError(f"{path} does not exist")
    try:
        return _as_table(np.load(path, allow_pickle=False))
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} is not a table of numbers in .npy format", got=error) from error
