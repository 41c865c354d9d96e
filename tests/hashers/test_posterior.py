"""The class posterior beside the encoder of pairwise supervised hashing, and its codewords."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax

from fewbits import PairwiseHasher
from fewbits.hashers._posterior import distinct_codewords
from fewbits.hashers.registry import read_hasher, write_hasher
from helpers.training import CLASSES, NEW_ROWS, QUICK, ROWS, precision

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")
LINEAR = {**QUICK, "n_bits": 8, "hidden": (), "epochs": 2}


def test_margins_are_those_of_the_encoder_plus_codewords_weighted_by_class_probabilities() -> None:
    hasher = PairwiseHasher(**LINEAR).fit(ROWS, CLASSES)
    posterior = hasher.posterior_
    assert posterior is not None
    [(weights, bias)] = hasher.encoder_layers_
    rows = NEW_ROWS.toarray()
    probabilities = softmax(rows @ posterior.weights + posterior.bias, axis=1)
    expected = rows @ weights + bias + probabilities @ posterior.codewords
    assert np.allclose(hasher.margins(NEW_ROWS), expected, atol=1e-4)
    assert np.allclose(np.abs(ROWS @ weights + bias).mean(axis=0), 1, atol=1e-3)


def test_the_posterior_raises_the_precision_of_an_encoder_that_is_hardly_trained() -> None:
    without, with_it = (
        PairwiseHasher(**{**LINEAR, "epochs": 1}, svm_share=0.0, posterior_weight=weight).fit(ROWS, CLASSES)
        for weight in (0, None)
    )
    assert precision(with_it) > precision(without) + 0.02


def test_the_posterior_is_saved_with_the_hasher(tmp_path: Path) -> None:
    hasher = PairwiseHasher(**LINEAR).fit(ROWS, CLASSES)
    write_hasher(hasher, tmp_path)
    assert np.array_equal(read_hasher(tmp_path).margins(NEW_ROWS), hasher.margins(NEW_ROWS))


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (CLASSES, {"posterior_weight": 0}),
        (CLASSES, {"hidden": (20,)}),
        (np.where(np.arange(len(CLASSES)) < 60, CLASSES, -1), {}),
        (sparse.csr_array(np.ones((len(CLASSES), 3), dtype=np.uint8)), {}),
    ],
    ids=["weight 0", "hidden layer", "few labels", "several labels per document"],
)
def test_there_is_no_posterior_where_it_would_not_help(labels: object, options: dict[str, object]) -> None:
    assert PairwiseHasher(**{**LINEAR, "epochs": 1, **options}).fit(ROWS, labels).posterior_ is None


def test_a_given_weight_holds_with_hidden_layers_too() -> None:
    without, with_it = (
        PairwiseHasher(**{**LINEAR, "hidden": (20,)}, posterior_weight=weight).fit(ROWS, CLASSES) for weight in (0, 4.0)
    )
    assert with_it.posterior_ is not None
    assert precision(with_it) > precision(without) + 0.02


@pytest.mark.parametrize(("n_bits", "factor"), [(8, 4), (16, 1)])
def test_a_short_code_sharpens_the_class_probabilities(n_bits: int, factor: float) -> None:
    options = {**LINEAR, "n_bits": n_bits, "epochs": 1}
    plain, default = (
        PairwiseHasher(**options, posterior_sharpness=value).fit(ROWS, CLASSES).posterior_ for value in (1.0, None)
    )
    assert plain is not None
    assert default is not None
    assert np.allclose(default.weights, factor * plain.weights, rtol=1e-5)
    assert np.allclose(default.bias, factor * plain.bias, rtol=1e-5)
    assert np.array_equal(default.codewords, plain.codewords)


def test_pairs_alone_have_no_posterior_even_after_a_fit_to_labels() -> None:
    hasher = PairwiseHasher(**LINEAR).fit(ROWS, CLASSES)
    hasher.fit_pairs(ROWS, [[0, 3], [0, 1]], [True, False])
    assert hasher.posterior_ is None


@pytest.mark.parametrize("n_bits", [3, 5, 20])
def test_codewords_become_distinct_and_the_largest_class_keeps_its_own(n_bits: int) -> None:
    codewords = np.full((8, n_bits), 0.4)
    codewords[:, 0] = 0.1
    changed = distinct_codewords(codewords, np.arange(8, 0, -1))
    assert len(np.unique(changed >= 0, axis=0)) == 8
    assert np.array_equal(changed[0], codewords[0])
    assert changed[1, 0] == -0.5  # the least sure bit


def test_more_classes_than_codewords_share_them() -> None:
    assert distinct_codewords(np.full((5, 1), 0.5), np.ones(5)).shape == (5, 1)
