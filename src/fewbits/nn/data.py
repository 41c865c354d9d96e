"""Batches of an epoch: rows, reconstruction targets, labels, and the signs of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fewbits.data.labels import pair_signs
from fewbits.nn.layers import SparseBatch

NEIGHBORS_SAMPLED = 5
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """The documents of one step."""

    rows: SparseBatch  # input of the encoder
    words: SparseBatch  # target of the decoder
    labels: SparseBatch | None = None  # shares that sum to 1 per labelled document; empty rows for the others
    signs: Tensor | None = None  # of pairs: (documents, documents), or (pairs,), see PairLoss


class ReconstructionTarget:
    """The decoder's target: a document's own words, optionally mixed with the mean of its neighbors' words.

    A few neighbors are sampled per document and step: the expectation is the same, and a step takes a fraction of the
    time that all neighbors would.
    """

    def __init__(self, X: Any, neighbors: NDArray[np.int64] | None = None, weight: float = 0.0) -> None:
        self.X = X
        self.neighbors = neighbors  # (documents, neighbors)
        self.weight = weight if neighbors is not None else 0.0

    def is_identity(self, X: Any) -> bool:
        """Return whether the target rows are those of X themselves."""
        return not self.weight and self.X is X

    def __call__(self, rows: Rows, generator: np.random.Generator) -> Any:
        """Compute target rows (CSR) for one batch; those of all documents would be many times the corpus."""
        own = self.X[rows]
        if self.neighbors is None or not self.weight:
            return own
        neighbors = self.neighbors[rows]
        columns = generator.integers(0, neighbors.shape[1], (len(rows), NEIGHBORS_SAMPLED))
        sampled = np.take_along_axis(neighbors, columns, axis=1)
        shares = np.full(sampled.size, self.weight / NEIGHBORS_SAMPLED, dtype=np.float32)
        starts = np.arange(0, sampled.size + 1, NEIGHBORS_SAMPLED)
        mixing = sparse.csr_array((shares, sampled.ravel(), starts), shape=(len(rows), self.X.shape[0]))
        return sparse.csr_array((1 - self.weight) * own + mixing @ self.X)


class Batches:
    """Random batches of an epoch; they depend only on the seed and the epoch's number."""

    def __init__(
        self,
        X: Any,
        words: ReconstructionTarget,
        *,
        batch_size: int,
        seed: int,
        labels: Any = None,
        device: torch.device | None = None,
    ) -> None:
        self.X = X
        self.words = words
        self.labels = labels  # CSR (documents, labels) of 0/1, or None
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        if labels is not None:
            counts = np.maximum(np.diff(labels.indptr), 1)
            self.label_shares = sparse.csr_array(labels.multiply(1 / counts[:, None]), dtype=np.float32)

    @property
    def steps(self) -> int:
        """Return the number of batches per epoch."""
        return -(-self.X.shape[0] // self.batch_size)

    def __call__(self, epoch: int) -> Iterator[Batch]:
        """Iterate over the batches of an epoch, which hold every document once."""
        generator = self._generator(epoch)
        order = generator.permutation(self.X.shape[0])
        return (self.batch(rows, generator) for rows in np.array_split(order, self.steps))

    def batch(self, rows: Rows, generator: np.random.Generator) -> Batch:
        """Make a batch of the given documents."""
        encoded = self._sparse_batch(self.X[rows])
        is_identity = self.words.is_identity(self.X)
        return Batch(
            rows=encoded,
            words=encoded if is_identity else self._sparse_batch(self.words(rows, generator)),
            labels=None if self.labels is None else self._sparse_batch(self.label_shares[rows]),
            signs=self._signs(rows),
        )

    def _signs(self, rows: Rows) -> Tensor | None:
        return None

    def _sparse_batch(self, rows: Any) -> SparseBatch:
        return SparseBatch.from_rows(rows, self.device)

    def _generator(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, epoch])

    def _tensor(self, signs: NDArray[Any]) -> Tensor:
        return torch.from_numpy(signs.astype(np.int8)).to(self.device)


class AllPairsBatches(Batches):
    """All pairs of each batch, with signs by label. Oversamples labelled documents if fewer than half are labelled."""

    def __call__(self, epoch: int) -> Iterator[Batch]:
        """Iterate over the batches of an epoch: every document once, plus labelled ones if fewer than half are."""
        labelled = np.flatnonzero(np.diff(self.labels.indptr))
        if not len(labelled) or len(labelled) * 2 >= self.X.shape[0]:
            yield from super().__call__(epoch)
            return
        generator = self._generator(epoch)
        order = generator.permutation(self.X.shape[0])
        for rows in np.array_split(order, self.steps):
            chosen = generator.choice(labelled, self.batch_size)
            yield self.batch(np.concatenate([chosen, rows]), generator)

    def _signs(self, rows: Rows) -> Tensor:
        signs = pair_signs(self.labels[rows])
        np.fill_diagonal(signs, 0)
        return self._tensor(signs)


class RandomPairsBatches(Batches):
    """Two mini-batches of the same size, paired document by document, as in the paper."""

    @property
    def steps(self) -> int:
        """Return the number of batches per epoch; each holds two mini-batches."""
        return max(1, self.X.shape[0] // (2 * self.batch_size))

    def _signs(self, rows: Rows) -> Tensor:
        first, second = rows[: len(rows) // 2], rows[len(rows) // 2 : len(rows) // 2 * 2]
        return self._tensor(pair_signs(self.labels[first], self.labels[second], paired=True))


class LabelledPairSampler(Batches):
    """User-labelled pairs, as many similar as dissimilar ones, added to batches of all documents.

    Clicks and duplicates give similar pairs only, from which alone all documents would get one code. If a kind is
    missing, dissimilar pairs are drawn at random, most of which are, and similar ones pair a document with itself.
    """

    def __init__(
        self, X: Any, words: ReconstructionTarget, pairs: Rows, same: NDArray[np.bool_], **options: Any
    ) -> None:
        super().__init__(X, words, **options)
        self.similar = pairs[same]  # (pairs, 2)
        self.dissimilar = pairs[~same]

    def __call__(self, epoch: int) -> Iterator[Batch]:
        """Iterate over the batches of an epoch: every document once, with a sample of the pairs in each batch."""
        generator = self._generator(epoch)
        order = generator.permutation(self.X.shape[0])
        count = max(1, self.batch_size // 4)  # of each kind
        signs = self._tensor(np.repeat([1, -1], count))
        for rows in np.array_split(order, self.steps):
            left, right = np.concatenate([self._sample(same, count, generator) for same in (True, False)]).T
            batch = self.batch(np.concatenate([left, right, rows]), generator)
            yield Batch(batch.rows, batch.words, batch.labels, signs)

    def _sample(self, same: bool, count: int, generator: np.random.Generator) -> Rows:
        pairs = self.similar if same else self.dissimilar
        if len(pairs):
            return pairs[generator.integers(0, len(pairs), count)]
        drawn = generator.integers(0, self.X.shape[0], (count, 2))
        return drawn[:, [0, 0]] if same else drawn
