"""The page that has every table of the paper: ours beside the published figures, with a verdict on each row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scipy.stats import rankdata

from fewbits.benchmark.experiments.latent import Figure
from fewbits.benchmark.report.paper import DATASETS, LENGTHS, SETTINGS, collection_table, more_tables
from fewbits.benchmark.report.published import PLACES, TOLERANCE, verdict, verdict_by_place
from fewbits.benchmark.report.tables import CHOSEN_WITH_LABELS, OF_OTHER_WORDS, Cell, Row, Table, paper_presets
from fewbits.benchmark.spec import Spec
from fewbits.benchmark.store import Store

FAR, FAR_PLACES = 0.05, 3.0  # a row that is worse by so much has its reason told
NO_REASON = "reason not found yet"


@dataclass(frozen=True)
class Reason:
    """Why a row is far worse than the published one, and a run that differs in just that."""

    text: str
    shown_by: Spec

    def with_figures(self, ours: Mapping[int, float], store: Store) -> str:
        """The reason with what the run has reached beside the row's own figure, where it has been done."""
        reached, bits = store.cell([self.shown_by]).mean, self.shown_by.bits
        if reached is None or bits not in ours:
            return NO_REASON
        return f"{self.text}, it reaches {reached:.3f} instead of {ours[bits]:.3f} at {bits} bits."


def _variance_of_arm(method: str, dataset: str) -> Reason:
    return Reason(
        "the variance of ARM's gradient for the most part, in the epochs that the preset has; the paper does not tell"
        " its own. With the closed-form gradient in ARM's place and all else as it is, looked at with one seed"
        " (`fewbits bench run ablation`)",
        Spec(method, dataset, 32, 0, parameters={"estimator": "flip"}),
    )


REASONS = {row: _variance_of_arm(*row) for row in (("arm-dvae", "reuters"), ("psh-arm", "tmc"))}


def render_comparison(store: Store, figures: Iterable[Figure]) -> str:
    """The page in Markdown."""
    collections = [
        part
        for setting in SETTINGS
        for dataset in DATASETS
        for part in _collection(store, dataset, collection_table(store, dataset, setting))
    ]
    tables = [table.markdown() for table in more_tables(store, figures)]
    others = [" ".join(store.others) + "\n"] if store.others else []
    return "\n".join([INTRODUCTION, *others, *collections, *tables])


def _collection(store: Store, dataset: str, table: Table) -> list[str]:
    if dataset in OF_OTHER_WORDS:
        verdicts, far = [verdict_by_place(gains) for gains in _places_gained(table)], FAR_PLACES
    else:
        verdicts, far = [_compare(row) for row in table.rows], FAR
    reasons = [
        f"- {row.title}: {_why(store, row, dataset)}"
        for row, (_, gain) in zip(table.rows, verdicts, strict=True)
        if round(gain, 3) <= -far
    ]
    judged = _judged(table, [said for said, _ in verdicts])
    return [judged, *(["Why so much worse:\n", *reasons, ""] if reasons else [])]


def _judged(table: Table, verdicts: list[str]) -> str:
    rows = [
        dataclasses.replace(row, cells=[*row.cells, Cell(text=said)])
        for row, said in zip(table.rows, verdicts, strict=True)
    ]
    return dataclasses.replace(table, rows=rows, columns=[*table.columns, "verdict"]).markdown()


def _places_gained(table: Table) -> list[list[float]]:
    """By how many places each row stands before its published place among the rows that have both figures."""
    gained: list[list[float]] = [[] for _ in table.rows]
    for cells in zip(*(row.cells for row in table.rows), strict=True):  # a length each
        both = [
            (gains, cell.mean, cell.published)
            for gains, cell in zip(gained, cells, strict=True)
            if cell.mean is not None and cell.published is not None
        ]
        ours, theirs = rankdata([mean for _, mean, _ in both]), rankdata([figure for *_, figure in both])
        for (gains, *_), place, printed in zip(both, ours, theirs, strict=True):
            gains.append(float(place - printed))  # ranks rise with the precision
    return gained


def _compare(row: Row) -> tuple[str, float]:
    printed = {bits: cell.published for bits, cell in zip(LENGTHS, row.cells, strict=True)}
    return verdict(_means(row), {bits: value for bits, value in printed.items() if value is not None})


def _means(row: Row) -> dict[int, float]:
    means = {bits: cell.mean for bits, cell in zip(LENGTHS, row.cells, strict=True)}
    return {bits: mean for bits, mean in means.items() if mean is not None}


def _why(store: Store, row: Row, dataset: str) -> str:
    reason = REASONS.get((row.method, dataset))
    return reason.with_figures(_means(row), store) if reason else NO_REASON


INTRODUCTION = f"""\
# Beside the published figures

Rendered by `fewbits bench report` from the files in `results/` and from the figures of the
paper's tables (`src/fewbits/benchmark/published.json`, with their sources). Ours are means over the seeds, ± the
standard deviation, on the same splits for every method; the published ones, in parentheses, are on the paper's own
splits. *Verdict*: the mean difference over the lengths; within {TOLERANCE} the rows agree. Where ours are worse by
{FAR} or more the reason stands below. Where figures cannot be compared (TMC) the verdict goes by the place that a
method has among the others; within {PLACES:g} the rows agree, from {FAR_PLACES:g} worse on the reason is told.

{CHOSEN_WITH_LABELS}

{paper_presets()}
"""
