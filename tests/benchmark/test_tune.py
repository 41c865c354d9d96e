from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fewbits import Dataset, Split
from fewbits.benchmark.tune import tune
from fewbits.errors import ParameterError
from helpers.corpora import topic_rows

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    def split(count: int, seed: int) -> Split:
        rows, classes = topic_rows(count, seed)
        return Split(list(range(count)), None, rows, sparse.csr_array(np.eye(3, dtype=np.uint8)[classes]))

    return Dataset("toy", split(240, 0), split(60, 1), untouchable(), [], [], "f" * 64)


def untouchable() -> Split:
    """Return a part whose use raises an error."""

    class Untouchable(Split):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"{name} of a part that must not be used")

    return Untouchable([], None, None, None)


def test_trials_are_returned_best_first_with_their_parameters(dataset: Dataset) -> None:
    trials = tune("pairwise", dataset, 8, n_trials=4, parameters={"epochs": 2})
    figures = [trial.precision for trial in trials if trial.precision is not None]
    assert len(figures) == 4
    assert figures == sorted(figures, reverse=True)
    searched = {"learning_rate", "hidden", "kl_weight"}
    assert set(trials[0].parameters) == searched | {"label_weight", "pair_weight", "epochs"}


@pytest.mark.parametrize(
    ("method", "more"),
    [("bernoulli-vae", set()), ("vdsh-s", {"label_weight"}), ("psh-arm", {"label_weight", "pair_weight"})],
)
def test_only_parameters_that_the_method_has_are_searched(dataset: Dataset, method: str, more: set[str]) -> None:
    [trial] = tune(method, dataset, 8, n_trials=1, parameters={"epochs": 1})
    assert set(trial.parameters) == {"learning_rate", "hidden", "kl_weight", "epochs"} | more


def test_a_fixed_parameter_is_among_the_parameters_of_a_trial_and_makes_a_separate_search(
    dataset: Dataset, tmp_path: Path
) -> None:
    study = tmp_path / "study.journal"
    for rate in (0.01, 0.02):
        fixed = {"epochs": 1, "learning_rate": rate}
        [trial] = tune("bernoulli-vae", dataset, 8, n_trials=1, study=study, parameters=fixed)
        assert trial.parameters["learning_rate"] == rate


def test_an_interrupted_trial_is_ranked_last(dataset: Dataset, tmp_path: Path) -> None:
    study, fixed = tmp_path / "study.journal", {"epochs": 1}

    def stop(*_: Any) -> float:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fewbits.benchmark.tune._precision", stop)
        with pytest.raises(KeyboardInterrupt):
            tune("bernoulli-vae", dataset, 8, n_trials=1, study=study, parameters=fixed)
    trials = tune("bernoulli-vae", dataset, 8, n_trials=2, study=study, parameters=fixed)
    assert [trial.precision is None for trial in trials] == [False, False, True]


def test_a_search_resumes_from_its_file_without_repeating_trials(dataset: Dataset, tmp_path: Path) -> None:
    options: dict[str, Any] = {"study": tmp_path / "study.journal", "parameters": {"epochs": 1}}
    first = tune("pairwise", dataset, 8, n_trials=2, **options)
    both = tune("pairwise", dataset, 8, n_trials=3, **options)
    assert len(both) == 3
    assert {trial.number: trial.precision for trial in first}.items() <= {t.number: t.precision for t in both}.items()
    assert len({trial.parameters["learning_rate"] for trial in both}) == 3  # no value is drawn twice
    assert len(tune("pairwise", dataset, 8, n_trials=3, **options)) == 3


def test_cross_validation_does_not_use_the_validation_part(dataset: Dataset) -> None:
    blind = Dataset("toy", dataset.train, untouchable(), untouchable(), [], [], "f" * 64)
    [trial] = tune("pairwise", blind, 8, n_trials=1, n_folds=2, parameters={"epochs": 2})
    assert trial.precision is not None
    assert trial.precision > 0.37  # 40 of the 120 documents are relevant, so 0.33 at random and 0.4 at most


def test_a_method_without_searched_parameters_is_refused(dataset: Dataset) -> None:
    with pytest.raises(ParameterError, match="lsh has no parameters to search"):
        tune("lsh", dataset, 8)
