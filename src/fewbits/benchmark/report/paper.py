"""The tables of the paper, with our figure and the published one in each cell."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from scipy.stats import spearmanr

from fewbits.benchmark.experiments.estimators import EstimatorFacts
from fewbits.benchmark.experiments.latent import BITS, DATASET, WORDS, Figure, figures_of_the_paper
from fewbits.benchmark.report.published import (
    DIFFERENT_FEATURES,
    published_figures,
    published_precision,
    published_words,
)
from fewbits.benchmark.report.tables import Cell, Row, Table, in_registry_order
from fewbits.benchmark.results import Store
from fewbits.benchmark.spec import Spec, load_suite
from fewbits.hashers.registry import METHODS

DATASETS = ("reuters", "ng20", "tmc")
TITLES = {"reuters": "Reuters", "ng20": "20 Newsgroups", "tmc": "TMC", "arxiv": "arXiv"}
LENGTHS = (8, 16, 32, 64, 128)
SETTINGS = {"unsupervised": ("unsupervised",), "supervised": ("semi-supervised", "supervised")}
NEAR_CHANCE, FAR_ABOVE = 0.02, 0.1  # distances from the precision of a random ranking
LONG_SUITES = ("paper", "ablation", "estimators", "scale")  # results of the suite quick depend on the Python version
ABLATIONS = {  # parameter: its name in the published figures and on the page, and its description
    "pair_weight": ("beta", "β, the weight of the pair loss"),
    "kl_weight": ("kl_weight", "λ, the weight of the KL term"),
    "svm_share": ("svm_share", "the share of NB-SVMs in the encoder"),
    "estimator": ("estimator", "the gradient estimator"),
    "label_weight": ("alpha", "alpha, the weight of the classifier"),
}


def collection_table(store: Store, dataset: str, setting: str) -> Table:
    """Return the precision at 100 of all methods of a setting on one collection, per code length."""
    specs = [
        spec
        for spec in load_suite("paper").specs
        if spec.dataset == dataset and METHODS[spec.method].setting in SETTINGS[setting]
    ]
    published = published_precision()
    table = Table(
        name=f"{setting}-{dataset}",
        title=f"{TITLES[dataset]}, {setting}",
        columns=_length_columns(),
        rows=[
            Row(name, METHODS[name].title, _cells(store, specs, name, published.get((name, dataset), {})))
            for name in in_registry_order({spec.method for spec in specs})
        ],
        command="fewbits bench run paper",
        notes=[*_chance_levels(store, specs), *store.shortfall(specs)],
    )
    if dataset in DIFFERENT_FEATURES:
        table.notes[:0] = [DIFFERENT_FEATURES[dataset], *_rank_correlation(table)]
    else:
        table.notes.extend(_near_chance(store, table, specs))
    return table


def ablation_table(store: Store, parameter: str) -> Table:
    """Return the precision over the values of one parameter, with the published figures if there are any."""
    name, description = ABLATIONS[parameter]
    specs = [spec for spec in load_suite("ablation").specs if set(spec.parameters) - set(_fixed(spec)) == {parameter}]
    series = list(dict.fromkeys((spec.method, spec.dataset, spec.bits) for spec in specs))
    fixed = {spec.method: _fixed(spec) for spec in specs}
    tried = {_hashable(spec.parameters[parameter]) for spec in specs}
    presets = {_hashable(spec.preset_value(parameter)) for spec in specs}
    values = sorted(tried | presets, key=lambda value: (isinstance(value, str), value))
    published = {(f["method"], f[name]): f["value"] for f in published_figures() if name in f}
    collections = {(dataset, bits): f"{TITLES[dataset]}, {bits} bits" for _, dataset, bits in series}

    def row(method: str, dataset: str, bits: int) -> Row:
        title = METHODS[method].title
        runs = [Spec(method, dataset, bits, 0, parameters={**fixed[method], parameter: value}) for value in values]
        cells = [
            Cell(store.precisions([run]), published.get((title, value)))
            for run, value in zip(runs, values, strict=True)
        ]
        return Row(method, title if len(collections) == 1 else f"{title}, {TITLES[dataset]}", cells)

    table = Table(
        name=f"ablation-{name}",
        title=f"Precision over {description} ({'; '.join(collections.values())})",
        columns=[_value_text(value) for value in values],
        rows=[row(*one) for one in sorted(series, key=lambda one: list(METHODS).index(one[0]))],
        command="fewbits bench run ablation" + ("" if presets <= tried else " && fewbits bench run paper"),
        has_best=len(collections) == 1,
    )
    agreement = _agreement(table) if published else []
    table.notes.extend([*agreement, *_chance_levels(store, specs), *store.shortfall(specs)])
    return table


def scale_table(store: Store) -> Table:
    """Return the precision on the large collection per code length, with time and memory."""
    specs = load_suite("scale").specs
    published: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for figure in published_figures():
        if figure["dataset"] == "rcv1":
            published[figure["method"]][figure["bits"]] = figure["value"]
    rows = []
    for method in in_registry_order({spec.method for spec in specs}):
        runs = [result for spec in _where(specs, method=method) for result in store.runs(spec)]
        epochs = [run.seconds["epoch"] for run in runs if "epoch" in run.seconds]
        costs = [
            f"{statistics.median(some):.0f}" if some else "" for some in (epochs, [r.seconds["fit"] for r in runs])
        ]
        costs.append(f"{max(run.peak_memory_mb for run in runs):.0f}" if runs else "")
        cells = _cells(store, specs, method, published[METHODS[method].title])
        rows.append(Row(method, METHODS[method].title, [*cells, *(Cell(text=text) for text in costs)]))
    return Table(
        name="scale",
        title="A large collection (arXiv, 105,537 training documents)",
        columns=[*_length_columns(), "s per epoch", "s in total", "peak MB"],
        rows=rows,
        command="fewbits bench run scale",
        notes=[
            *_chance_levels(store, specs),
            "ARM-DVAE, PSH-ARM and PSH-GS are trained for ten epochs, the NASH and VDSH families and S-RBM for five,"
            " BernoulliVAE and PairwiseHasher for their default number.",
            "The published figures are for RCV1, another collection of about this size.",
            *store.shortfall(specs),
        ],
    )


def words_table(figures: Iterable[Figure]) -> Table:
    """Return the nearest words of some words by the decoder's embeddings."""
    published = published_words()
    by_method = figures_of_the_paper(figures)

    def cell(method: str, word: str) -> Cell:
        ours = by_method[method].words.get(word, []) if method in by_method else []
        theirs = published.get(METHODS[method].title, {}).get(word, [])
        return Cell(text=", ".join(ours), published_text=", ".join(theirs))

    methods = ("arm-dvae", "nash", "bernoulli-vae")
    missing = [METHODS[name].title for name in methods if name not in by_method]
    return Table(
        name="words",
        title=f"The four nearest words in the decoder's embeddings ({TITLES[DATASET]}, {BITS} bits)",
        columns=list(WORDS),
        rows=[Row(name, METHODS[name].title, [cell(name, word) for word in WORDS]) for name in methods],
        command="fewbits bench figures",
        notes=[f"Missing: {', '.join(missing)}."] if missing else [],
    )


