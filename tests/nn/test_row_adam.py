"""Row-wise Adam gives the same result as Adam on the whole table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse

from fewbits.nn.layers import SparseBatch
from fewbits.nn.row_adam import ByWord, RowAdam

WORDS, WIDTH = 40, 23
RATES = [0.01 * (1 + np.cos(np.pi * step / 300)) for step in range(300)]


class Example(NamedTuple):
    """A batch with its transpose."""

    rows: Any
    by_word: ByWord
    values: torch.Tensor

    @classmethod
    def of(cls, rows: NDArray[np.float64]) -> Example:
        sparse_rows = sparse.csr_array(rows.astype(np.float32))
        bags = SparseBatch.from_rows(sparse_rows)
        return cls(sparse_rows.toarray(), ByWord.of(bags, rows.shape[1]), bags.values)


def batches(seed: int) -> list[Example]:
    """Return batches with few words each, so that most rows have pending updates."""
    generator = np.random.default_rng(seed)
    often = 1 / np.arange(1, WORDS + 1) ** 1.5
    rows = [generator.random((5, WORDS)) * (generator.random((5, WORDS)) < often) for _ in RATES]
    return [Example.of(row) for row in rows]


def gradients(seed: int, orders: int = 4) -> list[torch.Tensor]:
    """Return gradients of different orders of magnitude."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(5, WIDTH, generator=generator) * 10 ** -(step % orders) for step in range(len(RATES))]


def train(
    table: torch.Tensor, start: int = 0, optimizer: RowAdam | None = None, end: int = len(RATES), orders: int = 4
) -> RowAdam:
    optimizer = optimizer or RowAdam(table)
    for example, gradient, rate in list(zip(batches(1), gradients(2, orders), RATES, strict=True))[start:end]:
        optimizer.catch_up(example.by_word.words)
        optimizer.step(example.by_word, example.values, gradient, rate)
    optimizer.catch_up()
    return optimizer


# Where a gradient is as small as Adam's epsilon, the change of the divisor over the steps matters.
@pytest.mark.parametrize(
    ("threads", "orders", "tolerance"), [(1, 4, 1e-5), pytest.param(2, 4, 1e-5, marks=pytest.mark.slow), (1, 7, 1e-3)]
)
def test_rows_with_pending_updates_end_where_adam_moves_them(threads: int, orders: int, tolerance: float) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    found = torch.randn(WORDS, WIDTH, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.Parameter(found.double().clone())
    adam = torch.optim.Adam([expected])
    for example, gradient, rate in zip(batches(1), gradients(2, orders), RATES, strict=True):
        adam.param_groups[0]["lr"] = rate
        expected.grad = torch.from_numpy(example.rows.T).double() @ gradient.double()
        adam.step()
    start = found.clone()
    train(found, orders=orders)
    torch.set_num_threads(before)
    moved = (expected.detach() - start).abs().max()
    assert moved > 0.5
    assert (found - expected).abs().max() < tolerance * moved


def test_a_row_is_up_to_date_whenever_a_batch_has_its_word() -> None:
    found = torch.zeros(WORDS, WIDTH)
    expected = torch.nn.Parameter(found.clone())
    adam, optimizer = torch.optim.Adam([expected]), RowAdam(found)
    for example, gradient, rate in zip(batches(3), gradients(4), RATES, strict=True):
        words = example.by_word.words
        optimizer.catch_up(words)
        assert torch.allclose(found[words], expected[words], atol=1e-3)
        optimizer.step(example.by_word, example.values, gradient, rate)
        adam.param_groups[0]["lr"] = rate
        expected.grad = torch.from_numpy(example.rows.T) @ gradient
        adam.step()


def test_resuming_from_a_state_gives_the_same_table_to_the_bit() -> None:
    whole, cut = torch.zeros(WORDS, WIDTH), torch.zeros(WORDS, WIDTH)
    optimizer = train(whole, end=120)
    train(whole, 120, optimizer)
    state = {name: value.clone() for name, value in train(cut, end=120).state().items()}
    resumed = RowAdam(cut)
    resumed.restore(state)
    train(cut, 120, resumed)
    assert torch.equal(whole, cut)


def test_catching_up_without_a_step_does_not_change_the_result() -> None:
    found, expected = torch.zeros(WORDS, WIDTH), torch.zeros(WORDS, WIDTH)
    touched, optimizer = RowAdam(found), RowAdam(expected)
    for example, gradient, other in zip(batches(1), gradients(2), batches(5), strict=True):
        touched.catch_up(other.by_word.words)
        for each in (touched, optimizer):
            each.catch_up(example.by_word.words)
            each.step(example.by_word, example.values, gradient, 0.01)
    touched.catch_up()
    optimizer.catch_up()
    assert expected.abs().max() > 0.5
    assert torch.allclose(found, expected, atol=1e-4)


def test_dropped_values_count_as_zero() -> None:
    dropped, without = torch.zeros(3, 2), torch.zeros(3, 2)
    gradient = torch.tensor([[1.0, -1.0], [2.0, 0.5]])
    example, fewer = Example.of(np.array([[1, 2, 0], [3, 0, 4]])), Example.of(np.array([[1, 0, 0], [3, 0, 4]]))
    for table, batch, values in (
        (dropped, example, torch.tensor([1.0, 0.0, 3.0, 4.0])),
        (without, fewer, fewer.values),
    ):
        optimizer = RowAdam(table)
        optimizer.catch_up(batch.by_word.words)
        optimizer.step(batch.by_word, values, gradient, 0.1)
    assert torch.equal(dropped, without)
    assert dropped[0].abs().min() > 0


def test_a_transposed_batch_has_exactly_the_words_of_the_rows() -> None:
    rows = np.array([[0, 5, 0, 7], [6, 0, 0, 8], [0, 0, 0, 9]])
    by_word, values = Example.of(rows).by_word, Example.of(rows).values.numpy()
    assert by_word.words.tolist() == [0, 1, 3]
    assert by_word.starts.tolist() == [0, 1, 2, 5]
    assert by_word.documents.tolist() == [1, 0, 0, 1, 2]
    assert values[by_word.places].tolist() == [6, 5, 7, 8, 9]
