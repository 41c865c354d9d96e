"""The web page in Chromium."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, expect

from fewbits import Document, SearchEngine
from helpers.browser import IN_BROWSER, Open, search, served
from helpers.corpora import TOPICS, tiny_documents

pytestmark = IN_BROWSER


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(SearchEngine.from_documents(tiny_documents(), n_bits=20, method="itq")) as url:
        yield url


def test_hits_appear_while_typing_with_words_marked(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.locator("#query").press_sequentially("boat with on", delay=20)
    page.wait_for_selector(".hit")
    page.locator("#query").press_sequentially("ions", delay=20)
    page.wait_for_selector(".hit mark:text-is('onions')")
    expect(page.locator(".hit")).to_have_count(20)
    assert set(page.locator(".hit mark").all_inner_texts()) <= {"boat", "onions"}
    assert "bits differ" in page.locator(".near").first.inner_text()
    assert page.url.endswith("#q=boat+with+onions")


def test_late_response_does_not_replace_a_newer_one(open_page: Open, address: str) -> None:
    page = open_page(address)
    delayed: list[Any] = []
    page.route(
        "**/v1/search", lambda route: delayed.append(route) if "soup" in route.request.post_data else route.continue_()
    )
    page.fill("#query", "soup")
    deadline = time.monotonic() + 20
    while not delayed and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    search(page, "telescope")
    before = page.locator(".hit .id").all_inner_texts()
    for route in delayed:
        with suppress(PlaywrightError):  # aborted by the page
            route.continue_()
    page.wait_for_timeout(500)
    assert page.locator(".hit .id").all_inner_texts() == before


def test_click_on_a_hit_shows_what_its_words_and_its_bits_saw(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "boat harbour wind")
    hit = page.locator(".hit").first
    hit.locator(".hit-head").click()
    page.wait_for_selector(".parts")
    score = hit.locator(".score b").inner_text()
    words, codes = (float(text.split()[0]) for text in hit.locator(".key").all_inner_texts())
    expect(hit.locator(".lead")).to_contain_text(f"the score is {score}: {words:.2f} from words and {codes:.2f}")
    assert words + codes == pytest.approx(float(score))
    matched = set(hit.locator(".part.words .word-bars li > span:first-child").all_inner_texts())
    assert matched
    assert matched <= {"boat", "harbour", "wind"}
    shares = [int(text.rstrip("%")) for text in hit.locator(".part.words .word-bars .quiet").all_inner_texts()]
    assert sum(shares) == pytest.approx(100, abs=2)
    near = hit.locator(".part.codes .word-bars li > span:first-child").all_inner_texts()
    assert len(set(near)) == len(near) > 0
    hit.locator(".the-bits summary").click()
    assert hit.locator(".column").count() == 20
    differing = hit.locator(".column.differs").count()
    assert hit.locator(".likelihood").inner_text().startswith(f"{differing} bit")
    expect(hit.locator(".part.codes p").first).to_contain_text(f"{20 - differing} of 20 bits agree")
    hit.locator(".column").nth(4).hover()
    expect(hit.locator(".description")).to_contain_text("Bit 4: 1 means")
    rows = hit.locator(".bit-table tbody tr").count()
    named = [word for text in hit.locator(".bit-table td:nth-child(2)").all_inner_texts() for word in text.split(", ")]
    assert rows >= 3
    assert len(set(named)) >= 0.8 * len(named)  # bits are not all named by the same words
    hit.locator(".hit-head").click()
    expect(hit.locator(".why")).to_be_hidden()


def test_more_like_this_shows_similar_documents(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "telescope galaxies")
    chosen = page.locator(".hit .id").first.inner_text()
    page.locator(".hit").first.get_by_text("More like this").click()
    page.wait_for_selector(".like")
    assert page.locator(".like h1").inner_text() == chosen
    assert chosen not in page.locator(".hit .id").all_inner_texts()
    page.locator(".hit-head").first.click()
    expect(page.locator(".hit").first.locator(".lead")).to_contain_text("the share of the bits that agree")
    page.go_back()
    page.wait_for_selector(".of-query")
    assert page.locator("#query").input_value() == "telescope galaxies"


def test_map_shows_all_documents_highlights_hits_and_opens_documents(open_page: Open, address: str) -> None:
    page = open_page(address)
    panel = page.locator("#map-panel")
    assert panel.get_attribute("data-points") == "60"
    assert set(page.locator("#legend > span").all_inner_texts()) == {"cooking", "sailing", "astronomy"}
    search(page, "boat")
    expect(panel).to_have_attribute("data-highlighted", "20")
    box = page.locator("#map").bounding_box()
    assert box
    canvas = "document.getElementById('map')"
    painted = f"() => {canvas}.getContext('2d').getImageData(0, 0, {canvas}.width, {canvas}.height).data.some(v => v)"
    assert page.evaluate(painted)
    for x in range(0, int(box["width"]), 9):  # move along a line until the pointer is over a point
        page.mouse.move(box["x"] + x, box["y"] + box["height"] / 2)
        if page.locator("#map-tip").is_visible():
            break
    expect(page.locator("#map-tip p")).to_be_visible()
    pointed = page.locator("#map-tip b").inner_text()
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector(".like")
    assert page.locator(".like h1").inner_text() == pointed
    page.locator("[data-map=in]").click()
    page.mouse.wheel(0, -300)
    page.locator("[data-map=all]").click()


def test_bit_page_shows_words_and_documents(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.get_by_text("All bits").click()
    page.wait_for_selector(".bits")
    assert page.locator(".bits li").count() == 20
    page.locator(".bits a").nth(3).click()
    page.wait_for_selector(".sides")
    assert page.locator("#bit-view h1").inner_text() == "Bit 3"
    assert page.locator(".side.one .examples li").count() > 0
    word = page.locator(".side.one .chip").first
    text = word.inner_text()
    word.click()
    page.wait_for_selector(".hit")
    assert page.locator("#query").input_value() == text


def test_unknown_bit_shows_the_valid_range(open_page: Open, address: str) -> None:
    for bit in ("99", "-1", "x"):
        page = open_page(f"{address}#bit={bit}")
        expect(page.locator(".note h1")).to_have_text("There is no such bit.")
        expect(page.locator(".note p")).to_have_text("Choose a bit from 0 to 19.")


@pytest.fixture(scope="module")
def titled() -> Iterator[str]:
    """Serve documents with titles and metadata; two were added after training."""
    documents = [
        Document(
            document.id,
            f"On {document.labels[0]}, part {number} of a harbour\n{document.text}",
            document.labels,
            {"year": 2000 + number, "authors": ["Ada", "Bo"], "note": "a long remark " * 20},
        )
        for number, document in enumerate(tiny_documents())
    ]
    engine = SearchEngine.from_documents(documents[:-2], n_bits=20, method="itq")
    engine.add(documents[-2:])
    with served(engine) as url:
        yield url


def test_first_line_is_the_heading_of_a_hit_and_is_not_repeated(open_page: Open, titled: str) -> None:
    page = open_page(titled)
    search(page, "boat")
    hit = page.locator(".hit").first
    title = hit.locator(".title").inner_text()
    assert title.startswith("On ")
    assert hit.locator(".id").inner_text().split("-")[0] in ("cooking", "sailing", "astronomy")
    assert title not in hit.locator(".text").inner_text()
    hit.get_by_text("More like this").click()
    expect(page.locator(".like h1 .title")).to_have_text(title)
    page.evaluate("location.hash = '#bit=2'")
    expect(page.locator(".examples .title").first).to_contain_text("On ")


def test_metadata_is_shown_as_names_and_values(open_page: Open, titled: str) -> None:
    page = open_page(titled)
    search(page, "boat")
    hit = page.locator(".hit").first
    short = hit.locator(".fact").all_inner_texts()
    assert short[1] == "authors: Ada, Bo"
    assert short[2] == "note: a long remark a long remark a long …"
    hit.locator(".hit-head").click()
    expect(hit.locator(".facts dt")).to_have_text(["year:", "authors:", "note:"])
    assert hit.locator(".facts dd").first.inner_text() == short[0].removeprefix("year: ")
    hit.locator(".full summary").click()
    assert "[object" not in hit.inner_text()


def test_start_page_asks_for_the_task_and_gives_queries_of_this_corpus(open_page: Open, titled: str) -> None:
    page = open_page(titled)
    expect(page.locator("h1")).to_have_text("What are you looking for in tiny?")
    expect(page.locator(".task")).to_contain_text("60 documents are searched as you type")
    expect(page.locator(".training")).to_contain_text("60 documents are indexed.")
    expect(page.locator(".training")).to_contain_text("The 20 bits were learned from 58 documents.")
    page.wait_for_selector(".examples-of-queries .query")
    buttons = page.locator(".examples-of-queries .query")
    queries = [query.inner_text() for query in buttons.locator("span:first-child").all()]
    counts = [count.inner_text() for count in buttons.locator(".quiet").all()]
    assert len(queries) >= 4
    known = " ".join(one.text for one in tiny_documents()).split()
    assert set(queries[0].split()) <= {*known, *TOPICS, "part"}
    for query, count in zip(queries[:3], counts, strict=False):
        page.evaluate("location.hash = ''")
        page.locator(".examples-of-queries .query", has_text=query).first.click()
        page.wait_for_selector(".hit")
        assert page.locator("#query").input_value() == query
        expect(page.locator(".total b")).to_have_text(f"{count} document{'' if count == '1' else 's'}")


def choose(page: Page, value: str) -> None:
    """Choose a value of a facet."""
    page.locator("#facets .value", has_text=value).first.click()
    page.wait_for_selector(f"#facets .value[aria-pressed=true]:has-text('{value}')")


def test_hits_are_ordered_by_score(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "boat harbour wind")
    scores = [float(text) for text in page.locator(".score b").all_inner_texts()]
    assert len(scores) == 20
    assert scores == sorted(scores, reverse=True)


def test_more_hits_are_loaded_until_all_are_shown(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "boat soup")
    for shown in (20, 40, 60):
        expect(page.locator(".hit")).to_have_count(shown)
        expect(page.locator(".foot span")).to_have_text("20 of 30 shown" if shown == 20 else f"{shown} hits shown")
        expect(page.locator("#map-panel")).to_have_attribute("data-highlighted", str(shown))
        if shown < 60:
            page.locator(".more").click()
    expect(page.locator(".more")).to_be_hidden()
    ids = page.locator(".hit .id").all_inner_texts()
    assert len(set(ids)) == 60
    choose(page, "cooking")
    expect(page.locator(".foot span")).to_have_text("20 hits shown")
    page.locator(".more").click()
    expect(page.locator(".more")).to_be_hidden()


def test_unknown_words_are_listed(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "the boat of qwxzy and Foobar")
    expect(page.locator(".unknown")).to_have_text("No document has qwxzy, Foobar.")
    page.fill("#query", "the boat")
    expect(page.locator(".unknown")).to_have_count(0)


def test_filters_can_be_removed_if_there_are_no_hits(open_page: Open, address: str) -> None:
    page = open_page(f"{address}#q=boat&label=nothing&where=year%3D3&by=words")
    expect(page.locator(".note h2")).to_have_text("No hits")
    page.get_by_text("Remove the filters").click()
    page.wait_for_selector(".hit")
    assert page.url.endswith("#q=boat&by=words")


def test_map_zooms_to_the_hits_and_resets_for_a_new_query(open_page: Open, titled: str) -> None:
    page = open_page(titled)
    panel, tip = page.locator("#map-panel"), page.locator("#map-tip")
    search(page, "telescope galaxies")
    expect(panel).to_have_attribute("data-highlighted-in-view", "20")
    for _ in range(6):
        page.locator("[data-map=in]").click()
    expect(panel).to_have_attribute("data-zoom", "34.01")
    assert int(panel.get_attribute("data-highlighted-in-view") or 0) > 0
    box = page.locator("#map").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)  # there is a hit
    expect(tip.locator(".title")).to_be_visible()
    assert "…" not in tip.locator("b").inner_text()
    search(page, "onions garlic")
    expect(panel).to_have_attribute("data-zoom", "1.00")
    expect(panel).to_have_attribute("data-highlighted-in-view", "20")
    expect(tip).to_be_hidden()


def test_label_ranking_and_order_can_be_chosen(open_page: Open, titled: str) -> None:
    page = open_page(titled)
    search(page, "boat soup")
    choose(page, "cooking")
    expect(page.locator(".hit .labels .chip").first).to_have_text("cooking")
    assert set(page.locator(".hit .labels .chip").all_inner_texts()) == {"cooking"}
    page.get_by_label("Remove label: cooking").click()
    expect(page.locator(".active")).to_have_count(0)
    page.select_option("#rank", "codes")
    page.wait_for_selector(".total:has-text('nearest codes first')")
    scores = [float(text) for text in page.locator(".score b").all_inner_texts()]
    assert scores == sorted(scores, reverse=True)
    page.select_option("#sort", "-year")
    page.wait_for_selector("#sort >> option:checked[value='-year']", state="attached")
    expect(page.locator(".fact").first).to_have_text("year: 2059")
    years = [int(text.split()[1]) for text in page.locator(".fact:has-text('year')").all_inner_texts()]
    assert years == sorted(years, reverse=True)


def test_page_can_be_used_by_keyboard(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.wait_for_selector(".start")
    page.keyboard.press("/")
    page.keyboard.type("stars")
    page.wait_for_selector(".hit")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit:nth-child(2)[data-open] .parts")
    page.keyboard.press("Escape")
    expect(page.locator(".hit[data-open]")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.wait_for_selector(".start h1")
    assert page.locator("#query").input_value() == ""


def test_unknown_query_and_unreachable_service_show_messages(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.fill("#query", "xyzzy")
    expect(page.locator(".note h1")).to_have_text("No document has these words")
    page.route("**/v1/search", lambda route: route.abort())
    page.fill("#query", "boat")
    expect(page.locator(".note h1")).to_have_text("The service cannot be reached.")
    page.unroute("**/v1/search")
    page.get_by_text("Try again", exact=True).click()
    page.wait_for_selector(".hit")


def test_narrow_screen_needs_no_horizontal_scrolling(open_page: Open, address: str) -> None:
    page = open_page(address, viewport={"width": 390, "height": 844}, has_touch=True)

    def overflows() -> bool:
        return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))

    assert not overflows()
    search(page, "boat harbour")
    page.locator(".hit-head").first.click()
    page.wait_for_selector(".lead")
    expect(page.locator(".strip")).to_be_hidden()
    page.locator(".the-bits summary").click()
    expect(page.locator(".strip")).to_be_visible()
    assert not overflows()
    for view in ("#bits", "#bit=3", "#like=sailing-1"):
        page.evaluate(f"location.hash = '{view}'")
        page.wait_for_selector({"#bits": ".bits", "#bit=3": ".sides"}.get(view, ".like"))
        assert not overflows()


def test_phone_shows_hits_first_and_the_map_folded_below(open_page: Open, address: str) -> None:
    page = open_page(address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    expect(page.locator(".box kbd")).to_be_hidden()
    search(page, "boat harbour")
    expect(page.locator("#map")).to_be_hidden()
    hits, fold = page.locator(".hits").bounding_box(), page.locator("#map-fold summary").bounding_box()
    assert hits
    assert fold
    assert hits["y"] < 844 / 3
    assert fold["y"] > hits["y"] + hits["height"]
    page.locator("#map-fold summary").click()
    expect(page.locator("#map")).to_be_visible()
    expect(page.locator("#map-note")).to_contain_text("Tap a point")
    page.locator("#query").press("Enter")
    expect(page.locator("#query")).not_to_be_focused()


def test_theme_follows_the_system_until_it_is_switched(open_page: Open, address: str) -> None:
    page = open_page(address, color_scheme="dark")

    def brightness() -> int:
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in color.strip("rgb()").split(","))

    assert brightness() < 150
    page.click("#theme")
    assert brightness() > 600
    page.reload()
    page.wait_for_selector("#map-panel[data-points]", state="attached")
    assert brightness() > 600


def test_embedding_engine_without_texts_is_explored_from_the_map(open_page: Open) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 8))
    with served(SearchEngine.from_embeddings(rows, n_bits=12)) as address:
        page = open_page(address)
        expect(page.locator(".start h1")).to_have_text("Find similar documents in tiny")
        expect(page.locator("#search")).to_be_hidden()
        page.evaluate("location.hash = '#like=7'")
        page.wait_for_selector(".like")
        expect(page.locator(".hit")).to_have_count(20)
        page.locator(".hit-head").first.click()
        expect(page.locator(".hit").first.locator(".full")).to_be_visible()


def test_embedding_engine_with_texts_is_searched_by_words(open_page: Open) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 8))
    documents = [Document(number, "red text" if number % 2 else "blue text") for number in range(40)]
    with served(SearchEngine.from_embeddings(rows, documents=documents, n_bits=12)) as address:
        page = open_page(address)
        expect(page.locator(".start h1")).to_have_text("What are you looking for in tiny?")
        search(page, "red")
        expect(page.locator(".total b")).to_have_text("20 documents")
        page.locator(".hit-head").first.click()
        expect(page.locator(".part.words .word-bars li")).to_contain_text("red")
        page.locator(".hit").first.get_by_text("More like this").first.click()
        page.wait_for_selector(".like")
        page.locator(".hit-head").first.click()
        expect(page.locator(".hit").first.locator(".full")).to_be_visible()


def test_markup_in_documents_is_shown_as_text(open_page: Open) -> None:
    attacks = [
        "<script>window.hacked = 1</script>",
        "<img src=x onerror='window.hacked = 2'>",
        "<svg onload='window.hacked = 3'>",
        "\"><iframe srcdoc='<script>parent.hacked = 4</script>'></iframe>",
        "javascript:window.hacked=5//",
        "{{constructor.constructor('window.hacked = 6')()}}",
    ]
    documents = [
        Document(
            f"{attack}{number}",
            f"{attack} title\n" * (number == 3) + f"word{'x' * number} common {attack}",
            (attack,),
            {attack: attack, "n": number},
        )
        for number in range(1, 4)
        for attack in attacks
    ]
    with served(SearchEngine.from_documents(documents, n_bits=8, method="itq")) as address:
        page = open_page(address)
        search(page, f"common {attacks[0]} window hacked img")
        shown = page.locator("#results").inner_text()
        assert all(attack in shown for attack in attacks[:3])
        for hit in page.locator(".hit-head").all()[:6]:
            hit.click()
        page.wait_for_selector(".parts")
        assert attacks[0] in page.locator(".facts").first.inner_text()
        for summary in page.locator(".full summary").all():
            summary.click()
        expect(page.locator(".full pre").first).to_be_visible()
        page.locator(".hit .chip").first.click()
        page.wait_for_selector(".hit")
        page.locator(".hit").first.get_by_text("More like this").first.click()
        page.wait_for_selector(".like")
        page.evaluate("location.hash = '#bit=1'")
        page.wait_for_selector(".sides")
        for hash_ in (attacks[1], f"like={attacks[1]}", f"label={attacks[1]}&q={attacks[1]}", f"bit={attacks[1]}"):
            page.evaluate("hash => { location.hash = hash }", hash_)
            page.wait_for_timeout(200)
        assert page.evaluate("window.hacked") is None
        assert page.locator("main script, main img, main iframe, main svg").count() == 0
