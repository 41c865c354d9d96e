"""Published figures, each with its source, and how ours compare with them."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from fewbits.hashers.registry import METHODS

PLACES = 1.0  # within so many places, as a mean over the lengths, two rows agree
TOLERANCE = 0.02  # of the mean over the lengths: within it two rows agree
PAPER = "PSH"  # its tables have the figures of all others, too


def published_figures() -> list[dict[str, Any]]:
    """Every published figure that the package knows, with its source and table."""
    content = files("fewbits.benchmark").joinpath("published.json").read_text(encoding="utf-8")
    figures: list[dict[str, Any]] = json.loads(content)
    return figures


def published_precision() -> dict[tuple[str, str], dict[int, float]]:
    """Published precision at 100 by method and data set, for each length; ablations are left out."""
    found: defaultdict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    by_title = {method.title: name for name, method in METHODS.items()}
    for figure in published_figures():
        is_in_tables = figure["source"].startswith(PAPER) and "beta" not in figure and "kl_weight" not in figure
        if is_in_tables and figure["method"] in by_title:
            found[by_title[figure["method"]], figure["dataset"]][figure["bits"]] = figure["value"]
    return dict(found)


def verdict(ours: Mapping[int, float], printed: Mapping[int, float]) -> tuple[str, float]:
    """Say how a row compares with the published one, by the mean difference over the lengths that both have."""
    both = sorted(set(ours) & set(printed))
    if not both:
        return "not in its tables", 0.0
    gap = statistics.mean(ours[bits] - printed[bits] for bits in both)
    said = "agrees" if abs(gap) <= TOLERANCE else "better" if gap > 0 else "worse"
    return f"{said} ({gap:+.3f})", gap


def verdict_by_place(gains: Sequence[float]) -> tuple[str, float]:
    """Say how a row compares with the published one where the figures cannot be compared, but the methods' order can.

    ``gains`` are the places that it stands before its published one, a number for each length.
    """
    if not gains:
        return "not in its tables", 0.0
    gain = statistics.mean(gains)
    said = "agrees" if abs(gain) <= PLACES else "better" if gain > 0 else "worse"
    return f"{said} ({gain:+.1f} places)", gain
