"""The sections of the HTML page with their tables and charts."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fewbits.benchmark.experiments.estimators import EstimatorFacts
from fewbits.benchmark.experiments.latent import SHOWN_METHODS, Figure, figures_of_the_paper
from fewbits.benchmark.report.charts import Axis, Chart, Curve, bars, class_colours, curves, points
from fewbits.benchmark.report.paper import (
    ABLATIONS,
    DATASETS,
    LENGTHS,
    SETTINGS,
    TITLES,
    ablation_table,
    collection_table,
    scale_table,
    times_table,
    variance_table,
    words_table,
)
from fewbits.benchmark.report.published import CHOSEN_WITH_LABELS, paper_presets
from fewbits.benchmark.report.tables import Cell, Row, Table
from fewbits.benchmark.results import PRECISION, Store
from fewbits.benchmark.spec import load_suite
from fewbits.hashers.registry import METHODS

EMPHASIZED = {
    "bernoulli-vae": 0,
    "pairwise": 0,
    "arm-dvae": 1,
    "psh-arm": 1,
}  # colour indices: 0 for ours, 1 for the paper's
EMPHASIZED_SUPERVISED = ("pairwise", "psh-arm")  # in charts with methods of both settings
ABLATION_CHARTS = ("pair_weight", "kl_weight")  # the ablations of the paper
ESTIMATOR_SHADES = {"flip": 0, "arm": 1}
PRECISION_AXIS = "precision at 100"


@dataclass(frozen=True)
class Section:
    """A heading with an introduction, tables and charts."""

    name: str
    title: str
    text: str
    tables: list[Table]
    charts: list[Chart]


def sections(store: Store, figures: Sequence[Figure], estimators: Sequence[Sequence[EstimatorFacts]]) -> list[Section]:
    """Return all sections of the page, in the order of the paper."""
    return [
        *(_setting(store, setting) for setting in SETTINGS),
        _ablations(store),
        _estimators(store, estimators),
        _latent(figures),
        Section("words", "Nearest words", WORDS, [words_table(figures)], []),
        Section("large", "A large collection", LARGE, [scale_table(store)], []),
        Section("times", "Time", TIMES, [times_table(store)], []),
    ]


def _setting(store: Store, setting: str) -> Section:
    tables = [collection_table(store, dataset, setting) for dataset in DATASETS]
    charts = [_over_bits(store, table, dataset) for table, dataset in zip(tables, DATASETS, strict=True)]
    return Section(setting, f"{setting.capitalize()} hashing", SETTING[setting], tables, charts)


def _over_bits(store: Store, table: Table, dataset: str) -> Chart:
    axis = Axis("bits", LENGTHS, [str(bits) for bits in LENGTHS], "log")
    lines = [curve for row in table.rows if (curve := _curve(row, LENGTHS))]
    svg = curves(f"bits-{table.name}", lines, axis, PRECISION_AXIS, store.chance_levels.get(dataset))
    return Chart(f"bits-{table.name}", f"{TITLES[dataset]}: precision over bits", svg, table.command, BAND)


def _ablations(store: Store) -> Section:
    tables = {parameter: ablation_table(store, parameter) for parameter in ABLATIONS}
    charts = [_over_values(tables[parameter], ABLATIONS[parameter][1]) for parameter in ABLATION_CHARTS]
    return Section("ablations", "Ablations", ABLATION, list(tables.values()), charts)


def _over_values(table: Table, description: str) -> Chart:
    """Draw the precision over equally spaced values: neither a linear nor a logarithmic scale suits them."""
    positions = range(len(table.columns))
    lines = [curve for row in table.rows if (curve := _curve(row, positions, EMPHASIZED_SUPERVISED))]
    for row in table.rows:
        cells = zip(positions, row.cells, strict=True)
        published = [(position, cell.published) for position, cell in cells if cell.published is not None]
        if published:
            x, y = zip(*published, strict=True)
            shade = EMPHASIZED[row.method]
            lines.append(Curve(f"{row.title}, published", x, y, dashed=True, strong=True, shade=shade))
    svg = curves(table.name, lines, Axis(description, list(positions), table.columns), PRECISION_AXIS)
    return Chart(f"chart-{table.name}", f"Precision over {description}", svg, table.command, BAND)


def _curve(row: Row, x: Sequence[float], emphasized: Collection[str] = EMPHASIZED) -> Curve | None:
    cells: list[tuple[float, Cell]] = [(at, cell) for at, cell in zip(x, row.cells, strict=True) if cell.values]
    if not cells:
        return None
    means = [statistics.mean(cell.values) for _, cell in cells]
    spread = [cell.spread or 0.0 for _, cell in cells]
    is_strong = row.method in emphasized
    shade = EMPHASIZED[row.method] if is_strong else list(METHODS).index(row.method)
    return Curve(row.title, [at for at, _ in cells], means, spread, is_strong, shade=shade)


def _estimators(store: Store, estimators: Sequence[Sequence[EstimatorFacts]]) -> Section:
    variance = variance_table(estimators)
    charts = [_over_seconds(store)]
    if variance.rows:
        measured = [number for number, column in enumerate(variance.columns) if column.startswith("variance")]
        groups = {
            variance.columns[number].split(", ")[1]: [float(row.cells[number].text) for row in variance.rows]
            for number in measured
        }
        svg = bars("variance", [row.title for row in variance.rows], groups, "variance of the gradient / ARM's")
        charts.append(Chart("chart-variance", "Variance of the gradient, relative to ARM's", svg, variance.command))
    return Section("estimators", "Gradient estimators", ESTIMATORS, [variance] if variance.rows else [], charts)


def _over_seconds(store: Store) -> Chart:
    suite = load_suite("estimators")
    measured: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for cell in {spec.cell: spec for spec in suite.specs}.values():
        if runs := store.runs(cell):
            precision = Cell(tuple(result.metrics[PRECISION] for result in runs))
            seconds = statistics.mean(result.seconds["fit"] for result in runs)
            measured[cell.parameters["estimator"]].append((seconds, precision.mean or 0.0, precision.spread or 0.0))
    lines = []
    for number, (name, points_of_curve) in enumerate(measured.items()):
        x, y, spread = zip(*sorted(points_of_curve), strict=True)
        shade = ESTIMATOR_SHADES.get(name, number)
        lines.append(Curve(name, x, y, spread, name in ESTIMATOR_SHADES, shade=shade))
    note = " ".join([BAND, *store.shortfall(suite.specs)])
    svg = curves("seconds", lines, Axis("seconds of training", scale="log"), PRECISION_AXIS)
    return Chart("chart-seconds", "Precision over seconds of training", svg, "fewbits bench run estimators", note)


def _latent(figures: Iterable[Figure]) -> Section:
    charts = []
    by_method = figures_of_the_paper(figures)
    for method in SHOWN_METHODS:
        if (figure := by_method.get(method)) is None:
            continue
        colours = class_colours(len(figure.label_names))
        svg = points(f"latent-{method}", figure.points, figure.classes, colours)
        title = f"{METHODS[method].title}, {figure.bits} bits"
        legend = list(zip(colours, figure.label_names, strict=True))
        charts.append(Chart(f"latent-{method}", title, svg, f"fewbits bench figures --method {method}", legend=legend))
    missing = [METHODS[method].title for method in SHOWN_METHODS if method not in by_method]
    note = f" Missing: {', '.join(missing)}." if missing else ""
    return Section("latent", "Latent space", LATENT + note, [], charts)


BAND = "Bands are one standard deviation over the seeds."
SETTING = {
    "unsupervised": f"Hashers fitted without labels. {CHOSEN_WITH_LABELS}",
    "supervised": f"Hashers fitted with labels; KSH and SSH use the labels of a sample. {paper_presets()}",
}
ABLATION = (
    "The effect of single settings: the weights of the pair loss and of the KL term, over the paper's values and a"
    " wider range; the share of NB-SVMs in a linear encoder; the gradient estimator of the paper's systems; and the"
    " weight of the classifier, with the paper's value and ours."
)
ESTIMATORS = (
    "The same unsupervised model, trained with each gradient estimator for 1, 2, 4, 8, 16 and 32 epochs, and the"
    " variance of one gradient of a trained model."
)
LATENT = (
    "Test documents of 20 Newsgroups, represented by the probabilities of their bits (for VDSH, by the means of the"
    " latent variable), projected to two dimensions with UMAP and colored by newsgroup."
)
WORDS = "The nearest words by the cosine similarity of the decoder's word embeddings."
LARGE = "Precision and training time with more than a hundred thousand documents."
TIMES = "The time needed to repeat all runs."
