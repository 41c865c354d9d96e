"""Adam for a large table of which each step uses few rows: other rows are updated when a batch uses them again.

D. Kingma, J. Ba. Adam: a method for stochastic optimization. ICLR 2015.

A row without a gradient still moves, by its decaying mean gradient. In s steps since its last update, that mean m
decays to b1^s m and the mean square v to b2^s v, so the row's displacement is a multiple of m / sqrt(v) that is the
same for all rows last updated at that moment. Accumulating it per moment costs a few numbers per step; updating all
rows would cost a third of the step. The result is Adam's with one approximation: the epsilon in the divisor, whose
effect changes a little from step to step, is replaced by its mean over the s steps, weighted by the displacement of
each.
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

BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-8
# displacement in units of m / sqrt(v), sum of the epsilons weighted by it, decay of m, decay of v
ZERO_LAG = np.array([[0.0], [0.0], [1.0], [1.0]])
Values = NDArray[np.float32]


class ByWord(NamedTuple):
    """A batch transposed: its distinct words and the documents of each."""

    words: NDArray[np.int64]
    starts: NDArray[np.int64]  # (words + 1,): offsets of each word's documents
    documents: NDArray[np.int64]  # (nonzeros,)
    places: NDArray[np.int64]  # (nonzeros,): places of the values in the batch

    @classmethod
    def of(cls, rows: SparseBatch, n_words: int) -> ByWord:
        """Transpose a batch."""
        return cls(*_compile(_transpose, in_parallel=False)(rows.words.numpy(), rows.rows.numpy(), n_words))


class RowAdam:
    """Adam that updates a table (rows, width) in place, row by row."""

    def __init__(self, table: Tensor) -> None:
        # The table moves to memory allocated by NumPy, which requests huge pages: random access to rows is faster.
        self.table: Values = np.empty(table.shape, dtype=np.float32)
        self.table[:] = table.detach().numpy()
        table.data = torch.from_numpy(self.table)
        self.means = np.zeros_like(self.table)
        self.squares = np.zeros_like(self.table)
        self.steps = 0
        self._mark_up_to_date()

    def _mark_up_to_date(self) -> None:
        """Mark all rows as up to date."""
        self._moment = np.zeros(len(self.table), dtype=np.int64)  # of each row's last update: a column of _lags
        self._lags = ZERO_LAG.copy()  # (4, moments): what has accumulated since each moment

    def catch_up(self, rows: NDArray[np.int64] | None = None) -> None:
        """Apply the pending updates of some rows, or of all."""
        pending = np.arange(len(self.table)) if rows is None else rows
        compiled(_catch_up)(pending, self.table, self.means, self.squares, self._moment, self._lags)
        if rows is None:
            self._mark_up_to_date()

    def step(self, batch: ByWord, values: Tensor, gradient: Tensor, rate: float) -> None:
        """Take one step; the table's gradient is the transposed batch times ``gradient`` (documents, width).

        The rows of the batch's words must be up to date. ``values`` are those of the batch's nonzeros.
        """
        self.steps += 1
        correction = math.sqrt(1 - BETA2**self.steps)
        step = rate / (1 - BETA1**self.steps)
        displacements, epsilons, decays_of_means, decays_of_squares = self._lags
        decays_of_means *= BETA1
        decays_of_squares *= BETA2
        displacement = step * correction * decays_of_means / np.sqrt(decays_of_squares)
        displacements += displacement
        epsilons += displacement * EPSILON * correction / np.sqrt(decays_of_squares)
        self._lags = np.hstack([self._lags, ZERO_LAG])
        self._moment[batch.words] = self._lags.shape[1] - 1
        product = (values.numpy(), np.ascontiguousarray(gradient.numpy()))
        state = (self.table, self.means, self.squares)
        factors = (np.float32(step), np.float32(1 / correction), np.float32(EPSILON))
        compiled(_step)(*batch, *product, *state, *factors)

    def state(self) -> dict[str, Tensor]:
        """Return everything needed to resume; all rows must be up to date."""
        arrays = {"means": self.means, "squares": self.squares, "steps": np.array(self.steps)}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Resume from a state; the table itself must have been restored."""
        self.means[:], self.squares[:] = state["means"].numpy(), state["squares"].numpy()
        self.steps = int(state["steps"])
        self._mark_up_to_date()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function over rows for torch's number of threads, which does not affect its results."""
    threads = min(torch.get_num_threads(), config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if threads > 1:
        set_num_threads(threads)
    return _compile(function, threads > 1)


@lru_cache
def _compile(function: Callable[..., Any], in_parallel: bool) -> Callable[..., Any]:
    # with one thread prange is compiled as range: waiting threads would take time from other processes
    return njit(function, parallel=in_parallel, error_model="numpy", fastmath={"contract"})


def _transpose(words: Any, documents: Any, n_words: int) -> Any:
    counts = np.zeros(n_words, dtype=np.int64)
    for word in words:
        counts[word] += 1
    present = np.flatnonzero(counts)
    starts = np.zeros(len(present) + 1, dtype=np.int64)
    for number, word in enumerate(present):
        starts[number + 1] = starts[number] + counts[word]
        counts[word] = starts[number]  # from here on: the place of the word's next document
    of_words, places = np.empty_like(documents), np.empty_like(words)
    for place, word in enumerate(words):
        of_words[counts[word]], places[counts[word]] = documents[place], place
        counts[word] += 1
    return present, starts, of_words, places


def _catch_up(rows: Any, table: Any, means: Any, squares: Any, moment: Any, lags: Any) -> None:
    now = lags.shape[1] - 1
    for place in prange(len(rows)):
        row = rows[place]
        last = moment[row]
        if last != now:
            moment[row] = now
            displacement = np.float32(lags[0, last])
            epsilon = np.float32(lags[1, last] / lags[0, last] if lags[0, last] > 0 else EPSILON)
            decay, decay_of_square = np.float32(lags[2, last]), np.float32(lags[3, last])
            p, m, v = table[row], means[row], squares[row]
            for k in range(len(p)):
                p[k] -= displacement * m[k] / (np.sqrt(v[k]) + epsilon)
                m[k] *= decay
                v[k] *= decay_of_square


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
    epsilon: Any,
) -> None:
    beta1, beta2 = np.float32(BETA1), np.float32(BETA2)
    share, share_of_square = np.float32(1 - BETA1), np.float32(1 - BETA2)  # of the new gradient in the means
    for place in prange(len(words)):
        g = np.zeros(table.shape[1], dtype=np.float32)
        for entry in range(starts[place], starts[place + 1]):
            value, of_document = values[places[entry]], gradient[documents[entry]]
            for k in range(len(g)):
                g[k] += value * of_document[k]
        p, m, v = table[words[place]], means[words[place]], squares[words[place]]
        for k in range(len(g)):
            m[k] = beta1 * m[k] + share * g[k]
            v[k] = beta2 * v[k] + share_of_square * g[k] * g[k]
            p[k] -= step * m[k] / (np.sqrt(v[k]) * correction + epsilon)
