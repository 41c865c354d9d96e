"""Nested codes: every prefix of 8, 16, 32, ... bits is a code of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from fewbits import ITQ, BernoulliVAE, PairwiseHasher, precision_at_k
from fewbits.errors import ParameterError
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import read_hasher, write_hasher
from fewbits.nn.layers import SoftmaxReadout, SparseBatch
from fewbits.nn.nested import NestedReadout
from helpers.training import CLASSES, NEW_CLASSES, NEW_ROWS, ROWS

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")
PREFIXES = (8, 16, 32)


def wide(rows: Any) -> Any:
    """Add 2,000 words that no document has: the encoder is then linear and starts from a rotation."""
    return sparse.csr_array(sparse.hstack([rows, sparse.csr_array((rows.shape[0], 2000), dtype=np.float32)]))


FITS: dict[str, Callable[[], Any]] = {
    "vae, linear": lambda: BernoulliVAE(32, nested=True, epochs=50, random_state=0).fit(wide(ROWS)),
    "vae, hidden layer": lambda: BernoulliVAE(32, nested=True, epochs=6, random_state=0).fit(ROWS),
    "vae, sampled": lambda: BernoulliVAE(
        32, nested=True, estimator="arm", noise=True, smoothing=0, refinements=0, epochs=20, random_state=0
    ).fit(wide(ROWS)),
    "pairwise, linear": lambda: PairwiseHasher(32, nested=True, epochs=4, random_state=0).fit(wide(ROWS), CLASSES),
    "pairwise, hidden layer": lambda: PairwiseHasher(32, nested=True, epochs=4, random_state=0).fit(ROWS, CLASSES),
    "pairs alone": lambda: PairwiseHasher(32, nested=True, refinements=0, epochs=20, random_state=0).fit_pairs(
        wide(ROWS), np.arange(200).reshape(100, 2), CLASSES[:200:2] == CLASSES[1:200:2]
    ),
}


@pytest.fixture(scope="module", params=FITS)
def fitted(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return request.param, FITS[request.param]()


def rows_of(hasher: Any, rows: Any) -> Any:
    return rows if hasher.n_features_in_ == rows.shape[1] else wide(rows)


def test_a_truncated_hasher_gives_the_first_bits_of_the_code_and_of_the_margins(fitted: tuple[str, Any]) -> None:
    _, hasher = fitted
    rows = rows_of(hasher, NEW_ROWS)
    for length in PREFIXES:
        shorter = hasher.truncate(length)
        assert shorter.n_bits == length
        assert np.array_equal(shorter.transform(rows), hasher.transform(rows)[:, :length])
        assert np.allclose(shorter.margins(rows), hasher.margins(rows)[:, :length], atol=1e-5)
        assert np.array_equal(shorter.bit_balance_, hasher.bit_balance_[:length])
        assert shorter.bit_loadings().shape == (hasher.n_features_in_, length)
    assert hasher.transform(rows).shape == (rows.shape[0], 32)


def test_every_prefix_separates_the_topics(fitted: tuple[str, Any]) -> None:
    name, hasher = fitted
    new, old = (hasher.transform(rows_of(hasher, rows)) for rows in (NEW_ROWS, ROWS))
    for length in PREFIXES:
        precision = precision_at_k(new[:, :length], NEW_CLASSES, old[:, :length], CLASSES, k=50)
        assert precision > (0.6 if name == "vae, sampled" else 0.9)  # by chance 0.33


def test_truncating_twice_is_truncating_once(fitted: tuple[str, Any]) -> None:
    _, hasher = fitted
    rows = rows_of(hasher, NEW_ROWS)
    assert np.array_equal(hasher.truncate(16).truncate(8).margins(rows), hasher.truncate(8).margins(rows))


def test_nested_and_truncated_hashers_are_saved(fitted: tuple[str, Any], tmp_path: Path) -> None:
    _, hasher = fitted
    rows = rows_of(hasher, NEW_ROWS)
    for number, one in enumerate((hasher, hasher.truncate(16))):
        (tmp_path / str(number)).mkdir()
        write_hasher(one, tmp_path / str(number))
        loaded: Any = read_hasher(tmp_path / str(number))
        assert np.array_equal(loaded.margins(rows), one.margins(rows))
        assert np.array_equal(loaded.truncate(8).transform(rows), hasher.transform(rows)[:, :8])


def test_codes_are_the_same_without_torch(
    encode_without_torch: Callable[[Path, Any], Any], fitted: tuple[str, Any], tmp_path: Path
) -> None:
    _, hasher = fitted
    rows = rows_of(hasher, NEW_ROWS)
    write_hasher(hasher.truncate(16), tmp_path)
    assert np.array_equal(encode_without_torch(tmp_path, rows), hasher.transform(rows)[:, :16])


def test_the_first_8_bits_of_a_linear_encoder_start_from_a_code_of_8_bits() -> None:
    options: dict[str, Any] = {
        "epochs": 5,
        "learning_rate": 1e-7,
        "random_state": 0,
    }  # so that they stay where they are
    nested = BernoulliVAE(32, nested=True, **options).fit(wide(ROWS)).truncate(8)
    short = BernoulliVAE(8, **options).fit(wide(ROWS))
    assert np.allclose(nested.margins(wide(NEW_ROWS)), short.margins(wide(NEW_ROWS)), atol=1e-3)


def test_a_nested_training_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    options: dict[str, Any] = {"nested": True, "epochs": 3, "smoothing": 1, "random_state": 0}
    records: list[float] = []

    def interrupt(record: dict[str, float]) -> None:
        records.append(record["epoch"])
        if len(records) == 5:  # in the second epoch of the later bits
            raise InterruptedError

    with pytest.raises(InterruptedError):
        BernoulliVAE(16, **options, checkpoint=str(tmp_path / "a"), callbacks=[interrupt]).fit(wide(ROWS))
    assert records == [1, 2, 3, 1, 2]
    resumed = BernoulliVAE(16, **options, checkpoint=str(tmp_path / "a")).fit(wide(ROWS))
    whole = BernoulliVAE(16, **options).fit(wide(ROWS))
    assert np.array_equal(resumed.margins(wide(NEW_ROWS)), whole.margins(wide(NEW_ROWS)))


def test_a_prior_per_bit_is_truncated_with_its_bits() -> None:
    prior = tuple(np.linspace(0.3, 0.7, 16))
    hasher = BernoulliVAE(16, nested=True, prior=prior, epochs=1, random_state=0).fit(ROWS)
    assert hasher.truncate(8).get_params()["prior"] == prior[:8]


def test_class_codewords_are_distinct_in_the_shortest_prefix() -> None:
    classes = np.arange(len(CLASSES)) % 25
    hasher = PairwiseHasher(16, nested=True, epochs=1, svm_share=0.0, random_state=0).fit(wide(ROWS), classes)
    assert hasher.posterior_ is not None
    assert len(np.unique(hasher.posterior_.codewords[:, :8] >= 0, axis=0)) == 25


@pytest.mark.parametrize("n_bits", [4, 12, 24, 100])
@pytest.mark.parametrize("kind", [BernoulliVAE, PairwiseHasher])
def test_a_length_that_is_no_power_of_two_is_refused(kind: type[Hasher], n_bits: int) -> None:
    with pytest.raises(ParameterError, match=r"power of two.*8, 16, 32"):
        kind(n_bits, nested=True).fit(ROWS, CLASSES)  # type: ignore[call-arg]


def test_nested_must_be_true_or_false() -> None:
    with pytest.raises(ParameterError, match=r"nested is out of range.*True or False"):
        BernoulliVAE(16, nested="yes").fit(ROWS)  # type: ignore[arg-type]


@pytest.mark.parametrize("n_bits", [0, 4, 12, 64, True, 8.5, "8", None])
def test_only_the_lengths_of_the_prefixes_are_allowed(n_bits: Any) -> None:
    hasher = BernoulliVAE(32, nested=True, epochs=1, random_state=0).fit(ROWS)
    with pytest.raises(ParameterError, match="allowed: 8, 16, 32"):
        hasher.truncate(n_bits)


@pytest.mark.parametrize(
    "hasher", [ITQ(8, random_state=0), BernoulliVAE(8, epochs=1, random_state=0), PairwiseHasher(8, epochs=1)]
)
def test_other_codes_cannot_be_truncated(hasher: Any) -> None:
    with pytest.raises(ParameterError, match=r"only a nested code can be truncated.*nested=True"):
        hasher.fit(ROWS, CLASSES).truncate(8)


@pytest.mark.parametrize("with_noise", [False, True])
def test_the_loss_of_all_prefixes_is_their_sum_and_flips_are_those_by_evaluation(with_noise: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    prefixes = (2, 4, 7)

    def make(length: int) -> SoftmaxReadout:
        return SoftmaxReadout(length, torch.zeros(30), initial_scale=1.0, generator=generator)

    readout = NestedReadout(prefixes, make)
    targets = SparseBatch.from_rows(sparse.csr_array(ROWS[:5, :30]))
    codes, others = (torch.randint(2, (5, 7), generator=generator).float() for _ in range(2))
    shift = torch.randn(codes.shape, generator=generator) if with_noise else None
    loss = readout.loss(targets, shift)
    parts = [
        one.loss(targets, None if shift is None else shift[:, :length])(codes[:, :length])
        for one, length in zip(readout.readouts, prefixes, strict=True)
    ]
    assert torch.allclose(loss(codes), torch.stack(parts).sum(dim=0), atol=1e-5)
    both = loss.of_both(codes, others)
    assert torch.allclose(both[0], loss(codes), atol=1e-5)
    assert torch.allclose(both[1], loss(others), atol=1e-5)
    values, changes = loss.with_flips(codes)
    assert torch.allclose(values, loss(codes), atol=1e-5)
    if not with_noise:
        for bit in range(7):
            flipped = codes.clone()
            flipped[:, bit] = 1 - flipped[:, bit]
            assert torch.allclose(changes[:, bit], loss(flipped) - values, atol=1e-4)
