"""Queue, time limit and batching of requests."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from fewbits import SearchEngine
from fewbits.search import Snapshot
from fewbits.server.app import create_app
from fewbits.server.schemas import Settings
from helpers.service import error_of, serving


def test_concurrent_queries_each_get_their_own_response(client: TestClient, shared_engine: SearchEngine) -> None:
    queries = ["boat", "telescope", "xyzzy", "onions garlic", "stars", "garlic", "soup", "zzz"] * 8

    def send(query: str) -> httpx.Response:
        return client.post("/v1/search", json={"query": query, "k": 3, "rerank": "none"})

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(send, queries))
    for query, answer in zip(queries, answers, strict=True):
        if query in ("xyzzy", "zzz"):
            assert error_of(answer)["what"] == "the query has no known word"
            assert error_of(answer)["got"] == repr(query)
        else:
            ids = [hit["id"] for hit in answer.json()["hits"]]
            assert ids == [hit.id for hit in shared_engine.search(query, 3, rerank="none")]


def test_requests_are_rejected_while_the_queue_is_full(
    shared_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    real = Snapshot.similar

    def slow(self: Snapshot, *arguments: Any, **options: Any) -> Any:
        gate.wait(20)
        return real(self, *arguments, **options)

    monkeypatch.setattr(Snapshot, "similar", slow)
    app = create_app(shared_engine, Settings(workers=1, waiting=2), use_umap=False)
    with serving(app) as client, ThreadPoolExecutor(8) as pool:
        responses = [pool.submit(client.post, "/v1/similar", json={"id": "sailing-1"}) for _ in range(3)]
        while "fewbits_waiting 3.0" not in client.get("/metrics").text:  # the event loop is not blocked
            time.sleep(0.02)
        refused = client.post("/v1/similar", json={"id": "sailing-1"})
        assert error_of(refused)["what"] == "too many requests are waiting"
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        gate.set()
        assert [future.result().status_code for future in responses] == [200] * 3
        assert client.post("/v1/similar", json={"id": "sailing-1"}).status_code == 200


def test_slow_request_times_out(shared_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(Snapshot, "similar", lambda *_, **__: gate.wait(20))
    client = TestClient(create_app(shared_engine, Settings(request_seconds=0.2), use_umap=False), "http://localhost")
    response = client.post("/v1/similar", json={"id": "sailing-1"})
    gate.set()
    assert (response.status_code, error_of(response)["what"]) == (503, "the request timed out")
