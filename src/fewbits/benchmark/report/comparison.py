"""The page with all tables of the paper: our figures beside the published ones, with a verdict per row."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import rankdata

from fewbits.benchmark.experiments.latent import Figure
from fewbits.benchmark.report.paper import DATASETS, LENGTHS, SETTINGS, collection_table, more_tables
from fewbits.benchmark.report.published import CHOSEN_WITH_LABELS, DIFFERENT_FEATURES, paper_presets
from fewbits.benchmark.report.tables import Cell, Row, Table
from fewbits.benchmark.results import Store
from fewbits.benchmark.spec import Spec

TOLERANCE, TOLERANCE_RANKS = 0.02, 1.0  # of the mean over the lengths: within it, two rows agree
FAR, FAR_RANKS = 0.05, 3.0  # a row that is worse by this much is explained
NO_REASON = "reason unknown"
NOT_PUBLISHED = "not published"


@dataclass(frozen=True)
class Reason:
    """Why a row is much worse than the published one, with a run that differs only in the cause."""

    text: str
    evidence: Spec

    def with_figures(self, ours: Mapping[int, float], store: Store) -> str:
        """Return the reason with the precision of the run, or NO_REASON if there is no result."""
        precision, bits = Cell(store.precisions([self.evidence])).mean, self.evidence.bits
        if precision is None or bits not in ours:
            return NO_REASON
        return f"{self.text}, the precision at {bits} bits is {precision:.3f} instead of {ours[bits]:.3f}."


def _variance_of_arm(method: str, dataset: str) -> Reason:
    return Reason(
        "mostly because the gradient of ARM has a high variance for the preset's number of epochs (the paper does not"
        " state its own). With the closed-form gradient instead of ARM and otherwise equal settings (one seed,"
        " `fewbits bench run ablation`)",
        Spec(method, dataset, 32, 0, parameters={"estimator": "flip"}),
    )


REASONS = {row: _variance_of_arm(*row) for row in (("arm-dvae", "reuters"), ("psh-arm", "tmc"))}


def render_comparison(store: Store, figures: Iterable[Figure]) -> str:
    """Return the page in Markdown."""
    collections = [
        part
        for setting in SETTINGS
        for dataset in DATASETS
        for part in _collection(store, dataset, collection_table(store, dataset, setting))
    ]
    tables = [table.markdown() for table in more_tables(store, figures)]
    exclusions = [" ".join(store.exclusions) + "\n"] if store.exclusions else []
    return "\n".join([INTRODUCTION, *exclusions, *collections, *tables])


def verdict(ours: Mapping[int, float], published: Mapping[int, float]) -> tuple[str, float]:
    """Return a verdict on a row, and the mean difference over the lengths that have both figures."""
    lengths = sorted(set(ours) & set(published))
    if not lengths:
        return NOT_PUBLISHED, 0.0
    difference = statistics.mean(ours[bits] - published[bits] for bits in lengths)
    return f"{_verdict_text(difference, TOLERANCE)} ({difference:+.3f})", difference


def verdict_by_rank(gains: Sequence[float]) -> tuple[str, float]:
    """Return a verdict on a row from the ranks gained over the published order at each length, and their mean."""
    if not gains:
        return NOT_PUBLISHED, 0.0
    gain = statistics.mean(gains)
    return f"{_verdict_text(gain, TOLERANCE_RANKS)} ({gain:+.1f} ranks)", gain


def _verdict_text(difference: float, tolerance: float) -> str:
    return "agrees" if abs(difference) <= tolerance else "better" if difference > 0 else "worse"


def _collection(store: Store, dataset: str, table: Table) -> list[str]:
    """Return the table with verdicts, and the reasons for rows that are much worse."""
    if dataset in DIFFERENT_FEATURES:
        verdicts, far = [verdict_by_rank(gains) for gains in _rank_gains(table)], FAR_RANKS
    else:
        verdicts, far = [verdict(_means(row), _published(row)) for row in table.rows], FAR
    reasons = [
        f"- {row.title}: {_reason(store, row, dataset)}"
        for row, (_, gain) in zip(table.rows, verdicts, strict=True)
        if round(gain, 3) <= -far
    ]
    with_verdicts = _with_verdicts(table, [text for text, _ in verdicts])
    return [with_verdicts, *(["Reasons for rows that are much worse:\n", *reasons, ""] if reasons else [])]


def _with_verdicts(table: Table, verdicts: list[str]) -> str:
    rows = [
        dataclasses.replace(row, cells=[*row.cells, Cell(text=text)])
        for row, text in zip(table.rows, verdicts, strict=True)
    ]
    return dataclasses.replace(table, rows=rows, columns=[*table.columns, "verdict"]).markdown()


def _rank_gains(table: Table) -> list[list[float]]:
    """Return for each row and length the ranks gained over the published order, among the rows with both figures."""
    gains: list[list[float]] = [[] for _ in table.rows]
    for cells in zip(*(row.cells for row in table.rows), strict=True):  # the cells of one length
        complete = [
            (row_gains, cell.mean, cell.published)
            for row_gains, cell in zip(gains, cells, strict=True)
            if cell.mean is not None and cell.published is not None
        ]
        ours, published = rankdata([mean for _, mean, _ in complete]), rankdata([figure for *_, figure in complete])
        for (row_gains, *_), our_rank, published_rank in zip(complete, ours, published, strict=True):
            row_gains.append(float(our_rank - published_rank))  # ranks increase with the precision
    return gains


def _means(row: Row) -> dict[int, float]:
    means = {bits: cell.mean for bits, cell in zip(LENGTHS, row.cells, strict=True)}
    return {bits: mean for bits, mean in means.items() if mean is not None}


def _published(row: Row) -> dict[int, float]:
    published = {bits: cell.published for bits, cell in zip(LENGTHS, row.cells, strict=True)}
    return {bits: figure for bits, figure in published.items() if figure is not None}


def _reason(store: Store, row: Row, dataset: str) -> str:
    reason = REASONS.get((row.method, dataset))
    return reason.with_figures(_means(row), store) if reason else NO_REASON


INTRODUCTION = f"""\
# Comparison with the published figures

Rendered by `fewbits bench report` from the files in `results/` and the figures of the paper's tables
(`src/fewbits/benchmark/published.json`, with sources). Our figures are means over the seeds, ± the standard deviation;
all methods use the same splits. The published figures, in parentheses, were measured on the paper's splits. The
*verdict* is the mean difference over the code lengths: a row agrees if the difference is at most {TOLERANCE}, and is
explained below the table if it is worse by {FAR} or more. On TMC, where figures cannot be compared, the verdict is the
mean difference in rank among the methods: a row agrees if it is at most {TOLERANCE_RANKS:g}, and is explained if it is
worse by {FAR_RANKS:g} or more.

{CHOSEN_WITH_LABELS}

{paper_presets()}
"""
