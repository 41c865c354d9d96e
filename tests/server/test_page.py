"""The web page in Chromium."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from fewbits import Document, SearchEngine
from fewbits.server.app import create_app
from fewbits.server.run import listen, make_server
from fewbits.server.schemas import Settings
from helpers.corpora import tiny_documents

CHROMIUM = Path("/usr/bin/chromium")
OPTIONS = (
    "--no-sandbox --headless --disable-gpu --disable-background-networking --disable-component-update --no-first-run"
)
TIMEOUT_MS = 30_000  # a busy machine is slow
SCREENSHOTS = os.environ.get("FEWBITS_SCREENSHOTS")  # a folder for screenshots, if set

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="/usr/bin/chromium is not installed (make chromium)"),
]
Open = Callable[..., Page]


@contextmanager
def served(engine: SearchEngine) -> Iterator[str]:
    server = make_server(create_app(engine, name="tiny", use_umap=False), Settings())
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(SearchEngine.from_documents(tiny_documents(), n_bits=20, method="itq")) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS.split())
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open pages; check that no page has errors or sends requests to another host."""
    contexts = []
    problems: list[str] = []

    def open_one(address: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda message: problems.append(message.text) if "Content Security Policy" in message.text else None,
        )
        origin = "/".join(address.split("/")[:3])
        page.on("request", lambda sent: None if sent.url.startswith(origin) else problems.append(sent.url))
        page.goto(address)
        page.wait_for_selector("#map-panel[data-points]", state="attached")
        return page

    yield open_one
    for number, context in enumerate(contexts):
        if SCREENSHOTS:
            context.pages[0].screenshot(path=f"{SCREENSHOTS}/{request.node.name}-{number}.png", full_page=True)
        context.close()
    assert problems == []


def search(page: Page, text: str) -> None:
    page.fill("#query", text)
    page.wait_for_selector(".hit")


