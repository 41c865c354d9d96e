"""Parameters of the neural hashers: validation before any work is done, and defaults that depend on the data."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from numbers import Real
from typing import Any

import faiss
import numpy as np

from fewbits.errors import FewbitsError, MissingExtraError, ParameterError
from fewbits.validation import check_whole_number

FEW_WORDS = 2000  # features: with fewer, a single word carries little information about a document's topic
HIDDEN = (1000,)  # default hidden layers with few words


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))


def _above_0(value: Any) -> bool:
    return _is_number(value) and value > 0


def _from_0(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _below_1(value: Any) -> bool:
    return _is_number(value) and 0 <= value < 1


def _up_to_1(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _weight(value: Any) -> bool:
    return _from_0(value) or (_is_list(value) and len(value) == 2 and all(map(_from_0, value)))


def _widths(value: Any) -> bool:
    return _is_list(value) and all(isinstance(width, (int, np.integer)) and width >= 1 for width in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


SHARE = (_below_1, "0 or more, below 1")
UP_TO_1 = (_up_to_1, "0 to 1")
WEIGHT = (_weight, "0 or more, or two such numbers: at the start of training and at its end")
CONSTRAINTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hidden": (_or_none(_widths), "a list of widths, 1 or more each"),
    "dropout": SHARE,
    "word_dropout": SHARE,
    "validation_fraction": SHARE,
    "initial_scale": (_above_0, "above 0"),
    "noise": (lambda value: isinstance(value, bool) or _from_0(value), "True, False, or 0 or more"),
    "kl_weight": WEIGHT,
    "label_weight": WEIGHT,
    "code_noise": WEIGHT,
    "nested": (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    "pair_weight": (_from_0, "0 or more"),
    "reconstruction_weight": (_or_none(_from_0), "0 or more"),
    "neighborhood_weight": (_or_none(_from_0), "0 or more, or None"),
    "posterior_weight": (_or_none(_from_0), "0 or more, or None"),
    "posterior_sharpness": (_or_none(_above_0), "above 0, or None"),
    "margin": (_or_none(lambda value: _up_to_1(value) and value > 0), "above 0, up to 1, or None"),
    "svm_share": UP_TO_1,
    "neighbour_weight": UP_TO_1,
    "learning_rate": (_or_none(_above_0), "above 0"),
    "clip": (_or_none(_above_0), "above 0, or None"),
}


def check_parameters(parameters: dict[str, Any]) -> None:
    """Refuse a parameter that is out of range, and an unknown estimator, schedule or device."""
    for name, (is_allowed, allowed) in CONSTRAINTS.items():
        if name in parameters and not is_allowed(parameters[name]):
            raise ParameterError(f"{name} is out of range", allowed=allowed, got=repr(parameters[name]))
    if parameters["epochs"] is not None:
        check_whole_number("epochs", parameters["epochs"], 1)
    check_whole_number("batch_size", parameters["batch_size"], 1)
    for name in ("n_neighbours", "refinements", "smoothing", "starts"):
        if parameters.get(name) is not None:
            check_whole_number(name, parameters[name], 0)
    _check_patience(parameters.get("patience"), parameters.get("validation_fraction", 0.0))
    _check_names(parameters)


def _check_patience(patience: Any, validation_fraction: float) -> None:
    if patience is None:
        return
    check_whole_number("patience", patience, 1)
    if not validation_fraction:
        raise ParameterError(
            "patience needs a validation part",
            allowed="a validation_fraction above 0",
            got=f"patience={patience!r}, validation_fraction={validation_fraction!r}",
        )


def _check_names(parameters: dict[str, Any]) -> None:
    import torch

    from fewbits.nn.gradient_estimators import make_estimator
    from fewbits.nn.trainer import learning_rate_schedule

    if "estimator" in parameters:
        make_estimator(parameters["estimator"])
    if "schedule" in parameters:
        learning_rate_schedule(parameters["schedule"])
    try:
        torch.empty(0, device=parameters["device"])
    except (RuntimeError, AssertionError, TypeError) as error:  # torch built without CUDA raises AssertionError
        raise ParameterError(
            "this device cannot be used", allowed="cpu, or cuda if torch finds one", got=repr(parameters["device"])
        ) from error


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuse a value that is not among the allowed ones."""
    if value not in allowed:
        raise ParameterError(f"{name} is unknown", allowed=", ".join(allowed), got=repr(value))


def need_torch() -> None:
    """Raise an error with the install command if torch or numba, which only training needs, is missing."""
    try:
        import torch

        if find_spec("numba") is None:  # imported only for large networks: it takes half a second
            raise ImportError("numba")
    except ImportError as error:
        raise MissingExtraError("training this method", extra="train", otherwise="choose method itq") from error
    if any(process != os.getpid() for process in _TRAINED_IN_THREADS):
        raise FewbitsError(
            "a process that has trained in several threads forked this one, in which training would never end",
            hint="Start the process with multiprocessing's method spawn, or train with OMP_NUM_THREADS=1.",
        )
    if max(torch.get_num_threads(), faiss.omp_get_max_threads()) > 1:
        _TRAINED_IN_THREADS.add(os.getpid())


_TRAINED_IN_THREADS: set[int] = set()  # processes: this one, or one that it was forked from


def has_few_words(X: Any) -> bool:
    """Return whether the vocabulary is small.

    Then only several words together identify a document's topic: a linear encoder cannot combine them, and a latent
    space of fewer dimensions loses them.
    """
    return bool(X.shape[1] < FEW_WORDS)


def default_hidden(hidden: Sequence[int] | None, n_features: int) -> tuple[int, ...]:
    """Return the widths of the hidden layers; by default one with few words, else none."""
    if hidden is None:
        return HIDDEN if n_features < FEW_WORDS else ()
    return tuple(hidden)


def default_neighbors(X: Any) -> int:
    """Return the default number of neighbors; a topic of a small corpus has few documents.

    At most a quarter of the documents: if all other documents were neighbors, a document would be trained to predict
    the words that it lacks.
    """
    return min(30 if has_few_words(X) else 100, max(10, X.shape[0] // 100), X.shape[0] // 4)


def as_range(weight: float | Sequence[float]) -> tuple[float, float]:
    """Return a weight's values at the start and at the end of training; a single number is used for both."""
    start, end = weight if isinstance(weight, Sequence) else (weight, weight)
    return float(start), float(end)


def as_prior(prior: Any, n_bits: int, n_trained: int) -> float | tuple[float, ...]:
    """Return the prior gamma of a code of ``n_bits`` bits as plain numbers, for training ``n_trained`` bits.

    A refinement round trains more bits, for which the mean is used.
    """
    values = np.asarray(prior, dtype=float)
    if values.shape not in ((), (n_bits,)) or not ((values > 0) & (values < 1)).all():
        allowed = f"a number between 0 and 1, or one for each of the {n_bits} bits"
        raise ParameterError("prior is out of range", allowed=allowed, got=repr(prior))
    if values.ndim == 0 or n_trained != n_bits:
        return float(values.mean())
    return tuple(values.tolist())
