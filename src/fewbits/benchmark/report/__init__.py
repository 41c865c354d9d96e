"""The report: Markdown pages and one self-contained HTML page, rendered from the results."""

from __future__ import annotations

from pathlib import Path

from fewbits.benchmark.experiments import EXPERIMENTS, EstimatorComparison, LatentSpace
from fewbits.benchmark.report.asymmetric import compare_rankings, render_asymmetric
from fewbits.benchmark.report.comparison import render_comparison
from fewbits.benchmark.report.generalisation import has_generalisation_results, render_generalisation
from fewbits.benchmark.report.page import render_page
from fewbits.benchmark.report.tables import render_results
from fewbits.benchmark.results import Store, load_failures, load_results
from fewbits.storage import atomic_write

__all__ = ["render_comparison", "render_page", "render_results", "write_report"]


def write_report(results: Path, docs: Path) -> list[Path]:
    """Write all pages to a folder; the page of an experiment is omitted if there are no facts."""
    succeeded, failed = list(load_results(results)), list(load_failures(results))
    figures = LatentSpace.load(results)
    store = Store(succeeded, failed)
    pages = {
        "results.md": render_results(succeeded),
        "comparison.md": render_comparison(store, figures),
        "report.html": render_page(succeeded, figures, EstimatorComparison.load(results), failed),
    }
    if has_generalisation_results(store):
        pages["generalisation.md"] = render_generalisation(store)
    if compare_rankings(store):
        pages["asymmetric.md"] = render_asymmetric(store)
    for experiment in EXPERIMENTS:
        if experiment.page is not None and (facts := experiment.load(results)):
            pages[experiment.page] = experiment.render(facts)
    return [_write(Path(docs) / name, text) for name, text in pages.items()]


def _write(path: Path, text: str) -> Path:
    with atomic_write(path) as stream:
        stream.write(text.encode())
    return path
