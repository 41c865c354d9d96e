from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from fewbits import ITQ, Dataset, Hasher, RandomHyperplanes, precision_at_k
from fewbits.errors import DataError, EmptyDocumentsWarning, ParameterError
from fewbits.hashers._neural import NeuralHasher
from fewbits.hashers.registry import METHODS, make_hasher, read_hasher, write_hasher
from helpers.corpora import topic_rows

ALL = pytest.mark.parametrize("name", METHODS)
# enough to see whether a method keeps the contract
QUICK: dict[str, dict[str, Any]] = {
    "s-rbm": {"epochs": 2, "pretraining_epochs": 1, "hidden": (20, 20)},
    "ksh": {"n_steps": 20},
    "shttm": {"n_turns": 2, "topic_passes": 1},
}
DETERMINED = ("sph", "sth", "ssh", "ksh")  # nothing is drawn from so few documents
pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")


def quick(name: str, n_bits: Any, random_state: Any = None, **parameters: Any) -> Hasher:
    """Make a hasher that is fitted quickly."""
    return make_hasher(name, n_bits, random_state, **quick_parameters(name), **parameters)


def quick_parameters(name: str) -> dict[str, Any]:
    is_neural = issubclass(METHODS[name].hasher, NeuralHasher)
    return QUICK.get(name, {"epochs": 2} if is_neural else {})


def some_labels(count: int = 200) -> Any:
    return np.arange(count) % 3


def some_rows(count: int = 200, width: int = 300, seed: int = 0) -> Any:
    table = sparse.random_array((count, width), density=0.05, rng=np.random.default_rng(seed), dtype=np.float32)
    return sparse.csr_array(table)


@pytest.mark.filterwarnings("ignore::fewbits.errors.EmptyDocumentsWarning")
@parametrize_with_checks([quick(name, bits) for name in METHODS for bits in (7, 64)])
def test_every_hasher_keeps_scikit_learns_contract(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@ALL
def test_codes_are_bytes_of_0_and_1_with_the_given_length(name: str) -> None:
    codes = quick(name, 13, 0).fit(some_rows(), some_labels()).transform(some_rows())
    assert codes.shape == (200, 13)
    assert codes.dtype == np.uint8
    assert set(np.unique(codes)) == {0, 1}


@ALL
@settings(max_examples=25)
@given(st.permutations(range(30)), st.integers(1, 30))
def test_a_documents_code_is_the_same_alone_in_any_batch_and_in_any_order(
    name: str, order: list[int], size: int
) -> None:
    rows = some_rows(30)
    hasher = quick(name, 24, 0).fit(rows, some_labels(30))
    for table in (rows, rows.toarray()):
        expected = hasher.transform(table)[order]
        shuffled = table[order]
        batches = [hasher.transform(shuffled[start : start + size]) for start in range(0, 30, size)]
        assert np.array_equal(np.concatenate(batches), expected)


@ALL
def test_sparse_and_dense_rows_get_the_same_codes(name: str) -> None:
    rows = some_rows()
    hasher = quick(name, 16, 0).fit(rows, some_labels())
    assert np.array_equal(hasher.transform(rows), hasher.transform(rows.toarray()))


@ALL
def test_the_same_seed_gives_the_same_codes_and_another_seed_others(name: str) -> None:
    rows = some_rows()
    first, again, other = (quick(name, 32, seed).fit(rows, some_labels()).transform(rows) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) == (name in DETERMINED)


@ALL
def test_a_margin_is_0_or_more_exactly_where_the_bit_is_1(name: str) -> None:
    rows = some_rows(199)  # the median of an odd number of documents is one document's own value
    hasher = quick(name, 24, 0).fit(rows, some_labels(199))
    for X in (rows, some_rows(seed=1), sparse.csr_array((3, 300), dtype=np.float32)):
        margins, confidence = hasher.margins(X), hasher.bit_confidence(X)
        assert np.array_equal(margins >= 0, hasher.transform(X) == 1)
        assert margins.dtype == confidence.dtype == np.float32
        assert np.isfinite(margins).all()
        assert (confidence >= 0).all()
    assert len(np.unique(np.abs(hasher.margins(rows)).round(5))) > 10  # distances, not only sides


@ALL
def test_a_written_hasher_reads_back_with_the_same_codes(name: str, tmp_path: Path) -> None:
    rows = some_rows()
    hasher = quick(name, 20, 0).fit(rows, some_labels())
    write_hasher(hasher, tmp_path)
    again = read_hasher(tmp_path)
    assert again.get_params() == hasher.get_params()
    assert type(again) is type(hasher)
    assert np.array_equal(again.transform(rows), hasher.transform(rows))
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}


@ALL
def test_a_hasher_with_a_generator_as_its_seed_can_be_written(name: str, tmp_path: Path) -> None:
    hasher = quick(name, 8, np.random.RandomState(0)).fit(some_rows(), some_labels())
    write_hasher(hasher, tmp_path)
    assert np.array_equal(read_hasher(tmp_path).transform(some_rows()), hasher.transform(some_rows()))


