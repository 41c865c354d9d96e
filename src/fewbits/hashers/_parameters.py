"""What the parameters of the neural hashers may be, looked at before any work is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from fewbits.errors import ParameterError
from fewbits.validation import check_whole_number


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
LIMITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hidden": (_or_none(_widths), "a list of widths, 1 or more each"),
    "dropout": SHARE,
    "word_dropout": SHARE,
    "validation_fraction": SHARE,
    "initial_scale": (_above_0, "above 0"),
    "noise": (lambda value: isinstance(value, bool) or _from_0(value), "True, False, or 0 or more"),
    "kl_weight": WEIGHT,
    "label_weight": WEIGHT,
    "code_noise": WEIGHT,
    "pair_weight": (_from_0, "0 or more"),
    "reconstruction_weight": (_or_none(_from_0), "0 or more"),
    "margin": (_or_none(lambda value: _up_to_1(value) and value > 0), "above 0, up to 1, or None"),
    "svm_share": UP_TO_1,
    "neighbour_weight": UP_TO_1,
    "learning_rate": (_or_none(_above_0), "above 0"),
    "clip": (_or_none(_above_0), "above 0, or None"),
}


def check_parameters(parameters: dict[str, Any]) -> None:
    """Refuse a parameter of a neural hasher that is out of its range, and a device or a name that there is not."""
    for name, (is_allowed, allowed) in LIMITS.items():
        if name in parameters and not is_allowed(parameters[name]):
            raise ParameterError(f"{name} is out of range", allowed=allowed, got=repr(parameters[name]))
    if parameters["epochs"] is not None:
        check_whole_number("epochs", parameters["epochs"], 1)
    check_whole_number("batch_size", parameters["batch_size"], 1)
    for name in ("n_neighbours", "refinements"):
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
            "patience needs a held-out part to look at",
            allowed="a validation_fraction above 0",
            got=f"patience={patience!r}, validation_fraction={validation_fraction!r}",
        )


def _check_names(parameters: dict[str, Any]) -> None:
    import torch

    from fewbits.nn.gradient_estimators import make_estimator
    from fewbits.nn.schedules import learning_rate_schedule

    if "estimator" in parameters:
        make_estimator(parameters["estimator"])
    if "schedule" in parameters:
        learning_rate_schedule(parameters["schedule"])
    try:
        torch.empty(0, device=parameters["device"])
    except (RuntimeError, AssertionError, TypeError) as error:  # torch built without CUDA raises AssertionError
        raise ParameterError(
            "this device cannot be used", allowed="cpu, or cuda where torch finds one", got=repr(parameters["device"])
        ) from error
