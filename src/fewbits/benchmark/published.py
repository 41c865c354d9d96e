"""Our figures beside the published ones, with a verdict on each row."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fewbits.benchmark.results import Result
from fewbits.benchmark.suites import Spec
from fewbits.benchmark.tables import difference_from_own, markdown
from fewbits.hashers.registry import METHODS

TOLERANCE = 0.02  # of the mean over the lengths: within it two rows agree
PAPER = "PSH"  # its tables have the figures of all others, too
FAR = 0.05  # a row that is worse by more has its reason told
NO_REASON = "reason not found yet"


@dataclass(frozen=True)
class Reason:
    """Why a row is far worse than the published one, and a run that differs in just that."""

    text: str
    shown_by: Spec

    def with_figures(self, row: dict[int, float], results: Iterable[Result]) -> str:
        """The reason with what the run has reached beside the row's own figure, where it has been done."""
        reached = [r.metrics["precision_at_100"] for r in results if r.cell == self.shown_by.cell]
        bits = self.shown_by.bits
        if not reached or bits not in row:
            return NO_REASON
        return f"{self.text}, it reaches {statistics.mean(reached):.3f} instead of {row[bits]:.3f} at {bits} bits."


def _variance_of_arm(method: str, dataset: str) -> Reason:
    return Reason(
        "the variance of ARM's gradient for the most part, in the epochs that the preset has; the paper does not tell"
        " its own. With the closed-form gradient in ARM's place and all else as it is, looked at with one seed"
        " (`fewbits bench run ablation`)",
        Spec(method, dataset, 32, 0, parameters={"estimator": "flip"}),
    )


REASONS = {("arm-dvae", "reuters"): _variance_of_arm("arm-dvae", "reuters")}


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


def render_comparison(results: Iterable[Result]) -> str:
    """Tables in Markdown: for each data set every method's row, the published one below it, and the verdict."""
    found = list(results)
    ours: defaultdict[tuple[str, str], defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in found:
        if result.part == "test" and not difference_from_own(result):
            ours[result.method, result.dataset][result.bits].append(result.metrics["precision_at_100"])
    published = published_precision()
    datasets = sorted({dataset for method, dataset in ours if (method, dataset) in published})
    return "\n".join([INTRODUCTION, *(_dataset(dataset, ours, published, found) for dataset in datasets)])


def _dataset(dataset: str, ours: Any, published: dict[tuple[str, str], dict[int, float]], results: list[Result]) -> str:
    lengths = sorted({bits for (_, name), row in ours.items() if name == dataset for bits in row})
    rows, reasons = [], []
    for method in METHODS:
        row = {bits: statistics.mean(values) for bits, values in ours.get((method, dataset), {}).items()}
        if not row:
            continue
        printed = published.get((method, dataset), {})
        said, gap = verdict(row, printed)
        rows.append([METHODS[method].title, *(_cell(row.get(bits)) for bits in lengths), said])
        if printed:
            rows.append(["published", *(_cell(printed.get(bits)) for bits in lengths), ""])
        if gap < -FAR:
            reason = REASONS.get((method, dataset))
            told = reason.with_figures(row, results) if reason else NO_REASON
            reasons.append(f"- {METHODS[method].title}: {told}")
    table = markdown([f"{dataset}, precision at 100", *(f"{bits} bits" for bits in lengths), "verdict"], rows)
    return "\n".join([f"## {dataset}\n", table, *(["Why so much worse:\n", *reasons, ""] if reasons else [])])


def verdict(ours: dict[int, float], printed: dict[int, float]) -> tuple[str, float]:
    """Say how a row compares with the published one, by the mean difference over the lengths that both have."""
    both = sorted(set(ours) & set(printed))
    if not both:
        return "not published", 0.0
    gap = statistics.mean(ours[bits] - printed[bits] for bits in both)
    said = "agrees" if abs(gap) <= TOLERANCE else "better" if gap > 0 else "worse"
    return f"{said} ({gap:+.3f})", gap


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


INTRODUCTION = f"""\
# Beside the published figures

Rendered by `fewbits bench report` from the files in `results/` and from the figures of the
paper's tables (`src/fewbits/benchmark/published.json`, with their sources). Ours are means over the seeds, on the same
splits for every method; the published ones are on the paper's own splits. *Verdict*: the mean difference over the
lengths; within {TOLERANCE} the rows agree. Where ours are worse by more than {FAR} the reason stands below.
"""