def variance_table(estimators: Iterable[Sequence[EstimatorFacts]]) -> Table:
    """Return variance, bias and time of each gradient estimator, per code length."""
    rows: dict[str, list[Cell]] = {}
    columns, lengths = [], []
    for facts in estimators:
        if facts[0].dataset != DATASET:
            continue
        lengths.append(facts[0].bits)
        columns += [f"{measure}, {lengths[-1]} bits" for measure in ("variance / ARM's", "bias", "ms per step")]
        for one in facts:
            texts = (f"{one.relative_variance:.4f}", one.bias_text, f"{one.milliseconds:.1f}")
            rows.setdefault(one.estimator, []).extend(Cell(text=text) for text in texts)
    return Table(
        name="variance",
        title=f"Variance of the gradient estimators ({TITLES[DATASET]})",
        columns=columns,
        rows=[Row(name, name, cells) for name, cells in rows.items()],
        command=" ".join(["fewbits bench estimators --dataset ng20 --save", *(f"--bits {bits}" for bits in lengths)]),
    )


def times_table(store: Store) -> Table:
    """Return the estimated time of each suite."""
    suites = {name: list({spec.key: spec for spec in load_suite(name).specs}.values()) for name in LONG_SUITES}
    unknown = {name: store.times.total(specs)[1] for name, specs in suites.items()}
    not_counted = ", ".join(f"{count} of {name}" for name, count in unknown.items() if count)

    def cells(specs: Sequence[Spec]) -> list[Cell]:
        hours = store.times.total(specs)[0] / 3600
        figures = (f"{len(specs):,}", str(store.count_missing(specs)), f"{hours:.1f}", f"{hours / 2:.1f}")
        return [Cell(text=figure) for figure in figures]

    return Table(
        name="times",
        title="Time per suite",
        columns=["runs", "missing", "hours on one core", "hours on two cores"],
        rows=[Row(name, name, cells(specs)) for name, specs in suites.items()],
        command="fewbits bench report",
        notes=[
            "Time to fit, encode and evaluate all runs of a suite, each with one thread. The time of a run is the"
            " median over the seeds of its cell or, if the cell has no result, over the runs of its method on its data"
            " set. Some runs were measured on a busy machine.",
            *([f"Not counted, for lack of comparable results: {not_counted}."] if not_counted else []),
        ],
        row_header="suite",
    )


