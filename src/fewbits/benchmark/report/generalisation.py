"""Mean ranks of the methods and worst deficits of the defaults on the corpora of the suite ``generalisation``."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scipy.stats import rankdata

from fewbits.benchmark.evaluate import PRECISION_AT_TENTH
from fewbits.benchmark.experiments import markdown_table
from fewbits.benchmark.report.tables import Cell, in_registry_order
from fewbits.benchmark.results import PRECISION, Store
from fewbits.benchmark.spec import Spec, load_suite
from fewbits.data.datasets import CORPORA, GENERALISATION_SOURCES, HALVES
from fewbits.hashers.registry import METHODS, WITH_LABELS, WITHOUT_LABELS

SUITE = "generalisation"
DEFAULTS = {"unsupervised": WITHOUT_LABELS, "supervised": WITH_LABELS}
TITLES = {"unsupervised": "without labels", "supervised": "with labels"}
CHOICE = {"A": "settings were chosen on some of these corpora", "B": "no setting was chosen on these corpora"}


@dataclass(frozen=True)
class Deficit:
    """How far a default is behind the best other method on one corpus; below 0 if it is ahead."""

    value: float
    spread: float | None  # the larger standard deviation of the two over the seeds
    corpus: str
    method: str

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ± {self.spread:.3f}"
        return f"{self.value:+.3f}{spread} ({self.corpus}, {METHODS[self.method].title})"


@dataclass(frozen=True)
class Comparison:
    """Precisions of all methods of a setting on the corpora of a half, at one length: by corpus, then by method."""

    default: str
    cells: dict[str, dict[str, Cell]]

    def ranks(self, method: str) -> list[float]:
        """Return the method's rank on each corpus on which it has a result, 1 for the best."""
        ranks = []
        for cells in self.cells.values():
            if method in cells:
                order = rankdata([-(cell.mean or 0.0) for cell in cells.values()])
                ranks.append(float(order[list(cells).index(method)]))
        return ranks

    def means(self, method: str) -> list[float]:
        """Return the method's precision on each corpus on which it has a result."""
        return [cells[method].mean or 0.0 for cells in self.cells.values() if method in cells]

    def worst_deficit(self) -> Deficit | None:
        """Return the default's largest deficit, None without results."""
        deficits = []
        for corpus, cells in self.cells.items():
            ours = cells[self.default]
            for method, cell in cells.items():
                if method != self.default:
                    spreads = [spread for one in (ours, cell) if (spread := one.spread) is not None]
                    value = (cell.mean or 0.0) - (ours.mean or 0.0)
                    deficits.append(Deficit(value, max(spreads, default=None), corpus, method))
        return max(deficits, key=lambda one: one.value, default=None)


def render_generalisation(store: Store) -> str:
    """Return the page in Markdown."""
    corpora = markdown_table(["data set", "half", "documents"], [_corpus_row(name) for name in CORPORA])
    return "\n".join([INTRODUCTION, corpora, *_tables(store), COMMANDS])


def has_generalisation_results(store: Store) -> bool:
    """Return whether there are results on a corpus of the suite."""
    return any(result.dataset in GENERALISATION_SOURCES for runs in store.by_cell.values() for result in runs)


def render_tables(store: Store) -> str:
    """Return the tables alone, for the end of a run of the suite."""
    return "\n".join(_tables(store))


def _corpus_row(name: str) -> list[str]:
    corpus = CORPORA[name]
    return [f"`general-{name}`: {corpus.description}", corpus.half, f"at most {corpus.size:,}"]


def _tables(store: Store) -> Iterator[str]:
    specs = list({spec.cell: spec for spec in load_suite(SUITE).specs}.values())
    lengths = sorted({spec.bits for spec in specs})
    for half in HALVES:
        for setting, default in DEFAULTS.items():
            methods = in_registry_order({s.method for s in specs if METHODS[s.method].setting == setting})
            compared = [_compare(store, half, methods, default, bits) for bits in lengths]
            yield f"## Half {half}, {TITLES[setting]}\n"
            counts = ", ".join(f"{len(one.cells)} at {bits} bits" for one, bits in zip(compared, lengths, strict=True))
            yield f"Half {half}: {CHOICE[half]}. Corpora with results: {counts}.\n"
            header = [*(f"{bits} bits" for bits in lengths)]
            yield markdown_table(["mean rank", *header], [_row(m, compared, "ranks") for m in methods])
            yield markdown_table(["mean precision", *header], [_row(m, compared, "means") for m in methods])
            deficits = [str(one.worst_deficit() or "no results") for one in compared]
            yield markdown_table([f"{METHODS[default].title}", *header], [["worst deficit", *deficits]])


def _compare(store: Store, half: str, methods: Sequence[str], default: str, bits: int) -> Comparison:
    cells: dict[str, dict[str, Cell]] = {}
    for name, corpus in CORPORA.items():
        if corpus.half != half:
            continue
        runs = {method: store.runs(Spec(method, f"general-{name}", bits, 0)) for method in methods}
        known = {
            method: Cell(tuple(one.metrics.get(PRECISION_AT_TENTH, one.metrics[PRECISION]) for one in some))
            for method, some in runs.items()
            if some
        }
        if default in known and len(known) > 1:
            cells[name] = known
    return Comparison(default, cells)


def _row(method: str, compared: Sequence[Comparison], figure: str) -> list[str]:
    row = [METHODS[method].title]
    for one in compared:
        values = one.ranks(method) if figure == "ranks" else one.means(method)
        missing = len(one.cells) - len(values)
        note = f" ({len(values)} corpora)" if missing and values else ""
        row.append(f"{statistics.mean(values):.{2 if figure == 'ranks' else 3}f}{note}" if values else "")
    return row


INTRODUCTION = """\
# Generalisation

Rendered by `fewbits bench report` from the files in `results/`. The corpora are made from the benchmark archives, and
from the docstrings of the Python installation, by hashes of ids (`src/fewbits/data/datasets/generalisation.py`). They
are divided into two halves: settings may be chosen on half A; half B is used only for reporting. Classes of few
documents are left out. A fifth of the documents are queries, or a tenth in corpora of 10,000. A figure is the
precision at 100, or at a tenth of the database if that has fewer than 1,000 documents, averaged over the seeds that
have a result.

The *mean rank* of a method is the mean over the corpora of its rank by precision; 1 is best. The *worst deficit* of a
default is the largest difference to any other method on any corpus, with the larger standard deviation of the two over
the seeds; a negative deficit is a lead. Corpora without a result of the default are left out. With labels at 16 and 32
bits, results of half B were known before the last choice of settings ([defaults.md](defaults.md)).
"""
COMMANDS = """\
Made by:

```sh
fewbits bench run generalisation
```
"""
