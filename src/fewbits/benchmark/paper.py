"""The paper's tables, filled from the store: ours and the published figure in every cell; missing runs are counted."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from fewbits.benchmark.figures import WORDS, Figure
from fewbits.benchmark.published import published_figures, published_precision
from fewbits.benchmark.results import Result
from fewbits.benchmark.suites import Spec, load_suite
from fewbits.benchmark.tables import markdown
from fewbits.hashers.registry import METHODS

DATASETS = ("reuters", "ng20", "tmc")
TITLES = {"reuters": "Reuters", "ng20": "20 Newsgroups", "tmc": "TMC", "arxiv": "arXiv"}
LENGTHS = (8, 16, 32, 64, 128)
SETTINGS = {"unsupervised": ("unsupervised",), "supervised": ("semi-supervised", "supervised")}
LONG_SUITES = ("paper", "ablation", "estimators", "scale")  # quick is about the reader's own Python
PHASES = ("fit", "encode", "evaluate")
ABLATIONS = {
    "pair_weight": ("beta", "β, the weight of the pair loss"),
    "kl_weight": ("kl_weight", "λ, the weight of the KL term"),
}


@dataclass(frozen=True)
class Cell:
    """A figure of ours over the seeds, the published one, or words."""

    values: tuple[float, ...] = ()
    published: float | None = None
    text: str = ""
    published_text: str = ""

    @property
    def mean(self) -> float | None:
        """Mean over the seeds."""
        return statistics.mean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        ours = self.text
        if self.mean is not None:
            ours = f"{self.mean:.3f}" + (f" ± {self.spread:.3f}" if self.spread is not None else "")
        theirs = self.published_text or ("" if self.published is None else f"{self.published:.3f}")
        return f"{ours} ({theirs})".strip() if theirs else ours


@dataclass(frozen=True)
class Row:
    """A method's cells."""

    method: str
    title: str
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    """A table of the paper; published figures stand in parentheses."""

    name: str
    title: str
    columns: list[str]
    rows: list[Row]
    command: str
    missing: int = 0
    planned: int = 0
    notes: list[str] = field(default_factory=list)
    rows_are: str = "method"

    @property
    def shortfall(self) -> str:
        """How many runs are missing, in words."""
        return f"{self.missing} of {self.planned} runs are missing." if self.missing else ""

    def markdown(self) -> str:
        """The table in Markdown, with its command."""
        rows = [[row.title, *map(str, row.cells)] for row in self.rows]
        notes = " ".join([*self.notes, *([self.shortfall] if self.missing else [])])
        parts = [f"## {self.title}\n", *([notes + "\n"] if notes else []), markdown(["", *self.columns], rows)]
        return "\n".join([*parts, f"Made by: `{self.command}`\n"])


class Store:
    """Results found by what was run, and what of a suite is missing."""

    def __init__(self, results: Iterable[Result]) -> None:
        self.by_cell: defaultdict[str, list[Result]] = defaultdict(list)
        for result in results:
            self.by_cell[result.cell].append(result)

    @cached_property
    def keys(self) -> set[str]:
        """All runs."""
        return {result.key for results in self.by_cell.values() for result in results}

    def of(self, spec: Spec) -> list[Result]:
        """Results of a run and of those that differ by the seed alone."""
        return self.by_cell.get(spec.cell, [])

    def hours(self, specs: Sequence[Spec]) -> float:
        """How long the runs took that have a result, from learning to measuring, one after the other."""
        wanted = {spec.key for spec in specs}
        seconds = (
            sum(result.seconds.get(phase, 0.0) for phase in PHASES)
            for results in self.by_cell.values()
            for result in results
            if result.key in wanted
        )
        return sum(seconds) / 3600

    def missing(self, specs: Sequence[Spec]) -> int:
        """How many runs have no result."""
        return sum(spec.key not in self.keys for spec in specs)

    def cell(self, specs: Sequence[Spec], published: float | None = None) -> Cell:
        """The precision of the runs that a cell stands for, equal but for the seed."""
        values = tuple(result.metrics["precision_at_100"] for result in (self.of(specs[0]) if specs else []))
        return Cell(values, published)


