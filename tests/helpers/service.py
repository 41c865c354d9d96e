"""Serve an engine to a test in this process: to a client without a network, or at a port."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.testclient import TestClient

from fewbits import SearchEngine
from fewbits.server.app import create_app
from fewbits.server.run import listen, make_server
from fewbits.server.schemas import Settings

TOKEN = "open-sesame-7"
AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}
ERROR_FIELDS = {"what", "allowed", "got", "next", "request_id"}


@contextmanager
def serving(app: FastAPI) -> Iterator[TestClient]:
    """Run an application and yield a client once the engine is loaded and the map is computed."""
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        while client.get("/readyz").status_code != 200 or client.get("/v1/map").status_code != 200:
            time.sleep(0.02)
        yield client


@contextmanager
def running(settings: Settings, engine: SearchEngine) -> Iterator[int]:
    """Run a server in a thread and yield its port."""
    server = make_server(create_app(engine, settings, use_umap=False), settings)
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def error_of(response: httpx.Response) -> dict[str, Any]:
    """Return the error of a response, after checking its fields."""
    [(name, facts)] = response.json().items()
    assert name == "error"
    assert set(facts) == ERROR_FIELDS
    assert facts["request_id"] == response.headers["x-request-id"]
    return dict(facts)
