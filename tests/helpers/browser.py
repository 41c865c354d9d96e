"""Serve an engine to a browser, and open pages in Chromium."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from fewbits import SearchEngine
from fewbits.server.app import create_app
from fewbits.server.run import listen, make_server
from fewbits.server.schemas import Settings

CHROMIUM = Path("/usr/bin/chromium")
OPTIONS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
TIMEOUT_MS = 30_000  # a busy machine is slow
IN_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="/usr/bin/chromium is not installed (make chromium)"),
]
Open = Callable[..., Page]


@contextmanager
def served(engine: SearchEngine, name: str = "tiny") -> Iterator[str]:
    """Serve an engine, and yield its address."""
    server = make_server(create_app(engine, name=name, use_umap=False), Settings())
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(20)


class Pages:
    """Opens pages, and collects their errors and requests to other hosts."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.contexts: list[BrowserContext] = []
        self.problems: list[str] = []

    def open(self, address: str, **options: Any) -> Page:
        """Open a page, and wait until its map is loaded."""
        context = self._browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        self.contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on(
            "console",
            lambda message: self.problems.append(message.text) if "Content Security Policy" in message.text else None,
        )
        origin = "/".join(address.split("/")[:3])
        page.on("request", lambda sent: None if sent.url.startswith(origin) else self.problems.append(sent.url))
        page.goto(address)
        page.wait_for_selector("#map-panel[data-points]", state="attached")
        return page


def search(page: Page, text: str) -> None:
    """Type a query, and wait for hits."""
    page.fill("#query", text)
    page.wait_for_selector(".hit")
