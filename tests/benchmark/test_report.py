"""The report in a browser: all tables and figures are present, tables sort, and the page fits the screen."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fewbits.benchmark.experiments import LatentSpace
from fewbits.benchmark.experiments.estimators import EstimatorFacts
from fewbits.benchmark.experiments.latent import SHOWN_METHODS, Figure
from fewbits.benchmark.report import render_page, write_report
from fewbits.benchmark.report.paper import DATASETS, LENGTHS, SETTINGS, collection_table
from fewbits.benchmark.results import Result, Store, load_results
from fewbits.benchmark.spec import load_suite
from fewbits.hashers.registry import METHODS
from helpers.results import ROOT, make_result

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SWITCHES = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"]
TABLES = [
    *(f"{setting}-{name}" for setting in ("unsupervised", "supervised") for name in ("reuters", "ng20", "tmc")),
    *(
        "ablation-beta",
        "ablation-kl_weight",
        "ablation-svm_share",
        "ablation-alpha",
        "ablation-estimator",
        "variance",
        "words",
        "scale",
        "times",
    ),
]


def charts(results: Path) -> dict[str, bool]:
    """Return for each chart of the page whether there is a result to draw."""
    store = Store(load_results(results))
    drawn = {
        f"bits-{setting}-{dataset}": any(row.cells[n].values for row in table.rows for n in range(len(LENGTHS)))
        for setting in SETTINGS
        for dataset in DATASETS
        for table in [collection_table(store, dataset, setting)]
    }
    drawn["chart-seconds"] = any(store.runs(spec) for spec in load_suite("estimators").specs)
    always = ("chart-ablation-beta", "chart-ablation-kl_weight", "chart-variance")  # published, or committed
    pictured = [figure.method for figure in LatentSpace.load(results)]
    return {**drawn, **dict.fromkeys(always, True), **{f"latent-{method}": True for method in pictured}}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    write_report(ROOT / "results", folder)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="not tested: playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("not tested: there is no chromium; install it with: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, pages: Path) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1280, "height": 800})
    opened.goto((pages / "report.html").as_uri())
    yield opened
    opened.close()


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_all_figures_and_tables_are_present_with_the_command_that_makes_them(page: Any) -> None:
    for name, is_drawn in charts(ROOT / "results").items():
        figure = page.locator(f"figure#{name}")
        assert figure.locator("svg" if is_drawn else "p.note").first.is_visible(), name
        assert "fewbits bench" in figure.locator("figcaption code").inner_text()
    for name in TABLES:
        assert page.locator(f"table#{name} tbody tr").count() >= (1 if name == "ablation-svm_share" else 2), name
    assert page.locator("div.block > p.note code").count() == len(TABLES)


def test_a_latent_space_without_facts_is_reported_as_missing() -> None:
    figure = Figure("", "ng20", 32, 0, ["a"], [0, 0], [[0.0, 1.0], [1.0, 0.0]], {}, {}, "f" * 64)
    for present in (SHOWN_METHODS, SHOWN_METHODS[1:], ()):
        page = render_page([], [replace(figure, method=method) for method in present])
        drawn = re.findall(r'<figure id="latent-([a-z-]+)"[^>]*><h3>[^<]*</h3><svg', page)
        assert drawn == list(present)
        missing = [METHODS[method].title for method in SHOWN_METHODS if method not in present]
        assert (f"Missing: {', '.join(missing)}." in page) == bool(missing)


def notes_and_cells(page: str) -> list[str]:
    """Return the notes and the cells of all tables; the charts depend on the version of matplotlib."""
    return re.findall(r'<p class="note">.*?</p>|<td.*?</td>', page, re.DOTALL)


def test_the_committed_report_matches_the_committed_results(pages: Path) -> None:
    assert notes_and_cells((ROOT / "docs" / "report.html").read_text()) == notes_and_cells(
        (pages / "report.html").read_text()
    )


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_width_of_the_screen_and_text_has_contrast(page: Any, width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    body, text = (
        page.evaluate(f"getComputedStyle(document.querySelector('{place}')).{what}")
        for place, what in (("body", "backgroundColor"), ("figure svg text", "fill"))
    )
    assert abs(brightness(body) - brightness(text)) > 150


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_on_a_phone_a_wide_table_shows_a_hint_and_fixes_its_first_column(page: Any) -> None:
    block = page.locator("div.block", has=page.locator("table#ablation-beta"))
    assert not block.locator(".hint").is_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    block.locator(".hint").wait_for(state="visible")
    first, last = (block.locator(f"tbody tr:first-child td:{place}-child") for place in ("first", "last"))
    assert last.bounding_box()["x"] > 390
    at_start = first.bounding_box()["x"]
    block.locator(".scroll").evaluate("element => element.scrollLeft = element.scrollWidth")
    assert last.bounding_box()["x"] < 390
    assert first.bounding_box()["x"] == at_start
    assert (
        first.evaluate("cell => getComputedStyle(cell).backgroundColor") != "rgba(0, 0, 0, 0)"
    )  # hides the cells that scroll below it
    assert page.locator("table#unsupervised-ng20 .spread").first.is_visible()


SMALLEST_TEXT = """() => [...document.querySelectorAll("figure svg text")].map((text) => {
  const svg = text.ownerSVGElement;
  return parseFloat(getComputedStyle(text).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
}).reduce((a, b) => Math.min(a, b))"""


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [390, 1280])
def test_the_smallest_text_of_a_chart_is_legible(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate(SMALLEST_TEXT) >= 9


def test_the_best_figure_of_a_column_is_bold_only_among_several_on_the_same_data_set() -> None:
    def bold(*runs: Result) -> list[str]:
        return re.findall(r'class="best">([0-9.]+)<', render_page(runs))

    assert bold(make_result("lsh", 8, 0.1)) == []
    assert bold(make_result("lsh", 8, 0.1), make_result("itq", 8, 0.3), make_result("itq", 16, 0.5)) == ["0.300"]
    elsewhere = [make_result("arm-dvae", 32, 0.5, name, estimator="flip") for name in ("reuters", "ng20")]
    assert bold(*elsewhere) == []


def test_the_documentation_names_all_pages_that_the_report_writes(pages: Path) -> None:
    documentation = (ROOT / "docs" / "benchmark.md").read_text()
    assert [path.name for path in pages.iterdir() if f"`{path.name}`" not in documentation] == []


def brightness(colour: str) -> float:
    return sum(float(part) for part in colour.split("(")[1].strip(")").split(",")[:3]) / 3


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_a_table_sorts_by_click_and_by_key_with_empty_cells_last(page: Any) -> None:
    table = page.locator("table#unsupervised-ng20")
    header = table.locator("th").nth(3)

    def values() -> list[float]:
        texts = table.locator("tbody tr td:nth-child(4)").evaluate_all("cells => cells.map(c => c.dataset.value)")
        figures = [float(text) for text in texts if text]
        assert all(texts[: len(figures)])
        return figures

    assert header.get_attribute("aria-sort") == "none"
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert len(values()) >= 3
    assert values() == sorted(values(), reverse=True)
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())
    table.locator("th").first.locator("button").click()
    assert header.get_attribute("aria-sort") == "none"


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_page_sends_no_request_and_raises_no_error(browser: Browser, pages: Path) -> None:
    opened = browser.new_page()
    requests: list[str] = []
    errors: list[Any] = []
    opened.on("request", lambda request: requests.append(request.url))
    opened.on("pageerror", lambda error: errors.append(error))
    opened.goto((pages / "report.html").as_uri())
    assert [url for url in requests if not url.startswith("data:")] == [(pages / "report.html").as_uri()]
    assert errors == []
    opened.close()


def test_the_report_without_results_states_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    written = write_report(tmp_path / "results", tmp_path / "docs")
    page = (tmp_path / "docs" / "report.html").read_text()
    assert {path.name for path in written} == {"report.html", "results.md", "comparison.md"}
    assert "160 of 160 runs are missing." in page
    assert "Missing: ARM-DVAE, NASH, VDSH, BernoulliVAE (ours)." in page
    assert 'class="best"' not in page


def test_figures_of_other_data_sets_and_lengths_are_not_shown_under_the_caption_of_the_paper() -> None:
    run = ("arm-dvae", "ng20", 32, 0)
    figure = Figure(*run, ["a"], [0, 0], [[0.0, 1.0], [1.0, 0.0]], {"weapons": ["guns"]}, {}, "f" * 64)
    others = [replace(figure, dataset="reuters"), replace(figure, bits=8)]
    estimators = [
        [EstimatorFacts("arm", dataset, bits, True, 1.0, 0.0, 1.0)] for dataset, bits in (("ng20", 32), ("tmc", 64))
    ]
    page = render_page([], others, estimators)
    assert "latent-arm-dvae" not in page
    assert '<td data-value="guns">' not in page
    assert "variance / ARM&#x27;s, 32 bits" in page
    assert "variance / ARM&#x27;s, 64 bits" not in page
    page = render_page([], [figure, *others], estimators)
    assert 'id="latent-arm-dvae"' in page
    assert '<td data-value="guns">' in page
