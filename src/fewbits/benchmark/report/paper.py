"""The paper's tables, filled from the store: ours and the published figure in every cell; missing runs are counted."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from fewbits.benchmark.experiments.latent import BITS, DATASET, WORDS, Figure, as_in_the_paper
from fewbits.benchmark.report.published import published_figures, published_precision
from fewbits.benchmark.report.tables import OF_OTHER_WORDS, Cell, Row, Table
from fewbits.benchmark.spec import Spec, load_suite
from fewbits.benchmark.store import Store
from fewbits.hashers.registry import METHODS

DATASETS = ("reuters", "ng20", "tmc")
TITLES = {"reuters": "Reuters", "ng20": "20 Newsgroups", "tmc": "TMC", "arxiv": "arXiv"}
LENGTHS = (8, 16, 32, 64, 128)
SETTINGS = {"unsupervised": ("unsupervised",), "supervised": ("semi-supervised", "supervised")}
CHANCE, FAR_ABOVE = 0.02, 0.1  # above a random ranking: hardly, and far
LONG_SUITES = ("paper", "ablation", "estimators", "scale")  # quick is about the reader's own Python
ABLATIONS = {  # parameter: its name in the published figures and in the page, and what it is
    "pair_weight": ("beta", "β, the weight of the pair loss"),
    "kl_weight": ("kl_weight", "λ, the weight of the KL term"),
    "svm_share": ("svm_share", "the share of support vector machines in the encoder"),
    "estimator": ("estimator", "the estimator of the gradient"),
    "label_weight": ("alpha", "alpha, the weight of the classifier"),
}


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
    table = Table(
        name=f"{setting}-{dataset}",
        title=f"{TITLES[dataset]}, {setting}",
        columns=[f"{bits} bits" for bits in LENGTHS],
        rows=[Row(name, METHODS[name].title, cells(name)) for name in methods],
        command="fewbits bench run paper",
        notes=[*_floors(store, specs), *store.shortfall(specs)],
    )
    if dataset in OF_OTHER_WORDS:
        table.notes[:0] = [OF_OTHER_WORDS[dataset], *_same_order(table)]
    else:
        table.notes.extend(_near_chance(store, table, specs))
    return table


def ablation_table(store: Store, parameter: str) -> Table:
    """Precision over the values of one parameter, on what the suite names; published figures where there are any."""
    name, what = ABLATIONS[parameter]
    specs = [spec for spec in load_suite("ablation").specs if set(spec.parameters) == {parameter}]
    places = list(dict.fromkeys((spec.method, spec.dataset, spec.bits) for spec in specs))
    tried = {_as_value(spec.parameters[parameter]) for spec in specs}
    own = {_as_value(spec.own(parameter)) for spec in specs}
    values = sorted(tried | own, key=lambda value: (isinstance(value, str), value))
    printed = {(f["method"], f[name]): f["value"] for f in published_figures() if name in f}
    where = {(dataset, bits): f"{TITLES[dataset]}, {bits} bits" for _, dataset, bits in places}

    def row(method: str, dataset: str, bits: int) -> Row:
        title = METHODS[method].title
        runs = [Spec(method, dataset, bits, 0, parameters={parameter: value}) for value in values]
        cells = [store.cell([run], printed.get((title, value))) for run, value in zip(runs, values, strict=True)]
        return Row(method, title if len(where) == 1 else f"{title}, {TITLES[dataset]}", cells)

    table = Table(
        name=f"ablation-{name}",
        title=f"Precision over {what} ({'; '.join(where.values())})",
        columns=[_in_words(value) for value in values],
        rows=[row(*place) for place in sorted(places, key=lambda place: list(METHODS).index(place[0]))],
        command="fewbits bench run ablation" + ("" if own <= tried else " && fewbits bench run paper"),
        has_best=len(where) == 1,
    )
    agreement = _agreement(table) if printed else []
    table.notes.extend([*agreement, *_floors(store, specs), *store.shortfall(specs)])
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
        costs = [f"{statistics.median(found):.0f}" if found else "" for found in (epochs, fits)]
        peaks = [result.peak_memory_mb for spec in of_method for result in store.of(spec)]
        costs.append(f"{max(peaks):.0f}" if peaks else "")
        rows.append(Row(method, METHODS[method].title, [*cells, *(Cell(text=text) for text in costs)]))
    return Table(
        name="scale",
        title="A large collection (arXiv, 105,537 training documents)",
        columns=[*(f"{bits} bits" for bits in LENGTHS), "s an epoch", "s in all", "peak MB"],
        rows=rows,
        command="fewbits bench run scale",
        notes=[
            *_floors(store, specs),
            "ARM-DVAE, PSH-ARM and PSH-GS have ten epochs, the NASH and VDSH families and S-RBM five; both defaults"
            " have their own.",
            "Published figures are on RCV1, another collection of this size.",
            *store.shortfall(specs),
        ],
    )


def words_table(figures: Iterable[Figure]) -> Table:
    """The words nearest to some words by the decoder's embeddings."""
    printed = json.loads(files("fewbits.benchmark").joinpath("published-words.json").read_text(encoding="utf-8"))[
        "words"
    ]
    found = as_in_the_paper(figures)

    def cell(method: str, word: str) -> Cell:
        ours = found[method].words.get(word, []) if method in found else []
        theirs = printed.get(METHODS[method].title, {}).get(word, [])
        return Cell(text=", ".join(ours), published_text=", ".join(theirs))

    methods = ("arm-dvae", "nash", "bernoulli-vae")
    missing = [METHODS[name].title for name in methods if name not in found]
    return Table(
        name="words",
        title=f"The four nearest words in the decoder's embeddings ({TITLES[DATASET]}, {BITS} bits)",
        columns=list(WORDS),
        rows=[Row(name, METHODS[name].title, [cell(name, word) for word in WORDS]) for name in methods],
        command="fewbits bench figures",
        notes=[f"Missing: {', '.join(missing)}."] if missing else [],
    )


