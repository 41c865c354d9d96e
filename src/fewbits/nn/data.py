"""The batches of an epoch: rows, what the decoder explains of them, labels, and who belongs with whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fewbits.nn.layers import SparseBatch
from fewbits.nn.losses import Batch

NEIGHBOURS_DRAWN = 5
Rows = NDArray[np.int64]


class ReconstructionTarget:
    """What the decoder explains: a document's own words, or them mixed with the mean of its neighbours'.

    Of a document's neighbours a few are drawn for each step: the mean is the same, and a step takes a fraction of the
    time that all of them would.
    """

    def __init__(self, X: Any, neighbours: NDArray[np.int64] | None = None, weight: float = 0.0) -> None:
        self.X = X
        self.neighbours = neighbours  # (documents, neighbours)
        self.weight = weight if neighbours is not None else 0.0

    def are_own_of(self, X: Any) -> bool:
        """Whether these documents' own words, as they are, are all there is to explain."""
        return not self.weight and self.X is X

    def __call__(self, rows: Rows, generator: np.random.Generator) -> Any:
        """Target rows (CSR), made for one batch at a time: all of them together would be many times the corpus."""
        own = self.X[rows]
        if self.neighbours is None or not self.weight:
            return own
        known = self.neighbours[rows]
        places = generator.integers(0, known.shape[1], (len(rows), NEIGHBOURS_DRAWN))
        drawn = np.take_along_axis(known, places, axis=1)
        shares = np.full(drawn.size, self.weight / NEIGHBOURS_DRAWN, dtype=np.float32)
        starts = np.arange(0, drawn.size + 1, NEIGHBOURS_DRAWN)
        mixing = sparse.csr_array((shares, drawn.ravel(), starts), shape=(len(rows), self.X.shape[0]))
        return sparse.csr_array((1 - self.weight) * own + mixing @ self.X)


class Batches:
    """Random batches of an epoch, which follow from the seed and the epoch's number alone."""

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
        """Batches in an epoch."""
        return -(-self.X.shape[0] // self.batch_size)

    def __call__(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch: every document once."""
        generator = self._generator(epoch)
        order = generator.permutation(self.X.shape[0])
        return (self.batch(rows, generator) for rows in np.array_split(order, self.steps))

    def batch(self, rows: Rows, generator: np.random.Generator) -> Batch:
        """A batch of these documents."""
        bags = self._bags(self.X[rows])
        return Batch(
            rows=bags,
            words=bags if self.words.are_own_of(self.X) else self._bags(self.words(rows, generator)),
            labels=None if self.labels is None else self._bags(self.label_shares[rows]),
            signs=self._signs(rows),
        )

    def _signs(self, rows: Rows) -> torch.Tensor | None:
        return None

    def _bags(self, rows: Any) -> SparseBatch:
        return SparseBatch.from_rows(rows, self.device)

    def _generator(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, epoch])

    def _tensor(self, signs: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(signs.astype(np.int8)).to(self.device)


class AllPairsBatches(Batches):
    """Every pair of a batch, told apart by labels; where few have any, some that do join every batch."""

    def __call__(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch: every document once, and beside them labelled ones if those are the fewer."""
        labelled = np.flatnonzero(np.diff(self.labels.indptr))
        if not len(labelled) or len(labelled) * 2 >= self.X.shape[0]:
            yield from super().__call__(epoch)
            return
        generator = self._generator(epoch)
        order = generator.permutation(self.X.shape[0])
        for rows in np.array_split(order, self.steps):
            chosen = generator.choice(labelled, self.batch_size)
            yield self.batch(np.concatenate([chosen, rows]), generator)

    def _signs(self, rows: Rows) -> torch.Tensor:
        signs = _label_signs(self.labels[rows], self.labels[rows])
        np.fill_diagonal(signs, 0)
        return self._tensor(signs)


class RandomPairsBatches(Batches):
    """Two mini-batches of the same size, paired document by document, as in the paper."""

    @property
    def steps(self) -> int:
        """Batches in an epoch; one holds two mini-batches."""
        return max(1, self.X.shape[0] // (2 * self.batch_size))

    def _signs(self, rows: Rows) -> torch.Tensor:
        first, second = rows[: len(rows) // 2], rows[len(rows) // 2 : len(rows) // 2 * 2]
        return self._tensor(_label_signs(self.labels[first], self.labels[second], paired=True))


class LabelledPairSampler(Batches):
    """Pairs that the user has marked, as many of either kind, beside as many documents of which nothing is known.

    Clicks and found duplicates are pairs that belong together, and nothing else: taught by these alone, all documents
    would become one. Pairs drawn at random, most of which do not belong together, then stand for those that do not.
    """

    def __init__(
        self, X: Any, words: ReconstructionTarget, pairs: Rows, same: NDArray[np.bool_], **options: Any
    ) -> None:
        super().__init__(X, words, **options)
        self.together = pairs[same]  # (pairs, 2)
        self.apart = pairs[~same]

    def __call__(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch: every document once by itself, and with each batch some of the pairs."""
        generator = self._generator(epoch)
        order = generator.permutation(self.X.shape[0])
        count = max(1, self.batch_size // 4)  # of each kind
        signs = self._tensor(np.repeat([1, -1], count))
        for rows in np.array_split(order, self.steps):
            left, right = np.concatenate([self._draw(kind, count, generator) for kind in (True, False)]).T
            batch = self.batch(np.concatenate([left, right, rows]), generator)
            yield Batch(batch.rows, batch.words, batch.labels, signs)

    def _draw(self, same: bool, count: int, generator: np.random.Generator) -> Rows:
        marked = self.together if same else self.apart
        if len(marked):
            return marked[generator.integers(0, len(marked), count)]
        drawn = generator.integers(0, self.X.shape[0], (count, 2))
        return drawn[:, [0, 0]] if same else drawn  # a document belongs with itself


def _label_signs(left: Any, right: Any, *, paired: bool = False) -> NDArray[np.int8]:
    """1 where two documents share a label, -1 where they do not, 0 where one of them has none."""
    if paired:
        shared = np.asarray(left.multiply(right).sum(axis=1)).ravel() > 0
        known = (np.diff(left.indptr) > 0) & (np.diff(right.indptr) > 0)
    else:
        shared = (left.astype(np.int32) @ right.T.astype(np.int32)).toarray() > 0
        known = np.outer(np.diff(left.indptr) > 0, np.diff(right.indptr) > 0)
    return np.where(known, np.where(shared, 1, -1), 0).astype(np.int8)
