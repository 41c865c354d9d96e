"""Limits on bodies, response headers, log and metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from fewbits import SearchEngine
from fewbits.server.app import create_app
from helpers.service import error_of


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
    client = TestClient(app)
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
