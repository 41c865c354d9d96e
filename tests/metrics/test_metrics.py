from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fewbits
from fewbits import (
    Dataset,
    RandomHyperplanes,
    bit_balance,
    bit_entropy,
    mean_average_precision,
    neighbour_recall,
    precision_at_k,
    random_floor,
    recall_within_radius,
    unique_code_ratio,
)
from fewbits.codes import hamming, pack
from fewbits.errors import DataError, ParameterError
from fewbits.metrics import asymmetric_precision_at_k, encoded_precision, inner_product_precision_at_k

Table = NDArray[np.uint8]


@dataclass(frozen=True)
class Case:
    """A small retrieval problem with many ties."""

    query_codes: Table
    query_labels: Table
    codes: Table
    labels: Table

    @property
    def parts(self) -> tuple[Table, Table, Table, Table]:
        return self.query_codes, self.query_labels, self.codes, self.labels

    @property
    def distances(self) -> Table:
        return (self.query_codes[:, None] != self.codes[None]).sum(axis=2)

    @property
    def relevant(self) -> NDArray[np.bool_]:
        return self.query_labels.astype(int) @ self.labels.T.astype(int) > 0


@st.composite
def cases(draw: st.DrawFn, multi_label: bool = True) -> Case:
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    queries, size, bits, n_labels = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 3)), 3
    labels = [generator.integers(0, 2, (rows, n_labels), dtype=np.uint8) for rows in (queries, size)]
    if not multi_label:
        labels = [np.eye(n_labels, dtype=np.uint8)[generator.integers(0, n_labels, rows)] for rows in (queries, size)]
    codes = [generator.integers(0, 2, (rows, bits), dtype=np.uint8) for rows in (queries, size)]
    return Case(codes[0], labels[0], codes[1], labels[1])


def average_over_orders(case: Case, value: Callable[[int, list[int]], float]) -> NDArray[np.float64]:
    """Average a function of (query, ranking) over every order in which the documents could stand before sorting."""
    means = []
    for query in range(len(case.query_codes)):
        rankings = [
            sorted(order, key=lambda row: case.distances[query, row]) for order in permutations(range(len(case.codes)))
        ]
        means.append(float(np.mean([value(query, ranking) for ranking in rankings])))
    return np.array(means)


@settings(max_examples=150)
@given(cases(), st.data())
def test_precision_is_the_average_over_all_orders_of_ties(case: Case, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(case.codes)))
    expected = average_over_orders(case, lambda query, ranking: case.relevant[query, ranking[:k]].mean()).mean()
    assert precision_at_k(*case.parts, k=k) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=100)
@given(cases(), st.data())
def test_asymmetric_precision_is_the_average_over_all_orders_of_equal_weighted_distances(
    case: Case, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(case.codes)))
    # few different weights, 0 among them: many documents with different codes are at the same distance
    weights = np.array([data.draw(st.sampled_from([0.0, 0.1, 0.2, 0.3])) for _ in range(case.codes.shape[1])])
    margins = np.where(case.query_codes > 0, weights, -weights)
    expected = []
    for query in range(len(case.query_codes)):
        distances = ((case.query_codes[query] != case.codes) * np.round(10 * weights).astype(int)).sum(axis=1)
        rankings = [sorted(order, key=distances.__getitem__) for order in permutations(range(len(case.codes)))]
        expected.append(np.mean([case.relevant[query, ranking[:k]].mean() for ranking in rankings]))
    found = asymmetric_precision_at_k(margins, case.query_labels, case.codes, case.labels, k=k)
    assert found == pytest.approx(np.mean(expected), abs=1e-12)


@given(cases(), st.data())
def test_asymmetric_precision_with_equal_weights_is_the_precision_at_k(case: Case, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(case.codes)))
    margins = np.where(case.query_codes > 0, 0.7, -0.7)
    found = asymmetric_precision_at_k(margins, case.query_labels, case.codes, case.labels, k=k)
    assert found == pytest.approx(precision_at_k(*case.parts, k=k), abs=1e-12)


