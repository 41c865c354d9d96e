"""Responses to invalid requests and unexpected failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fewbits import SearchEngine
from fewbits.search import Snapshot
from fewbits.server.app import create_app
from fewbits.server.schemas import Settings
from helpers.service import AUTHORIZED, ERROR_FIELDS, TOKEN, error_of, serving

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture
def schema(engine: SearchEngine) -> Iterator[Any]:
    app = create_app(engine, Settings(token=TOKEN, hosts=("localhost", "testserver")), use_umap=False)
    with serving(app):
        yield schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "what"),
    [
        ("GET", "/nowhere", None, 404, "unknown path"),
        ("GET", "/static/nothing.js", None, 404, "unknown path"),
        ("GET", "/static/../app.py", None, 404, "unknown path"),
        ("GET", "/static/%2e%2e/app.py", None, 404, "unknown path"),
        ("GET", "/static/..%2f..%2ferrors.py", None, 404, "unknown path"),
        ("GET", "/static//etc/passwd", None, 404, "unknown path"),
        ("GET", "/v1/bits/20", None, 404, "there is no such bit"),
        ("GET", "/v1/bits/-1", None, 404, "there is no such bit"),
        ("GET", "/v1/bits/x", None, 422, "path.bit: input should be a valid integer"),
        ("GET", "/v1/document?id=../../etc/passwd", None, 404, "no document has the id '../../etc/passwd'"),
        ("DELETE", "/v1/search", None, 405, "this path does not support the method"),
        ("POST", "/v1/search", b"{}", 422, "query: field required"),
        ("POST", "/v1/search", b'{"query": 7}', 422, "query: input should be a valid string"),
        ("POST", "/v1/search", b'{"query": "boat", "kk": 1}', 422, "kk: extra inputs are not permitted"),
        ("POST", "/v1/search", b'{"query": "boat", "k": 41}', 422, "too many hits"),
        ("POST", "/v1/search", b'{"query": "boat", "k": true}', 422, "k: input should be a valid integer"),
        ("POST", "/v1/search", b'{"query": "boat", "shortlist": 100000}', 422, "the shortlist is too long"),
        ("POST", "/v1/search", b'{"query": "boat", "where": ["??"]}', 422, "the condition cannot be parsed"),
        ("POST", "/v1/search", b'{"query": "boat", "k": 2, "radius": 2}', 422, "give radius, or k with rank"),
        ("POST", "/v1/search", b'{"query": "' + b"x" * 501 + b'"}', 413, "a text is too long"),
        ("POST", "/v1/search", b'{"query": "' + b"x" * 20_000 + b'"}', 413, "the body is too large"),
        ("POST", "/v1/search", b'{"query": "boat"', 400, "the body is not valid JSON"),
        ("POST", "/v1/search", b'{"query": "\xff\xfe"}', 400, "the body is not valid JSON"),
        ("POST", "/v1/search", b'{"query": "\\ud800"}', 400, "the body is not valid JSON"),
        ("POST", "/v1/search", b"[" * 9_000 + b"]" * 9_000, 400, "the body is not valid JSON"),
        ("POST", "/v1/search", b"[" * 100 + b"]" * 100, 400, "the body is nested too deeply"),
        ("POST", "/v1/encode", b'{"texts": ["a", "b", "c", "d", "e", "f"]}', 413, "too many documents"),
        ("POST", "/v1/similar", b'{"id": "nobody"}', 404, "no document has the id 'nobody'"),
        ("POST", "/v1/similar", b'{"id": 99999999999999999999999}', 422, "id.constrained-int"),
        ("POST", "/v1/explain", b'{"hit": "sailing-1"}', 422, "give either query or id"),
        ("POST", "/v1/remove", b'{"ids": ["sailing-1"]}', 403, "this service is read-only"),
    ],
)
def test_invalid_requests_get_the_documented_error_body(
    client: TestClient, method: str, path: str, body: bytes | None, status: int, what: str
) -> None:
    response = client.request(method, path, content=body, headers={"content-type": "application/json"})
    assert error_of(response)["what"].startswith(what)
    assert response.status_code == status


def test_unexpected_exception_is_logged_and_answered_without_details(
    shared_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Snapshot, "similar", lambda *_, **__: 1 / 0)
    with serving(create_app(shared_engine, use_umap=False)) as client:
        response = client.post("/v1/similar", json={"id": "sailing-1"})
    facts = error_of(response)
    assert (response.status_code, facts["what"]) == (500, "internal error")
    assert "division" not in response.text
    assert "ZeroDivisionError" in caplog.text


def test_generated_requests_never_cause_server_errors_and_match_the_schema(schema: Any) -> None:
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == 17
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def send(case: Any) -> None:
            response = case.call(headers=AUTHORIZED)
            assert response.status_code < 500
            if response.status_code >= 400:
                assert set(response.json()["error"]) == ERROR_FIELDS
            case.validate_response(response, checks=CHECKS)

        send()
