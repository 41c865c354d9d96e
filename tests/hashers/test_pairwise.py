"""Pairwise supervised hashing: labels, pairs and the blend with SVMs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.svm import LinearSVC

from fewbits import PairwiseHasher, precision_at_k
from fewbits.errors import DataError, ParameterError
from fewbits.nn.losses import neighborhood_loss
from helpers.training import CLASSES, NEW_ROWS, QUICK, ROWS, precision

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")


@pytest.mark.parametrize(
    "options", [{"pairs": "random", "pair_distance": "sampled"}, {"pairs": "random"}, {"margin": None}]
)
def test_every_kind_of_pair_trains(options: dict[str, Any]) -> None:
    hasher = PairwiseHasher(**QUICK, **options).fit(ROWS, CLASSES)
    assert precision(hasher) > 0.9
    assert "pair" in hasher.history_[-1]


LABEL_SETS = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0]], dtype=np.uint8)  # 5/3 labels per document
SEVERAL = sparse.csr_array(LABEL_SETS[CLASSES])


@pytest.mark.parametrize("hidden", [(), (20,)])
def test_the_neighborhood_loss_brings_documents_that_share_a_label_next_to_each_other(hidden: tuple[int, ...]) -> None:
    shares = (SEVERAL @ SEVERAL.T).toarray() > 0
    signs = torch.from_numpy(np.where(shares, 1, -1)).fill_diagonal_(0)
    options = {**QUICK, "epochs": 20, "hidden": hidden, "svm_share": 0.0}
    losses = []
    for weight in (0, 30.0):
        hasher = PairwiseHasher(**options, neighborhood_weight=weight).fit(ROWS, SEVERAL)
        losses.append(float(neighborhood_loss(torch.from_numpy(hasher.margins(ROWS)), signs)))
    assert losses[1] < 0.8 * losses[0]


def test_the_neighborhood_loss_needs_all_pairs_of_a_batch() -> None:
    with pytest.raises(
        ParameterError, match=r"all pairs of a batch \(allowed: pairs='balanced', or neighborhood_weight=0"
    ):
        PairwiseHasher(**QUICK, pairs="random", neighborhood_weight=1.0).fit(ROWS, CLASSES)


@pytest.mark.parametrize(
    ("labels", "options", "is_used"),
    [
        (SEVERAL, {"hidden": (20,)}, True),
        (SEVERAL, {"hidden": ()}, False),
        (SEVERAL, {"hidden": (20,), "pairs": "random"}, False),
        (CLASSES, {"hidden": (20,)}, False),
        (SEVERAL.multiply((np.arange(len(CLASSES)) < 60)[:, None]), {"hidden": (20,)}, False),
    ],
    ids=["several labels", "linear encoder", "random pairs", "one label", "few labelled documents"],
)
def test_the_neighborhood_loss_is_used_by_default_for_several_labels_and_hidden_layers(
    labels: Any, options: dict[str, Any], is_used: bool
) -> None:
    hasher = PairwiseHasher(**{**QUICK, "epochs": 1, **options}, refinements=0).fit(ROWS, labels)
    assert ("neighborhood" in hasher.history_[-1]) == is_used


def test_a_linear_encoder_is_blended_with_svms_that_predict_a_bits_majority_value_per_label() -> None:
    options = {**QUICK, "hidden": (), "epochs": 1, "posterior_weight": 0}  # too few to predict the labels well
    trained, blended, svms = (
        PairwiseHasher(**options, svm_share=share).fit(ROWS, CLASSES) for share in (0.0, 1 / 3, 1.0)
    )
    of_label = np.array([trained.transform(ROWS[label == CLASSES]).mean(axis=0) >= 0.5 for label in range(3)])
    agreement, svm_agreement = (float((one.transform(ROWS) == of_label[CLASSES]).mean()) for one in (trained, svms))
    assert agreement < 0.9 * svm_agreement
    (trained_weights, _), (blended_weights, _), (svm_weights, _) = (
        hasher.encoder_layers_[0] for hasher in (trained, blended, svms)
    )
    assert np.allclose(blended_weights, 2 / 3 * trained_weights + 1 / 3 * svm_weights, atol=1e-5)
    assert precision(blended) >= precision(trained)


@pytest.mark.parametrize("labelled", [300, 200, 100])
def test_an_svm_is_fitted_to_labelled_documents_with_words_weighted_by_naive_bayes(labelled: int) -> None:
    options = {**QUICK, "hidden": (), "epochs": 1, "refinements": 0, "posterior_weight": 0}
    labels = np.where(np.arange(300) < labelled, CLASSES, -1)
    trained, svms = (PairwiseHasher(**options, svm_share=share).fit(ROWS, labels) for share in (0.0, 1.0))
    of_label = np.array([trained.transform(ROWS[label == labels]).mean(axis=0) >= 0.5 for label in range(3)])
    targets, rows = of_label[labels[:labelled]], ROWS[:labelled].toarray()
    varying = [bit for bit in range(targets.shape[1]) if 0 < targets[:, bit].sum() < len(targets)]
    assert varying
    for bit in varying:
        one, zero = (rows[targets[:, bit] == side].sum(axis=0) + 0.1 for side in (True, False))
        ratio = np.log((one / one.sum()) / (zero / zero.sum()))
        expected = LinearSVC(random_state=0).fit(rows * ratio, targets[:, bit]).coef_[0] * ratio
        found = svms.encoder_layers_[0][0][:, bit]
        assert found @ expected / np.linalg.norm(found) / np.linalg.norm(expected) > 0.999


def test_svms_are_not_blended_with_hidden_layers() -> None:
    without, with_them = (
        PairwiseHasher(**{**QUICK, "epochs": 2}, hidden=(20,), svm_share=share).fit(ROWS, CLASSES)
        for share in (0.0, 1.0)
    )
    assert np.array_equal(without.encoder_layers_[-1][0], with_them.encoder_layers_[-1][0])


def test_labels_as_a_table_and_as_classes_give_the_same_codes() -> None:
    table = sparse.csr_array(np.eye(3, dtype=np.uint8)[CLASSES])
    one, other = (PairwiseHasher(**{**QUICK, "epochs": 3}).fit(ROWS, labels) for labels in (table, CLASSES))
    assert np.array_equal(one.transform(NEW_ROWS), other.transform(NEW_ROWS))


def test_a_few_labels_are_enough_if_most_documents_have_none() -> None:
    partly = np.where(np.arange(len(CLASSES)) < 30, CLASSES, -1)
    hasher = PairwiseHasher(**QUICK, reconstruction_weight=1.0).fit(ROWS, partly)
    assert precision(hasher) > 0.85


def test_pairs_alone_are_enough_to_learn_topics() -> None:
    generator = np.random.default_rng(0)
    pairs = generator.integers(0, len(CLASSES), (400, 2))
    same = CLASSES[pairs[:, 0]] == CLASSES[pairs[:, 1]]
    hasher = PairwiseHasher(**QUICK).fit_pairs(ROWS, pairs, same)
    assert precision(hasher) > 0.85


def test_a_validation_part_without_labels_is_evaluated_by_its_words() -> None:
    labels = sparse.csr_array(np.eye(3, dtype=np.uint8)[CLASSES] * (np.arange(300) < 6)[:, None])
    hasher = PairwiseHasher(**{**QUICK, "epochs": 2}, validation_fraction=0.05, refinements=0).fit(ROWS, labels)
    assert "held_out_loss" in hasher.history_[-1]


def test_documents_in_pairs_are_never_used_for_validation() -> None:
    hasher = PairwiseHasher(**{**QUICK, "epochs": 4}, validation_fraction=0.2, patience=1, refinements=0)
    hasher.fit_pairs(ROWS, [(0, 3), (0, 299)], [True, False])
    assert all("held_out_loss" in record for record in hasher.history_)


def test_a_corpus_with_all_documents_in_pairs_leaves_none_for_validation() -> None:
    pairs = np.arange(300).reshape(-1, 2)
    with pytest.raises(DataError, match=r"those in labelled pairs are always trained on; got: 0 documents"):
        PairwiseHasher(**QUICK, validation_fraction=0.2).fit_pairs(ROWS, pairs, np.arange(150) % 2)


def with_unused_words(rows: Any) -> Any:
    """Return the same rows with enough features for a linear encoder by default."""
    return sparse.hstack([rows, sparse.csr_array((rows.shape[0], 2000), dtype=np.float32)], format="csr")


def test_rows_with_64_bit_indices_give_the_same_codes() -> None:
    narrow = with_unused_words(ROWS)
    wide = narrow.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    first, second = (PairwiseHasher(**QUICK).fit(rows, CLASSES).transform(narrow) for rows in (narrow, wide))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("missing", [None, float("nan"), -1])
@pytest.mark.parametrize(("labelled", "words_count"), [(299, False), (150, False), (149, True)])
def test_words_have_full_weight_only_if_fewer_than_half_of_the_documents_are_labelled(
    labelled: int, words_count: bool, missing: Any
) -> None:
    def reconstruction_loss(labels: Any) -> float:
        hasher = PairwiseHasher(**{**QUICK, "epochs": 1}, n_neighbours=0).fit(with_unused_words(ROWS), labels)
        return hasher.history_[0]["reconstruction"]

    some = CLASSES.astype(object)
    some[labelled:] = missing
    assert reconstruction_loss(some) == pytest.approx(
        reconstruction_loss(CLASSES) * (100 if words_count else 1), rel=0.1
    )


@pytest.mark.parametrize("pairs", [[[0, 300]], [[-1, 0]], [[0, 1, 2]], np.zeros((0, 2), int)])
def test_pairs_out_of_range_are_refused(pairs: Any) -> None:
    with pytest.raises(DataError, match="pairs"):
        PairwiseHasher(**QUICK).fit_pairs(ROWS, pairs, np.ones(len(pairs)))


@pytest.mark.parametrize(
    ("rows", "same", "message"),
    [
        (ROWS, [1, -1], r"same must say whether each pair is similar \(allowed: True or False, 1 or 0; got: -1\)"),
        (ROWS, [[1], [0]], r"pairs or same has the wrong shape or type \(allowed: integers of shape \(m, 2\)"),
        (ROWS, True, r"pairs or same has the wrong shape or type"),
        (-ROWS, [1, 0], r"Negative values in data"),
    ],
)
def test_invalid_pairs_are_refused_with_the_reason(rows: Any, same: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        PairwiseHasher(**QUICK).fit_pairs(rows, [(0, 3), (0, 1)], same)


@pytest.mark.slow
@pytest.mark.parametrize("words", [0, 2000])
def test_similar_pairs_are_enough_to_learn_topics(words: int) -> None:
    """Trained on similar pairs only, all documents with few words would get one or two codes."""
    rows = sparse.hstack([ROWS, sparse.csr_array((300, words), dtype=np.float32)], format="csr")
    generator = np.random.default_rng(0)
    left = generator.integers(0, 300, 300)
    pairs = np.stack([left, (left + 3 * generator.integers(1, 100, 300)) % 300], axis=1)  # of one topic each
    codes = PairwiseHasher(16, random_state=0).fit_pairs(rows, pairs, np.ones(300, dtype=bool)).transform(rows)
    assert precision_at_k(codes, CLASSES, codes, CLASSES, k=50) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_pairs_of_a_small_corpus_are_enough_to_learn_its_topics_with_any_seed(seed: int) -> None:
    """With the full pair weight from the start, all documents got the same code for one seed in four."""
    generator = np.random.default_rng(1)
    noise = np.zeros((240, 16), dtype=np.float32)
    own = np.zeros((240, 30), dtype=np.float32)
    for row in range(240):
        noise[row, generator.choice(16, 6, replace=False)] = 1
        own[row, row % 3 * 10 + generator.choice(10, 6, replace=False)] = 1
    rows = sparse.csr_array(np.hstack([own, noise]) / np.float32(12**0.5))
    classes = np.arange(240) % 3
    pairs = generator.integers(0, 240, (300, 2))
    pairs[::2, 1] += pairs[::2, 0] % 3 - pairs[::2, 1] % 3  # half of them from one topic
    hasher = PairwiseHasher(16, random_state=seed).fit_pairs(rows, pairs, classes[pairs[:, 0]] == classes[pairs[:, 1]])
    codes = hasher.transform(rows)
    assert precision_at_k(codes, classes, codes, classes, k=50) > 0.95