def more_tables(store: Store, figures: Iterable[Figure]) -> list[Table]:
    """Return the tables other than those of the three collections."""
    return [
        *(ablation_table(store, name) for name in ABLATIONS),
        words_table(figures),
        scale_table(store),
        times_table(store),
    ]


def _length_columns() -> list[str]:
    return [f"{bits} bits" for bits in LENGTHS]


def _cells(store: Store, specs: Sequence[Spec], method: str, published: dict[int, float]) -> list[Cell]:
    """Return the cells of one method, one per code length."""
    return [Cell(store.precisions(_where(specs, method=method, bits=bits)), published.get(bits)) for bits in LENGTHS]


def _fixed(spec: Spec) -> dict[str, Any]:
    """Return the parameters of a specification that keep the settings of an earlier default."""
    return {
        name: spec.parameters[name] for name in METHODS[spec.method].hasher.legacy_values if name in spec.parameters
    }


def _hashable(value: Any) -> Any:
    """Return a parameter's value with a list, as TOML has for a weight that increases, as a tuple."""
    return tuple(value) if isinstance(value, list) else value


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return " to ".join(map(_value_text, value))
    return value if isinstance(value, str) else f"{value:g}"


def _near_chance(store: Store, table: Table, specs: Sequence[Spec]) -> list[str]:
    """Name the published figures that are near chance although ours are far above it."""
    levels = {result.metrics["random_floor"] for spec in specs for result in store.runs(spec)}
    if not levels:
        return []
    chance = max(levels)
    rows = []
    for row in table.rows:
        lengths = [
            column.removesuffix(" bits")
            for column, cell in zip(table.columns, row.cells, strict=True)
            if cell.published is not None
            and cell.published < chance + NEAR_CHANCE
            and (cell.mean or 0) > chance + FAR_ABOVE
        ]
        if lengths:
            rows.append(f"{row.title} at {', '.join(lengths)} bits")
    return (
        [f"The published figures are near the chance level, and ours far above it, for {'; '.join(rows)}."]
        if rows
        else []
    )


def _where(specs: Sequence[Spec], **values: Any) -> list[Spec]:
    return [spec for spec in specs if all(getattr(spec, name) == value for name, value in values.items())]


