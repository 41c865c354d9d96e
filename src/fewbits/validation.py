"""Checks of parameters that many places share."""

from __future__ import annotations

import operator
from typing import Any

from fewbits.errors import ParameterError


def check_whole_number(
    what: str, value: Any, low: int, high: int | None = None, *, why: str = "", hint: str = ""
) -> int:
    """Return a whole number in a range (NumPy's too, but no bool), else say what is allowed.

    >>> check_whole_number("k", 3, 1, 5)
    3
    """
    allowed = f"{low} or more" if high is None else f"{low} to {high}{why}" if low <= high else "nothing yet"
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or number < low or (high is not None and number > high):
        raise ParameterError(f"{what} is out of range", allowed=allowed, got=repr(value), hint=hint)
    return number
