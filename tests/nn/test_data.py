"""Batches: signs of pairs, reconstruction targets and oversampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fewbits.nn.data import AllPairsBatches, RandomPairsBatches, ReconstructionTarget

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")


def test_signs_say_which_pairs_share_a_label_and_are_0_for_unlabelled_documents() -> None:
    labels = sparse.csr_array(np.array([[1, 0], [1, 1], [0, 1], [0, 0]], dtype=np.uint8))
    rows = sparse.csr_array(np.eye(4, dtype=np.float32))
    options: dict[str, Any] = {"batch_size": 4, "seed": 0, "labels": labels}
    signs = (
        AllPairsBatches(rows, ReconstructionTarget(rows), **options).batch(np.arange(4), np.random.default_rng(0)).signs
    )
    assert signs is not None
    assert signs.tolist() == [[0, 1, -1, 0], [1, 0, 1, 0], [-1, 1, 0, 0], [0, 0, 0, 0]]
    paired = (
        RandomPairsBatches(rows, ReconstructionTarget(rows), **options)
        .batch(np.array([0, 0, 0, 1, 2, 3]), np.random.default_rng(0))
        .signs
    )
    assert paired is not None
    assert paired.tolist() == [1, -1, 0]


def test_words_of_neighbors_are_mixed_with_a_documents_own_with_equal_mean_shares() -> None:
    rows = sparse.csr_array(np.eye(3, dtype=np.float32))
    words, generator = (
        ReconstructionTarget(rows, np.array([[1, 2], [0, 2], [0, 1]]), weight=0.5),
        np.random.default_rng(0),
    )
    drawn = words(np.zeros(2000, dtype=np.int64), generator).toarray()
    assert np.allclose(drawn.sum(axis=1), 1)
    assert np.allclose(drawn.mean(axis=0), [0.5, 0.25, 0.25], atol=0.01)


def test_labelled_documents_are_oversampled_if_few() -> None:
    labels = np.zeros((40, 2), dtype=np.uint8)
    labels[[3, 8], [0, 1]] = 1
    rows = sparse.csr_array(np.eye(40, dtype=np.float32))
    batches = AllPairsBatches(rows, ReconstructionTarget(rows), batch_size=10, seed=0, labels=sparse.csr_array(labels))
    seen = [batch.rows.words.tolist() for batch in batches(0)]
    assert all({3, 8} & set(words[:10]) and set(words[:10]) <= {3, 8} for words in seen)
    assert sorted(word for words in seen for word in words[10:]) == list(range(40))