def variance_table(results: Path) -> Table:
    """Variance, bias and time of each gradient estimator, at every length that was measured."""
    rows: dict[str, list[Cell]] = {}
    columns, lengths = [], []
    for path in sorted((Path(results) / "estimators").glob("*.json"), key=lambda path: (len(path.name), path.name)):
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts[0]["dataset"] != DATASET:
            continue
        lengths.append(facts[0]["bits"])
        columns += [f"{measure}, {lengths[-1]} bits" for measure in ("variance / ARM's", "bias", "ms a step")]
        for fact in facts:
            bias = "none" if fact["is_unbiased"] else f"{fact['relative_bias']:.3f}"
            texts = (f"{fact['relative_variance']:.4f}", bias, f"{fact['milliseconds']:.1f}")
            rows.setdefault(fact["estimator"], []).extend(Cell(text=text) for text in texts)
    return Table(
        name="variance",
        title=f"Variance of the gradient estimators ({TITLES[DATASET]})",
        columns=columns,
        rows=[Row(name, name, cells) for name, cells in rows.items()],
        command=" ".join(["fewbits bench estimators --dataset ng20 --save", *(f"--bits {bits}" for bits in lengths)]),
    )


def times_table(store: Store) -> Table:
    """How long each suite takes as a whole, as the runs that were done tell."""
    suites = {name: list({spec.key: spec for spec in load_suite(name).specs}.values()) for name in LONG_SUITES}
    unknown = {name: store.times.together(specs)[1] for name, specs in suites.items()}
    told = ", ".join(f"{count} of {name}" for name, count in unknown.items() if count)

    def cells(specs: Sequence[Spec]) -> list[Cell]:
        hours = store.times.together(specs)[0] / 3600
        figures = (f"{len(specs):,}", str(store.missing(specs)), f"{hours:.1f}", f"{hours / 2:.1f}")
        return [Cell(text=figure) for figure in figures]

    return Table(
        name="times",
        title="How long the suites take",
        columns=["runs", "missing", "hours of one core", "hours on two cores"],
        rows=[Row(name, name, cells(specs)) for name, specs in suites.items()],
        command="fewbits bench report",
        notes=[
            "Learning, encoding and measuring of all runs of a suite, each with one thread: every run counts with the"
            " median over the seeds of its cell, one whose cell has no result with the median of its method on its data"
            " set. Runs were not all made on an idle machine.",
            *([f"Not known and not counted, for want of any such result: {told}."] if told else []),
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


def _as_value(value: Any) -> Any:
    """A parameter's value as it can be compared: a weight that rises is a pair, however it was written."""
    return tuple(value) if isinstance(value, list) else value


def _in_words(value: Any) -> str:
    if isinstance(value, tuple):
        return " to ".join(map(_in_words, value))
    return value if isinstance(value, str) else f"{value:g}"


def _near_chance(store: Store, table: Table, specs: Sequence[Spec]) -> list[str]:
    """Which published figures are hardly above a random ranking where ours are far above it."""
    floors = {result.metrics["random_floor"] for spec in specs for result in store.of(spec)}
    told = []
    for row in table.rows if floors else []:
        floor = max(floors)
        odd = [
            column.removesuffix(" bits")
            for column, cell in zip(table.columns, row.cells, strict=True)
            if cell.published is not None and cell.published < floor + CHANCE and (cell.mean or 0) > floor + FAR_ABOVE
        ]
        if odd:
            told.append(f"{row.title} at {', '.join(odd)} bits")
    return [f"Published figures that are near chance, as no sound run of ours is: {'; '.join(told)}."] if told else []


def _where(specs: Sequence[Spec], **wanted: Any) -> list[Spec]:
    return [spec for spec in specs if all(getattr(spec, name) == value for name, value in wanted.items())]


def _floors(store: Store, specs: Sequence[Spec]) -> list[str]:
    """The precision of a random ranking on each data set."""
    floors = {spec.dataset: store.floors[spec.dataset] for spec in specs if spec.dataset in store.floors}
    told = [f"{floor:.4f}" + (f" on {TITLES[name]}" if len(floors) > 1 else "") for name, floor in floors.items()]
    return [f"A random ranking has {', '.join(told)}."] if told else []


def _same_order(table: Table) -> list[str]:
    """How far our figures put the methods into the published order, at each length."""
    told = []
    for column, cells in zip(table.columns, zip(*(row.cells for row in table.rows), strict=True), strict=True):
        both = [(cell.mean, cell.published) for cell in cells if cell.mean is not None and cell.published is not None]
        if len(both) > 2:
            told.append(f"{spearmanr(*zip(*both, strict=True)).statistic:.2f} at {column}")
    order = "Rank correlation (Spearman's) of our means with the published figures over the methods"
    return [f"{order}: {', '.join(told)}."] if told else []


def _agreement(table: Table) -> list[str]:
    """Where the best and the worst value are, published and ours, and whether both curves say the same but for chance.

    A curve as flat as the spread of its seeds has no best value: it agrees with none.
    """
    [row] = [row for row in table.rows if row.method == "psh-arm"]
    both = {column: cell for column, cell in zip(table.columns, row.cells, strict=True) if cell.published is not None}
    theirs = {column: cell.published for column, cell in both.items() if cell.published is not None}
    ours = {column: cell.mean for column, cell in both.items() if cell.mean is not None}
    if len(ours) < len(theirs):
        return []
    their_best, our_best = (max(figures, key=figures.__getitem__) for figures in (theirs, ours))
    spread = max(cell.spread or 0.0 for cell in both.values())
    theirs_falls, ours_falls = (max(figures.values()) - min(figures.values()) for figures in (theirs, ours))
    agree = "they do not agree on the best value"
    if ours_falls <= spread < theirs_falls:
        agree = (
            f"within the spread of the seeds ({spread:.3f}) ours does not depend on it in this range, and the published"
            " fall is not seen here"
        )
    elif their_best == our_best:
        agree = "they agree on the best value"
    elif ours[our_best] - ours[their_best] <= spread:
        agree = f"within the spread of the seeds ({spread:.3f}) they agree on the best value"
    told = [f"Over the paper's values, the published precision {_course(theirs)}; ours {_course(ours)}: {agree}."]
    if ours_falls > spread:
        told.append(_step_by_step(theirs, ours, spread))
    return [*told, _over_all_values(table)]


def _step_by_step(theirs: dict[str, float], ours: dict[str, float], spread: float) -> str:
    """Between which values our figures, by more than chance, go the way of the published ones, and where not."""
    same: list[str] = []
    opposite: list[str] = []
    for before, after in pairwise(theirs):
        our_way, their_way = (figures[after] - figures[before] for figures in (ours, theirs))
        if abs(our_way) > spread:
            (same if our_way * their_way > 0 else opposite).append(f"from {before} to {after}")
    as_theirs, otherwise = (" and ".join(steps) or "nowhere" for steps in (same, opposite))
    return (
        f"From value to value, by more than the spread of the seeds ({spread:.3f}), ours goes as the published"
        f" precision does {as_theirs}, and the other way {otherwise}."
    )


def _over_all_values(table: Table) -> str:
    """The course of every row over all values that were run, those of our own scale among them."""
    courses = []
    for row in table.rows:
        means = {column: cell.mean for column, cell in zip(table.columns, row.cells, strict=True)}
        known = {column: mean for column, mean in means.items() if mean is not None}
        if len(known) > 1:
            courses.append(f"{row.title} {_course(known)}")
    return f"Over all values that were run, {'; '.join(courses)}."


def _course(figures: dict[str, float]) -> str:
    best, worst = max(figures, key=figures.__getitem__), min(figures, key=figures.__getitem__)
    return f"is best at {best} and lower by {figures[best] - figures[worst]:.3f} at {worst}"
