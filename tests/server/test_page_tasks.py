"""What users do on the page, on real documents: choose filters, correct spelling, weigh bits, read the map.

With FEWBITS_SCREENSHOTS=FOLDER, the views are photographed at a width of 1280 and of 390 pixels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from fewbits import SearchEngine
from helpers.browser import IN_BROWSER, Open, search, served
from helpers.library import docstring_documents, documents_in_many_scripts

pytestmark = IN_BROWSER

SCREENSHOTS = os.environ.get("FEWBITS_SCREENSHOTS")
WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
NARROW: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
QUERY = "#q=read+rows+from+a+file"


@pytest.fixture(scope="module")
def docs() -> Iterator[str]:
    """Serve docstrings of Python with labels and metadata."""
    with served(SearchEngine.from_documents(docstring_documents(3_000), method="itq"), "python-docs") as url:
        yield url


@pytest.fixture(scope="module")
def scripts() -> Iterator[str]:
    with served(SearchEngine.from_documents(documents_in_many_scripts(), n_bits=32, method="itq"), "scripts") as url:
        yield url


def show_start(page: Page) -> None:
    page.wait_for_selector(".examples-of-queries .query")


def show_results(page: Page) -> None:
    page.goto(f"{page.url.split('#')[0]}{QUERY}&where=kind%3Dfunction")
    page.wait_for_selector(".hit")


def show_explanation(page: Page) -> None:
    page.goto(f"{page.url.split('#')[0]}{QUERY}&w=12:0")
    page.locator(".hit-head").first.click()
    page.wait_for_selector(".parts")
    page.locator(".the-bits summary").click()
    page.locator(".strip .column").nth(5).focus()


def show_map(page: Page) -> None:
    page.goto(f"{page.url.split('#')[0]}{QUERY}")
    page.wait_for_selector(".hit")
    if not page.locator("#map").is_visible():
        page.locator("#map-fold summary").click()
    page.select_option("#color", label="lines")
    page.locator("#map-note").scroll_into_view_if_needed()


def show_suggestion(page: Page) -> None:
    page.goto(f"{page.url.split('#')[0]}#q=read+a+fiel+separater")
    page.wait_for_selector(".did-you-mean")


def show_similar(page: Page) -> None:
    search(page, "read a file")
    page.locator(".hit").first.get_by_text("More like this").click()
    page.wait_for_selector(".like")


def show_bits(page: Page) -> None:
    page.evaluate("location.hash = '#bits'")
    page.wait_for_selector(".bits")


def show_bit(page: Page) -> None:
    page.evaluate("location.hash = '#bit=3'")
    page.wait_for_selector(".sides")


def show_no_hits(page: Page) -> None:
    page.fill("#query", "qwxzyqwxzy")
    page.wait_for_selector(".note")


VIEWS: dict[str, Callable[[Page], None]] = {
    "start": show_start,
    "results": show_results,
    "explanation": show_explanation,
    "map": show_map,
    "suggestion": show_suggestion,
    "similar": show_similar,
    "bits": show_bits,
    "bit": show_bit,
    "no-hits": show_no_hits,
}


@pytest.mark.parametrize("options", [WIDE, NARROW, {**WIDE, "color_scheme": "dark"}], ids=["1280", "390", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible_and_fits_the_screen(
    open_page: Open, docs: str, view: str, options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(docs, **options)
    VIEWS[view](page)
    page.wait_for_timeout(300)
    if SCREENSHOTS:
        page.screenshot(path=f"{SCREENSHOTS}/{view}-{request.node.callspec.id.split('-')[-1]}.png")
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert page.locator("h1:visible").count() == 1
    problems = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in problems] == []


def test_views_of_other_scripts_are_accessible_and_fit_the_screen(open_page: Open, scripts: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for options in (WIDE, NARROW):
        page = open_page(scripts, **options)
        page.wait_for_selector(".examples-of-queries .query")
        for query, word in (
            ("大学 学生", "大学"),
            ("корабль гавани", "Корабль"),
            ("الميناء", "الميناء"),
            ("greve", "grève"),
        ):
            search(page, query)
            page.wait_for_selector(f".hit mark:has-text('{word}')")
            page.locator(".hit-head").first.click()
            page.wait_for_selector(".part.words .word-bars")
            assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert [one["id"] for one in Axe().run(page).response["violations"]] == []


def total_of(page: Page) -> int:
    return int(page.locator(".total b").inner_text().split()[0].replace(",", ""))


def test_facets_count_what_choosing_them_finds(open_page: Open, docs: str) -> None:
    page = open_page(docs, **WIDE)
    search(page, "read rows from a file")
    assert page.locator("#facets h3").all_inner_texts() == ["label", "kind", "lines", "module"]
    for facet, value in ((1, 0), (2, 3), (0, 1)):
        button = page.locator(".facet").nth(facet).locator(".value").nth(value)
        count = int(button.locator(".value-count").inner_text().replace(",", ""))
        name = button.locator(".value-name").inner_text()
        button.click()
        chosen = page.locator(".facet").nth(facet).locator(".value[aria-pressed=true]")
        expect(chosen.locator(".value-name")).to_have_text(name)
        assert total_of(page) == count
    assert page.locator(".active li").count() == 4  # a range has two ends
    page.reload()
    page.wait_for_selector(".hit")
    assert page.locator(".value[aria-pressed=true]").count() == 3
    for _ in range(4):
        page.locator(".active .remove").first.click()
        page.wait_for_timeout(300)
    expect(page.locator(".active")).to_have_count(0)


def test_a_misspelt_query_is_corrected_by_one_click(open_page: Open, docs: str) -> None:
    page = open_page(docs, **WIDE)
    for query, expected in (
        ("read a fiel seperator", "read a file separator"),
        ("seperator of a fiel", "separator of a file"),
    ):
        page.fill("#query", query)  # no document has a word of the second
        expect(page.locator(".did-you-mean button")).to_have_text(expected)
        assert set(page.locator(".unknown b").all_inner_texts()) == {"seperator", "fiel"}
        page.locator(".did-you-mean button").click()
        expect(page.locator(".of-query q")).to_have_text(expected)
        expect(page.locator(".did-you-mean")).to_have_count(0)


def test_a_muted_bit_changes_the_hits_at_once_and_stays_open(open_page: Open, docs: str) -> None:
    page = open_page(f"{docs}{QUERY}&by=codes", **WIDE)
    page.wait_for_selector(".hit")
    before = page.locator(".score b").all_inner_texts()
    hit = page.locator(".hit").first
    id = hit.locator(".id").inner_text()
    hit.locator(".hit-head").click()
    page.wait_for_selector(".parts")
    hit.locator(".the-bits summary").click()
    select = page.locator(".hit[data-open] .bit-table").nth(1).locator("select").first  # of a bit that differs
    bit = select.get_attribute("aria-label").removeprefix("How much bit ").removesuffix(" counts")  # type: ignore[union-attr]
    select.select_option("0")
    expect(page.locator(".active")).to_contain_text(f"bit {bit} muted")
    opened = page.locator(".hit[data-open]")
    expect(opened.locator(".id")).to_have_text(id)
    expect(opened.locator(f"[aria-label='How much bit {bit} counts']").first).to_be_focused()
    muted = page.locator(".score b").all_inner_texts()
    assert muted != before
    assert float(opened.locator(".score b").inner_text()) > float(before[0])
    assert f"w={bit}%3A0" in page.url
    opened.locator(f"[aria-label='How much bit {bit} counts']").first.select_option("5")
    expect(page.locator(".active")).to_contain_text(f"bit {bit} counts 5 times")
    expect(page.locator(".score b").first).not_to_have_text(muted[0])
    page.locator(".active .remove").click()
    expect(page.locator(".active")).to_have_count(0)
    assert page.locator(".score b").all_inner_texts() == before


def test_the_distance_comes_with_the_likelihood_of_the_same_label(open_page: Open, docs: str) -> None:
    page = open_page(docs, **WIDE)
    show_similar(page)
    texts = page.locator(".likelihood").all_inner_texts()
    parsed = [(int(text.split()[0]), int(text.rpartition(": ")[2].split("%")[0])) for text in texts]
    assert len(parsed) == 20
    for distance, share in parsed:
        assert all(other <= share for further, other in parsed if further > distance)
    page.locator(".hit-head").first.click()
    expect(page.locator(".part.codes p").first).to_contain_text(f"Of hits at this distance, {parsed[0][1]}%")


def test_the_map_is_colored_by_any_field_and_its_regions_are_searched_by_name(open_page: Open, docs: str) -> None:
    page = open_page(docs, **WIDE)
    panel = page.locator("#map-panel")
    page.wait_for_selector("#map-panel[data-names]")
    assert int(panel.get_attribute("data-names") or 0) >= 3
    assert page.locator("#color option").all_inner_texts() == ["label", "kind", "lines", "module"]
    picture = "document.getElementById('map').toDataURL()"
    seen = {page.evaluate(picture)}
    for field in ("kind", "lines", "module"):
        page.select_option("#color", label=field)
        expect(panel).to_have_attribute("data-color", field)
        page.wait_for_timeout(100)
        seen.add(page.evaluate(picture))
    assert len(seen) == 4
    name = page.locator("#regions button:visible").first
    words = name.inner_text()
    name.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit")
    assert page.locator("#query").input_value() == words


def test_hits_of_codes_alone_say_so_and_all_controls_are_reached_by_keyboard(open_page: Open, docs: str) -> None:
    page = open_page(docs, **WIDE)
    search(page, "eigenvalues")
    while page.locator(".more").is_visible() and not page.locator(".tag.topic").count():
        shown = page.locator(".hit").count()
        page.locator(".more").click()
        page.wait_for_selector(f".hit:nth-child({shown + 1})")
    assert page.locator(".tag.topic").count()
    of_topic = page.locator(".hit:has(.tag.topic)").first
    assert of_topic.locator(".text mark, .title mark").count() == 0
    page.reload()
    page.wait_for_selector(".hit")
    page.keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("(document.activeElement.className || document.activeElement.id).split(' ')[0]"))
    assert reached >= {"value", "rank", "sort", "hit-head", "link", "chip"}
