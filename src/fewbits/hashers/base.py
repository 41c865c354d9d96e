"""The contract of every hasher: ``fit(X, y=None)``, ``transform(X)`` to 0/1, and files without pickle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from fewbits.codes import Bits, check_n_bits
from fewbits.errors import DataError
from fewbits.storage import read_arrays, read_json, write_arrays, write_json
from fewbits.validation import check_whole_number

Self = TypeVar("Self", bound="Hasher")

# Parameters that say how a fit is run and reported; they do not change what is learned.
EXECUTION_PARAMETERS = ("callbacks", "checkpoint", "device", "verbose")


@dataclass(frozen=True)
class Layers:
    """An encoder as other tools can run it: a bit is 1 where the last layer gives 0 or more."""

    tables: list[tuple[NDArray[np.float32], NDArray[np.float32]]]  # weights (inputs, outputs) and bias of each layer
    activation: Literal["relu", "sigmoid"] = "relu"  # between two layers
    zero_is_one: bool = True  # else a bit is 1 above 0 only


class Hasher(TransformerMixin, BaseEstimator, ABC):
    """Learns a code of ``n_bits`` bits for every row of features.

    A subclass says how it learns (:meth:`_fit`), how it encodes (:meth:`_encode`), and which arrays it has learnt
    (``learnt``); these and its parameters are all that is saved. ``X`` is a table of features, sparse or dense, whose
    rows have length 1; ``y``, for the methods that look at it, is a table of labels or one class a row.
    """

    fitted_arrays: ClassVar[
        tuple[str, ...]
    ]  # names of the arrays without the underscore that ends the attributes' names
    needs_labels: ClassVar[bool] = False
    needs_positive: ClassVar[bool] = False

    def __init__(self, n_bits: int = 64, *, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Learn from rows of features, forgetting what was learnt before."""
        self._fit(self._check_features(X), y)
        return self

    def _check_features(self, X: Any) -> Any:
        """Features as they may be learnt from; what was known of others is forgotten."""
        check_n_bits(self.n_bits)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64])
        if self.needs_positive and (X.data if sparse.issparse(X) else X).min(initial=0) < 0:
            kind = type(self).__name__
            raise DataError(f"Negative values in data passed to {kind}, which explains words", allowed="0 or more")
        return X

    def transform(self, X: Any) -> Bits:
        """Encode rows of features as 0/1, ``(rows, n_bits)``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float32, np.float64])
        return self._encode(X)

    def margins(self, X: Any) -> NDArray[np.float32]:
        """How far each bit of each row is from flipping, (rows, n_bits): 0 or more where it is 1.

        A method that knows no distance says on which side a bit is: 1 or -1.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float32, np.float64])
        return self._margins(X)

    def bit_confidence(self, X: Any) -> NDArray[np.float32]:
        """How sure each bit of each row is, (rows, n_bits); 1 for a method that does not know."""
        return self._bit_confidence(self.margins(X))

    def transform_with_confidence(self, X: Any) -> tuple[Bits, NDArray[np.float32]]:
        """Encode rows and return the confidence in each bit, both from one computation of the margins."""
        margins = self.margins(X)
        return (margins >= 0).astype(np.uint8), self._bit_confidence(margins)

    def bit_loadings(self) -> NDArray[np.float32] | None:
        """What each bit says about each feature, (features, n_bits), where the method knows."""
        return None

    def layers(self) -> Layers | None:
        """The encoder as layers of weights, where it has such a form."""
        return None

    def _margins(self, X: Any) -> NDArray[np.float32]:
        return 2 * self._encode(X).astype(np.float32) - 1

    def _bit_confidence(self, margins: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.ones_like(margins)

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
        write_arrays(folder / "hasher.safetensors", self._arrays_by_name())

    @classmethod
    def read(cls: type[Self], folder: Path) -> Self:
        """Read what :meth:`write` wrote."""
        content = read_json(folder / "hasher.json")
        parameters: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in content["parameters"].items()
        }
        hasher = cls(**parameters)
        hasher.n_features_in_ = content["n_features"]
        hasher._restore(read_arrays(folder / "hasher.safetensors"))
        return hasher

    def _arrays_by_name(self) -> dict[str, NDArray[Any]]:
        """All that was learnt, by name."""
        return {name: getattr(self, f"{name}_") for name in self.fitted_arrays}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what was learnt."""
        for name in self.fitted_arrays:
            setattr(self, f"{name}_", arrays[name])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.needs_positive
        tags.target_tags.required = self.needs_labels
        tags.transformer_tags.preserves_dtype = []  # codes are bytes, whatever the features are
        return tags


class LinearHasher(Hasher):
    """A hasher whose bits are the sides of hyperplanes: bit k is ``x . weights_[:, k] >= offsets_[k]``."""

    fitted_arrays: ClassVar[tuple[str, ...]] = ("weights", "offsets")
    weights_: NDArray[np.float32]  # (features, bits)
    offsets_: NDArray[np.float32]  # (bits,)

    def bit_loadings(self) -> NDArray[np.float32] | None:
        """What each bit says about each feature: its hyperplane's weight."""
        return self.weights_

    def layers(self) -> Layers | None:
        """One layer: the hyperplanes."""
        check_is_fitted(self)
        return Layers([(self.weights_, -self.offsets_)])

    def _encode(self, X: Any) -> Bits:
        return (self._margins(X) >= 0).astype(np.uint8)

    def _margins(self, X: Any) -> NDArray[np.float32]:
        return rowwise_matmul(X, self.weights_) - self.offsets_

    def _bit_confidence(self, margins: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.abs(margins)


def rowwise_matmul(X: Any, table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Product of rows with a table, (rows, columns), each row summed by itself in the order of its columns.

    So a row's code is the same in any batch. A dense (BLAS) product rounds differently for other batch sizes, and a bit
    at its threshold flips.
    """
    return np.asarray(sparse.csr_array(X, dtype=np.float32) @ table)


def as_int32_csr(X: Any) -> Any:
    """Rows whose indices are 32 bits wide, as parts of scikit-learn want them; choosing rows may make them wider."""
    if not sparse.issparse(X):
        return X
    rows = sparse.csr_array(X)
    return sparse.csr_array((rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), shape=rows.shape)


def sample_rows(X: Any, most: int, generator: np.random.RandomState) -> Any:
    """So many rows at most, a random choice in their order."""
    check_whole_number("max_rows", most, 1)
    return X if X.shape[0] <= most else X[np.sort(generator.choice(X.shape[0], most, replace=False))]


def _as_json(value: Any) -> Any:
    """Turn a parameter into JSON; a generator object is no part of what was learnt."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (np.random.RandomState, np.random.Generator)) or callable(value):
        return None
    return [_as_json(item) for item in value if not callable(item)] if isinstance(value, (list, tuple)) else value