@pytest.mark.slow
@ALL
def test_a_tall_table_of_many_words_is_never_made_dense(name: str) -> None:
    parameters = quick_parameters(name)
    if getattr(make_hasher(name, 32), "hidden", None):
        parameters = {**parameters, "hidden": (20, 20)}  # the size of the networks is not measured
    script = f"""
import numpy as np
from fewbits.benchmark.evaluate import reset_peak_memory, peak_memory_mb
from scipy import sparse
from fewbits.hashers.registry import make_hasher
import torch
table = sparse.random_array((10_000, 25_000), density=0.001, rng=np.random.default_rng(0))
rows = sparse.csr_array(table, dtype=np.float32)
reset_peak_memory()
before = peak_memory_mb()
make_hasher("{name}", 32, 0, **{parameters}).fit(rows, np.arange(10_000) % 3).transform(rows)
print(peak_memory_mb() - before)
"""
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    print(f"{name}: {float(output):.0f} MB")
    assert float(output) < 500  # dense it would be 1,000 MB


@ALL
@pytest.mark.parametrize("n_bits", [0, 2.5, None])
def test_a_code_length_out_of_range_is_refused_when_fitting(name: str, n_bits: Any) -> None:
    with pytest.raises(ParameterError, match=r"n_bits, the code length, is out of range.*32 to 128 bits suit"):
        quick(name, n_bits).fit(some_rows(), some_labels())


@ALL
def test_use_before_fitting_and_rows_of_another_width_are_refused(name: str) -> None:
    with pytest.raises(NotFittedError):
        quick(name, 8).transform(some_rows())
    with pytest.raises(ValueError, match="features"):
        quick(name, 8).fit(some_rows(), some_labels()).transform(some_rows(width=299))


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"unknown method \(allowed: lsh, s-rbm, .*; got: 'magic'\)"):
        make_hasher("magic", 8)


def test_differing_bits_of_random_hyperplanes_estimate_the_angle() -> None:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((40, 10))
    rows -= rows.mean(axis=0)
    codes = RandomHyperplanes(4000, random_state=0).fit_transform(rows)
    cosine = (rows @ rows.T) / np.outer(*[np.linalg.norm(rows, axis=1)] * 2)
    angle = np.arccos(np.clip(cosine, -1, 1)) / np.pi
    share = (codes[:, None] != codes[None]).mean(axis=2)
    assert np.abs(share - angle).max() < 0.05


def test_more_iterations_of_itq_lower_the_quantisation_error() -> None:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((500, 8)) * np.arange(1, 9)

    def error(n_iterations: int) -> float:
        hasher = ITQ(8, n_iterations=n_iterations, random_state=0).fit(rows)
        projected = rows @ hasher.weights_ - hasher.offsets_
        return float(((np.sign(projected) - projected) ** 2).sum())

    errors = [error(count) for count in (0, 1, 5, 50)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0]


def test_itq_takes_more_bits_than_the_features_have_dimensions() -> None:
    codes = ITQ(32, random_state=0).fit_transform(np.random.default_rng(0).standard_normal((50, 3)))
    assert codes.shape == (50, 32)
    assert len(np.unique(codes.T, axis=0)) > 16  # the bits differ from each other


@pytest.mark.xdist_group("archives")
def test_itq_is_far_above_random_hyperplanes_on_ng20(benchmark_set: Callable[[str], Dataset]) -> None:
    dataset = benchmark_set("ng20")

    def precision(name: str) -> float:
        hasher = make_hasher(name, 32, 0).fit(dataset.train.features)
        queries, database = hasher.transform(dataset.validation.features), hasher.transform(dataset.train.features)
        return precision_at_k(queries, dataset.validation.labels, database, dataset.train.labels)

    assert precision("itq") > 0.45 > 0.10 > precision("lsh") > 0.06


@pytest.mark.parametrize("method", ["itq", "lsh", "sph"])
def test_rows_that_cannot_be_used_are_errors_of_the_library(method: str) -> None:
    rows, _ = topic_rows(60)
    hasher = make_hasher(method, 8, 0).fit(rows)
    with pytest.raises(DataError, match=r"X has 5 features, but \w+ is expecting 100 features as input"):
        hasher.transform(rows[:, :5])
    with pytest.raises(DataError, match="contains NaN"):
        hasher.transform(np.full((2, 100), np.nan))
    with pytest.raises(DataError, match="could not convert string to float"):
        make_hasher(method, 8, 0).fit([["a", "b"]])


def test_linear_methods_warn_of_empty_rows() -> None:
    rows = np.asarray(topic_rows(60)[0].todense())
    rows[[4, 17]] = 0
    for table in (rows, sparse.csr_array(rows)):
        with pytest.warns(EmptyDocumentsWarning, match=r"2 of 60 documents are empty and do not .* \(rows 4, 17\)"):
            make_hasher("itq", 8, 0).fit(table)
