"""The report, opened in a real browser: all figures are there, tables sort, nothing is wider than the screen."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import sparse

from fewbits import Dataset, Split
from fewbits.benchmark.experiments.latent import PICTURED, Figure, load_figures, make_figure, nearest_words, save_figure
from fewbits.benchmark.report import render_page, write_report
from fewbits.benchmark.report.paper import DATASETS, LENGTHS, SETTINGS, collection_table
from fewbits.benchmark.results import Result, load_results
from fewbits.benchmark.spec import load_suite
from fewbits.benchmark.store import Store
from fewbits.errors import ParameterError
from fewbits.hashers.registry import METHODS
from fewbits.storage import write_json
from helpers.corpora import topic_rows
from helpers.results import make_result

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
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
    """Every chart that the page has, and whether the store has a run to draw."""
    store = Store(load_results(results))
    drawn = {
        f"bits-{setting}-{dataset}": any(row.cells[n].values for row in table.rows for n in range(len(LENGTHS)))
        for setting in SETTINGS
        for dataset in DATASETS
        for table in [collection_table(store, dataset, setting)]
    }
    drawn["chart-seconds"] = any(store.of(spec) for spec in load_suite("estimators").specs)
    always = ("chart-ablation-beta", "chart-ablation-kl_weight", "chart-variance")  # published, or committed
    pictured = [figure.method for figure in load_figures(results)]
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


@pytest.mark.xdist_group("browser")
def test_all_figures_and_tables_are_there_and_each_says_what_made_it(page: Any) -> None:
    for name, is_drawn in charts(ROOT / "results").items():
        figure = page.locator(f"figure#{name}")
        assert figure.locator("svg" if is_drawn else "p.note").first.is_visible(), name
        assert "fewbits bench" in figure.locator("figcaption code").inner_text()
    for name in TABLES:
        assert page.locator(f"table#{name} tbody tr").count() >= (1 if name == "ablation-svm_share" else 2), name
    assert page.locator("div.block > p.note code").count() == len(TABLES)


def test_a_latent_picture_of_every_method_is_there_or_said_to_be_missing() -> None:
    figure = Figure("", "ng20", 32, 0, ["a"], [0, 0], [[0.0, 1.0], [1.0, 0.0]], {}, {}, "f" * 64)
    for there in (PICTURED, PICTURED[1:], ()):
        page = render_page([], [replace(figure, method=method) for method in there], ROOT / "nowhere")
        drawn = re.findall(r'<figure id="latent-([a-z-]+)"[^>]*><h3>[^<]*</h3><svg', page)
        assert drawn == list(there)
        missing = [METHODS[method].title for method in PICTURED if method not in there]
        assert (f"Missing: {', '.join(missing)}." in page) == bool(missing)


def figures_of(page: str) -> list[str]:
    """What the page tells: facts, notes and the cells of all tables; charts are drawn anew by every matplotlib."""
    return re.findall(r'<p class="note">.*?</p>|<td.*?</td>', page, re.DOTALL)


def test_the_committed_report_is_what_the_committed_results_give(pages: Path) -> None:
    assert figures_of((ROOT / "docs" / "report.html").read_text()) == figures_of((pages / "report.html").read_text())


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen_and_text_stands_out(page: Any, width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    body, text = (
        page.evaluate(f"getComputedStyle(document.querySelector('{place}')).{what}")
        for place, what in (("body", "backgroundColor"), ("figure svg text", "fill"))
    )
    assert abs(brightness(body) - brightness(text)) > 150


@pytest.mark.xdist_group("browser")
def test_on_a_phone_a_wide_table_says_so_and_keeps_its_first_column_and_the_spread_in_sight(page: Any) -> None:
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
    assert first.evaluate("cell => getComputedStyle(cell).backgroundColor") != "rgba(0, 0, 0, 0)"  # covers what moves
    assert page.locator("table#unsupervised-ng20 .spread").first.is_visible()


SMALLEST_TEXT = """() => [...document.querySelectorAll("figure svg text")].map((text) => {
  const svg = text.ownerSVGElement;
  return parseFloat(getComputedStyle(text).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
}).reduce((a, b) => Math.min(a, b))"""


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [390, 1280])
def test_the_smallest_text_of_a_chart_can_be_read(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate(SMALLEST_TEXT) >= 9


def test_the_best_of_a_column_is_marked_but_not_a_lone_figure_nor_one_of_another_data_set() -> None:
    def bold(*runs: Result) -> list[str]:
        return re.findall(r'class="best">([0-9.]+)<', render_page(runs, [], ROOT / "nowhere"))

    assert bold(make_result("lsh", 8, 0.1)) == []
    assert bold(make_result("lsh", 8, 0.1), make_result("itq", 8, 0.3), make_result("itq", 16, 0.5)) == ["0.300"]
    elsewhere = [make_result("arm-dvae", 32, 0.5, name, estimator="flip") for name in ("reuters", "ng20")]
    assert bold(*elsewhere) == []


def test_the_page_on_the_benchmark_names_all_pages_that_the_report_writes(pages: Path) -> None:
    told = (ROOT / "docs" / "benchmark.md").read_text()
    assert [path.name for path in pages.iterdir() if f"`{path.name}`" not in told] == []


def brightness(colour: str) -> float:
    return sum(float(part) for part in colour.split("(")[1].strip(")").split(",")[:3]) / 3


@pytest.mark.xdist_group("browser")
def test_a_table_sorts_by_click_and_by_key_and_empty_cells_stay_at_the_end(page: Any) -> None:
    table = page.locator("table#unsupervised-ng20")
    header = table.locator("th").nth(3)

    def values() -> list[float]:
        texts = table.locator("tbody tr td:nth-child(4)").evaluate_all("cells => cells.map(c => c.dataset.value)")
        there = [float(text) for text in texts if text]
        assert all(texts[: len(there)])
        return there

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


@pytest.mark.xdist_group("browser")
def test_the_page_asks_the_network_for_nothing_and_raises_no_error(browser: Browser, pages: Path) -> None:
    opened = browser.new_page()
    asked: list[str] = []
    wrong: list[Any] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: wrong.append(error))
    opened.goto((pages / "report.html").as_uri())
    assert [url for url in asked if not url.startswith("data:")] == [(pages / "report.html").as_uri()]
    assert wrong == []
    opened.close()


def test_the_report_of_an_empty_store_says_what_is_missing_and_invents_nothing(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    written = write_report(tmp_path / "results", tmp_path / "docs")
    page = (tmp_path / "docs" / "report.html").read_text()
    assert {path.name for path in written} == {"report.html", "results.md", "comparison.md"}
    assert "160 of 160 runs are missing." in page
    assert "Missing: ARM-DVAE, NASH, VDSH, BernoulliVAE (ours)." in page
    assert 'class="best"' not in page


@pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")
def test_a_figure_has_a_point_for_each_test_document_with_its_class_and_the_nearest_words(tmp_path: Path) -> None:
    pytest.importorskip("umap", reason="not tested: umap-learn is not installed")

    def split(count: int, seed: int) -> Split:
        rows, classes = topic_rows(count, seed)
        return Split(list(range(count)), None, rows, sparse.csr_array(np.eye(3, dtype=np.uint8)[classes]))

    train = split(200, 0)
    words = [f"w{number}" for number in range(train.features.shape[1])]
    dataset = Dataset("toy", train, split(10, 1), split(40, 2), words, ["a", "b", "c"], "f" * 64)
    figure = make_figure("bernoulli-vae", dataset, 8, words=["w0", "unknown"])
    assert len(figure.points) == len(figure.classes) == 40
    assert figure.classes == dataset.test.labels.argmax(axis=1).tolist()
    assert list(figure.words) == ["w0"]
    save_figure(figure, tmp_path)
    assert list(load_figures(tmp_path)) == [figure]
    with pytest.raises(ParameterError, match="itq has no latent space"):
        make_figure("itq", dataset)


def test_figures_of_other_data_sets_and_lengths_are_not_taken_for_those_of_the_caption(tmp_path: Path) -> None:
    where = ("arm-dvae", "ng20", 32, 0)
    figure = Figure(*where, ["a"], [0, 0], [[0.0, 1.0], [1.0, 0.0]], {"weapons": ["guns"]}, {}, "f" * 64)
    others = [replace(figure, dataset="reuters"), replace(figure, bits=8)]
    for number, bits in enumerate((32, 64)):
        fact = {"estimator": "arm", "is_unbiased": True, "relative_variance": 1.0, "milliseconds": 1.0, "bits": bits}
        write_json(tmp_path / "estimators" / f"{number}.json", [{**fact, "dataset": ("ng20", "tmc")[number]}])
    page = render_page([], others, tmp_path)
    assert "latent-arm-dvae" not in page
    assert '<td data-value="guns">' not in page
    assert "variance / ARM&#x27;s, 32 bits" in page
    assert "variance / ARM&#x27;s, 64 bits" not in page
    page = render_page([], [figure, *others], tmp_path)
    assert 'id="latent-arm-dvae"' in page
    assert '<td data-value="guns">' in page


def test_the_nearest_words_are_those_of_the_same_direction() -> None:
    embeddings = np.array([[1.0, 0.0], [5.0, 0.1], [0.0, 1.0], [-1.0, 0.0]], dtype=np.float32)
    assert nearest_words(embeddings, ["a", "b", "c", "d"], ["a"]) == {"a": ["b", "c", "d"]}
