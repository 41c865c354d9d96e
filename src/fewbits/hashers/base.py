"""The interface of every hasher: ``fit(X, y=None)``, ``transform(X)`` to 0/1, margins, and saving without pickle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from fewbits.codes import Bits, check_n_bits
from fewbits.errors import DataError, ParameterError
from fewbits.storage import read_arrays, read_json, write_arrays, write_json
from fewbits.validation import warn_of_empty

Self = TypeVar("Self", bound="Hasher")
Layer = tuple[NDArray[np.float32], NDArray[np.float32]]  # weights (inputs, outputs) and bias (outputs,)
Activation = Literal["relu", "sigmoid"]

BLOCK_ROWS = 10_000  # encoded at a time: hidden layers are wide

# Parameters of how a fit is run and reported, which do not change its result.
EXECUTION_PARAMETERS = ("callbacks", "checkpoint", "device", "verbose")
FORMAT_VERSION = 2  # of saved hashers; 1, without the field, stored VDSH's medians as offsets


@dataclass(frozen=True)
class Posterior:
    """Class probabilities, and the codewords that they weight: softmax(x @ weights + bias) @ codewords."""

    weights: NDArray[np.float32]  # (features, classes)
    bias: NDArray[np.float32]  # (classes,)
    codewords: NDArray[np.float32]  # (classes, bits)

    def logits(self, X: Any) -> NDArray[np.float32]:
        """Compute what the posterior adds to the encoder's outputs for rows (rows, bits), without torch."""
        probabilities = softmax(rowwise_matmul(X, self.weights) + self.bias)
        return rowwise_matmul(probabilities, self.codewords)


@dataclass(frozen=True)
class Layers:
    """An encoder in a form that other tools can run: a bit is 1 if the last output is 0 or more.

    The output is that of the last layer, plus that of the class posterior if there is one.
    """

    tables: list[Layer]
    activation: Activation = "relu"  # between two layers
    posterior: Posterior | None = None


