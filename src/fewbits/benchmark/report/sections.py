"""What the page shows, section by section, as tables and charts."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fewbits.benchmark.experiments.latent import PICTURED, Figure, as_in_the_paper
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
from fewbits.benchmark.report.tables import CHOSEN_WITH_LABELS, Cell, Row, Table, paper_presets
from fewbits.benchmark.spec import load_suite
from fewbits.benchmark.store import Store
from fewbits.hashers.registry import METHODS

STRONG = {"bernoulli-vae": 0, "pairwise": 0, "arm-dvae": 1, "psh-arm": 1}  # ours, the paper's
WITH_LABELS = ("pairwise", "psh-arm")  # strong where methods of both settings are in one chart
WITH_CURVES = ("pair_weight", "kl_weight")  # ablations of the paper's own
ESTIMATOR_SHADES = {"flip": 0, "arm": 1}
PRECISION = "precision at 100"


@dataclass(frozen=True)
class Section:
    """A heading, what it is about, its tables and its charts."""

    name: str
    title: str
    text: str
    tables: list[Table]
    charts: list[Chart]


def sections(store: Store, figures: Sequence[Figure], folder: Path) -> list[Section]:
    """All sections of the page, in the order of the paper."""
    return [
        *(_setting(store, setting) for setting in SETTINGS),
        _ablations(store),
        _estimators(store, folder),
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
    found = [curve for row in table.rows if (curve := _curve(row, LENGTHS))]
    svg = curves(f"bits-{table.name}", found, axis, PRECISION, store.floors.get(dataset))
    return Chart(f"bits-{table.name}", f"{TITLES[dataset]}: precision over bits", svg, table.command, BAND)


def _ablations(store: Store) -> Section:
    tables = {parameter: ablation_table(store, parameter) for parameter in ABLATIONS}
    charts = [_over_values(tables[parameter], ABLATIONS[parameter][1]) for parameter in WITH_CURVES]
    return Section("ablations", "Ablations", ABLATION, list(tables.values()), charts)


def _over_values(table: Table, what: str) -> Chart:
    """The values stand at equal distances: they lie too unevenly for any scale."""
    places = range(len(table.columns))
    found = [curve for row in table.rows if (curve := _curve(row, places, WITH_LABELS))]
    for row in table.rows:
        theirs = [(place, cell.published) for place, cell in zip(places, row.cells, strict=True)]
        printed = [(place, value) for place, value in theirs if value is not None]
        if printed:
            x, y = zip(*printed, strict=True)
            shade = STRONG[row.method]
            found.append(Curve(f"{row.title}, published", x, y, dashed=True, strong=True, shade=shade))
    svg = curves(table.name, found, Axis(what, list(places), table.columns), PRECISION)
    return Chart(f"chart-{table.name}", f"Precision over {what}", svg, table.command, BAND)


def _curve(row: Row, x: Sequence[float], strong: Collection[str] = STRONG) -> Curve | None:
    there: list[tuple[float, Cell]] = [(at, cell) for at, cell in zip(x, row.cells, strict=True) if cell.values]
    if not there:
        return None
    means = [statistics.mean(cell.values) for _, cell in there]
    spread = [cell.spread or 0.0 for _, cell in there]
    is_strong = row.method in strong
    shade = STRONG[row.method] if is_strong else list(METHODS).index(row.method)
    return Curve(row.title, [at for at, _ in there], means, spread, is_strong, shade=shade)


def _estimators(store: Store, folder: Path) -> Section:
    variance = variance_table(folder)
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
    found: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for cell in {spec.cell: spec for spec in suite.specs}.values():
        if there := store.of(cell):
            precision = [result.metrics["precision_at_100"] for result in there]
            seconds = statistics.mean(result.seconds["fit"] for result in there)
            spread = statistics.stdev(precision) if len(precision) > 1 else 0.0
            found[cell.parameters["estimator"]].append((seconds, statistics.mean(precision), spread))
    lines = []
    for number, (name, measured) in enumerate(found.items()):
        seconds_of_each, precision_at_k_per_query, spread_of_each = zip(*sorted(measured), strict=True)
        shade = ESTIMATOR_SHADES.get(name, number)
        is_strong = name in ESTIMATOR_SHADES
        lines.append(Curve(name, seconds_of_each, precision_at_k_per_query, spread_of_each, is_strong, shade=shade))
    note = " ".join([BAND, *store.shortfall(suite.specs)])
    svg = curves("seconds", lines, Axis("seconds of training", scale="log"), PRECISION)
    return Chart("chart-seconds", "Precision over seconds of training", svg, "fewbits bench run estimators", note)


def _latent(figures: Iterable[Figure]) -> Section:
    charts = []
    by_method = as_in_the_paper(figures)
    for method in PICTURED:
        if (figure := by_method.get(method)) is None:
            continue
        colours = class_colours(len(figure.label_names))
        svg = points(f"latent-{method}", figure.points, figure.classes, colours)
        title = f"{METHODS[method].title}, {figure.bits} bits"
        legend = list(zip(colours, figure.label_names, strict=True))
        charts.append(Chart(f"latent-{method}", title, svg, f"fewbits bench figures --method {method}", legend=legend))
    missing = [METHODS[method].title for method in PICTURED if method not in by_method]
    said = f" Missing: {', '.join(missing)}." if missing else ""
    return Section("latent", "Latent space", LATENT + said, [], charts)


BAND = "Bands are one standard deviation over the seeds."
SETTING = {
    "unsupervised": f"Codes learnt from the words alone. {CHOSEN_WITH_LABELS}",
    "supervised": f"Codes learnt with labels; KSH and SSH see those of a sample. {paper_presets()}",
}
ABLATION = (
    "What the weights of the pair loss and of the KL term do, over the paper's values and over our own scale; how much"
    " of a linear encoder support vector machines should be; the paper's weight of the classifier and ours; and what"
    " the closed-form gradient in ARM's place gives the paper's systems."
)
ESTIMATORS = (
    "The same model without labels, trained with each gradient estimator for one epoch, two, four and so on; and how"
    " noisy one gradient is on a trained model."
)
LATENT = (
    "Test documents of 20 Newsgroups by the probabilities of their bits (VDSH: by its means), drawn in the plane by"
    " UMAP; a colour is a group."
)
WORDS = "Which words the decoder takes for alike, by the cosine of their embeddings."
LARGE = "What an epoch costs where there are a hundred thousand documents."
TIMES = "What it costs to make all of this again."
