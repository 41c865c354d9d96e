"""Methods compared with brute force and known solutions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from fewbits import precision_at_k
from fewbits.errors import DataError, ParameterError
from fewbits.hashers.anchor_graph import anchor_weights
from fewbits.hashers.registry import METHODS, make_hasher
from fewbits.hashers.self_taught import neighbor_graph, smooth_vectors
from fewbits.hashers.spectral import smoothest_modes
from fewbits.nn.losses import gaussian_kl

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")
WEAK = ("lsh", "sph", "sth", "ssh", "shttm")
ROWS = 211  # not equal to any other size in these tests


def topic_corpus(
    count: int = ROWS, topics: int = 4, words_per_topic: int = 30, seed: int = 0
) -> tuple[Any, NDArray[np.int64]]:
    """Return documents on one topic each, with words of the topic and common words; rows of length 1."""
    generator = np.random.default_rng(seed)
    topic_of = generator.integers(0, topics, count)
    table = np.zeros((count, (topics + 1) * words_per_topic), dtype=np.float32)
    for row, topic in enumerate(topic_of):
        of_topic = np.where(generator.random(25) < 0.3, topics, topic)  # the last words are common to all topics
        np.add.at(table[row], generator.integers(0, words_per_topic, 25) + of_topic * words_per_topic, 1)
    return sparse.csr_array(table / np.linalg.norm(table, axis=1, keepdims=True)), topic_of


def uniform_box(ranges: tuple[float, ...], count: int = 2000) -> NDArray[np.float64]:
    """Return points of a box, rotated into a space of more dimensions."""
    generator = np.random.default_rng(0)
    points = (generator.random((count, len(ranges))) - 0.5) * ranges
    turn = np.linalg.qr(generator.standard_normal((6, 6)))[0][: len(ranges)]
    return np.asarray(points @ turn)


def test_spectral_hashing_cuts_uniform_data_where_the_analytic_eigenfunctions_change_sign() -> None:
    ranges = (5.0, 2.0)
    rows = uniform_box(ranges)
    hasher: Any = make_hasher("sph", 4).fit(rows)
    # By hand: the frequencies m / range are 1/5, 2/5, 1/2 and 3/5; products of two directions are no bits.
    assert hasher.modes_.tolist() == [[0, 1], [0, 2], [1, 1], [0, 3]]
    along = rows @ hasher.directions_
    place = (along - along.min(axis=0)) / np.ptp(along, axis=0)
    analytic = np.stack([np.cos(np.pi * m * place[:, direction]) for direction, m in hasher.modes_], axis=1)
    away = np.abs(analytic) > 1e-3  # a value at the cut itself may fall on either side
    assert ((hasher.transform(rows) == (analytic >= 0)) | ~away).all()


def test_the_analytic_eigenfunctions_are_those_of_a_graph_on_uniform_points() -> None:
    points = np.linspace(0, 1, 400)
    affinity = np.exp(-((points[:, None] - points) ** 2) / (2 * 0.02**2))
    laplacian = np.diag(affinity.sum(axis=1)) - affinity
    _, vectors = np.linalg.eigh(laplacian)
    for direction, waves in smoothest_modes(np.array([1.0]), 4):
        assert direction == 0
        analytic = np.cos(np.pi * waves * points)
        found = vectors[:, waves]  # the first vector is constant
        assert abs(analytic @ found) / np.linalg.norm(analytic) > 0.99


def test_a_row_outside_the_training_range_is_clipped_to_it() -> None:
    rows = np.linspace(0, 1, 50)[:, None] * np.array([[1.0, 0.0, 0.0]])
    hasher = make_hasher("sph", 3).fit(rows)
    assert np.array_equal(hasher.transform(rows[-1:] * 1.7), hasher.transform(rows[-1:]))


def test_self_taught_vectors_of_a_graph_with_two_parts_are_those_of_a_dense_solver() -> None:
    generator = np.random.default_rng(0)
    size = 700  # more than a dense solver is used for
    weights = sparse.random_array((size, size), density=0.03, rng=generator).toarray()
    weights[:300, 300:] = weights[300:, :300] = 0  # two parts
    graph = np.maximum(weights, weights.T)
    np.fill_diagonal(graph, 0)
    degrees = np.diag(graph.sum(axis=1))
    values, vectors = eigh(degrees - graph, degrees)  # L v = lambda D v, v'Dv = 1
    assert (values[:2] < 1e-9).all()
    assert values[2] > 1e-3
    found = smooth_vectors(sparse.csr_array(graph), 5, np.random.RandomState(0))
    assert np.abs(np.abs(np.sum(found[:, 1:] * (degrees @ vectors[:, 2:6]), axis=0)) - 1).max() < 1e-4
    # Of the two eigenvectors of eigenvalue 0, the constant one is left out; the other separates the parts.
    assert np.abs(degrees @ found[:, 0] @ np.ones(size)).max() < 1e-4
    assert np.ptp(found[:300, 0]) < 1e-6
    assert np.ptp(found[300:, 0]) < 1e-6
    assert found[0, 0] * found[-1, 0] < 0


def test_a_few_unconnected_documents_use_no_bit() -> None:
    graph = np.ones((300, 300)) * np.random.default_rng(0).random((300, 300)).round(1)
    graph[:298, 298:] = graph[298:, :298] = 0
    graph = np.triu(graph, 1) + np.triu(graph, 1).T
    found = smooth_vectors(sparse.csr_array(graph), 5, np.random.RandomState(0))
    assert np.abs(found[298:]).max() < 1e-9


@pytest.mark.parametrize("name", ["sth", "agh"])
def test_topics_of_a_corpus_in_two_parts_without_common_words_are_separated(name: str) -> None:
    (one, topics_of_one), (other, topics_of_other) = topic_corpus(700), topic_corpus(500, seed=5)
    order = np.random.default_rng(0).permutation(1200)
    rows = sparse.csr_array(sparse.block_diag([one, other]))[order]
    topic_of = np.concatenate([topics_of_one, topics_of_other + 4])[order]
    hasher = make_hasher(name, 8, 0).fit(rows[:900])
    codes = hasher.transform(rows)
    assert precision_at_k(codes[900:], topic_of[900:], codes[:900], topic_of[:900], k=50) > 0.95


def test_the_smooth_vector_of_two_documents_separates_them() -> None:
    graph = sparse.csr_array(np.array([[0.0, 0.5], [0.5, 0.0]]))
    vectors = smooth_vectors(graph, 4, np.random.RandomState(0))
    assert vectors.shape == (2, 1)
    assert vectors[0, 0] == pytest.approx(-vectors[1, 0])


def test_the_neighbour_graph_is_symmetric_without_loops_and_holds_each_documents_nearest() -> None:
    rows, _ = topic_corpus()
    graph = neighbor_graph(rows, 5).toarray()
    assert np.array_equal(graph, graph.T)
    assert not graph.diagonal().any()
    cosines = (rows @ rows.T).toarray()
    np.fill_diagonal(cosines, -1)
    nearest = cosines.argmax(axis=1)
    assert np.allclose(graph[np.arange(ROWS), nearest], cosines[np.arange(ROWS), nearest], atol=1e-6)


def test_every_bit_of_kernel_hashing_explains_more_of_the_similarity() -> None:
    rows, topic_of = topic_corpus()
    hasher: Any = make_hasher("ksh", 8, 0).fit(rows, topic_of)
    assert (np.diff([0, *hasher.objective_]) > 0).all()
    assert hasher.objective_[-1] > 0.5
    signs = hasher.transform(rows).astype(np.float64) * 2 - 1
    similarity = 8 * np.where(np.equal.outer(topic_of, topic_of), 1, -1)
    left = [similarity - signs[:, :bit] @ signs[:, :bit].T for bit in range(1, 9)]
    assert np.allclose(hasher.objective_, [1 - (rest**2).sum() / (similarity**2).sum() for rest in left], atol=1e-6)


def test_the_reconstruction_error_of_boltzmann_machines_decreases() -> None:
    rows, _ = topic_corpus()
    parameters: dict[str, Any] = {"hidden": (30, 20), "pretraining_epochs": 8, "epochs": 3, "batch_size": 20}
    errors = make_hasher("s-rbm", 8, 0, **parameters).fit(rows).pretraining_errors_
    assert errors.shape == (3, 8)
    assert errors[0, -1] < 0.9 * errors[0, 0]
    assert (errors[:, -1] < errors[:, 0]).all()


def test_the_gaussian_divergence_is_that_of_torch_and_of_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_variance = torch.randn(2, 5, 3, generator=generator)
    spread = torch.distributions.Normal(mean, torch.exp(log_variance / 2))
    standard = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    found = gaussian_kl(mean, log_variance)
    assert torch.allclose(found, torch.distributions.kl_divergence(spread, standard).sum(dim=1), atol=1e-5)
    drawn = mean + torch.exp(log_variance / 2) * torch.randn(200_000, 5, 3, generator=generator)
    ratios: torch.Tensor = spread.log_prob(drawn) - standard.log_prob(drawn)  # type: ignore[no-untyped-call]
    ratios = ratios.sum(dim=2)
    assert ((ratios.mean(dim=0) - found).abs() < 4 * ratios.std(dim=0) / 200_000**0.5).all()


def test_topics_that_were_planted_are_found_by_tag_topic_hashing() -> None:
    rows, topic_of = topic_corpus(400)
    hasher: Any = make_hasher("shttm", 8, 0, topic_passes=20).fit(rows, topic_of)
    by_planted = hasher.topics_.reshape(8, 5, 30).sum(axis=2)  # (topics found, planted topics and common words)
    of_own_words = by_planted[:, :4] / by_planted[:, :4].sum(axis=1, keepdims=True)
    assert (of_own_words.max(axis=0) > 0.9).all()  # every planted topic is some found one, nearly pure


@pytest.mark.parametrize("name", ["vdsh", "nash"])
def test_rows_encoded_in_blocks_have_the_same_codes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = topic_corpus()
    hasher = make_hasher(name, 8, 0, epochs=2, hidden=(20, 10)).fit(rows)
    together = hasher.transform(rows)
    monkeypatch.setattr("fewbits.hashers.base.BLOCK_ROWS", 7)
    assert np.array_equal(hasher.transform(rows), together)
    assert len(np.unique(together, axis=0)) > 1


def test_the_functions_of_anchor_graph_hashing_are_eigenvectors_of_its_graph_by_a_dense_solver() -> None:
    rows, _ = topic_corpus()
    hasher: Any = make_hasher("agh", 4, 0, n_anchors=20).fit(rows)
    fitted = hasher.directions_, hasher.anchors_, hasher.bandwidth_
    z = anchor_weights(rows, *fitted, hasher.n_nearest).toarray().astype(float)
    graph = z @ np.diag(1 / z.sum(axis=0)) @ z.T  # similarities of the documents; rows sum to 1
    assert np.allclose(graph.sum(axis=1), 1)
    _, vectors = np.linalg.eigh(graph)
    expected = vectors[:, ::-1][:, 1:5]  # without the constant one
    found = z @ hasher.weights_
    found /= np.linalg.norm(found, axis=0)
    assert np.abs(np.abs((found * expected).sum(axis=0)) - 1).max() < 1e-3


def test_the_objective_of_tag_topic_hashing_has_a_zero_gradient_at_its_codes_and_factors() -> None:
    generator = np.random.default_rng(0)
    hasher: Any = make_hasher("shttm", 5, 0, n_turns=1)
    tags = sparse.csr_array(generator.random((30, 4)) < 0.3, dtype=np.uint8)  # several labels, and none in some rows
    theta = generator.standard_normal((30, 5))
    codes = torch.from_numpy(hasher._codes(theta, tags, np.random.RandomState(0))).requires_grad_()
    start = theta + 0.01 * np.random.RandomState(0).standard_normal(theta.shape)
    labelled = torch.from_numpy(np.diff(tags.indptr) > 0)[:, None]
    targets = torch.from_numpy(tags.toarray().astype(float))
    confidence = torch.where(targets > 0, torch.tensor(1.0).double(), hasher.absent) * labelled

    def objective(codes: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        misfit = (confidence * (targets - codes @ factors) ** 2).sum()
        ridge = hasher.tag_ridge * (factors**2).sum()
        return misfit + ridge + hasher.topic_weight * ((codes - torch.from_numpy(theta)) ** 2).sum()

    # One iteration: factors for the start, then codes for these factors.
    left = torch.einsum("nt,nk,nl->tkl", confidence, torch.from_numpy(start), torch.from_numpy(start))
    right = torch.einsum("nt,nk->tk", confidence * targets, torch.from_numpy(start))
    factors = torch.linalg.solve(left + hasher.tag_ridge * torch.eye(5), right).T
    (slope,) = torch.autograd.grad(objective(codes, factors), codes)
    assert slope.abs().max() < 1e-7
    loose = factors.clone().requires_grad_()
    (slope,) = torch.autograd.grad(objective(torch.from_numpy(start), loose), loose)
    assert slope.abs().max() < 1e-7


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.setting != "unsupervised"])
def test_documents_with_several_labels_and_without_labels_are_used(name: str) -> None:
    rows, topic_of = topic_corpus(300)
    labels = np.eye(4, dtype=np.uint8)[topic_of]
    labels[::5, 0] = 1
    labels[::3] = 0  # a third is unlabelled
    quick: dict[str, Any] = {}
    if "epochs" in METHODS[name].hasher().get_params():
        quick = {"epochs": 60, "batch_size": 20}
    if METHODS[name].preset.get("hidden"):
        quick["hidden"] = (50, 50)
    hasher = make_hasher(name, 8, 0, **quick).fit(rows, sparse.csr_array(labels))
    codes = hasher.transform(rows)
    assert precision_at_k(codes[::3], topic_of[::3], codes, topic_of, k=30) > 0.4  # a random ranking has 1 in 4


@pytest.mark.parametrize("name", METHODS)
def test_planted_topics_are_separated_by_every_method(name: str) -> None:
    rows, topic_of = topic_corpus(600, topics=6)
    quick: dict[str, Any] = {"s-rbm": {"hidden": (50, 50), "batch_size": 20, "pretraining_epochs": 10}}.get(name, {})
    if "epochs" in METHODS[name].preset:
        quick = {"epochs": 60, "batch_size": 20}
    hasher = make_hasher(name, 16, 0, **quick).fit(rows[:400], topic_of[:400])
    precision = precision_at_k(
        hasher.transform(rows[400:]), topic_of[400:], hasher.transform(rows[:400]), topic_of[:400], k=30
    )
    # A random ranking has 1 in 6. The weak ones have good bits and, from few topics, many without information.
    assert precision > (0.3 if name in WEAK else 0.8)


@pytest.mark.parametrize("name", METHODS)
def test_no_fitted_array_has_an_entry_per_training_document(name: str) -> None:
    rows, topic_of = topic_corpus()
    parameters = {"n_anchors": 40} if name in ("ksh", "agh") else {}
    if "epochs" in METHODS[name].hasher().get_params():
        parameters = {"epochs": 1}
    hasher = make_hasher(name, 8, 0, **parameters).fit(rows, topic_of)
    assert ROWS not in set(itertools.chain(*(array.shape for array in hasher._arrays_by_name().values())))


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.setting != "unsupervised"])
def test_a_method_that_learns_from_labels_refuses_none_one_class_and_too_many(name: str) -> None:
    rows, _ = topic_corpus()
    with pytest.raises(DataError, match="requires y to be passed"):
        make_hasher(name, 8).fit(rows)
    with pytest.raises(DataError, match="same class"):
        make_hasher(name, 8).fit(rows, np.zeros(ROWS))
    with pytest.raises(DataError, match="differ in number"):
        make_hasher(name, 8).fit(rows, np.arange(ROWS + 1) % 2)
    with pytest.raises(DataError, match="no document has a label"):
        make_hasher(name, 8).fit(rows, np.full(ROWS, -1))


def test_documents_of_a_class_share_one_codeword() -> None:
    rows, topic_of = topic_corpus()
    codes = make_hasher("class-code", 8, 0).fit(rows, topic_of).transform(rows)
    assert len(np.unique(codes, axis=0)) == 4
    assert all(len(np.unique(codes[topic_of == topic], axis=0)) == 1 for topic in range(4))


@pytest.mark.parametrize("name", METHODS)
def test_rows_with_64_bit_indices_give_the_same_codes_with_every_method(name: str) -> None:
    rows, topic_of = topic_corpus()
    wide = rows.copy()
    wide.indices, wide.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    parameters = {"epochs": 1} if "epochs" in METHODS[name].hasher().get_params() else {}
    codes, of_wide = (make_hasher(name, 8, 0, **parameters).fit(x, topic_of).transform(x) for x in (rows, wide))
    assert np.array_equal(codes, of_wide)


def test_a_class_code_with_fewer_codewords_than_classes_is_refused() -> None:
    rows, _ = topic_corpus()
    with pytest.raises(ParameterError, match=r"too few bits.*allowed: 3 or more; got: 2"):
        make_hasher("class-code", 2).fit(rows, np.arange(ROWS) % 5)


def test_an_unknown_kind_of_supervision_is_refused() -> None:
    rows, topic_of = topic_corpus()
    with pytest.raises(ParameterError, match=r"supervision is unknown \(allowed: none, shared, private; got: 'both'\)"):
        make_hasher("vdsh", 8, supervision="both").fit(rows, topic_of)