class Hasher(TransformerMixin, BaseEstimator, ABC):
    """Base class of all methods: learns a code of ``n_bits`` bits for rows of features.

    A subclass implements :meth:`_fit` and :meth:`_margins` and lists its fitted arrays in ``fitted_arrays``; these and
    the parameters are all that is saved. ``X`` is a table of features, sparse or dense, with rows of length 1; ``y``,
    for methods that use labels, is a table of labels or one class per row.
    """

    fitted_arrays: ClassVar[tuple[str, ...]]  # names of the attributes, without the trailing underscore
    # Parameters that were added later, with the values that fit as before: what was saved without them has these, and
    # with these values they are not recorded, so that earlier results keep their names.
    legacy_values: ClassVar[Mapping[str, Any]] = {}
    needs_labels: ClassVar[bool] = False
    needs_positive: ClassVar[bool] = False

    def __init__(self, n_bits: int = 64, *, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def recorded_parameters(self) -> dict[str, Any]:
        """Return the parameters that identify a fit; those with their legacy value are left out."""
        legacy = self.legacy_values
        parameters = self.get_params(deep=False)
        return {k: value for k, value in parameters.items() if k not in legacy or value is None or value != legacy[k]}

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Fit the hasher to rows of features, discarding any earlier fit."""
        self._fit(self._check_features(X), y)
        return self

    def _check_features(self, X: Any) -> Any:
        """Validate the features to fit, and record their number."""
        check_n_bits(self.n_bits)
        X = self._validated(X, reset=True)
        warn_of_empty(X, "do not contribute to training", stacklevel=3)
        if self.needs_positive and (X.data if sparse.issparse(X) else X).min(initial=0) < 0:
            kind = type(self).__name__
            raise DataError(f"Negative values in data passed to {kind}, which models words", allowed="0 or more")
        return X

    def _validated(self, X: Any, *, reset: bool = False) -> Any:
        """Check that X is a table of finite numbers, as wide as the one to fit unless ``reset`` is set."""
        try:
            return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float32, np.float64])
        except (DataError, TypeError):
            raise
        except ValueError as error:  # in scikit-learn's words, which its estimator checks expect
            raise DataError(str(error).removesuffix(".")) from error

    def transform(self, X: Any) -> Bits:
        """Encode rows of features as 0/1, ``(rows, n_bits)``."""
        check_is_fitted(self)
        return self._encode(self._validated(X))

    def margins(self, X: Any) -> NDArray[np.float32]:
        """Compute how far each bit of each row is from flipping, (rows, n_bits): 0 or more exactly where it is 1."""
        check_is_fitted(self)
        return self._margins(self._validated(X))

    def bit_confidence(self, X: Any) -> NDArray[np.float32]:
        """Compute the confidence in each bit of each row, (rows, n_bits)."""
        return self._bit_confidence(self.margins(X))

    def signed_confidence(self, X: Any) -> NDArray[np.float32]:
        """Compute the confidence in each bit of each row, (rows, n_bits), negative where the bit is 0."""
        margins = self.margins(X)
        confidence = self._bit_confidence(margins)
        return np.where(margins >= 0, confidence, -confidence)

    def transform_with_confidence(self, X: Any, *, is_valid: bool = False) -> tuple[Bits, NDArray[np.float32]]:
        """Encode rows and return the confidence in each bit, both from one computation of the margins.

        Rows that are known to be valid are not checked again, which takes longer than encoding a short text.
        """
        margins = self._margins(X) if is_valid else self.margins(X)
        return (margins >= 0).astype(np.uint8), self._bit_confidence(margins)

    def truncate(self: Self, n_bits: int) -> Self:
        """Return a hasher of the first ``n_bits`` bits of a nested code; other codes cannot be truncated."""
        raise ParameterError(
            "only a nested code can be truncated",
            allowed="BernoulliVAE or PairwiseHasher, fitted with nested=True",
            got=type(self).__name__,
            hint=f"The first bits of other codes say little by themselves: fit again with n_bits={n_bits}.",
        )

    def bit_loadings(self) -> NDArray[np.float32] | None:
        """Return the weight of each feature in each bit, (features, n_bits), or None if the method has none."""
        return None

    def layers(self) -> Layers | None:
        """Return the encoder as layers of weights, or None if it has no such form."""
        return None

    @abstractmethod
    def _fit(self, X: Any, y: Any) -> None:
        """Fit to validated rows: set the fitted arrays."""

    @abstractmethod
    def _margins(self, X: Any) -> NDArray[np.float32]:
        """Compute the margins of validated rows; a row's margins depend on that row alone, not on its batch."""

    def _encode(self, X: Any) -> Bits:
        return (self._margins(X) >= 0).astype(np.uint8)

    def _bit_confidence(self, margins: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.abs(margins)

    def write(self, folder: Path) -> None:
        """Write parameters as JSON and fitted arrays as safetensors."""
        check_is_fitted(self)
        parameters = {name: _as_json(value) for name, value in self.get_params(deep=False).items()}
        facts = {"parameters": parameters, "n_features": self.n_features_in_, "format_version": FORMAT_VERSION}
        write_json(folder / "hasher.json", facts)
        write_arrays(folder / "hasher.safetensors", self._arrays_by_name())

    @classmethod
    def read(cls: type[Self], folder: Path) -> Self:
        """Read what :meth:`write` wrote."""
        content = read_json(folder / "hasher.json")
        stored = {**cls.legacy_values, **content["parameters"]}
        parameters: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
        }
        hasher = cls(**parameters)
        hasher.n_features_in_ = content["n_features"]
        arrays = read_arrays(folder / "hasher.safetensors")
        hasher._restore(hasher._upgrade(arrays, content.get("format_version", 1)))
        return hasher

    def _arrays_by_name(self) -> dict[str, NDArray[Any]]:
        """Return all fitted arrays by name."""
        return {name: getattr(self, f"{name}_") for name in self.fitted_arrays}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Set the fitted arrays."""
        for name in self.fitted_arrays:
            setattr(self, f"{name}_", arrays[name])

    def _upgrade(self, arrays: dict[str, NDArray[Any]], version: int) -> dict[str, NDArray[Any]]:
        """Convert arrays written by an earlier format version."""
        return arrays

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.needs_positive
        tags.target_tags.required = self.needs_labels
        tags.transformer_tags.preserves_dtype = []  # codes are bytes for features of any type
        return tags


class LinearHasher(Hasher):
    """Base class of methods that cut by hyperplanes: bit k is 1 if ``x @ weights_[:, k] >= offsets_[k]``."""

    fitted_arrays: ClassVar[tuple[str, ...]] = ("weights", "offsets")
    weights_: NDArray[np.float32]  # (features, bits)
    offsets_: NDArray[np.float32]  # (bits,)

    def bit_loadings(self) -> NDArray[np.float32] | None:
        """Return the hyperplanes' weights (features, n_bits)."""
        return self.weights_

    def layers(self) -> Layers | None:
        """Return the hyperplanes as one layer."""
        check_is_fitted(self)
        return Layers([(self.weights_, -self.offsets_)])

    def _margins(self, X: Any) -> NDArray[np.float32]:
        return rowwise_matmul(X, self.weights_) - self.offsets_


class NetworkHasher(Hasher):
    """Base class of methods whose encoder is a feed-forward network, to which a class posterior may be added."""

    activation: ClassVar[Activation] = "relu"
    encoder_layers_: list[Layer]
    posterior_: Posterior | None = None

    def layers(self) -> Layers | None:
        """Return the encoder's layers and the class posterior."""
        check_is_fitted(self)
        return Layers(self.encoder_layers_, self.activation, self.posterior_)

    def _logits(self, X: Any) -> NDArray[np.float32]:
        """Compute the encoder's outputs (rows, bits)."""
        logits = encode_rows(self.encoder_layers_, X, self.activation)
        return logits if self.posterior_ is None else logits + self.posterior_.logits(X)

    def _margins(self, X: Any) -> NDArray[np.float32]:
        return self._logits(X)  # 0 or more: p >= 1/2

    def _bit_confidence(self, margins: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.abs(2 * expit(margins) - 1)  # 0 for a bit that is 1 with probability 1/2, else up to 1

    def _arrays_by_name(self) -> dict[str, NDArray[Any]]:
        arrays = super()._arrays_by_name()
        for number, (weights, bias) in enumerate(self.encoder_layers_):
            arrays |= {f"encoder_weights_{number}": weights, f"encoder_bias_{number}": bias}
        return arrays

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        count = sum(name.startswith("encoder_weights_") for name in arrays)
        self.encoder_layers_ = [(arrays[f"encoder_weights_{n}"], arrays[f"encoder_bias_{n}"]) for n in range(count)]


def _as_json(value: Any) -> Any:
    """Convert a parameter to JSON; random generators and functions are not saved."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (np.random.RandomState, np.random.Generator)) or callable(value):
        return None
    return [_as_json(item) for item in value if not callable(item)] if isinstance(value, (list, tuple)) else value


def rowwise_matmul(X: Any, table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Multiply rows by a table (features, columns), summing each row by itself in the order of its columns.

    So a row's code does not depend on its batch: a dense BLAS product rounds differently for other batch sizes, which
    can flip a bit at its threshold.
    """
    is_ready = isinstance(X, sparse.csr_array) and X.dtype == np.float32
    return np.asarray((X if is_ready else sparse.csr_array(X, dtype=np.float32)) @ table)


def encode_rows(layers: list[Layer], X: Any, activation: Activation = "relu") -> NDArray[np.float32]:
    """Compute the last layer's outputs for rows, without torch, a block of rows at a time."""
    activate = ACTIVATIONS[activation]
    outputs = np.empty((X.shape[0], len(layers[-1][1])), dtype=np.float32)
    for start in range(0, X.shape[0], BLOCK_ROWS):
        (weights, bias), *later = layers
        x = rowwise_matmul(X[start : start + BLOCK_ROWS], weights) + bias
        for weights, bias in later:
            x = rowwise_matmul(activate(x), weights) + bias
        outputs[start : start + BLOCK_ROWS] = x
    return outputs


def softmax(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute class probabilities from scores (rows, classes)."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def relu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return x where it is positive, else 0."""
    return np.maximum(x, 0)


ACTIVATIONS: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {"relu": relu, "sigmoid": expit}
