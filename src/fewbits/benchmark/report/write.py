"""All pages that are made from results, written at once."""

from __future__ import annotations

from pathlib import Path

from fewbits.benchmark.experiments.estimators import render_estimators
from fewbits.benchmark.experiments.known_items import render_known_items
from fewbits.benchmark.experiments.latent import load_figures
from fewbits.benchmark.experiments.service import render_load
from fewbits.benchmark.experiments.speed import render_speed
from fewbits.benchmark.experiments.supervision import render_supervision
from fewbits.benchmark.report.comparison import render_comparison
from fewbits.benchmark.report.page import render_page
from fewbits.benchmark.report.tables import render
from fewbits.benchmark.results import load_failures, load_results
from fewbits.benchmark.store import Store
from fewbits.storage import atomic_write


def write_report(results: Path, docs: Path) -> list[Path]:
    """Write the Markdown pages and report.html into a folder; pages without any figure are left out."""
    found, failures = list(load_results(results)), list(load_failures(results))
    figures = list(load_figures(results))
    pages = {
        "results.md": render(found),
        "comparison.md": render_comparison(Store(found, failures), figures),
        "report.html": render_page(found, figures, results, failures),
    }
    for name, render_folder in FOLDERS.items():
        if any((Path(results) / name).glob("*.json")):
            pages[PAGES.get(name, f"{name}.md")] = render_folder(Path(results) / name)
    return [_write(Path(docs) / name, text) for name, text in pages.items()]


FOLDERS = {
    "estimators": render_estimators,
    "known-items": render_known_items,
    "service": render_load,
    "speed": render_speed,
    "supervision": render_supervision,
}

PAGES = {"service": "service-load.md"}  # where the folder's name is another page's


def _write(path: Path, text: str) -> Path:
    with atomic_write(path) as stream:
        stream.write(text.encode())
    return path