def test_inner_product_precision_ranks_by_real_values_on_both_sides_in_blocks_of_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fewbits.metrics.ties.BLOCK_PAIRS", 100)  # three queries at a time
    generator = np.random.default_rng(0)
    queries, database = generator.normal(size=(20, 5)), generator.normal(size=(30, 5))
    query_labels, labels = generator.integers(0, 3, 20), generator.integers(0, 3, 30)
    nearest = np.argsort(-queries @ database.T, axis=1)[:, :7]
    expected = (labels[nearest] == query_labels[:, None]).mean()
    assert inner_product_precision_at_k(queries, query_labels, database, labels, k=7) == pytest.approx(expected)


@settings(max_examples=60)
@given(cases())
def test_average_precision_is_the_average_over_all_orders_of_ties(case: Case) -> None:
    def average_precision(query: int, ranking: list[int]) -> float:
        hits = case.relevant[query, ranking]
        precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        return float((precisions * hits).sum() / max(hits.sum(), 1))

    answerable = case.relevant.any(axis=1)
    values = average_over_orders(case, average_precision)[answerable]
    expected = values.mean() if answerable.any() else 0.0
    assert mean_average_precision(*case.parts) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60)
@given(cases(), st.data())
def test_neighbour_recall_is_the_average_over_all_orders_of_ties(case: Case, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(case.codes)))
    rows = st.lists(st.integers(0, len(case.codes) - 1), min_size=1, max_size=len(case.codes), unique=True)
    nearest = np.array([data.draw(rows)] * len(case.query_codes))
    expected = average_over_orders(
        case, lambda query, ranking: float(np.isin(nearest[query], ranking[:k]).mean())
    ).mean()
    assert neighbour_recall(case.query_codes, case.codes, nearest, k=k) == pytest.approx(expected, abs=1e-12)


@given(cases(), st.integers(0, 3))
def test_recall_within_a_radius_counts_relevant_documents_up_to_it(case: Case, radius: int) -> None:
    radius = min(radius, case.codes.shape[1])
    answerable = case.relevant.any(axis=1)
    inside = (case.relevant & (case.distances <= radius)).sum(axis=1)[answerable]
    expected = (inside / case.relevant.sum(axis=1)[answerable]).mean() if answerable.any() else 0.0
    assert recall_within_radius(*case.parts, radius=radius) == pytest.approx(expected)


@given(cases(multi_label=False))
def test_one_class_per_document_and_its_table_give_the_same(case: Case) -> None:
    queries, query_labels, codes, labels = case.parts
    as_classes = precision_at_k(queries, query_labels.argmax(axis=1), codes, labels.argmax(axis=1), k=1)
    assert as_classes == precision_at_k(*case.parts, k=1)


@given(cases())
def test_the_chance_level_is_the_precision_of_equal_codes(case: Case) -> None:
    queries, query_labels, codes, labels = case.parts
    blank = precision_at_k(queries * 0, query_labels, codes * 0, labels, k=len(codes))
    assert random_floor(query_labels, labels) == pytest.approx(blank)


@pytest.mark.xdist_group("archives")
def test_precision_on_ng20_agrees_with_random_tie_breaks(benchmark_set: Callable[[str], Dataset]) -> None:
    dataset = benchmark_set("ng20")
    hasher = RandomHyperplanes(8, random_state=0).fit(dataset.train.features)  # 256 codes: ties everywhere
    queries, database = hasher.transform(dataset.test.features), hasher.transform(dataset.train.features)
    exact = precision_at_k(queries, dataset.test.labels, database, dataset.train.labels, k=100)

    query_class, database_class = (part.labels.toarray().argmax(axis=1) for part in (dataset.test, dataset.train))
    codes, code_of = np.unique(queries, axis=0, return_inverse=True)  # queries of one code see one ranking
    distances = hamming(pack(codes), pack(database)).astype(np.float32)
    generator = np.random.default_rng(0)
    draws = []
    for _ in range(200):
        # one random order of the documents per draw breaks the ties
        broken = distances + generator.random(len(database), dtype=np.float32)[None, :] * 0.5
        nearest = np.argpartition(broken, 100, axis=1)[code_of, :100]
        draws.append((database_class[nearest] == query_class[:, None]).mean())
    error = np.std(draws, ddof=1) / np.sqrt(len(draws))
    print(f"exact {exact:.6f}, mean of 200 random tie-breaks {np.mean(draws):.6f}, standard error {error:.6f}")
    assert error > 0
    assert abs(np.mean(draws) - exact) < 3 * error


