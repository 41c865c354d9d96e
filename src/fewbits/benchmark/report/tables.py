"""What has to be told beside figures so that nobody takes them for more than they are."""

from __future__ import annotations

import json
import shlex
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fewbits.benchmark.results import Result
from fewbits.hashers.registry import METHODS, make_hasher

PAPERS_ALPHA = (0.01, 0.1)
CHOSEN_WITH_LABELS = (
    f"{METHODS['bernoulli-vae'].title} learns without labels, but its settings were chosen with the labels of the"
    " validation parts (docs/defaults.md)."
)
OF_OTHER_WORDS = {  # data sets whose features are not the published ones: a row is judged by its place alone
    "tmc": "Ours has 500 binary words where the published one has 20,000 with frequencies, so the figures themselves"
    " cannot be compared, at most the order of the methods."
}


def paper_presets() -> str:
    """Where our presets of the paper's supervised systems differ from it, or fill in what it does not tell."""
    psh, nash = (make_hasher(name, 8).get_params() for name in ("psh-arm", "nash-dn-s"))
    (first, last), (low, high) = psh["label_weight"], PAPERS_ALPHA
    return (
        f"PSH-ARM, PSH-GS and NASH-DN-S: alpha, the weight of the classifier, rises from {first:g} to {last:g},"
        f" searched on ng20's validation part at 32 bits; with the paper's {low:g} to {high:g} the classifier"
        " hardly counts beside the words' term when every term is a mean per document."
        f" Beta ({psh['pair_weight']:g}) weighs the mean over pairs, while the other terms are means over documents."
        f" The paper tells neither epochs (here {psh['epochs']}, for NASH-DN-S {nash['epochs']}) nor batch size (here"
        f" {psh['batch_size']})."
    )


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
    notes: list[str] = field(default_factory=list)
    rows_are: str = "method"
    has_best: bool = True  # not where rows are about different data sets

    def markdown(self) -> str:
        """The table in Markdown, with its command."""
        rows = [[row.title, *map(str, row.cells)] for row in self.rows]
        notes = [" ".join(self.notes) + "\n"] if self.notes else []
        table = markdown(["", *self.columns], rows)
        return "\n".join([f"## {self.title}\n", *notes, table, f"Made by: `{self.command}`\n"])


Key = TypeVar("Key")
Value = TypeVar("Value", int, str)
METRICS = {
    "precision_at_100": "Precision at 100",
    "neighbour_recall": "Neighbour recall",
    "mean_average_precision": "Mean average precision",
    "bit_entropy": "Entropy of a bit",
    "distinct_share": "Distinct codes per document",
}
INTRODUCTION = f"""\
# Results

Rendered from the files in `results/` by `fewbits bench report`. Queries are the test documents, the
database is the training documents; every figure is the exact expectation over the order of documents at the same
distance. A cell is the mean over the seeds, ± the standard deviation where there is more than one.

*Precision at 100*: share of the 100 nearest that share a label with the query; the floor is that of a random ranking.
*Neighbour recall*: share of a query's 10 nearest by tf-idf cosine that are among its 100 nearest by code.

{CHOSEN_WITH_LABELS}
"""


def render(results: Iterable[Result], part: str = "test") -> str:
    """Render all tables of the figures on one part: one for each data set and metric."""
    groups: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.part == part:  # one fingerprint, one table: other documents are another data set
            groups[result.dataset, result.data_fingerprint].append(result)
    return "\n".join([INTRODUCTION, *(_dataset(groups[key]) for key in sorted(groups))])


def _dataset(results: list[Result]) -> str:
    first = results[0]
    facts = f"Random floor of the precision: {first.metrics['random_floor']:.4f}."
    fingerprint = f"Data fingerprint: {first.data_fingerprint[:12]}."
    tables = [_table(metric, title, results) for metric, title in METRICS.items()]
    return "\n".join(
        [
            f"## {first.dataset}\n",
            f"{facts} {fingerprint}\n",
            *tables,
            "Made by:\n",
            "```sh",
            *_commands(results),
            "```\n",
        ]
    )


def _table(metric: str, title: str, results: list[Result]) -> str:
    lengths = sorted({result.bits for result in results})
    rows = []
    for method in in_order({result.method for result in results}):
        of_method = [result for result in results if result.method == method]
        differences = {result.file_name: difference_from_own(result) for result in of_method}
        for difference in sorted(set(differences.values())):
            chosen = [result for result in of_method if differences[result.file_name] == difference]
            name = METHODS[method].title + (f", {difference}" if difference else "")
            rows.append([name, *(_cell([r.metrics[metric] for r in chosen if r.bits == bits]) for bits in lengths)])
    return markdown([title, *(f"{bits} bits" for bits in lengths)], rows)


def difference_from_own(result: Result) -> str:
    """Parameters of a run that are not the method's own."""
    return ", ".join(_settings(result))


def _settings(result: Result) -> tuple[str, ...]:
    """Each of them as ``--set`` takes it."""
    own = json.loads(json.dumps(make_hasher(result.method, result.bits).get_params(), default=str))
    changed = {name: value for name, value in result.parameters.items() if value != own.get(name)}
    return tuple(f"{name}={json.dumps(value)}" for name, value in changed.items())


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def in_order(methods: Collection[str]) -> list[str]:
    """Methods in the order of the registry."""
    return [name for name in METHODS if name in methods]


def _commands(results: list[Result]) -> list[str]:
    """Commands that do just these runs: one for the methods that have lengths, seeds and parameters in common."""
    seeds = _gather(((r.method, _settings(r), r.bits), r.seed) for r in results)
    lengths = _gather(((method, settings, some), bits) for (method, settings, bits), some in seeds.items())
    methods = _gather(((settings, some, of), method) for (method, settings, of), some in lengths.items())
    dataset = results[0].dataset
    return [_command(in_order(found), dataset, *common) for common, found in sorted(methods.items())]


def _gather(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, tuple[Value, ...]]:
    """The values of each key, sorted, each once."""
    found: defaultdict[Key, set[Value]] = defaultdict(set)
    for key, value in pairs:
        found[key].add(value)
    return {key: tuple(sorted(values)) for key, values in found.items()}


def _command(
    methods: Sequence[str], dataset: str, settings: Sequence[str], lengths: Sequence[int], seeds: Sequence[int]
) -> str:
    words = ["fewbits evaluate --save", *(f"--method {method}" for method in methods), f"--dataset {dataset}"]
    words += [f"--bits {bits}" for bits in lengths] + [f"--seed {seed}" for seed in seeds]
    return " ".join([*words, *(f"--set {shlex.quote(setting)}" for setting in settings)])


def markdown(header: Sequence[str], rows: list[list[str]]) -> str:
    """A table in Markdown; all columns but the first are numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
