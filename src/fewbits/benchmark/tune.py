"""Hyperparameter search for a neural method, on the validation part or by cross-validation on the training part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from fewbits.data.datasets import Dataset, Split
from fewbits.errors import MissingExtraError, ParameterError
from fewbits.hashers._neural import NeuralHasher
from fewbits.hashers.registry import find_method, make_hasher
from fewbits.metrics import encoded_precision
from fewbits.validation import check_whole_number

if TYPE_CHECKING:
    import optuna

DEPTH = 100
HIDDEN_LAYERS = {"linear": (), "500": (500,), "1000": (1000,), "500-500": (500, 500)}
# Searched if the method has the parameter. The paper calls the weights lambda, alpha and beta.
SEARCH_SPACE: dict[str, Callable[[optuna.Trial], Any]] = {
    "learning_rate": lambda trial: trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True),
    "hidden": lambda trial: HIDDEN_LAYERS[trial.suggest_categorical("hidden", list(HIDDEN_LAYERS))],
    "kl_weight": lambda trial: trial.suggest_float("kl_weight", 1e-3, 1.0, log=True),
    "label_weight": lambda trial: trial.suggest_float("label_weight", 0.1, 300.0, log=True),
    "pair_weight": lambda trial: trial.suggest_float("pair_weight", 1e-3, 10.0, log=True),
}


@dataclass(frozen=True)
class Trial:
    """Parameters and their precision at 100, None if the trial failed or was interrupted."""

    number: int
    precision: float | None
    seconds: float | None
    parameters: dict[str, Any]


def tune(
    method: str,
    dataset: Dataset,
    n_bits: int,
    *,
    n_trials: int = 20,
    study: Path | None = None,
    n_folds: int | None = None,
    random_state: int = 0,
    parameters: dict[str, Any] | None = None,
) -> list[Trial]:
    """Run trials until there are ``n_trials``, and return all trials, the best first.

    With ``study``, a file, an interrupted search resumes where it stopped. With ``n_folds``, the precision of a trial
    is the mean over that many folds of the training part, and the validation part is not used.
    """
    check_whole_number("n_trials", n_trials, 1)
    if not issubclass(find_method(method).hasher, NeuralHasher):
        raise ParameterError(f"{method} has no parameters to search", allowed="a neural method", got=method)
    splits = [dataset] if n_folds is None else list(_folds(dataset, n_folds))

    fixed = parameters or {}
    available = make_hasher(method, n_bits, **fixed).get_params()
    searched = {name: draw for name, draw in SEARCH_SPACE.items() if name in available and name not in fixed}

    def objective(trial: optuna.Trial) -> float:
        chosen = {**{name: draw(trial) for name, draw in searched.items()}, **fixed}
        figures = [_precision(method, split, n_bits, random_state, chosen) for split in splits]
        return float(np.mean(figures))

    name = f"{method}-{dataset.name}-{n_bits}-{n_folds}" + (f"-{json.dumps(fixed, sort_keys=True)}" if fixed else "")
    opened = _open_study(study, name, random_state)
    left = n_trials - sum(trial.values is not None for trial in opened.trials)  # interrupted trials do not count
    opened.optimize(objective, n_trials=max(left, 0))
    trials = [_as_trial(trial, fixed) for trial in opened.trials]
    return sorted(trials, key=lambda trial: np.inf if trial.precision is None else -trial.precision)


def _precision(method: str, dataset: Dataset, n_bits: int, random_state: int, parameters: dict[str, Any]) -> float:
    """Fit on the training part and return the precision of the validation part."""
    hasher = make_hasher(method, n_bits, random_state, **parameters)
    hasher.fit(dataset.train.features, dataset.train.labels)
    validation, train = dataset.validation, dataset.train
    return encoded_precision(hasher, validation.features, validation.labels, train.features, train.labels, k=DEPTH)


def _folds(dataset: Dataset, n_folds: int) -> Iterator[Dataset]:
    check_whole_number("n_folds", n_folds, 2)
    for train, validation in KFold(n_folds, shuffle=True, random_state=0).split(dataset.train.ids):
        yield replace(dataset, train=_take(dataset.train, train), validation=_take(dataset.train, validation))


def _take(part: Split, rows: NDArray[np.int64]) -> Split:
    def select(values: Sequence[Any]) -> list[Any]:
        return [values[row] for row in rows]

    texts = None if part.texts is None else select(part.texts)
    return Split(select(part.ids), texts, part.features[rows], part.labels[rows])


def _open_study(path: Path | None, name: str, random_state: int) -> optuna.Study:
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise MissingExtraError("searching parameters", extra="tune") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = None
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        storage = JournalStorage(JournalFileBackend(str(path)))
    opened = optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
    # With the same seed, a resumed search would repeat its first trials.
    opened.sampler = optuna.samplers.TPESampler(seed=random_state + len(opened.trials))
    return opened


def _as_trial(trial: optuna.trial.FrozenTrial, fixed: dict[str, Any]) -> Trial:
    seconds = None if trial.duration is None else round(trial.duration.total_seconds(), 1)
    value = trial.values[0] if trial.values else None
    return Trial(trial.number, None if value is None else round(value, 4), seconds, {**trial.params, **fixed})