@pytest.mark.slow
def test_twenty_thousand_queries_against_a_hundred_thousand_documents_stay_in_bounded_memory() -> None:
    script = """
import numpy as np
from scipy import sparse
from fewbits import precision_at_k
from fewbits.benchmark.evaluate import reset_peak_memory, peak_memory_mb
generator = np.random.default_rng(0)
def part(rows):
    labels = sparse.csr_array((np.ones(rows, np.uint8), (np.arange(rows), generator.integers(0, 40, rows))), (rows, 40))
    return generator.integers(0, 2, (rows, 32), dtype=np.uint8), labels
queries, database = part(20_000), part(105_000)
reset_peak_memory()
before = peak_memory_mb()
value = precision_at_k(*queries, *database)
print(value, peak_memory_mb() - before)
"""
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    value, megabytes = map(float, output.split())
    assert value == pytest.approx(1 / 40, abs=0.002)
    assert megabytes < 300


def test_encoded_precision_is_the_precision_of_the_codes_of_a_hasher() -> None:
    generator = np.random.default_rng(0)
    queries, database = generator.normal(size=(5, 8)), generator.normal(size=(30, 8))
    query_labels, database_labels = generator.integers(0, 3, 5), generator.integers(0, 3, 30)
    hasher = RandomHyperplanes(16, random_state=0).fit(database)
    expected = precision_at_k(hasher.transform(queries), query_labels, hasher.transform(database), database_labels, k=7)
    assert encoded_precision(hasher, queries, query_labels, database, database_labels, k=7) == expected


def test_unique_code_ratio_keeps_its_former_name() -> None:
    assert fewbits.distinct_share is fewbits.unique_code_ratio


def test_bit_usage_of_a_small_table_of_codes() -> None:
    codes = np.array([[0, 1, 0], [1, 1, 0], [0, 1, 1], [1, 1, 0]])
    assert bit_balance(codes).tolist() == [0.5, 1.0, 0.25]
    assert bit_entropy(codes).tolist() == [1.0, 0.0, pytest.approx(0.811278, abs=1e-6)]
    assert unique_code_ratio(codes) == 0.75


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: precision_at_k([[0]], ["a"], [[1]], ["a"], k=2),
            ParameterError,
            r"k is out of range \(allowed: 1 to 1",
        ),
        (lambda: precision_at_k([[0]], ["a"], [[1]], ["a"], k=1.0), ParameterError, r"k is out of range.*got: 1.0"),  # type: ignore[arg-type]
        (
            lambda: precision_at_k([[0]], ["a"], [[1]], [[1]], k=1),
            DataError,
            "labels of queries and database differ in kind",
        ),
        (
            lambda: neighbour_recall([[0]], [[1]], [[-1]], k=1),
            DataError,
            r"nearest must contain row numbers of the database",
        ),
        (
            lambda: neighbour_recall([[0], [1]], [[1]], [[0]], k=1),
            DataError,
            r"allowed: \(2, neighbors\); got: \(1, 1\)",
        ),
        (lambda: random_floor([], ["a"]), DataError, "nothing to compare"),
        (lambda: precision_at_k([[0]], ["a"], [[1]], ["a"], k=0), ParameterError, "k is out of range"),
        (lambda: precision_at_k([[0]], ["a"], [[1, 0]], ["a"], k=1), DataError, "differ in length"),
        (lambda: precision_at_k([[0]], ["a"], [[1]], ["a", "b"], k=1), DataError, "labels of the database differ"),
        (lambda: precision_at_k([[0]], [[1]], [[1]], [[1, 0]], k=1), DataError, "different columns"),
        (lambda: asymmetric_precision_at_k([[0.1]], ["a"], [[1]], ["a"], k=2), ParameterError, "allowed: 1 to 1"),
        (lambda: asymmetric_precision_at_k([[0.1]], ["a"], [[1, 0]], ["a"], k=1), DataError, "differ in length"),
        (lambda: recall_within_radius([[0]], ["a"], [[1]], ["a"], radius=2), ParameterError, "allowed: 0 to 1"),
        (lambda: precision_at_k(np.zeros((0, 1)), [], [[1]], ["a"], k=1), DataError, "nothing to compare"),
    ],
)
def test_invalid_input_is_refused_with_the_reason(
    call: Callable[[], float], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
