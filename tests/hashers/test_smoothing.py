"""The smoothed latent space, and the start of the Bernoulli VAE from its rotation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fewbits import BernoulliVAE
from fewbits.benchmark.spec import Spec
from fewbits.hashers import bernoulli_vae
from fewbits.hashers._parameters import default_neighbors
from fewbits.hashers._smoothing import SMALL, agreement, nested_start, rotated_start, smoothed_space
from fewbits.hashers.bernoulli_vae import most_frequent_words
from fewbits.hashers.registry import METHODS, make_hasher, read_hasher, write_hasher
from fewbits.storage import read_json, write_json
from helpers.corpora import topic_rows
from helpers.training import CLASSES, NEW_ROWS, ROWS, precision

pytestmark = pytest.mark.filterwarnings(
    "ignore::fewbits.hashers._neural.ConstantBitsWarning", "ignore::fewbits.errors.EmptyDocumentsWarning"
)


def wide_rows(count: int = 60) -> Any:
    """Return rows of more than 2,000 words, most of which occur in no document."""
    rows, _ = topic_rows(count)
    return sparse.csr_array(sparse.hstack([rows, sparse.csr_array((count, 2000), dtype=np.float32)]))


def test_neighbors_in_the_smoothed_space_share_a_topic_more_often() -> None:
    rounds = [smoothed_space(ROWS, 10, 50, number, 0).neighbors for number in (0, 2)]
    purity = [(CLASSES[some] == CLASSES[:, None]).mean() for some in rounds]
    assert purity[1] > purity[0] + 0.02


def test_the_start_has_logits_of_the_given_spread_whose_signs_are_codes() -> None:
    space = smoothed_space(ROWS, 10, 50, 1, 0)
    start = rotated_start(ROWS, space.weights, 8, 0)
    assert start is not None
    logits = ROWS @ start[0] + start[1]
    assert logits.std() == pytest.approx(3, rel=1e-3)
    assert np.abs(logits.mean(axis=0)).max() < 1e-3


def test_equal_rows_have_no_start() -> None:
    rows = sparse.csr_array(np.ones((20, 30), dtype=np.float32) / 30**0.5)
    assert rotated_start(rows, smoothed_space(rows, 5, 10, 1, 0).weights, 8, 0) is None


def test_codes_that_separate_the_topics_agree_more_with_the_space_than_random_ones() -> None:
    places = np.asarray(ROWS @ smoothed_space(ROWS, 10, 50, 1, 0).weights)
    random = np.random.default_rng(0).random((len(CLASSES), 3)) < 0.5
    assert agreement(places, np.eye(3, dtype=bool)[CLASSES], 0) > agreement(places, random, 0) + 0.1


def test_training_starts_from_the_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"n_bits": 8, "hidden": (), "epochs": 1, "learning_rate": 1e-9, "random_state": 0}
    started, random = (BernoulliVAE(**options, smoothing=rounds).fit(ROWS) for rounds in (1, 0))
    assert precision(started) > precision(random) + 0.1


@pytest.mark.parametrize(("starts", "trainings"), [(None, 4), (2, 2), (0, 1)])
def test_short_codes_are_trained_from_several_starts(starts: int | None, trainings: int) -> None:
    records: list[dict[str, float]] = []
    options: dict[str, Any] = {"hidden": (), "epochs": 2, "smoothing": 1, "starts": starts, "random_state": 0}
    BernoulliVAE(8, **options, callbacks=[records.append]).fit(ROWS)
    assert [record["epoch"] for record in records] == [1, 2] * trainings
    records.clear()
    BernoulliVAE(16, **options, callbacks=[records.append]).fit(ROWS)
    assert [record["epoch"] for record in records] == [1, 2]


def test_earlier_short_codes_had_three_starts_on_large_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bernoulli_vae, "SMALL_CORPUS", 50)
    records: list[dict[str, float]] = []
    options: dict[str, Any] = {"hidden": (), "epochs": 2, "smoothing": 1, "starts": 0, "random_state": 0}
    BernoulliVAE(8, **options, callbacks=[records.append]).fit(ROWS)
    assert [record["epoch"] for record in records] == [1, 2] * 3


def test_the_start_that_is_kept_agrees_most_with_the_smoothed_space() -> None:
    options: dict[str, Any] = {"hidden": (), "epochs": 3, "smoothing": 1, "random_state": 1}
    seed = BernoulliVAE(8, **options)._seed()
    space = smoothed_space(ROWS, default_neighbors(ROWS), 64, 1, seed)
    places = np.asarray(ROWS @ space.weights)
    agreements = [
        agreement(places, BernoulliVAE(8, **options, starts=count).fit(ROWS).margins(ROWS) >= 0, seed)
        for count in (1, 2, 3, 4)
    ]
    assert agreements == sorted(agreements)
    assert agreements[-1] > agreements[0]


def test_the_second_start_is_a_rotation_of_the_latent_space(monkeypatch: pytest.MonkeyPatch) -> None:
    started_from: list[Any] = []
    original = nested_start

    def recorded(X: Any, weights: Any, *rest: Any) -> Any:
        started_from.append(weights)
        return original(X, weights, *rest)

    monkeypatch.setattr("fewbits.hashers.bernoulli_vae.nested_start", recorded)
    BernoulliVAE(8, hidden=(), epochs=1, smoothing=1, starts=2, random_state=0).fit(ROWS)
    smoothed, latent = started_from
    assert np.allclose(latent.T @ latent, np.eye(latent.shape[1]), atol=1e-3)  # singular vectors
    assert not np.allclose(smoothed.T @ smoothed, np.eye(smoothed.shape[1]), atol=0.1)


@pytest.mark.slow
def test_training_takes_steps_not_epochs() -> None:
    assert len(BernoulliVAE(4, random_state=0).fit(wide_rows()).history_) == 600  # one batch of 60 documents


def test_the_decoder_predicts_frequent_words_and_has_a_row_for_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(SMALL, decoded_words=30)
    monkeypatch.setattr(bernoulli_vae, "SMALL", small)
    hasher = BernoulliVAE(8, epochs=1, smoothing=1, hidden=(), random_state=0).fit(ROWS)
    words = most_frequent_words(ROWS, 30)
    assert words is not None
    assert set(np.flatnonzero(np.abs(hasher.decoder_embeddings_).sum(axis=1))) == set(words)
    assert hasher.decoder_bias_.shape == (ROWS.shape[1],)
    assert (np.bincount(ROWS.indices)[words].min()) >= np.sort(np.bincount(ROWS.indices))[-30]


@pytest.mark.parametrize(
    "rows",
    [
        wide_rows()[:2],
        wide_rows()[:3],
        wide_rows(8),
        sparse.csr_array(sparse.vstack([wide_rows(20), sparse.csr_array((3, 2100), dtype=np.float32)])),
        wide_rows(12).toarray(),
    ],
    ids=["two documents", "three documents", "eight documents", "empty rows", "dense rows"],
)
def test_tiny_corpora_and_empty_rows_can_be_fitted(rows: Any) -> None:
    codes = BernoulliVAE(16, epochs=2, random_state=0).fit_transform(rows)
    assert codes.shape == (rows.shape[0], 16)


@pytest.mark.parametrize("n_bits", [1, 300])
def test_codes_may_be_shorter_or_longer_than_the_space_has_dimensions(n_bits: int) -> None:
    hasher = BernoulliVAE(n_bits, epochs=2, random_state=0).fit(wide_rows())
    assert np.isfinite(hasher.margins(wide_rows())).all()


@pytest.mark.parametrize(
    "options", [{"refinements": 1}, {"n_neighbours": 5}, {"n_neighbours": 0}, {"smoothing": 2}, {"starts": 3}]
)
def test_given_parameters_go_with_smoothing(options: dict[str, Any]) -> None:
    hasher = BernoulliVAE(8, epochs=2, random_state=0, **options).fit(wide_rows())
    assert hasher.transform(wide_rows()).shape == (60, 8)


def test_an_interrupted_training_resumes_to_the_same_codes(tmp_path: Path) -> None:
    def interrupt(record: dict[str, float]) -> None:
        if record["epoch"] == 2:
            raise InterruptedError

    options: dict[str, Any] = {"n_bits": 8, "hidden": (), "epochs": 4, "smoothing": 1, "random_state": 0}
    with pytest.raises(InterruptedError):
        BernoulliVAE(**options, checkpoint=str(tmp_path / "a"), callbacks=[interrupt]).fit(ROWS)
    resumed = BernoulliVAE(**options, checkpoint=str(tmp_path / "a")).fit(ROWS)
    assert np.array_equal(resumed.margins(NEW_ROWS), BernoulliVAE(**options).fit(ROWS).margins(NEW_ROWS))


@pytest.mark.parametrize("method", METHODS)
def test_a_run_with_legacy_values_has_the_key_that_it_had_before_the_parameters_existed(method: str) -> None:
    legacy = METHODS[method].hasher.legacy_values
    recorded = Spec(method, "ng20", 8, 0, parameters=dict(legacy)).all_parameters
    assert not set(legacy) & set(recorded)
    defaults = Spec(method, "ng20", 8, 0).all_parameters
    preset = make_hasher(method, 8).get_params()
    assert set(defaults) - set(recorded) == {name for name, value in legacy.items() if preset[name] != value}
    assert ("smoothing" in defaults) == (method == "bernoulli-vae")


@pytest.mark.parametrize("changed", [{"bits": 16}, {"smoothing": 0}])
def test_the_number_of_starts_is_recorded_only_where_there_can_be_several(changed: dict[str, int]) -> None:
    options = {"bits": 8, **changed}
    assert "starts" in Spec("bernoulli-vae", "ng20", 8, 0).all_parameters
    spec = Spec("bernoulli-vae", "ng20", options.pop("bits"), 0, parameters=options)
    assert "starts" not in spec.all_parameters


def test_a_hasher_saved_before_the_parameters_existed_has_their_legacy_values(tmp_path: Path) -> None:
    write_hasher(make_hasher("bernoulli-vae", 8, 0, epochs=1, smoothing=0).fit(ROWS), tmp_path)
    content = read_json(tmp_path / "hasher.json")
    del content["parameters"]["smoothing"]
    write_json(tmp_path / "hasher.json", content)
    assert read_hasher(tmp_path).get_params()["smoothing"] == 0
