"""Adam for a table of which a step needs few rows: the others are brought up to date when a batch has them again.

D. Kingma, J. Ba. Adam: a method for stochastic optimization. ICLR 2015.

A row without a gradient still moves, by what is left of its mean gradient. In s steps since it was last up to date,
that mean m falls to b1^s m and the mean square v to b2^s v, so its way is a multiple of m / sqrt(v) that is the same
for all rows left at that moment. Kept for each such moment, it costs a few numbers a step, where moving all rows would
cost a third of the step. The outcome is Adam's; only the small number that keeps its divisor from zero, which changes a
little from step to step, is one for all of the s steps: their mean, weighed by how far each of them goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import config, njit, prange, set_num_threads
from numpy.typing import NDArray
from torch import Tensor

from fewbits.nn.layers import SparseBatch

MEAN, SQUARE = 0.9, 0.999  # b1 and b2: what is left of the means after a step
LEAST_DIVISOR = 1e-8
# the way in m / sqrt(v), the sum of the divisors weighed by it, what is left of m and of v
ZERO_LAG = np.array([[0.0], [0.0], [1.0], [1.0]])
Values = NDArray[np.float32]


class ByWord(NamedTuple):
    """A batch as the words it has and the documents of each."""

    words: NDArray[np.int64]
    starts: NDArray[np.int64]  # where each begins; one more for the end
    documents: NDArray[np.int64]  # (nonzeros,)
    places: NDArray[np.int64]  # (nonzeros,): of the values among those of the batch

    @classmethod
    def of(cls, rows: SparseBatch, n_words: int) -> ByWord:
        """Transpose the rows of a batch."""
        return cls(*_compile(_transpose, in_parallel=False)(rows.words.numpy(), rows.rows.numpy(), n_words))


class RowAdam:
    """Changes a table (rows, width) in its place."""

    def __init__(self, table: Tensor) -> None:
        # The table moves to memory of numpy's, which asks for huge pages: rows here and there are found faster.
        self.table: Values = np.empty(table.shape, dtype=np.float32)
        self.table[:] = table.detach().numpy()
        table.data = torch.from_numpy(self.table)
        self.means = np.zeros_like(self.table)
        self.squares = np.zeros_like(self.table)
        self.steps = 0
        self._forget_moments()

    def _forget_moments(self) -> None:
        """All rows are up to date."""
        self._moment = np.zeros(len(self.table), dtype=np.int64)  # when each row was, in steps from now
        self._since = ZERO_LAG.copy()  # of each such moment (4, moments)

    def catch_up(self, rows: NDArray[np.int64] | None = None) -> None:
        """Move some rows, or all, to where they are after the last step."""
        every = np.arange(len(self.table)) if rows is None else rows
        compiled(_catch_up)(every, self.table, self.means, self.squares, self._moment, self._since)
        if rows is None:
            self._forget_moments()

    def step(self, batch: ByWord, values: Tensor, gradient: Tensor, rate: float) -> None:
        """One step; the table's gradient is the product of the batch's transposed rows and ``gradient``.

        The rows of the batch's words are up to date. ``values`` are those of the batch's own rows.
        """
        self.steps += 1
        corrected = math.sqrt(1 - SQUARE**self.steps)
        step = rate / (1 - MEAN**self.steps)
        way, divisors, left_of_means, left_of_squares = self._since
        left_of_means *= MEAN
        left_of_squares *= SQUARE
        far = step * corrected * left_of_means / np.sqrt(left_of_squares)
        way += far
        divisors += far * LEAST_DIVISOR * corrected / np.sqrt(left_of_squares)
        self._since = np.hstack([self._since, ZERO_LAG])
        self._moment[batch.words] = self._since.shape[1] - 1
        product = (values.numpy(), np.ascontiguousarray(gradient.numpy()))
        state = (self.table, self.means, self.squares)
        factors = (np.float32(step), np.float32(1 / corrected), np.float32(LEAST_DIVISOR))
        compiled(_step)(*batch, *product, *state, *factors)

    def state(self) -> dict[str, Tensor]:
        """All that is needed to go on; rows have to be up to date."""
        arrays = {"means": self.means, "squares": self.squares, "steps": np.array(self.steps)}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state; the table itself has been restored."""
        self.means[:], self.squares[:] = state["means"].numpy(), state["squares"].numpy()
        self.steps = int(state["steps"])
        self._forget_moments()


def compiled(work: Callable[..., Any]) -> Callable[..., Any]:
    """The work on rows for as many threads as torch has; rows are independent of each other, so it is all the same."""
    threads = min(torch.get_num_threads(), config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if threads > 1:
        set_num_threads(threads)
    return _compile(work, threads > 1)


@lru_cache
def _compile(work: Callable[..., Any], in_parallel: bool) -> Callable[..., Any]:
    # with one thread prange is range: threads that only wait would take the time of whoever works beside
    return njit(work, parallel=in_parallel, error_model="numpy", fastmath={"contract"})


def _transpose(words: Any, documents: Any, n_words: int) -> Any:
    counts = np.zeros(n_words, dtype=np.int64)
    for word in words:
        counts[word] += 1
    present = np.flatnonzero(counts)
    starts = np.zeros(len(present) + 1, dtype=np.int64)
    for number, word in enumerate(present):
        starts[number + 1] = starts[number] + counts[word]
        counts[word] = starts[number]  # from now on the place for the word's next document
    of_words, places = np.empty_like(documents), np.empty_like(words)
    for place, word in enumerate(words):
        of_words[counts[word]], places[counts[word]] = documents[place], place
        counts[word] += 1
    return present, starts, of_words, places


def _catch_up(rows: Any, table: Any, means: Any, squares: Any, moment: Any, since: Any) -> None:
    now = since.shape[1] - 1
    for place in prange(len(rows)):
        row = rows[place]
        then = moment[row]
        if then != now:
            moment[row] = now
            way = np.float32(since[0, then])
            divisor = np.float32(since[1, then] / since[0, then] if since[0, then] > 0 else LEAST_DIVISOR)
            left, left_of_square = np.float32(since[2, then]), np.float32(since[3, then])
            p, m, v = table[row], means[row], squares[row]
            for k in range(len(p)):
                p[k] -= way * m[k] / (np.sqrt(v[k]) + divisor)
                m[k] *= left
                v[k] *= left_of_square


def _step(
    words: Any,
    starts: Any,
    documents: Any,
    places: Any,
    values: Any,
    gradient: Any,
    table: Any,
    means: Any,
    squares: Any,
    step: Any,
    correction: Any,
    divisor: Any,
) -> None:
    left, left_of_square = np.float32(MEAN), np.float32(SQUARE)
    new, new_of_square = np.float32(1 - MEAN), np.float32(1 - SQUARE)
    for place in prange(len(words)):
        g = np.zeros(table.shape[1], dtype=np.float32)
        for entry in range(starts[place], starts[place + 1]):
            value, of_document = values[places[entry]], gradient[documents[entry]]
            for k in range(len(g)):
                g[k] += value * of_document[k]
        p, m, v = table[words[place]], means[words[place]], squares[words[place]]
        for k in range(len(g)):
            m[k] = left * m[k] + new * g[k]
            v[k] = left_of_square * v[k] + new_of_square * g[k] * g[k]
            p[k] -= step * m[k] / (np.sqrt(v[k]) * correction + divisor)
