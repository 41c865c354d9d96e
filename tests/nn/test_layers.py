"""Initial scales and dropout of layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fewbits.nn.layers import Encoder, SparseBatch
from fewbits.nn.models import Model, Shape

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")


def test_a_classifier_starts_small_or_optionally_at_glorots_scale() -> None:
    for is_large, scale in ((False, 0.01), (True, (2 / (8 + 300)) ** 0.5)):
        shape = Shape(8, has_large_labels=is_large)
        model = Model(shape, torch.full((50,), 1 / 50), torch.full((300,), 1 / 300), torch.Generator())
        assert model.classifier is not None
        assert float(model.classifier.embeddings.detach().std()) == pytest.approx(scale, rel=0.1)


@pytest.mark.parametrize("share", [0.0001, 0.2, 0.5, 0.9])
def test_dropout_drops_its_share_at_every_position_and_keeps_the_mean(share: float) -> None:
    rows = sparse.csr_array(np.ones((1, 40_000), dtype=np.float32))
    encoder = Encoder(40_000, 1, word_dropout=share).train()
    with torch.no_grad():
        encoder.words.fill_(1.0)
        generator = torch.Generator().manual_seed(0)
        sums = torch.cat([encoder(SparseBatch.from_rows(rows), generator) for _ in range(20)]) / 40_000
        places = torch.zeros(4)  # values are drawn four at a time: each of the four has the same chance
        for place in range(4):
            encoder.words.copy_((torch.arange(40_000) % 4 == place)[:, None])
            places[place] = encoder(SparseBatch.from_rows(rows), generator) / 10_000
    assert sums.mean() == pytest.approx(1, abs=0.02)
    assert len(set(sums.flatten().tolist())) > 1
    assert places.tolist() == pytest.approx([1] * 4, abs=5 * (share / (1 - share) / 10_000) ** 0.5)
