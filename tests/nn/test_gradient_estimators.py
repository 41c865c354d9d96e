"""Every gradient estimator against the gradient by enumeration of all codes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

from fewbits.errors import ParameterError
from fewbits.nn.gradient_estimators import ESTIMATORS, GradientEstimator, GumbelSoftmax, make_estimator
from fewbits.nn.layers import SoftmaxReadout, SparseBatch
from fewbits.nn.losses import PairLoss

UNBIASED = [name for name, estimator in ESTIMATORS.items() if estimator.is_unbiased]
BIASED = [name for name, estimator in ESTIMATORS.items() if not estimator.is_unbiased]
Loss = Callable[[Tensor], Tensor]


class Problem:
    """A function of codes of K bits with logits to differentiate at; any number of documents share both."""

    def __init__(self, kind: str, n_bits: int) -> None:
        generator = torch.Generator().manual_seed(n_bits)
        self.kind = kind
        self.logits = torch.randn(n_bits, generator=generator) * 1.5
        self.readout = SoftmaxReadout(n_bits, torch.zeros(12), initial_scale=1.0, generator=generator)
        self.row = np.random.default_rng(n_bits).random((1, 12)) * (np.arange(12) % 3 == 0)
        self.table = torch.randn(2**n_bits, generator=generator)

    def loss(self, documents: int) -> Loss:
        """Return the loss of a batch of equal documents."""
        n_bits = len(self.logits)
        if self.kind in ("reconstruction", "classifier"):
            row = self.row if self.kind == "reconstruction" else np.eye(1, 12, 4)
            return self.readout.loss(SparseBatch.from_rows(sparse.csr_array(np.repeat(row, documents, axis=0))))
        if self.kind == "pair":  # the two documents' codes stand beside each other
            half = n_bits // 2
            signs = torch.ones(documents)

            def cost(codes: Tensor) -> Tensor:
                first, second = codes[:, :half], codes[:, half : 2 * half]
                return PairLoss(margin=0.5).cost((first + second - 2 * first * second).sum(dim=1), -signs, half)

            return cost
        powers = 2 ** torch.arange(n_bits)
        return lambda codes: self.table[(codes.round().long() * powers).sum(dim=1)]  # any number for any code

    def exact_gradient(self) -> Tensor:
        """Differentiate the sum over all 2^K codes of probability times loss."""
        logits = self.logits.double().requires_grad_()
        codes = torch.tensor(list(product((0.0, 1.0), repeat=len(logits))))
        with torch.no_grad():
            values = self.loss(len(codes))(codes).double()
        probabilities = torch.where(codes > 0, torch.sigmoid(logits), torch.sigmoid(-logits)).prod(dim=1)
        [gradient] = torch.autograd.grad((probabilities * values).sum(), logits)
        return gradient

    def draws(self, estimator: GradientEstimator, count: int) -> Tensor:
        """Draw independent estimates (count, bits)."""
        logits = self.logits.repeat(count, 1).requires_grad_()
        values = estimator(logits, self.loss(count), torch.Generator().manual_seed(1))
        [gradient] = torch.autograd.grad(values.sum(), logits)
        return gradient.double()


@pytest.mark.parametrize("n_bits", [2, 5, 10])
@pytest.mark.parametrize("kind", ["reconstruction", "classifier", "pair", "any function"])
@pytest.mark.parametrize("name", UNBIASED)
def test_an_unbiased_estimators_mean_is_the_enumerated_gradient(name: str, kind: str, n_bits: int) -> None:
    problem = Problem(kind, n_bits)
    draws = problem.draws(make_estimator(name), 40_000)
    error = draws.std(dim=0) / len(draws) ** 0.5
    assert ((draws.mean(dim=0) - problem.exact_gradient()).abs() <= 4 * error + 1e-6).all()


@pytest.mark.parametrize("kind", ["reconstruction", "classifier", "pair"])
@pytest.mark.parametrize("name", BIASED)
def test_a_biased_estimator_points_uphill_and_its_bias_is_reported(name: str, kind: str) -> None:
    problem = Problem(kind, 8)
    mean, exact = problem.draws(make_estimator(name), 40_000).mean(dim=0), problem.exact_gradient()
    bias = float((mean - exact).norm() / exact.norm())
    print(f"{name}, {kind}: relative bias {bias:.3f}")
    assert float(mean @ exact) > 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if ESTIMATORS[name].is_unbiased])
def test_the_sampled_pair_cost_has_the_gradient_of_the_expected_one(name: str, sign: int) -> None:
    """Without a margin a cost is linear in the distance, so that its expectation is exact."""
    generator = torch.Generator().manual_seed(0)
    count, n_bits = 40_000, 3
    both = torch.randn(2, n_bits, generator=generator)
    signs = torch.full((count,), sign)
    loss = PairLoss(margin=None)
    logits = both.repeat_interleave(count, dim=0).requires_grad_()
    value = loss.sampled(logits, signs, make_estimator(name), generator)
    draws = torch.autograd.grad(value, logits)[0].view(2, count, n_bits).double() * count
    exact = both.clone().requires_grad_()
    [expected] = torch.autograd.grad(loss.expected(exact, signs[:1]), exact)
    errors = draws.std(dim=1) / count**0.5
    assert ((draws.mean(dim=1) - expected).abs() <= 4 * errors + 1e-7).all()


def test_disarm_never_has_a_larger_variance_than_arm_and_flip_a_far_smaller_one() -> None:
    problem = Problem("reconstruction", 10)
    variance = {name: float(problem.draws(make_estimator(name), 20_000).var(dim=0).sum()) for name in UNBIASED}
    print({name: f"{value / variance['arm']:.4f}" for name, value in variance.items()})
    assert variance["disarm"] <= variance["arm"]
    assert variance["flip"] < 0.2 * variance["arm"]


@pytest.mark.parametrize("shift", [False, True])
def test_flips_in_closed_form_equal_flipping(shift: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    readout = SoftmaxReadout(7, torch.randn(30, generator=generator), initial_scale=2.0, generator=generator)
    targets = SparseBatch.from_rows(sparse.csr_array(np.random.default_rng(0).random((5, 30)) > 0.7, dtype=np.float32))
    noise = torch.randn(5, 7, generator=generator) if shift else None
    loss = readout.loss(targets, noise)
    codes = (torch.rand(5, 7, generator=generator) > 0.5).float()
    values, differences = loss.with_flips(codes)
    assert torch.equal(values, loss(codes))
    for bit in range(7):
        flipped = codes.clone()
        flipped[:, bit] = 1 - flipped[:, bit]
        assert torch.allclose(loss(flipped) - values, differences[:, bit], atol=1e-3)


def test_the_hand_written_loss_and_its_gradients_are_those_of_log_softmax() -> None:
    generator = torch.Generator().manual_seed(0)
    readout = SoftmaxReadout(6, torch.randn(40, generator=generator), initial_scale=1.0, generator=generator)
    table = np.random.default_rng(0).random((4, 40)) * (np.random.default_rng(1).random((4, 40)) > 0.8)
    table[2] = 0  # a document without words
    codes = torch.rand(4, 6, generator=generator, requires_grad=True)
    outer = torch.rand(4, generator=generator)
    inputs = (codes, readout.table)
    ours = readout.loss(SparseBatch.from_rows(sparse.csr_array(table)))(codes)
    scores = codes @ readout.embeddings.T + readout.bias
    theirs = -(torch.from_numpy(table).float() * torch.log_softmax(scores, dim=1)).sum(dim=1)
    assert torch.allclose(ours, theirs, atol=1e-5)
    expected = torch.autograd.grad(theirs, inputs, outer)
    for found, reference in zip(torch.autograd.grad(ours, inputs, outer), expected, strict=True):
        assert torch.allclose(found, reference, atol=1e-5)


def test_two_codes_at_once_equal_two_evaluations_and_only_the_first_has_a_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    readout = SoftmaxReadout(6, torch.randn(40, generator=generator), initial_scale=1.0, generator=generator)
    loss = readout.loss(
        SparseBatch.from_rows(sparse.random_array((5, 40), density=0.2, rng=np.random.default_rng(0)).tocsr())
    )
    first, second = torch.rand(2, 5, 6, generator=generator).round()
    ahead, behind = loss.of_both(first, second)
    assert torch.allclose(ahead, loss(first), atol=1e-5)
    assert torch.allclose(behind, loss(second), atol=1e-5)
    assert not behind.requires_grad
    found, reference = (torch.autograd.grad(values.sum(), readout.table)[0] for values in (ahead, loss(first)))
    assert torch.allclose(found, reference, atol=1e-5)


def test_large_embeddings_do_not_overflow() -> None:
    readout = SoftmaxReadout(3, torch.zeros(5))
    with torch.no_grad():
        readout.embeddings.fill_(200.0)
        readout.embeddings[0] = -200.0
    loss = readout.loss(SparseBatch.from_rows(sparse.csr_array(np.eye(2, 5))))
    values, differences = loss.with_flips(torch.ones(2, 3))
    assert torch.isfinite(values).all()
    assert torch.isfinite(differences).all()


def test_gumbel_softmax_cools_by_the_papers_schedule() -> None:
    estimator = GumbelSoftmax()
    temperatures = [estimator.temperature(epoch) for epoch in (0, 1, 2, 100)]
    assert temperatures == [1.0, pytest.approx(0.96), pytest.approx(0.9216), 0.1]


def test_an_unknown_estimator_is_refused_with_the_known_ones() -> None:
    message = (
        r"unknown gradient estimator \(allowed: arm, disarm, leave-one-out, flip, straight-through, gumbel-softmax"
    )
    with pytest.raises(ParameterError, match=message):
        make_estimator("magic")
