"""Experiments: the facts are measured, saved, loaded and rendered."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fewbits import Dataset, PairwiseHasher, Split
from fewbits.benchmark.experiments import (
    EXPERIMENTS,
    EstimatorComparison,
    Experiment,
    KnownItemSearch,
    LatentSpace,
    NestedComparison,
    ServiceLoad,
    SupervisionComparison,
    TrainingTime,
)
from fewbits.benchmark.experiments.known_items import TitledDocument
from fewbits.benchmark.experiments.latent import nearest_words
from fewbits.benchmark.experiments.speed import time_to_quality
from fewbits.benchmark.experiments.supervision import draw_pairs, sample_labels
from fewbits.errors import ParameterError
from fewbits.metrics import encoded_precision
from fewbits.nn.gradient_estimators import ESTIMATORS
from fewbits.storage import write_json
from helpers.corpora import tiny_documents, topic_rows
from helpers.results import ROOT, make_result

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")
ROWS, CLASSES = topic_rows(600)  # more than 100 of each topic among the first 400: the precision at 100 can be 1
LABELS = sparse.csr_array(np.eye(3, dtype=np.uint8)[CLASSES])


@pytest.fixture
def dataset() -> Dataset:
    train, validation, test = (
        Split(list(range(part.start, part.stop)), None, ROWS[part], LABELS[part])
        for part in (slice(0, 400), slice(400, 500), slice(500, 600))
    )
    words = [f"w{number}" for number in range(ROWS.shape[1])]
    return Dataset("toy", train, validation, test, words, ["a", "b", "c"], "f" * 64)


@pytest.mark.parametrize("experiment", [one for one in EXPERIMENTS if one.page], ids=lambda one: one.folder)
def test_a_committed_page_matches_the_committed_facts(experiment: type[Experiment[Any]]) -> None:
    facts, page = experiment.load(ROOT / "results"), ROOT / "docs" / str(experiment.page)
    if facts:
        assert page.read_text() == experiment.render(facts)
    else:
        assert not page.exists()


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.folder)
def test_committed_facts_are_saved_under_their_names_with_their_contents(
    experiment: type[Experiment[Any]], tmp_path: Path
) -> None:
    files = (ROOT / "results" / experiment.folder).glob("*")
    committed = {path.name: json.loads(path.read_text()) for path in files}
    written = [experiment.save(facts, tmp_path) for facts in experiment.load(ROOT / "results")]
    assert {path.name for path in written} == committed.keys()
    for path in written:
        saved, before = json.loads(path.read_text()), committed[path.name]
        assert _with_keys_of(saved, before) == before


def _with_keys_of(saved: Any, before: Any) -> Any:
    """Leave out what the file does not have, because it is older; these values are None."""
    if isinstance(before, list):
        return [_with_keys_of(*pair) for pair in zip(saved, before, strict=True)]
    if isinstance(before, dict):
        assert all(saved[key] is None for key in saved.keys() - before.keys())
        return {key: _with_keys_of(saved[key], value) for key, value in before.items()}
    return saved


def test_numbers_in_file_names_are_ordered_by_value(tmp_path: Path) -> None:
    for bits in (128, 8, 32):
        write_json(tmp_path / "estimators" / f"estimators-toy-{bits}bits.json", [estimator_facts(bits)])
    assert [facts[0].bits for facts in EstimatorComparison.load(tmp_path)] == [8, 32, 128]


def estimator_facts(bits: int) -> dict[str, Any]:
    figures = {"relative_variance": 1.0, "relative_bias": 0.0, "milliseconds": 1.0}
    return {"estimator": "arm", "dataset": "toy", "bits": bits, "is_unbiased": True, **figures}


def test_estimators_differ_in_variance_and_bias_as_theory_says(dataset: Dataset, tmp_path: Path) -> None:
    [measured] = EstimatorComparison(dataset, [8]).measure()
    facts = {one.estimator: one for one in measured}
    assert set(facts) == set(ESTIMATORS)
    assert facts["arm"].relative_variance == pytest.approx(1.0)
    assert facts["flip"].relative_variance < facts["disarm"].relative_variance < 1.05
    assert facts["arm"].relative_bias < 0.2  # sampling noise of its mean
    assert facts["flip"].relative_bias < facts["gumbel-softmax"].relative_bias
    assert all(one.milliseconds > 0 for one in measured)
    EstimatorComparison.save(measured, tmp_path)
    assert EstimatorComparison.load(tmp_path) == [measured]
    page = EstimatorComparison.render([measured])
    assert "## toy, 8 bits" in page
    assert "| arm | 1.0000 | none |" in page
    assert "fewbits bench estimators --dataset toy --bits 8 --save" in page


def test_known_items_are_searched_with_every_ranking(tmp_path: Path) -> None:
    documents = [
        TitledDocument(document.id, " ".join(document.text.split()[:3]), " ".join(document.text.split()[2:]))
        for document in tiny_documents(90)
    ]
    sizes: dict[str, Any] = {"training_size": 60, "n_reported": 40, "n_choosing": 20}
    [facts] = KnownItemSearch("tiny", documents, [16], method="itq", weights=(0.0, 1.0), **sizes).measure()
    shares = {(row.ranking, row.weight, row.titles): row.share for row in facts.rows}
    assert (facts.documents, facts.learnt_from) == (90, 60)
    exact = shares["tf-idf cosine, exact", None, "choosing"]
    assert shares["words and codes", 0.0, "choosing"] == pytest.approx(exact, abs=0.1)
    assert len(facts.rows) == 8
    KnownItemSearch.save(facts, tmp_path)
    assert KnownItemSearch.load(tmp_path) == [facts]
    page = KnownItemSearch.render([facts])
    assert "## tiny, 16 bits" in page
    assert f"| {exact:.3f} | 1.00 |" in page
    assert "fewbits bench known-items --dataset tiny --bits 16 --save" in page


def test_the_service_answers_all_requests_under_load(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fewbits", "bench", "service", "--documents", "2000", "--clients", "3"]
    options = ["--seconds", "1", "--rescore", "none", "--save", "--results", str(tmp_path)]
    printed = subprocess.run([*command, *options], capture_output=True, text=True, check=True, timeout=120).stdout
    facts = json.loads(printed)
    assert facts["errors"] == 0
    assert facts["requests"] > 0
    assert facts["documents"] == 2000
    assert 0 < facts["median_ms"] <= facts["p99_ms"]
    assert json.loads((tmp_path / "service" / "load-none.json").read_text()) == facts
    assert f"| {facts['requests']:,} | 0 |" in ServiceLoad.render(ServiceLoad.load(tmp_path))


def test_the_time_to_quality_is_that_of_a_training_that_reached_the_target(dataset: Dataset, tmp_path: Path) -> None:
    facts = time_to_quality(dataset)
    assert facts.precision >= facts.wanted == 0.8
    assert 0 < facts.seconds <= facts.seconds_of_all
    TrainingTime.save(facts, tmp_path)
    assert f"| toy | 0.80 | {facts.precision:.4f} | {facts.epochs} |" in TrainingTime.render(
        TrainingTime.load(tmp_path)
    )


def test_half_of_the_pairs_share_a_label_and_a_sample_of_documents_keeps_its_labels(dataset: Dataset) -> None:
    pairs, same = draw_pairs(dataset.train, 60, seed=0)
    assert same.sum() == 30
    assert ((CLASSES[pairs[:, 0]] == CLASSES[pairs[:, 1]]) == same).all()
    assert sample_labels(dataset.train, 0.05, seed=0).sum() == 20


def test_each_kind_of_supervision_is_measured_for_each_seed(dataset: Dataset, tmp_path: Path) -> None:
    [facts] = SupervisionComparison(dataset, 8, [0, 1], epochs=2).measure()
    assert [one.told for one in facts] == ["nothing", "2,000 pairs", "5% of the labels", "all labels"]
    assert all(len(one.precision) == len(one.seconds) == 2 for one in facts)
    assert all(0 <= value <= 1 for one in facts for value in one.precision)
    SupervisionComparison.save(facts, tmp_path)
    assert SupervisionComparison.load(tmp_path) == [facts]
    assert f"| nothing | {np.mean(facts[0].precision):.3f} |" in SupervisionComparison.render([facts])


def test_prefixes_of_a_nested_code_are_compared_with_separate_trainings(dataset: Dataset, tmp_path: Path) -> None:
    options: dict[str, Any] = {"parameters": {"epochs": 2}, "n_bits": 16}
    facts = list(NestedComparison(dataset, seeds=[0, 1], **options).measure())
    assert [(one.method, one.seed) for one in facts] == [(m, s) for m in ("bernoulli-vae", "pairwise") for s in (0, 1)]
    train, test = dataset.train, dataset.test
    nested = PairwiseHasher(16, nested=True, epochs=2, random_state=1).fit(train.features, train.labels)
    separate = [PairwiseHasher(n, epochs=2, random_state=1).fit(train.features, train.labels) for n in (8, 16)]
    for hashers, measured in ((map(nested.truncate, (8, 16)), facts[3].nested), (separate, facts[3].separate)):
        expected = [encoded_precision(one, test.features, test.labels, train.features, train.labels) for one in hashers]
        assert measured == pytest.approx(expected, abs=1e-4)
    for one in facts:
        NestedComparison.save(one, tmp_path)
    assert NestedComparison.load(tmp_path) == facts
    page = NestedComparison.render(facts)
    means = [np.mean([one.nested[n] for one in facts[2:]]) for n in (0, 1)]
    assert f"| PairwiseHasher (ours), nested | {means[0]:.3f} | {means[1]:.3f} |" in page
    assert "--dataset toy --method bernoulli-vae --method pairwise --seed 0 --seed 1 --save" in page


def test_separate_trainings_with_a_result_are_read_from_it(dataset: Dataset, tmp_path: Path) -> None:
    for bits, precision in ((8, 0.25), (16, 0.75)):
        result = make_result("bernoulli-vae", bits, precision, dataset.name)
        replace(result, data_fingerprint=dataset.fingerprint).save(tmp_path)
    comparison = NestedComparison(dataset, ["bernoulli-vae"], n_bits=16, results=tmp_path)
    [one] = comparison.measure()
    assert one.separate == [0.25, 0.75]
    assert one.separate_seconds is None
    changed = replace(comparison, dataset=replace(dataset, fingerprint="e" * 64), parameters={"epochs": 1})
    [one] = changed.measure()
    assert one.separate_seconds is not None
    assert one.separate != [0.25, 0.75]


def test_a_latent_space_has_a_point_for_each_test_document_with_its_class(dataset: Dataset, tmp_path: Path) -> None:
    pytest.importorskip("umap", reason="not tested: umap-learn is not installed")
    [figure] = LatentSpace(dataset, ["bernoulli-vae"], 8, words=["w0", "unknown"]).measure()
    assert len(figure.points) == len(figure.classes) == 100
    assert figure.classes == dataset.test.labels.argmax(axis=1).tolist()
    assert list(figure.words) == ["w0"]
    LatentSpace.save(figure, tmp_path)
    assert LatentSpace.load(tmp_path) == [figure]


def test_a_method_without_a_latent_space_is_refused_before_any_training(dataset: Dataset) -> None:
    with pytest.raises(ParameterError, match="itq has no latent space"):
        next(LatentSpace(dataset, ["bernoulli-vae", "itq"]).measure())


def test_the_nearest_words_have_the_same_direction() -> None:
    embeddings = np.array([[1.0, 0.0], [5.0, 0.1], [0.0, 1.0], [-1.0, 0.0]], dtype=np.float32)
    assert nearest_words(embeddings, ["a", "b", "c", "d"], ["a"]) == {"a": ["b", "c", "d"]}