def collection_table(store: Store, dataset: str, setting: str) -> Table:
    """Precision at 100 of all methods of a setting on one collection, at five lengths."""
    specs = [
        spec
        for spec in load_suite("paper").specs
        if spec.dataset == dataset and METHODS[spec.method].setting in SETTINGS[setting]
    ]
    printed = published_precision()

    def cells(method: str) -> list[Cell]:
        of_method = _where(specs, method=method)
        theirs = printed.get((method, dataset), {})
        return [store.cell(_where(of_method, bits=bits), theirs.get(bits)) for bits in LENGTHS]

    methods = [name for name in METHODS if any(spec.method == name for spec in specs)]
    return Table(
        name=f"{setting}-{dataset}",
        title=f"{TITLES[dataset]}, {setting}",
        columns=[f"{bits} bits" for bits in LENGTHS],
        rows=[Row(name, METHODS[name].title, cells(name)) for name in methods],
        command="fewbits bench run paper",
        missing=store.missing(specs),
        planned=len(specs),
        notes=_floor(store, specs),
    )


def ablation_table(store: Store, parameter: str) -> Table:
    """Precision over the values of one weight on 20 Newsgroups at 32 bits."""
    theirs_name, what = ABLATIONS[parameter]
    specs = [spec for spec in load_suite("ablation").specs if _varies(spec, parameter)]
    values = sorted({spec.parameters[parameter] for spec in specs})
    printed = {f[theirs_name]: f["value"] for f in published_figures() if theirs_name in f}
    rows = []
    for method in [name for name in METHODS if any(spec.method == name for spec in specs)]:
        of_method = _where(specs, method=method)
        cells = [
            store.cell(
                _where(of_method, parameters={parameter: value}),
                printed.get(value) if method == "psh-arm" else None,
            )
            for value in values
        ]
        rows.append(Row(method, METHODS[method].title, cells))
    table = Table(
        name=f"ablation-{theirs_name}",
        title=f"Precision over {what} (20 Newsgroups, 32 bits)",
        columns=[f"{value:g}" for value in values],
        rows=rows,
        command="fewbits bench run ablation",
        missing=store.missing(specs),
        planned=len(specs),
    )
    table.notes.extend(_agreement(table))
    return table


def scale_table(store: Store) -> Table:
    """The large collection: precision at five lengths and seconds an epoch; published figures are on RCV1."""
    specs = load_suite("scale").specs
    printed: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for figure in published_figures():
        if figure["dataset"] == "rcv1":
            printed[figure["method"]][figure["bits"]] = figure["value"]
    rows = []
    for method in [name for name in METHODS if any(spec.method == name for spec in specs)]:
        of_method = _where(specs, method=method)
        theirs = printed[METHODS[method].title]
        cells = [store.cell(_where(of_method, bits=bits), theirs.get(bits)) for bits in LENGTHS]
        epochs = [
            result.seconds["epoch"] for spec in of_method for result in store.of(spec) if "epoch" in result.seconds
        ]
        fits = [result.seconds["fit"] for spec in of_method for result in store.of(spec)]
        times = [f"{statistics.median(found):.0f}" if found else "" for found in (epochs, fits)]
        rows.append(Row(method, METHODS[method].title, [*cells, *(Cell(text=text) for text in times)]))
    return Table(
        name="scale",
        title="A large collection (arXiv, 105,537 training documents)",
        columns=[*(f"{bits} bits" for bits in LENGTHS), "s an epoch", "s in all"],
        rows=rows,
        command="fewbits bench run scale",
        missing=store.missing(specs),
        planned=len(specs),
        notes=[
            *_floor(store, specs),
            "ARM-DVAE, PSH-ARM and PSH-GS have ten epochs, the NASH and VDSH families and S-RBM five; both defaults"
            " have their own.",
            "Published figures are on RCV1, another collection of this size.",
        ],
    )


def words_table(figures: Iterable[Figure]) -> Table:
    """The words nearest to some words by the decoder's embeddings."""
    printed = json.loads(files("fewbits.benchmark").joinpath("published-words.json").read_text(encoding="utf-8"))[
        "words"
    ]
    found = {figure.method: figure for figure in figures}

    def cell(method: str, word: str) -> Cell:
        ours = found[method].words.get(word, []) if method in found else []
        theirs = printed.get(METHODS[method].title, {}).get(word, [])
        return Cell(text=", ".join(ours), published_text=", ".join(theirs))

    methods = ("arm-dvae", "nash", "bernoulli-vae")
    return Table(
        name="words",
        title="The four nearest words in the decoder's embeddings (20 Newsgroups)",
        columns=list(WORDS),
        rows=[Row(name, METHODS[name].title, [cell(name, word) for word in WORDS]) for name in methods],
        command="fewbits bench figures",
        missing=sum(name not in found for name in methods),
        planned=len(methods),
    )


