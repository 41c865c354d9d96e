"""Adam by rows: the same as Adam on the whole table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fewbits.learning.bags import Bags
from fewbits.learning.row_adam import RowAdam

WORDS, WIDTH = 40, 23
RATES = [0.01 * (1 + np.cos(np.pi * step / 300)) for step in range(300)]


def batches(seed: int) -> list[Bags]:
    """Few words a batch, so that most rows wait, some of them for very long."""
    generator = np.random.default_rng(seed)
    often = 1 / np.arange(1, WORDS + 1) ** 1.5
    rows = [generator.random((5, WORDS)) * (generator.random((5, WORDS)) < often) for _ in RATES]
    return [Bags.from_rows(sparse.csr_array(row.astype(np.float32))) for row in rows]


def gradients(seed: int, orders: int = 4) -> list[torch.Tensor]:
    """Of sizes that are as many orders of magnitude apart."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(5, WIDTH, generator=generator) * 10 ** -(step % orders) for step in range(len(RATES))]


def train(
    table: torch.Tensor, start: int = 0, optimizer: RowAdam | None = None, end: int = len(RATES), orders: int = 4
) -> RowAdam:
    optimizer = optimizer or RowAdam(table)
    for rows, gradient, rate in list(zip(batches(1), gradients(2, orders), RATES, strict=True))[start:end]:
        optimizer.bring_up_to_date(rows.by_word.words)
        optimizer.step(rows, rows.values, gradient, rate)
    optimizer.bring_up_to_date()
    return optimizer


# Where a gradient is as small as Adam's least divisor, that divisor's own change over the steps begins to count.
@pytest.mark.parametrize(("threads", "orders", "tolerance"), [(1, 4, 1e-5), (2, 4, 1e-5), (1, 7, 1e-3)])
def test_rows_that_wait_for_their_words_end_where_adam_moves_them(threads: int, orders: int, tolerance: float) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    found = torch.randn(WORDS, WIDTH, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.Parameter(found.double().clone())
    adam = torch.optim.Adam([expected])
    for rows, gradient, rate in zip(batches(1), gradients(2, orders), RATES, strict=True):
        adam.param_groups[0]["lr"] = rate
        expected.grad = torch.from_numpy(rows.source.toarray().T).double() @ gradient.double()
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
    for rows, gradient, rate in zip(batches(3), gradients(4), RATES, strict=True):
        words = rows.by_word.words
        optimizer.bring_up_to_date(words)
        assert torch.allclose(found[words], expected[words], atol=1e-3)
        optimizer.step(rows, rows.values, gradient, rate)
        adam.param_groups[0]["lr"] = rate
        expected.grad = torch.from_numpy(rows.source.toarray().T) @ gradient
        adam.step()


def test_one_that_goes_on_from_a_state_ends_with_the_same_table_to_the_bit() -> None:
    whole, cut = torch.zeros(WORDS, WIDTH), torch.zeros(WORDS, WIDTH)
    optimizer = train(whole, end=120)
    train(whole, 120, optimizer)
    state = {name: value.clone() for name, value in train(cut, end=120).state().items()}
    resumed = RowAdam(cut)
    resumed.restore(state)
    train(cut, 120, resumed)
    assert torch.equal(whole, cut)


def test_values_of_words_that_were_left_out_count_in_place_of_the_batchs_own() -> None:
    dropped, without = torch.zeros(3, 2), torch.zeros(3, 2)
    rows = sparse.csr_array(np.array([[1, 2, 0], [3, 0, 4]], dtype=np.float32))
    left = sparse.csr_array(np.array([[1, 0, 0], [3, 0, 4]], dtype=np.float32))
    gradient = torch.tensor([[1.0, -1.0], [2.0, 0.5]])
    some, others = Bags.from_rows(rows), Bags.from_rows(left)
    RowAdam(dropped).step(some, torch.tensor([1.0, 0.0, 3.0, 4.0]), gradient, 0.1)
    RowAdam(without).step(others, others.values, gradient, 0.1)
    assert torch.equal(dropped, without)
    assert dropped[0].abs().min() > 0
