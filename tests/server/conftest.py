"""Engines and clients shared by the tests of the service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from fewbits import SearchEngine
from fewbits.server.app import create_app
from fewbits.server.schemas import Settings
from helpers.corpora import tiny_documents
from helpers.service import TOKEN, serving


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
