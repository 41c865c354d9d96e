"""All pages that are made from results, written at once."""

from __future__ import annotations

from pathlib import Path

from fewbits.benchmark.comparison import render_comparison
from fewbits.benchmark.estimators import render_estimators
from fewbits.benchmark.figures import load_figures
from fewbits.benchmark.known_items import render_known_items
from fewbits.benchmark.report.page import render_page
from fewbits.benchmark.results import load_failures, load_results
from fewbits.benchmark.service import render_load
from fewbits.benchmark.speed import render_speed
from fewbits.benchmark.store import Store
from fewbits.benchmark.supervision import render_supervision
from fewbits.benchmark.tables import render
from fewbits.files import replacing


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
    with replacing(path) as stream:
        stream.write(text.encode())
    return path