def test_hits_appear_while_typing_with_words_marked(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.locator("#query").press_sequentially("boat with on", delay=20)
    page.wait_for_selector(".hit")
    page.locator("#query").press_sequentially("ions", delay=20)
    page.wait_for_selector(".hit mark:text-is('onions')")
    expect(page.locator(".hit")).to_have_count(20)
    assert set(page.locator(".hit mark").all_inner_texts()) <= {"boat", "onions"}
    assert "of 20 bits match" in page.locator(".near").first.inner_text()
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


def test_click_on_a_hit_shows_its_words_and_bits(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "boat harbour wind")
    hit = page.locator(".hit").first
    hit.locator(".hit-head").click()
    page.wait_for_selector(".strip")
    score = hit.locator(".score b").inner_text()
    matching = hit.locator(".bits-alike").inner_text().split()[0]
    expect(hit.locator(".lead")).to_contain_text(f"a score of {score}.")
    expect(hit.locator(".lead")).to_contain_text(f"The bits only selected the candidates: {matching} of 20 bits match.")
    assert hit.locator(".why > *").first.get_attribute("class") == "shared"
    assert hit.locator(".column").count() == 20
    differing = hit.locator(".column.differs").count()
    assert hit.locator(".near").get_attribute("title") == f"{differing} of 20 bits differ"
    shared = set(hit.locator(".shared mark").all_inner_texts())
    assert shared
    assert shared <= {"boat", "harbour", "wind"}
    hit.locator(".column").nth(4).hover()
    expect(hit.locator(".description")).to_contain_text("Bit 4: 1 means")
    assert hit.locator(".reason").count() >= 3
    hit.locator(".hit-head").click()
    expect(hit.locator(".why")).to_be_hidden()


def test_more_like_this_shows_similar_documents(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "telescope galaxies")
    chosen = page.locator(".hit .id").first.inner_text()
    page.locator(".hit").first.get_by_text("More like this").click()
    page.wait_for_selector(".like")
    assert page.locator(".like h2").inner_text() == chosen
    assert chosen not in page.locator(".hit .id").all_inner_texts()
    page.locator(".hit-head").first.click()
    expect(page.locator(".hit").first.locator(".lead")).to_contain_text("Hits are ordered by bits only.")
    page.go_back()
    page.wait_for_selector(".order")
    assert page.locator("#query").input_value() == "telescope galaxies"


def test_map_shows_all_documents_highlights_hits_and_opens_documents(open_page: Open, address: str) -> None:
    page = open_page(address)
    panel = page.locator("#map-panel")
    assert panel.get_attribute("data-points") == "60"
    assert set(page.locator("#legend span").all_inner_texts()) == {"cooking", "sailing", "astronomy"}
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
    assert page.locator(".like h2").inner_text() == pointed
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
        expect(page.locator(".note h2")).to_have_text("There is no such bit.")
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
    expect(page.locator(".like h2 .title")).to_have_text(title)
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


def test_start_page_shows_document_counts_and_suggests_titles(open_page: Open, titled: str) -> None:
    page = open_page(titled)
    expect(page.locator(".training")).to_contain_text("60 documents are indexed.")
    expect(page.locator(".training")).to_contain_text("The 20 bits were learned from 58 documents.")
    page.wait_for_selector(".tries .chip")
    suggested = page.locator(".tries .chip").all_inner_texts()
    assert all(text.startswith("On ") and text.endswith("of a harbour") for text in suggested)
    assert "question" not in page.locator("body").inner_text().lower()
    page.locator(".tries .chip").first.click()
    page.wait_for_selector(".hit")
    assert page.locator("#query").input_value() == suggested[0]


def test_words_are_suggested_if_documents_have_no_titles(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.wait_for_selector(".tries .chip")
    for text in page.locator(".tries .chip").all_inner_texts():
        assert 2 <= len(text.split()) <= 6
        assert text.split()[-1] not in ("the", "of", "with", "and", "a", "an")


def test_hits_are_ordered_by_score(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "boat harbour wind")
    scores = [float(text) for text in page.locator(".score b").all_inner_texts()]
    assert len(scores) == 20
    assert scores == sorted(scores, reverse=True)


def test_more_hits_are_loaded_until_all_are_shown(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "boat")
    for shown in (20, 40, 60):
        expect(page.locator(".hit")).to_have_count(shown)
        expect(page.locator(".foot span")).to_have_text(f"{shown} hits shown")
        expect(page.locator("#map-panel")).to_have_attribute("data-highlighted", str(shown))
        if shown < 60:
            page.locator(".more").click()
    expect(page.locator(".more")).to_be_hidden()
    ids = page.locator(".hit .id").all_inner_texts()
    assert len(set(ids)) == 60
    page.fill("#label", "cooking")
    expect(page.locator(".foot span")).to_have_text("20 hits shown")
    page.locator(".more").click()
    expect(page.locator(".more")).to_be_hidden()


def test_unknown_words_are_listed(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "the boat of qwxzy and Foobar")
    expect(page.locator(".unknown")).to_have_text("Unknown words: qwxzy, foobar")
    page.fill("#query", "the boat")
    expect(page.locator(".unknown")).to_have_count(0)


def test_filter_can_be_removed_if_there_are_no_hits(open_page: Open, address: str) -> None:
    page = open_page(f"{address}#q=boat&label=cooking")
    page.wait_for_selector(".hit")
    nothing = {"bits": 20, "hits": [], "words": ["boat"], "unknown_words": []}
    page.route("**/v1/search", lambda route: route.fulfill(json=nothing))
    page.fill("#query", "boat harbour")
    expect(page.locator(".note h2")).to_have_text("No hits")
    page.unroute("**/v1/search")
    page.get_by_text("Remove the filter").click()
    page.wait_for_selector(".hit")
    assert page.locator("#label").input_value() == ""


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


def test_label_filter_and_order_can_be_changed(open_page: Open, address: str) -> None:
    page = open_page(address)
    search(page, "boat")
    page.fill("#label", "cooking")
    expect(page.locator(".hit .labels .chip").first).to_have_text("cooking")
    assert set(page.locator(".hit .labels .chip").all_inner_texts()) == {"cooking"}
    page.fill("#label", "nothing")
    expect(page.locator(".note h2")).to_have_text("No document has the label “nothing”.")
    page.fill("#label", "")
    page.wait_for_selector(".hit")
    page.get_by_text("bits only").click()
    page.wait_for_selector(".choice[aria-pressed=true]:text('bits only')")
    near = [int(text.split()[0]) for text in page.locator(".near").all_inner_texts()]
    assert near == sorted(near, reverse=True)


def test_page_can_be_used_by_keyboard(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.wait_for_selector(".note")
    page.keyboard.press("/")
    page.keyboard.type("stars")
    page.wait_for_selector(".hit")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit:nth-child(2)[data-open] .strip")
    page.keyboard.press("Escape")
    expect(page.locator(".hit[data-open]")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.wait_for_selector(".note h1")
    assert page.locator("#query").input_value() == ""


def test_unknown_query_and_unreachable_service_show_messages(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.fill("#query", "xyzzy")
    expect(page.locator(".note h2")).to_have_text("None of these words is in the vocabulary")
    page.route("**/v1/search", lambda route: route.abort())
    page.fill("#query", "boat")
    expect(page.locator(".note h2")).to_have_text("The service cannot be reached.")
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


def test_embedding_engine_is_explored_from_the_map(open_page: Open) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 8))
    documents = [Document(number, f"text {number}") for number in range(40)]
    with served(SearchEngine.from_embeddings(rows, documents=documents, n_bits=12)) as address:
        page = open_page(address)
        expect(page.locator(".note h1")).to_have_text("Find similar documents")
        page.evaluate("location.hash = '#like=7'")
        page.wait_for_selector(".like")
        expect(page.locator(".hit")).to_have_count(20)
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
        page.wait_for_selector(".strip")
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
