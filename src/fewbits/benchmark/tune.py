"""Searching the weights of a method on the validation part, or by cross validation on the training part."""

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
from fewbits.metrics import precision_at_k
from fewbits.validation import check_whole_number

if TYPE_CHECKING:
    import optuna

DEPTH = 100
DEPTHS = {"linear": (), "500": (500,), "1000": (1000,), "500-500": (500, 500)}
# What is searched, of the parameters that a method has: learning rate, depth, lambda, alpha and beta.
SEARCHED: dict[str, Callable[[optuna.Trial], Any]] = {
    "learning_rate": lambda trial: trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True),
    "hidden": lambda trial: DEPTHS[trial.suggest_categorical("hidden", list(DEPTHS))],
    "kl_weight": lambda trial: trial.suggest_float("kl_weight", 1e-3, 1.0, log=True),
    "label_weight": lambda trial: trial.suggest_float("label_weight", 0.1, 300.0, log=True),
    "pair_weight": lambda trial: trial.suggest_float("pair_weight", 1e-3, 10.0, log=True),
}


@dataclass(frozen=True)
class Trial:
    """Parameters that were tried, and the precision at 100 they gave (None: it failed or was cut off)."""

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
    """Try parameters of a method until ``n_trials`` are done, and return all trials, the best first.

    With ``study``, a file, a search that was cut off goes on where it stopped. With ``n_folds``, a trial's figure is
    the mean over so many folds of the training part, and the validation part is not looked at.
    """
    check_whole_number("n_trials", n_trials, 1)
    if not issubclass(find_method(method).hasher, NeuralHasher):
        raise ParameterError(f"{method} has no weights to search", allowed="a neural method", got=method)
    splits = [dataset] if n_folds is None else list(_folds(dataset, n_folds))

    fixed = parameters or {}
    known = make_hasher(method, n_bits, **fixed).get_params()
    searched_for = {name: draw for name, draw in SEARCHED.items() if name in known and name not in fixed}

    def objective(trial: optuna.Trial) -> float:
        chosen = {**{name: draw(trial) for name, draw in searched_for.items()}, **fixed}
        figures = [_precision(method, split, n_bits, random_state, chosen) for split in splits]
        return float(np.mean(figures))

    name = f"{method}-{dataset.name}-{n_bits}-{n_folds}" + (f"-{json.dumps(fixed, sort_keys=True)}" if fixed else "")
    searched = _open_study(study, name, random_state)
    left = n_trials - sum(trial.values is not None for trial in searched.trials)  # without those that were cut off
    searched.optimize(objective, n_trials=max(left, 0))
    trials = [_as_trial(trial, fixed) for trial in searched.trials]
    return sorted(trials, key=lambda trial: np.inf if trial.precision is None else -trial.precision)


def _precision(method: str, dataset: Dataset, n_bits: int, random_state: int, parameters: dict[str, Any]) -> float:
    """Learn on the training part and query with the validation part; the test part is never looked at."""
    hasher = make_hasher(method, n_bits, random_state, **parameters)
    hasher.fit(dataset.train.features, dataset.train.labels)
    queries, database = hasher.transform(dataset.validation.features), hasher.transform(dataset.train.features)
    return precision_at_k(queries, dataset.validation.labels, database, dataset.train.labels, k=DEPTH)


def _folds(dataset: Dataset, n_folds: int) -> Iterator[Dataset]:
    check_whole_number("n_folds", n_folds, 2)
    for learnt_from, looked_at in KFold(n_folds, shuffle=True, random_state=0).split(dataset.train.ids):
        yield replace(dataset, train=_take(dataset.train, learnt_from), validation=_take(dataset.train, looked_at))


def _take(part: Split, rows: NDArray[np.int64]) -> Split:
    def chosen(values: Sequence[Any]) -> list[Any]:
        return [values[row] for row in rows]

    texts = None if part.texts is None else chosen(part.texts)
    return Split(chosen(part.ids), texts, part.features[rows], part.labels[rows])


def _open_study(path: Path | None, name: str, random_state: int) -> optuna.Study:
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise MissingExtraError("searching weights", extra="tune") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = None
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        storage = JournalStorage(JournalFileBackend(str(path)))
    searched = optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
    # A search that goes on has drawn before: with the same seed it would draw the same once more.
    searched.sampler = optuna.samplers.TPESampler(seed=random_state + len(searched.trials))
    return searched


def _as_trial(trial: optuna.trial.FrozenTrial, fixed: dict[str, Any]) -> Trial:
    seconds = None if trial.duration is None else round(trial.duration.total_seconds(), 1)
    value = trial.values[0] if trial.values else None
    return Trial(trial.number, None if value is None else round(value, 4), seconds, {**trial.params, **fixed})
