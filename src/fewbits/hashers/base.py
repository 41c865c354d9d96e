"""The contract of every hasher: ``fit(X, y=None)``, ``transform(X)`` to 0/1, and files without pickle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from fewbits.codes import Bits, check_n_bits
from fewbits.files import read_arrays, read_json, write_arrays, write_json

Self = TypeVar("Self", bound="Hasher")


class Hasher(TransformerMixin, BaseEstimator, ABC):
    """Learns a code of ``n_bits`` bits for every row of features.

    A subclass says how it learns (:meth:`_fit`) and how it encodes (:meth:`_encode`), and names the arrays it
    has learnt (``learnt``), which are all that is saved. ``X`` is a table of features, sparse or dense, whose
    rows have length 1; ``y``, for the methods that look at it, is a table of labels or one class a row.
    """

    learnt: ClassVar[tuple[str, ...]]

    def __init__(self, n_bits: int = 64, *, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Learn from rows of features, forgetting what was learnt before."""
        check_n_bits(self.n_bits)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64])
        self._fit(X, y)
        return self

    def transform(self, X: Any) -> Bits:
        """Encode rows of features as 0/1, ``(rows, n_bits)``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float32, np.float64])
        return self._encode(X)

    @abstractmethod
    def _fit(self, X: Any, y: Any) -> None:
        """Set the learnt arrays."""

    @abstractmethod
    def _encode(self, X: Any) -> Bits:
        """Encode checked rows; a row's code depends on that row alone, whatever stands beside it."""

    def write(self, folder: Path) -> None:
        """Write parameters as JSON and the learnt arrays as safetensors."""
        check_is_fitted(self)
        parameters = {name: _as_json(value) for name, value in self.get_params(deep=False).items()}
        write_json(folder / "hasher.json", {"parameters": parameters, "n_features": self.n_features_in_})
        write_arrays(folder / "hasher.safetensors", {name: getattr(self, name) for name in self.learnt})

    @classmethod
    def read(cls: type[Self], folder: Path) -> Self:
        """Read what :meth:`write` wrote."""
        content = read_json(folder / "hasher.json")
        hasher = cls(**content["parameters"])
        hasher.n_features_in_ = content["n_features"]
        for name, values in zip(cls.learnt, read_arrays(folder / "hasher.safetensors", *cls.learnt), strict=True):
            setattr(hasher, name, values)
        return hasher

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # codes are bytes, whatever the features are
        return tags


class LinearHasher(Hasher):
    """A hasher whose bits are the sides of hyperplanes: bit k is ``x . weights_[:, k] >= offsets_[k]``."""

    learnt = ("weights_", "offsets_")
    weights_: NDArray[np.float32]  # (features, bits)
    offsets_: NDArray[np.float32]  # (bits,)

    def _encode(self, X: Any) -> Bits:
        # A sparse product sums each row by itself, in the order of its columns: a row's code is the same in any
        # batch. A dense (BLAS) product rounds differently for other batch sizes, and a bit at its plane flips.
        projected = sparse.csr_array(X, dtype=np.float32) @ self.weights_  # (rows, bits)
        return (projected >= self.offsets_).astype(np.uint8)


def _as_json(value: Any) -> Any:
    """Turn a parameter into JSON; a generator object is no part of what was learnt."""
    if isinstance(value, np.generic):
        return value.item()
    return None if isinstance(value, (np.random.RandomState, np.random.Generator)) else value
