"""The likelihood of the same label at a distance: calibrated on documents that took no part in the fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from fewbits import Document, SearchEngine
from fewbits.data import read_docstrings
from fewbits.errors import DataError
from fewbits.search.calibration import Calibration, fit_curve, split_held_out
from helpers.corpora import tiny_documents

HITS = 20
Pairs = tuple[NDArray[np.float64], NDArray[np.bool_]]


def calibration_of(engine: SearchEngine) -> Calibration | None:
    with engine.snapshot() as snapshot:
        return Calibration.of(snapshot.model.info)


def expected_calibration_error(predicted: NDArray[np.float64], happened: NDArray[np.bool_]) -> float:
    """Return the mean difference of predicted and observed shares over ten bins, weighted by their sizes."""
    bins = np.minimum((predicted * 10).astype(int), 9)
    return float(
        sum(
            np.mean(bins == one) * abs(predicted[bins == one].mean() - happened[bins == one].mean())
            for one in np.unique(bins)
        )
    )


def hits_of(engine: SearchEngine, documents: list[Document], *, by_words: bool, rank: str = "codes") -> Pairs:
    """Search for documents or three of their words; return the likelihood of each hit and whether it shares a label."""
    queries = [one.text for one in documents]
    if by_words:
        generator = np.random.default_rng(2)
        words = [np.array(engine.features.known_words(text) or ["nothing"]) for text in queries]
        queries = [" ".join(generator.choice(some, min(3, len(some)), replace=False)) for some in words]
    calibration = calibration_of(engine)
    assert calibration is not None
    predicted, happened = [], []
    for document, hits in zip(documents, engine.search_many(queries, HITS, rank=rank), strict=True):
        for hit in hits if not isinstance(hits, DataError) else ():
            query = "a short query" if by_words else None
            likelihood = calibration.same_label(hit.distance, query, by_codes=rank == "codes")
            predicted.append(-1.0 if likelihood is None else likelihood)
            happened.append(not set(hit.labels).isdisjoint(document.labels))
    return np.array(predicted), np.array(happened)


@pytest.fixture(scope="module")
def split_docstrings() -> tuple[list[Document], list[Document]]:
    """Return four fifths of the docstrings, labelled by their modules, and queries from the rest."""
    documents = [Document(one.id, one.text, one.labels[1:]) for one in read_docstrings()]
    order = np.random.default_rng(1).permutation(len(documents))
    cut = len(documents) // 5
    return [documents[place] for place in order[cut:]], [documents[place] for place in order[: min(cut, 1_000)]]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["itq", "pairwise"])
def test_likelihoods_hold_for_hits_of_unseen_documents(
    split_docstrings: tuple[list[Document], list[Document]], method: str
) -> None:
    train, unseen = split_docstrings
    engine = SearchEngine.from_documents(train, n_bits=32, method=method)
    calibration = calibration_of(engine)
    assert calibration is not None
    assert 100 <= calibration.held_out <= 500
    assert list(calibration.documents) == sorted(calibration.documents, reverse=True)
    assert len(calibration.documents) == len(calibration.queries) == len(calibration.hybrid) == 33
    for by_words, rank in ((False, "codes"), (True, "codes"), (True, "hybrid")):
        predicted, happened = hits_of(engine, unseen, by_words=by_words, rank=rank)
        assert predicted.min() >= 0
        error = expected_calibration_error(predicted, happened)
        queries = "three words" if by_words else "whole documents"
        print(f"{method}, {queries} by {rank}: calibration error {error:.3f}, {happened.mean():.3f} share a label")
        assert error <= 0.07
        # better than what is known without the distance
        assert ((predicted - happened) ** 2).mean() < ((happened.mean() - happened) ** 2).mean()


def labelled(count: int) -> Iterator[Document]:
    for number, one in enumerate(tiny_documents(count)):
        yield Document(number, one.text, one.labels)


def test_few_labelled_documents_are_all_learned_from_and_nothing_is_claimed() -> None:
    engine = SearchEngine.from_documents(labelled(600), n_bits=8, method="itq")
    assert calibration_of(engine) is None
    assert engine.info()["documents_learnt_from"] == 600
    unlabelled = [Document(one.id, one.text) for one in labelled(2_100)]
    assert calibration_of(SearchEngine.from_documents(unlabelled, n_bits=8, method="itq")) is None


def test_held_out_documents_are_not_learned_from_but_are_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    engine = SearchEngine.from_documents(labelled(2_100), n_bits=8, method="itq")
    calibration = calibration_of(engine)
    assert calibration is not None
    assert calibration.held_out == 105
    assert (engine.info()["documents_learnt_from"], len(engine)) == (1_995, 2_100)
    assert calibration.same_label(0) == pytest.approx(1, abs=0.05)  # the topics are told apart
    folder = tmp_path_factory.mktemp("engine") / "saved"
    engine.save(folder)
    assert calibration_of(SearchEngine.load(folder)) == calibration


def test_documents_outside_the_sample_are_held_out_without_cost() -> None:
    is_labelled = np.ones(1_000, dtype=np.bool_)
    held_out = split_held_out(is_labelled, np.arange(500))
    assert len(held_out) == 500
    assert held_out.min() >= 500
    assert not len(split_held_out(is_labelled, np.arange(1_000)))  # 5% would be too few


def test_a_likelihood_never_rises_with_the_distance() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        pairs = generator.integers(0, 50, 17).astype(np.float64)
        curve = fit_curve(pairs, np.floor(pairs * generator.random(17)))
        assert list(curve) == sorted(curve, reverse=True)
        assert 0 <= curve[-1] <= curve[0] <= 1
    assert fit_curve(np.zeros(5), np.zeros(5)) == ()
