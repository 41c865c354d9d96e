"""Serve an engine to a test, through HTTP in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.testclient import TestClient

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


def error_of(response: httpx.Response) -> dict[str, Any]:
    """Return the error of a response, after checking its fields."""
    [(name, facts)] = response.json().items()
    assert name == "error"
    assert set(facts) == ERROR_FIELDS
    assert facts["request_id"] == response.headers["x-request-id"]
    return dict(facts)
