"""Divergences, distances and pair costs against torch.distributions, finite differences and sampling."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Bernoulli, kl_divergence

from fewbits.nn.losses import PairLoss, bernoulli_kl, expected_distances, neighborhood_loss

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")


@pytest.mark.parametrize("prior", [0.5, 0.1])
def test_the_divergence_is_that_of_torch_distributions(prior: float) -> None:
    logits = torch.tensor([[-30.0, -1.0, 0.0, 2.0, 30.0]])
    expected = kl_divergence(Bernoulli(logits=logits), Bernoulli(torch.tensor(prior))).sum(dim=1)
    assert torch.allclose(bernoulli_kl(logits, torch.tensor(prior)), expected, atol=1e-5)


def test_the_gradient_of_the_divergence_is_that_of_finite_differences() -> None:
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(0))
    prior = torch.tensor([0.1, 0.3, 0.5, 0.5, 0.8, 0.9], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda psi: bernoulli_kl(psi, prior), (logits,))


def test_the_expected_distance_is_the_mean_over_sampled_codes() -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = torch.rand(3, 8, generator=generator), torch.rand(4, 8, generator=generator)
    drawn = torch.stack(
        [
            (torch.bernoulli(left, generator=generator)[:, None] != torch.bernoulli(right, generator=generator)[None])
            .sum(dim=2)
            .float()
            for _ in range(4000)
        ]
    )
    assert torch.allclose(drawn.mean(dim=0), expected_distances(left, right), atol=0.1)


def test_the_cost_of_a_pair_depends_on_its_sign_and_the_margin() -> None:
    distances, signs = torch.tensor([2.0, 2.0, 5.0, 2.0]), torch.tensor([1, -1, -1, 0])
    assert PairLoss().cost(distances, signs, 8).tolist() == [2.0, -2.0, -5.0, 0.0]
    assert PairLoss(margin=0.5).cost(distances, signs, 8).tolist() == [2.0, 2.0, 0.0, 0.0]


def test_the_neighborhood_loss_is_that_of_its_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    # documents 0 and 1 are similar, 2 is similar to both, 3 has no similar one, and nothing is known of 4
    signs = torch.tensor([[0, 1, 1, -1, 0], [1, 0, 1, -1, 0], [1, 1, 0, -1, 0], [-1, -1, -1, 0, 0], [0] * 5])
    p = torch.sigmoid(logits).tolist()
    losses = []
    for i in range(3):
        distances = [sum(a + b - 2 * a * b for a, b in zip(p[i], p[j], strict=True)) for j in range(5)]
        nearness = [math.exp(-32 * distance / 8) for distance in distances]
        similar = sum(nearness[j] for j in range(5) if signs[i, j] > 0)
        losses.append(-math.log(similar / sum(nearness[j] for j in range(5) if signs[i, j] != 0)))
    assert float(neighborhood_loss(logits, signs)) == pytest.approx(sum(losses) / 3)


def test_a_batch_without_similar_pairs_has_no_neighborhood_loss_and_a_finite_gradient() -> None:
    logits = torch.randn(4, 6, requires_grad=True, generator=torch.Generator().manual_seed(0))
    loss = neighborhood_loss(logits, torch.eye(4) - 1)
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == 0
    assert logits.grad is not None
    assert bool((logits.grad == 0).all())


def test_the_gradient_of_the_neighborhood_loss_is_that_of_finite_differences() -> None:
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(0))
    signs = torch.tensor([[0, 1, -1, -1], [1, 0, -1, -1], [-1, -1, 0, 0], [-1, -1, 0, 0]])
    assert torch.autograd.gradcheck(lambda psi: neighborhood_loss(psi, signs), (logits,))
