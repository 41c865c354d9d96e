from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fewbits import Dataset, Split
from fewbits.benchmark.tune import tune
from fewbits.errors import ParameterError
from test_learning import topics

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers.neural.ConstantBitsWarning")


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    def split(count: int, seed: int) -> Split:
        rows, classes = topics(count, seed)
        return Split(list(range(count)), None, rows, sparse.csr_array(np.eye(3, dtype=np.uint8)[classes]))

    nothing = split(3, 2)  # the test part: a search that looked at it would fail for want of documents
    return Dataset("toy", split(240, 0), split(60, 1), nothing, [], [], "f" * 64)


def test_trials_are_returned_best_first_with_their_parameters(dataset: Dataset) -> None:
    trials = tune("pairwise", dataset, 8, n_trials=4, parameters={"epochs": 2})
    figures = [trial.precision for trial in trials if trial.precision is not None]
    assert len(figures) == 4
    assert figures == sorted(figures, reverse=True)
    assert set(trials[0].parameters) == {"learning_rate", "hidden", "kl_weight", "label_weight", "pair_weight"}
    assert set(tune("bernoulli-vae", dataset, 8, n_trials=1, parameters={"epochs": 1})[0].parameters) == {
        "learning_rate",
        "hidden",
        "kl_weight",
    }


def test_a_search_goes_on_from_its_file_and_repeats_nothing(dataset: Dataset, tmp_path: Path) -> None:
    options: dict[str, Any] = {"study": tmp_path / "study.journal", "parameters": {"epochs": 1}}
    first = tune("pairwise", dataset, 8, n_trials=2, **options)
    both = tune("pairwise", dataset, 8, n_trials=3, **options)
    assert len(both) == 3
    assert {trial.number: trial.precision for trial in first}.items() <= {t.number: t.precision for t in both}.items()
    assert len(tune("pairwise", dataset, 8, n_trials=3, **options)) == 3


def test_folds_leave_the_validation_part_alone(dataset: Dataset) -> None:
    blind = Dataset("toy", dataset.train, dataset.test, dataset.test, [], [], "f" * 64)
    [trial] = tune("pairwise", blind, 8, n_trials=1, n_folds=2, parameters={"epochs": 2})
    assert trial.precision is not None
    assert trial.precision > 0.3


def test_a_method_without_weights_is_refused(dataset: Dataset) -> None:
    with pytest.raises(ParameterError, match="lsh has no weights to search"):
        tune("lsh", dataset, 8)
