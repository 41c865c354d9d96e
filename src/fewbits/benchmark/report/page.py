"""The HTML page: a single file that needs no network access and fits the screen of a phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from fewbits.benchmark.experiments.estimators import EstimatorFacts
from fewbits.benchmark.experiments.latent import Figure
from fewbits.benchmark.report.charts import Chart
from fewbits.benchmark.report.sections import Section, sections
from fewbits.benchmark.report.tables import Cell, Row, Table
from fewbits.benchmark.results import Result, Store

OURS = ("bernoulli-vae", "pairwise")


def render_page(
    results: Sequence[Result],
    figures: Sequence[Figure] = (),
    estimators: Sequence[Sequence[EstimatorFacts]] = (),
    failures: Sequence[Result] = (),
) -> str:
    """Return the page as HTML."""
    store = Store(results, failures)
    shown = sections(store, figures, estimators)
    template = files("fewbits.benchmark.report").joinpath("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        facts=escape(" ".join([*_facts(results, failures), *store.exclusions])),
        links=" ".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in shown),
        sections="\n".join(map(_section, shown)),
    )


def _facts(results: Sequence[Result], failures: Sequence[Result]) -> list[str]:
    """Return sentences on the number of runs and the versions they used."""
    facts = [f"{len(results):,} results.", *([f"{len(failures):,} runs failed."] if failures else [])]
    for package in ("fewbits", "python", "torch"):
        counted = Counter(result.versions[package] for result in results if package in result.versions)
        if counted:
            facts.append(f"{package} {', '.join(sorted(counted))}.")
    return facts


def _section(section: Section) -> str:
    charts = f'<div class="grid">{"".join(map(_figure, section.charts))}</div>' if section.charts else ""
    legends = {tuple(chart.legend) for chart in section.charts if chart.legend}
    legend = "".join(
        '<ul class="legend">'
        + "".join(f'<li><i style="background:{colour}"></i>{escape(name)}</li>' for colour, name in entries)
        + "</ul>"
        for entries in legends
    )
    return (
        f'<section id="{section.name}" class="{section.name}"><h2>{escape(section.title)}</h2>'
        f"<p>{escape(section.text)}</p>{charts}{legend}{''.join(map(_table, section.tables))}</section>"
    )


def _figure(chart: Chart) -> str:
    note = f"{escape(chart.note)} " if chart.note else ""
    picture = chart.svg or '<p class="note">No results yet.</p>'
    return (
        f'<figure id="{chart.name}" role="group" aria-label="{escape(chart.title)}"><h3>{escape(chart.title)}</h3>'
        f"{picture}<figcaption>{note}Produced by <code>{escape(chart.command)}</code>.</figcaption></figure>"
    )


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(column)}</button></th>'
        for column in [table.row_header, *table.columns]
    )
    columns = zip(*(row.cells for row in table.rows), strict=True)
    best = [_best(column) if table.has_best else None for column in columns]
    rows = "".join(_row(row, best) for row in table.rows)
    notes = " ".join(table.notes)
    return (
        f'<div class="block"><h3>{escape(table.title)}</h3>'
        '<p class="hint">Scroll sideways for more columns →</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f'<table id="{table.name}" aria-label="{escape(table.title)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<p class="note">{escape(notes)} Produced by <code>{escape(table.command)}</code>.</p></div>'
    )


def _best(column: Sequence[Cell]) -> float | None:
    """Return the highest of several figures, None if there is only one."""
    means = [cell.mean for cell in column if cell.mean is not None]
    return max(means) if len(means) > 1 else None


def _row(row: Row, best: Sequence[float | None]) -> str:
    marker = ' class="ours"' if row.method in OURS else ""
    cells = "".join(_cell(cell, top) for cell, top in zip(row.cells, best, strict=True))
    return f'<tr{marker}><td data-value="{escape(row.title)}">{escape(row.title)}</td>{cells}</tr>'


def _cell(cell: Cell, best: float | None) -> str:
    published = escape(cell.published_figure)
    below = f'<span class="published" title="published">{published}</span>' if published else ""
    if cell.mean is None:
        return f'<td data-value="{escape(cell.text)}">{escape(cell.text)}{below}</td>'
    spread = "" if cell.spread is None else f' <span class="spread">± {cell.spread:.3f}</span>'
    figure = f'<span class="best">{cell.mean:.3f}</span>' if cell.mean == best else f"{cell.mean:.3f}"
    return f'<td data-value="{cell.mean:.6f}">{figure}{spread}{below}</td>'
