"""Limits on bodies, response headers, log and metrics."""

from __future__ import annotations

import logging
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from fewbits import SearchEngine
from fewbits.server.app import create_app
from fewbits.server.schemas import Settings
from helpers.service import AUTHORIZED, error_of


def test_body_without_content_length_is_rejected_at_the_limit(client: TestClient) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 1_000_000:
            sent += 5_000
            yield b" " * 5_000

    response = client.post("/v1/search", content=endless(), headers={"content-type": "application/json"})
    assert response.status_code == 413
    assert error_of(response)["allowed"] == "20000 bytes"
    assert response.headers["connection"] == "close"


def test_every_response_has_security_headers_and_a_request_id(client: TestClient) -> None:
    for path in ("/", "/static/app.js", "/v1/info", "/nowhere", "/metrics"):
        headers = client.get(path, headers={"x-request-id": "mine-7"}).headers
        assert headers["x-request-id"] == "mine-7"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
    assert client.get("/healthz", headers={"x-request-id": "<script>"}).headers["x-request-id"] != "<script>"


def test_log_has_the_request_id_but_no_query_and_no_token(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fewbits.server")
    client.post("/v1/search", json={"query": "boat"}, headers={"x-request-id": "r-1", "authorization": "Bearer secret"})
    [record] = [record for record in caplog.records if record.message == "request"]
    facts = record.facts  # type: ignore[attr-defined]
    assert (facts["request_id"], facts["method"], facts["path"], facts["status"]) == ("r-1", "POST", "/v1/search", 200)
    assert "boat" not in str(facts)
    assert "secret" not in caplog.text


def test_health_readiness_and_metrics_are_reported(shared_engine: SearchEngine) -> None:
    app = create_app(shared_engine, use_umap=False)
    client = TestClient(app, "http://localhost")
    assert client.get("/healthz").json() == {"status": "ok"}
    assert error_of(client.get("/readyz"))["what"] == "the engine is still loading"
    assert client.get("/readyz").status_code == client.get("/v1/map").status_code == 503
    with client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.05)
        client.post("/v1/search", json={"query": "boat"})
        figures = client.get("/metrics").text
    assert 'fewbits_requests_total{method="POST",route="/v1/search",status="200"} 1.0' in figures
    assert "fewbits_documents 60.0" in figures
    assert "fewbits_batch_queries_count 1.0" in figures


HOSTS = [
    "localhost",
    "localhost:8000",
    "LOCALHOST",
    "127.0.0.1",
    "127.0.0.1:8000",
    "[::1]:8000",
    "10.1.2.3",
    "search.example",
]
OTHERS = [
    "attacker.example",
    "localhost.attacker.example",
    "127.0.0.1.attacker.example",
    "",
    "[::1",
    "127.0.0.1@x",
    "*",
]


@pytest.mark.parametrize("host", HOSTS + OTHERS)
def test_only_addresses_and_chosen_names_are_served(shared_engine: SearchEngine, host: str) -> None:
    app = create_app(shared_engine, Settings(hosts=("localhost", "search.example")), use_umap=False)
    response = TestClient(app).get("/healthz", headers={"host": host})
    assert response.status_code == (200 if host in HOSTS else 421)
    if host in OTHERS:
        assert error_of(response)["what"] == "the host is not served"


LARGE = 4 << 20  # bytes
CPU_SECONDS = 1.5


@pytest.mark.parametrize(
    "filling", ["0,", "[],", "{},", '"",', '"\\\\",', '"\\",",', "[[]],", '{"a":0},', '"a,b",', "1e5,", "null,"]
)
@pytest.mark.parametrize(("path", "name"), [("/v1/encode", "texts"), ("/v1/remove", "ids"), ("/v1/add", "documents")])
def test_a_large_body_of_many_values_is_refused_at_once(
    writable: TestClient, path: str, name: str, filling: str
) -> None:
    values = (filling * (LARGE // len(filling)))[: LARGE - 60].rpartition(",")[0]
    assert_refused_at_once(writable, path, f'{{"{name}":[{values}]}}')


@pytest.mark.parametrize(
    "body",
    [
        "{" + ",".join(f'"{key}":0' for key in range(300_000)) + "}",
        "{" + ",".join(f'"{key}":0' for key in range(90_000)) + "}",
        '{"query":"boat","labels":[' + '"",' * 99_000 + '""]}',
        '{"query":"boat","labels":[' + "0," * 99_000 + "0]}",
        '{"query":"boat","where":' + "[" * 2_000_000,
        '{"a":' * 800_000,
        '"' * LARGE,
        "\\" * LARGE,
    ],
)
def test_a_large_body_of_another_form_is_refused_at_once(writable: TestClient, body: str) -> None:
    assert_refused_at_once(writable, "/v1/search", body)


def assert_refused_at_once(client: TestClient, path: str, body: str) -> None:
    headers = {**AUTHORIZED, "content-type": "application/json"}
    tracemalloc.start()
    start = time.process_time()
    response = client.post(path, content=body.encode(), headers=headers)
    seconds, memory = time.process_time() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert response.status_code in (400, 413, 422)
    error_of(response)
    assert seconds < CPU_SECONDS
    assert memory < 60 << 20  # some copies of the body


def test_values_are_counted_outside_of_texts_only(writable: TestClient) -> None:
    text = '[{,"' * 20_000 + "boat"
    assert writable.post("/v1/encode", json={"texts": [text] * 20}).status_code == 200
    documents = [
        {"id": f"n{i}", "text": "boat", "labels": ["a", "b"], "metadata": {"n": [1, 2, 3]}} for i in range(999)
    ]
    assert writable.post("/v1/add", json={"documents": documents}, headers=AUTHORIZED).json()["changed"] == 999