def _chance_levels(store: Store, specs: Sequence[Spec]) -> list[str]:
    """State the precision of a random ranking on each data set."""
    levels = {spec.dataset: store.chance_levels[spec.dataset] for spec in specs if spec.dataset in store.chance_levels}
    texts = [f"{level:.4f}" + (f" on {TITLES[name]}" if len(levels) > 1 else "") for name, level in levels.items()]
    return [f"Chance level: {', '.join(texts)}."] if texts else []


def _rank_correlation(table: Table) -> list[str]:
    """State the rank correlation of our means with the published figures at each length."""
    correlations = []
    for column, cells in zip(table.columns, zip(*(row.cells for row in table.rows), strict=True), strict=True):
        both = [(cell.mean, cell.published) for cell in cells if cell.mean is not None and cell.published is not None]
        if len(both) > 2:
            correlations.append(f"{spearmanr(*zip(*both, strict=True)).statistic:.2f} at {column}")
    title = "Rank correlation (Spearman) of our means with the published figures"
    return [f"{title}: {', '.join(correlations)}."] if correlations else []


def _agreement(table: Table) -> list[str]:
    """State whether PSH-ARM's best value is the published one within the spread of the seeds, and how both curves run.

    A curve that is flat within the spread of its seeds has no best value.
    """
    [row] = [row for row in table.rows if row.method == "psh-arm"]
    cells = {column: cell for column, cell in zip(table.columns, row.cells, strict=True) if cell.published is not None}
    theirs = {column: cell.published for column, cell in cells.items() if cell.published is not None}
    ours = {column: cell.mean for column, cell in cells.items() if cell.mean is not None}
    if len(ours) < len(theirs):
        return []
    their_best, our_best = (max(figures, key=figures.__getitem__) for figures in (theirs, ours))
    spread = max(cell.spread or 0.0 for cell in cells.values())
    their_range, our_range = (max(figures.values()) - min(figures.values()) for figures in (theirs, ours))
    within = f"Within the spread of the seeds ({spread:.3f})"
    if our_range <= spread < their_range:
        conclusion = (
            f"{within}, our precision does not depend on the value, and the published decrease is not reproduced"
        )
    elif their_best == our_best:
        conclusion = "The best values agree"
    elif ours[our_best] - ours[their_best] <= spread:
        conclusion = f"{within}, the best values agree"
    else:
        conclusion = "The best values do not agree"
    notes = [
        f"Over the paper's values, the published precision {_extremes(theirs)}; ours {_extremes(ours)}. {conclusion}."
    ]
    if our_range > spread:
        notes.append(_changes(theirs, ours, spread))
    return [*notes, _all_values(table)]


def _changes(theirs: dict[str, float], ours: dict[str, float], spread: float) -> str:
    """State between which values our precision changes in the published direction by more than the spread."""
    same: list[str] = []
    opposite: list[str] = []
    for before, after in pairwise(theirs):
        our_change, their_change = (figures[after] - figures[before] for figures in (ours, theirs))
        if abs(our_change) > spread:
            (same if our_change * their_change > 0 else opposite).append(f"from {before} to {after}")
    same_text, opposite_text = (" and ".join(steps) or "none" for steps in (same, opposite))
    return (
        f"Changes of our precision between adjacent values that exceed the spread of the seeds ({spread:.3f}):"
        f" {same_text} in the published direction, {opposite_text} in the opposite direction."
    )


def _all_values(table: Table) -> str:
    """State the best and the worst value of each row, over all values tried."""
    rows = []
    for row in table.rows:
        means = {column: cell.mean for column, cell in zip(table.columns, row.cells, strict=True)}
        figures = {column: mean for column, mean in means.items() if mean is not None}
        if len(figures) > 1:
            rows.append(f"{row.title} {_extremes(figures)}")
    return f"Over all values tried, {'; '.join(rows)}."


def _extremes(figures: dict[str, float]) -> str:
    best, worst = max(figures, key=figures.__getitem__), min(figures, key=figures.__getitem__)
    return f"is highest at {best} and lowest at {worst} (a difference of {figures[best] - figures[worst]:.3f})"
