"""The benchmarks of speed and supervision: their figures are measured, saved and rendered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fewbits.benchmark.experiments.speed import render_speed, save_speed, time_to_quality
from fewbits.benchmark.experiments.supervision import (
    compare_supervision,
    draw_pairs,
    render_supervision,
    save_supervision,
    some_labels,
)
from fewbits.data.datasets import Dataset, Split
from helpers.corpora import topic_rows

ROOT = Path(__file__).parents[2]
ROWS, CLASSES = topic_rows(600)  # more than 100 of each among the first 400: a precision at 100 can be 1


@pytest.fixture
def dataset() -> Dataset:
    labels = sparse.csr_array(np.eye(3, dtype=np.uint8)[CLASSES])
    train, validation, test = (
        Split(list(range(part.start, part.stop)), None, ROWS[part], labels[part])
        for part in (slice(0, 400), slice(400, 500), slice(500, 600))
    )
    return Dataset("toy", train, validation, test, [], ["a", "b", "c"], "made up")


def test_the_time_to_quality_is_that_of_a_training_that_reached_it(dataset: Dataset, tmp_path: Path) -> None:
    facts = time_to_quality(dataset)
    assert facts.precision >= facts.wanted == 0.8
    assert 0 < facts.seconds <= facts.seconds_of_all
    save_speed(facts, tmp_path)
    assert f"| toy | 0.80 | {facts.precision:.4f} | {facts.epochs} |" in render_speed(tmp_path)


def test_half_of_the_pairs_share_a_label_and_few_documents_keep_theirs(dataset: Dataset) -> None:
    pairs, same = draw_pairs(dataset.train, 60, seed=0)
    assert same.sum() == 30
    assert ((CLASSES[pairs[:, 0]] == CLASSES[pairs[:, 1]]) == same).all()
    assert some_labels(dataset.train, 0.05, seed=0).sum() == 20


def test_every_kind_of_supervision_is_measured_for_every_seed(dataset: Dataset, tmp_path: Path) -> None:
    facts = compare_supervision(dataset, 8, [0, 1], epochs=2)
    assert [fact.told for fact in facts] == ["nothing", "2,000 pairs", "5% of the labels", "all labels"]
    assert all(len(fact.precision) == len(fact.seconds) == 2 for fact in facts)
    assert all(0 <= value <= 1 for fact in facts for value in fact.precision)
    save_supervision(facts, tmp_path)
    assert f"| nothing | {np.mean(facts[0].precision):.3f} |" in render_supervision(tmp_path)


def test_the_committed_page_on_speed_is_what_the_committed_figures_give() -> None:
    assert (ROOT / "docs" / "speed.md").read_text() == render_speed(ROOT / "results" / "speed")


def test_the_committed_page_on_supervision_is_what_the_committed_figures_give() -> None:
    rendered = render_supervision(ROOT / "results" / "supervision")
    assert (ROOT / "docs" / "supervision.md").read_text() == rendered
