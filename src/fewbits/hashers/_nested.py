"""Nested codes: one training, of which every prefix of 8, 16, 32, ... bits is a code of its own."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fewbits.errors import ParameterError
from fewbits.hashers._neural import NeuralHasher
from fewbits.hashers._training import FINAL_ROUND

SHORTEST = 8  # bits
Self = TypeVar("Self", bound="NestedHasher")


def nested_lengths(n_bits: int) -> tuple[int, ...]:
    """Return the lengths of the prefixes of a nested code that are codes of their own: powers of two from 8 on.

    >>> nested_lengths(64)
    (8, 16, 32, 64)
    """
    lengths = [SHORTEST]
    while lengths[-1] < n_bits:
        lengths.append(2 * lengths[-1])
    if lengths[-1] != n_bits:
        raise ParameterError(
            "n_bits of a nested code must be a power of two", allowed="8, 16, 32, 64, 128, ...", got=repr(n_bits)
        )
    return tuple(lengths)


def length_per_bit(n_bits: int) -> NDArray[np.int64]:
    """Return the length of the shortest prefix of a nested code that each bit belongs to.

    >>> length_per_bit(16).tolist()
    [8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16]
    """
    lengths = np.array(nested_lengths(n_bits))
    return lengths[np.searchsorted(lengths, np.arange(1, n_bits + 1))]


class NestedHasher(NeuralHasher):
    """Base class of neural hashers whose code can be nested, so that users choose the length after training."""

    nested: bool
    nested_arrays: ClassVar[tuple[str, ...]] = ("decoder_embeddings", "bit_balance")  # whose last axis is the bits

    def truncate(self: Self, n_bits: int) -> Self:
        """Return a hasher whose code is the first ``n_bits`` bits of this one's, without training.

        The code must be nested, and the length a power of two from 8 on. The hasher itself is not changed.
        """
        check_is_fitted(self)
        if not self.nested:
            return super().truncate(n_bits)
        lengths = nested_lengths(self.n_bits)
        if isinstance(n_bits, bool) or n_bits not in lengths:
            allowed = ", ".join(map(str, lengths))
            raise ParameterError("the code cannot be truncated to this length", allowed=allowed, got=repr(n_bits))
        shorter = copy(self)
        shorter.n_bits = int(n_bits)
        *before, (weights, bias) = self.encoder_layers_
        shorter.encoder_layers_ = [*before, (np.ascontiguousarray(weights[:, :n_bits]), bias[:n_bits])]
        if self.posterior_ is not None:
            codewords = np.ascontiguousarray(self.posterior_.codewords[:, :n_bits])
            shorter.posterior_ = replace(self.posterior_, codewords=codewords)
        for name in self.nested_arrays:
            setattr(shorter, f"{name}_", np.ascontiguousarray(getattr(self, f"{name}_")[..., :n_bits]))
        if np.ndim(getattr(self, "prior", 0.5)):
            shorter.set_params(prior=tuple(self.get_params()["prior"])[:n_bits])
        return shorter

    def _prefixes_of_round(self, n_bits: int, name: str) -> tuple[int, ...]:
        """Return the lengths whose readouts are trained in a round; one for a code that is not nested."""
        return nested_lengths(n_bits) if self.nested and name == FINAL_ROUND else (n_bits,)

    def _length_per_bit(self) -> NDArray[np.int64]:
        """Return for each bit the length of the shortest code of its own that contains it."""
        return length_per_bit(self.n_bits) if self.nested else np.full(self.n_bits, self.n_bits)

    def _check_rows(self, X: Any) -> Any:
        if self.nested:
            nested_lengths(self.n_bits)
        return super()._check_rows(X)