def variance_table(results: Path) -> Table:
    """Variance, bias and time of each gradient estimator, at every length that was measured."""
    rows: dict[str, list[Cell]] = {}
    columns = []
    for path in sorted((Path(results) / "estimators").glob("*.json"), key=lambda path: (len(path.name), path.name)):
        facts = json.loads(path.read_text(encoding="utf-8"))
        columns += [f"{measure}, {facts[0]['bits']} bits" for measure in ("variance / ARM's", "bias", "ms a step")]
        for fact in facts:
            bias = "none" if fact["is_unbiased"] else f"{fact['relative_bias']:.3f}"
            texts = (f"{fact['relative_variance']:.4f}", bias, f"{fact['milliseconds']:.1f}")
            rows.setdefault(fact["estimator"], []).extend(Cell(text=text) for text in texts)
    return Table(
        name="variance",
        title="Variance of the gradient estimators (20 Newsgroups)",
        columns=columns,
        rows=[Row(name, name, cells) for name, cells in rows.items()],
        command="fewbits bench estimators --dataset ng20 --bits 32 --bits 128 --save",
    )


def times_table(store: Store) -> Table:
    """How long each suite took, as its results tell."""
    suites = {name: list({spec.key: spec for spec in load_suite(name).specs}.values()) for name in LONG_SUITES}

    def cells(specs: Sequence[Spec]) -> list[Cell]:
        hours = store.hours(specs)
        figures = (f"{len(specs):,}", str(store.missing(specs)), f"{hours:.1f}", f"{hours / 2:.1f}")
        return [Cell(text=figure) for figure in figures]

    return Table(
        name="times",
        title="How long the suites take",
        columns=["runs", "missing", "hours of one core", "hours on two cores"],
        rows=[Row(name, name, cells(specs)) for name, specs in suites.items()],
        command="fewbits bench report",
        notes=[
            "Learning, encoding and measuring of all runs that have a result, each with one thread, added up. Runs were"
            " not all made on an idle machine."
        ],
        rows_are="suite",
    )


def more_tables(store: Store, figures: Iterable[Figure]) -> list[Table]:
    """The tables of the paper that are not about one of its three collections at five lengths."""
    return [
        *(ablation_table(store, name) for name in ABLATIONS),
        words_table(figures),
        scale_table(store),
        times_table(store),
    ]


def _where(specs: Sequence[Spec], **wanted: Any) -> list[Spec]:
    return [spec for spec in specs if all(getattr(spec, name) == value for name, value in wanted.items())]


def _varies(spec: Spec, parameter: str) -> bool:
    return set(spec.parameters) == {parameter}


def _floor(store: Store, specs: Sequence[Spec]) -> list[str]:
    floors = [result.metrics["random_floor"] for spec in specs for result in store.of(spec)]
    return [f"A random ranking has {floors[0]:.4f}."] if floors else []


def _agreement(table: Table) -> list[str]:
    """Where the best and the worst value are, published and ours, and whether the best is the same."""
    [row] = [row for row in table.rows if row.method == "psh-arm"]
    both = [(column, cell) for column, cell in zip(table.columns, row.cells, strict=True) if cell.published is not None]
    theirs = {column: cell.published for column, cell in both if cell.published is not None}
    ours = {column: cell.mean for column, cell in both if cell.mean is not None}
    if len(ours) < len(theirs):
        return []
    agree = "agree" if max(theirs, key=theirs.__getitem__) == max(ours, key=ours.__getitem__) else "do not agree"
    return [
        f"Over the paper's values, the published precision {_course(theirs)}; ours {_course(ours)}: they {agree} on the"
        " best value."
    ]


def _course(figures: dict[str, float]) -> str:
    best, worst = max(figures, key=figures.__getitem__), min(figures, key=figures.__getitem__)
    return f"is best at {best} and lower by {figures[best] - figures[worst]:.3f} at {worst}"
