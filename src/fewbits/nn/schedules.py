"""How a figure changes over training, as a function of the share of steps that are done."""

from __future__ import annotations

import math
from collections.abc import Callable

from fewbits.errors import ParameterError


def cosine(done: float) -> float:
    """From 1 to 0 along half a cosine."""
    return 0.5 * (1 + math.cos(math.pi * done))


def constant(done: float) -> float:
    """Always 1."""
    return 1.0


def ramp(start: float, end: float, done: float) -> float:
    """Rise (or fall) evenly from start to end.

    >>> ramp(0.0, 1.0, 0.25)
    0.25
    """
    return start + (end - start) * done


LEARNING_RATES: dict[str, Callable[[float], float]] = {"cosine": cosine, "constant": constant}


def learning_rate_schedule(name: str) -> Callable[[float], float]:
    """Look up a schedule of the learning rate."""
    if name not in LEARNING_RATES:
        raise ParameterError("there is no such schedule", allowed=", ".join(LEARNING_RATES), got=repr(name))
    return LEARNING_RATES[name]
