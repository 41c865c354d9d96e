"""Engines and clients shared by the tests of the service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from fastapi.testclient import TestClient

from fewbits import SearchEngine
from fewbits.server.app import create_app
from fewbits.server.schemas import Settings
from helpers.corpora import tiny_documents
from helpers.service import TOKEN, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from helpers.browser import Open

SCREENSHOTS = os.environ.get("FEWBITS_SCREENSHOTS")  # a folder for screenshots, if set


@pytest.fixture(scope="module")
def shared_engine() -> SearchEngine:
    return SearchEngine.from_documents(tiny_documents(), n_bits=20, method="itq")


@pytest.fixture(scope="module")
def client(shared_engine: SearchEngine) -> Iterator[TestClient]:
    """Yield a client of a read-only service with low limits."""
    limits = Settings(body_bytes=20_000, text_length=500, hits=40, documents=5)
    with serving(create_app(shared_engine, limits, name="tiny", use_umap=False)) as client:
        yield client


@pytest.fixture
def writable(engine: SearchEngine) -> Iterator[TestClient]:
    """Yield a client of a service that accepts changes with the token."""
    with serving(create_app(engine, Settings(token=TOKEN), use_umap=False)) as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium."""
    from playwright.sync_api import sync_playwright

    from helpers.browser import CHROMIUM, OPTIONS

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open pages; check that no page has errors or sends requests to another host."""
    from helpers.browser import Pages

    pages = Pages(browser)
    yield pages.open
    for number, context in enumerate(pages.contexts):
        if SCREENSHOTS:
            context.pages[0].screenshot(path=f"{SCREENSHOTS}/{request.node.name}-{number}.png", full_page=True)
        context.close()
    assert pages.problems == []
