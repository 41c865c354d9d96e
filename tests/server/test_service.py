"""The service through HTTP, in this process."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from typer.testing import CliRunner

from fewbits import Document, SearchEngine, cli
from fewbits.server.app import create_app
from fewbits.server.describe import description
from fewbits.server.schemas import Settings
from helpers.corpora import tiny_documents

TOKEN = "open-sesame-7"
AUTHORISED = {"authorization": f"Bearer {TOKEN}"}
CONFORM = [status_code_conformance, content_type_conformance, response_schema_conformance]
OPENAPI = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def shared() -> SearchEngine:
    return SearchEngine.from_documents(tiny_documents(), n_bits=20, method="itq")


@contextmanager
def serving(app: FastAPI) -> Iterator[TestClient]:
    """A client of an application that runs and has drawn its map."""
    with TestClient(app, raise_server_exceptions=False) as client:
        while client.get("/readyz").status_code != 200 or client.get("/v1/map").status_code != 200:
            time.sleep(0.02)
        yield client


@pytest.fixture(scope="module")
def client(shared: SearchEngine) -> Iterator[TestClient]:
    limits = Settings(body_bytes=20_000, text_length=500, hits=40, documents=5)
    with serving(create_app(shared, limits, name="tiny", use_umap=False)) as client:
        yield client


@pytest.fixture
def writable(engine: SearchEngine) -> Iterator[TestClient]:
    with serving(create_app(engine, Settings(token=TOKEN), use_umap=False)) as client:
        yield client


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error of an answer, which always has the same shape."""
    [(name, facts)] = response.json().items()
    assert name == "error"
    assert set(facts) == {"what", "allowed", "got", "next", "request_id"}
    assert facts["request_id"] == response.headers["x-request-id"]
    return dict(facts)


def test_search_gives_the_hits_of_the_engine(client: TestClient, shared: SearchEngine) -> None:
    for rescore in (None, "none", "bits", "words"):
        answer = client.post("/v1/search", json={"query": "the boat and xyzzy", "k": 4, "rescore": rescore}).json()
        expected = shared.search("the boat and xyzzy", 4, rescore=rescore)
        assert answer["hits"] == [{**vars(hit), "labels": list(hit.labels)} for hit in expected]
        assert (answer["bits"], answer["words"], answer["unknown_words"]) == (20, ["boat"], ["xyzzy"])


def test_info_tells_how_many_documents_there_are_and_were(writable: TestClient) -> None:
    document = {"id": "new", "text": "a boat"}
    writable.post("/v1/add", json={"documents": [document]}, headers={"authorization": f"Bearer {TOKEN}"})
    info = writable.get("/v1/info").json()
    assert (info["documents"], info["documents_learnt_from"], info["most_hits"]) == (61, 60, 1000)


def test_unknown_words_are_what_the_engine_does_not_take_in(client: TestClient) -> None:
    query = "The boat's sails, what's xyzzy? Xyzzy, a naïve 2021 o'foo x"
    answer = client.post("/v1/search", json={"query": query, "k": 1}).json()
    assert set(answer["unknown_words"]) >= {"xyzzy", "2021", "o'foo"}
    assert not {"the", "boat's", "what's", "a", "x"} & set(answer["unknown_words"])


def test_queries_that_come_together_each_get_their_own_answer(client: TestClient, shared: SearchEngine) -> None:
    queries = ["boat", "telescope", "xyzzy", "onions garlic", "stars", "garlic", "soup", "zzz"] * 8

    def ask(query: str) -> httpx.Response:
        return client.post("/v1/search", json={"query": query, "k": 3, "rescore": "none"})

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, queries))
    for query, answer in zip(queries, answers, strict=True):
        if query in ("xyzzy", "zzz"):
            assert error_of(answer)["what"] == "the query says nothing to this engine"
            assert error_of(answer)["got"] == repr(query)
        else:
            found = [hit["id"] for hit in answer.json()["hits"]]
            assert found == [hit.id for hit in shared.search(query, 3, rescore="none")]


def test_filters_and_a_radius_are_passed_on(client: TestClient, shared: SearchEngine) -> None:
    answer = client.post("/v1/search", json={"query": "boat", "k": 5, "labels": ["cooking"]}).json()
    assert [hit["labels"] for hit in answer["hits"]] == [["cooking"]] * 5
    near = client.post("/v1/search", json={"query": "boat", "radius": 6}).json()["hits"]
    assert [hit["id"] for hit in near] == [hit.id for hit in shared.within("boat", 6)]


def test_similar_explain_encode_bits_and_documents_are_the_engines(client: TestClient, shared: SearchEngine) -> None:
    similar = client.post("/v1/similar", json={"id": "sailing-1", "k": 3}).json()["hits"]
    assert [hit["id"] for hit in similar] == [hit.id for hit in shared.similar("sailing-1", 3)]
    why = client.post("/v1/explain", json={"query": "boat", "hit": "sailing-1"}).json()
    assert why["distance"] == shared.explain("boat", "sailing-1").distance
    assert len(why["bits"]) == 20
    assert client.post("/v1/explain", json={"id": "sailing-4", "hit": "sailing-1"}).json()["shared_words"]
    codes = client.post("/v1/encode", json={"texts": ["boat", "stars"]}).json()["codes"]
    assert codes == [row.tobytes().hex() for row in shared.encode(["boat", "stars"])]
    assert [bit["bit"] for bit in client.get("/v1/bits").json()["bits"]] == list(range(20))
    one = client.get("/v1/bits/7", params={"k": 2}).json()
    assert one["ones"] + one["zeros"] == 60
    assert len(one["examples_of_one"]) == len(one["examples_of_zero"]) == 2
    assert client.get("/v1/document", params={"id": "sailing-1"}).json()["labels"] == ["sailing"]


def test_the_examples_of_a_bit_have_it(client: TestClient, shared: SearchEngine) -> None:
    for bit in (0, 9, 19):
        found = client.get(f"/v1/bits/{bit}", params={"k": 5}).json()
        for value, side in ((1, "examples_of_one"), (0, "examples_of_zero")):
            codes = shared.codes([document["id"] for document in found[side]])
            assert {int(row[bit // 8] >> (7 - bit % 8) & 1) for row in codes} == {value}


def test_numbers_as_ids_are_found_by_their_text() -> None:
    engine = SearchEngine.from_texts(["red apples", "green pears", "red plums"], n_bits=8, method="itq")
    with serving(create_app(engine, use_umap=False)) as client:
        assert client.get("/v1/document", params={"id": "2"}).json()["text"] == "red plums"
        assert {hit["id"] for hit in client.post("/v1/similar", json={"id": "2"}).json()["hits"]} == {0, 1}
        missing = error_of(client.get("/v1/document", params={"id": "9" * 30}))
        assert missing["what"].startswith("no document has the id")


def test_the_map_has_every_document_inside_its_square(client: TestClient) -> None:
    drawn = client.get("/v1/map").json()
    assert sorted(drawn["ids"]) == sorted(document.id for document in tiny_documents())
    assert drawn["method"] == "pca"
    assert all(0 <= value <= 10_000 for value in drawn["x"] + drawn["y"])
    names = [drawn["labels"][number] for number in drawn["label"]]
    assert names == [id.split("-")[0] for id in drawn["ids"]]


def test_a_better_map_is_drawn_once_and_kept_in_the_engines_folder(engine: SearchEngine, tmp_path: Path) -> None:
    pytest.importorskip("umap", reason="umap-learn is not installed")
    engine.save(tmp_path / "engine")
    for kept in (False, True):
        app = create_app(SearchEngine.load(tmp_path / "engine"), folder=tmp_path / "engine")
        if kept:
            app.state.service.maps.draw()
            assert app.state.service.maps.map.method == "umap"
        else:
            with TestClient(app):
                deadline = time.monotonic() + 120
                while not (tmp_path / "engine" / ".map.json").exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
    assert len(SearchEngine.load(tmp_path / "engine")) == 60


def test_health_readiness_and_metrics_are_for_machines(shared: SearchEngine) -> None:
    app = create_app(shared, use_umap=False)
    client = TestClient(app)
    assert client.get("/healthz").json() == {"status": "ok"}
    assert error_of(client.get("/readyz"))["what"] == "the engine is being read"
    assert client.get("/readyz").status_code == client.get("/v1/map").status_code == 503
    with client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.05)
        client.post("/v1/search", json={"query": "boat"})
        figures = client.get("/metrics").text
    assert 'fewbits_requests_total{method="POST",route="/v1/search",status="200"} 1.0' in figures
    assert "fewbits_documents 60.0" in figures
    assert "fewbits_batch_queries_count 1.0" in figures


@pytest.mark.parametrize(
    ("method", "address", "body", "status", "what"),
    [
        ("GET", "/nowhere", None, 404, "there is nothing at this address"),
        ("GET", "/static/nothing.js", None, 404, "there is nothing at this address"),
        ("GET", "/static/../app.py", None, 404, "there is nothing at this address"),
        ("GET", "/static/%2e%2e/app.py", None, 404, "there is nothing at this address"),
        ("GET", "/static/..%2f..%2ferrors.py", None, 404, "there is nothing at this address"),
        ("GET", "/static//etc/passwd", None, 404, "there is nothing at this address"),
        ("GET", "/v1/bits/20", None, 404, "there is no such bit"),
        ("GET", "/v1/bits/-1", None, 404, "there is no such bit"),
        ("GET", "/v1/bits/x", None, 422, "path.bit: input should be a valid integer"),
        ("GET", "/v1/document?id=../../etc/passwd", None, 404, "no document has the id '../../etc/passwd'"),
        ("DELETE", "/v1/search", None, 405, "this address takes another method"),
        ("POST", "/v1/search", b"{}", 422, "query: field required"),
        ("POST", "/v1/search", b'{"query": 7}', 422, "query: input should be a valid string"),
        ("POST", "/v1/search", b'{"query": "boat", "kk": 1}', 422, "kk: extra inputs are not permitted"),
        ("POST", "/v1/search", b'{"query": "boat", "k": 41}', 422, "too many hits"),
        ("POST", "/v1/search", b'{"query": "boat", "k": true}', 422, "k: input should be a valid integer"),
        ("POST", "/v1/search", b'{"query": "boat", "shortlist": 100000}', 422, "the shortlist is too long"),
        ("POST", "/v1/search", b'{"query": "boat", "where": ["??"]}', 422, "this is no condition"),
        ("POST", "/v1/search", b'{"query": "boat", "k": 2, "radius": 2}', 422, "give radius, or k with rescore"),
        ("POST", "/v1/search", b'{"query": "' + b"x" * 501 + b'"}', 413, "a text is too long"),
        ("POST", "/v1/search", b'{"query": "' + b"x" * 20_000 + b'"}', 413, "the body is too large"),
        ("POST", "/v1/search", b'{"query": "boat"', 400, "the body is no JSON"),
        ("POST", "/v1/search", b'{"query": "\xff\xfe"}', 400, "the body is no JSON"),
        ("POST", "/v1/search", b'{"query": "\\ud800"}', 400, "the body is no JSON"),
        ("POST", "/v1/search", b"[" * 9_000 + b"]" * 9_000, 400, "the body is no JSON"),
        ("POST", "/v1/search", b"[" * 100 + b"]" * 100, 400, "the body is nested too deeply"),
        ("POST", "/v1/encode", b'{"texts": ["a", "b", "c", "d", "e", "f"]}', 413, "too many documents"),
        ("POST", "/v1/similar", b'{"id": "nobody"}', 404, "no document has the id 'nobody'"),
        ("POST", "/v1/similar", b'{"id": 99999999999999999999999}', 422, "id.constrained-int"),
        ("POST", "/v1/explain", b'{"hit": "sailing-1"}', 422, "a hit is explained by a query or by an id"),
        ("POST", "/v1/remove", b'{"ids": ["sailing-1"]}', 403, "this service is read-only"),
    ],
)
def test_what_cannot_be_done_is_answered_in_one_shape(
    client: TestClient, method: str, address: str, body: bytes | None, status: int, what: str
) -> None:
    response = client.request(method, address, content=body, headers={"content-type": "application/json"})
    assert error_of(response)["what"].startswith(what)
    assert response.status_code == status


def test_a_body_without_an_announced_length_is_cut_off_at_the_limit(client: TestClient) -> None:
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


def test_a_failure_nobody_foresaw_is_answered_without_its_details(
    shared: SearchEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(SearchEngine, "similar", lambda *_, **__: 1 / 0)
    with serving(create_app(shared, use_umap=False)) as client:
        response = client.post("/v1/similar", json={"id": "sailing-1"})
    facts = error_of(response)
    assert (response.status_code, facts["what"]) == (500, "something went wrong here")
    assert "division" not in response.text
    assert "ZeroDivisionError" in caplog.text  # whoever runs it finds out


def test_every_answer_has_security_headers_and_a_request_id(client: TestClient) -> None:
    for address in ("/", "/static/app.js", "/v1/info", "/nowhere", "/metrics"):
        headers = client.get(address, headers={"x-request-id": "mine-7"}).headers
        assert headers["x-request-id"] == "mine-7"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
    assert client.get("/healthz", headers={"x-request-id": "<script>"}).headers["x-request-id"] != "<script>"


def test_no_file_of_the_page_names_another_address() -> None:
    from fewbits.server.app import STATIC

    for path in sorted(STATIC.iterdir()):
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")  # a name, never fetched
        assert "http:" not in text, path.name
        assert "https:" not in text, path.name
        assert "innerHTML" not in text, path.name


def test_with_the_token_documents_are_added_updated_and_removed(writable: TestClient) -> None:
    document = {"id": "new", "text": "garlic boat telescope", "labels": ["odd"], "metadata": {"year": 2024}}
    added = writable.post("/v1/add", json={"documents": [document]}, headers=AUTHORISED)
    assert added.json() == {"changed": 1, "documents": 61}
    found = writable.post("/v1/search", json={"query": "garlic boat telescope", "k": 1, "where": ["year>=2024"]}).json()
    assert [hit["id"] for hit in found["hits"]] == ["new"]
    again = writable.post("/v1/add", json={"documents": [document]}, headers=AUTHORISED)
    assert error_of(again)["what"] == "the id 'new' is there already"
    changed = {"documents": [{**document, "text": "soup"}]}
    assert writable.post("/v1/update", json=changed, headers=AUTHORISED).json()["changed"] == 1
    assert writable.get("/v1/document", params={"id": "new"}).json()["text"] == "soup"
    assert writable.post("/v1/remove", json={"ids": ["new"]}, headers=AUTHORISED).json()["documents"] == 60
    assert writable.get("/v1/document", params={"id": "new"}).status_code == 404


@pytest.mark.parametrize(
    "given", ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Basic {TOKEN}", "Bearer \xff"]
)
def test_without_the_right_token_nothing_is_changed(writable: TestClient, given: str) -> None:
    for address in ("/v1/add", "/v1/update", "/v1/remove"):
        response = writable.post(
            address, json={"ids": ["sailing-1"]}, headers={"authorization": given.encode("latin-1")}
        )
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in response.text
    assert writable.get("/v1/info").json()["documents"] == 60
    assert TOKEN not in repr(Settings(token=TOKEN))


def test_when_too_many_wait_new_requests_are_refused_and_others_go_on(
    shared: SearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    real = SearchEngine.similar

    def slow(self: SearchEngine, *arguments: Any, **options: Any) -> Any:
        gate.wait(20)
        return real(self, *arguments, **options)

    monkeypatch.setattr(SearchEngine, "similar", slow)
    app = create_app(shared, Settings(workers=1, waiting=2), use_umap=False)
    with serving(app) as client, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(client.post, "/v1/similar", json={"id": "sailing-1"}) for _ in range(3)]
        while "fewbits_waiting 3.0" not in client.get("/metrics").text:  # the event loop is not blocked
            time.sleep(0.02)
        refused = client.post("/v1/similar", json={"id": "sailing-1"})
        assert error_of(refused)["what"] == "too many requests wait"
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        gate.set()
        assert [future.result().status_code for future in asked] == [200] * 3
        assert client.post("/v1/similar", json={"id": "sailing-1"}).status_code == 200


def test_an_answer_that_takes_too_long_is_given_up(shared: SearchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(SearchEngine, "similar", lambda *_, **__: gate.wait(20))
    client = TestClient(create_app(shared, Settings(request_seconds=0.2), use_umap=False))
    response = client.post("/v1/similar", json={"id": "sailing-1"})
    gate.set()
    assert (response.status_code, error_of(response)["what"]) == (503, "the answer took too long")


def test_an_engine_without_documents_is_served_without_failures(writable: TestClient) -> None:
    ids = [document.id for document in tiny_documents()]
    assert writable.post("/v1/remove", json={"ids": ids}, headers=AUTHORISED).json()["documents"] == 0
    for address in ("/v1/bits", "/v1/bits/1", "/v1/map", "/v1/info", "/v1/document?id=x", "/readyz"):
        assert writable.get(address).status_code < 500, address
    for rescore in ("none", "bits", "words"):
        answer = writable.post("/v1/search", json={"query": "boat", "rescore": rescore})
        assert answer.status_code < 500
    again = {"documents": [{"id": "a", "text": "boat"}]}
    assert writable.post("/v1/add", json=again, headers=AUTHORISED).status_code == 200
    assert [hit["id"] for hit in writable.post("/v1/search", json={"query": "boat"}).json()["hits"]] == ["a"]


def test_an_engine_of_embeddings_is_searched_by_documents() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 8))
    documents = [Document(f"d{number}", f"text {number}") for number in range(30)]
    engine = SearchEngine.from_embeddings(rows, documents=documents, n_bits=12)
    with serving(create_app(engine, use_umap=False)) as client:
        assert client.get("/v1/info").json()["takes_text"] is False
        assert len(client.post("/v1/similar", json={"id": "d1", "k": 3}).json()["hits"]) == 3
        for address, asked in (
            ("/v1/search", {"query": "text"}),
            ("/v1/encode", {"texts": ["text"]}),
            ("/v1/explain", {"query": "text", "hit": "d1"}),
            ("/v1/explain", {"id": "d2", "hit": "d1"}),
        ):
            assert client.post(address, json=asked).status_code == 422
        assert error_of(client.get("/v1/bits"))["what"] == "the bits of embeddings have no words"
        assert client.get("/v1/bits/1").status_code == 422


def test_a_token_that_is_easily_guessed_is_refused_before_anything_is_read() -> None:
    for token in ("short", "has a space in it", "ümläute-überall"):
        done = CliRunner().invoke(cli.app, ["serve", "nowhere", "--token", token])
        assert done.exit_code == 2
        assert "a token has 8 characters or more" in done.output.replace("\n", " ")


def test_requests_are_logged_with_their_id_and_without_what_was_asked(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fewbits.server")
    client.post("/v1/search", json={"query": "boat"}, headers={"x-request-id": "r-1", "authorization": "Bearer secret"})
    [record] = [record for record in caplog.records if record.message == "request"]
    facts = record.facts  # type: ignore[attr-defined]
    assert (facts["request_id"], facts["method"], facts["path"], facts["status"]) == ("r-1", "POST", "/v1/search", 200)
    assert "boat" not in str(facts)
    assert "secret" not in caplog.text


def test_the_committed_description_is_that_of_the_service() -> None:
    assert OPENAPI.read_text() == description(), "make openapi writes it anew"


def test_the_guide_names_every_address() -> None:
    guide = OPENAPI.with_name("service.md").read_text()
    for path in json.loads(OPENAPI.read_text())["paths"]:
        assert path.split("{")[0] in guide, path


@pytest.fixture(scope="module")
def described() -> Any:
    engine = SearchEngine.from_documents(tiny_documents(), n_bits=20, method="itq")
    app = create_app(engine, Settings(token=TOKEN), use_umap=False)
    app.state.service.warm_up()
    app.state.service.maps.draw()
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def test_no_request_that_can_be_thought_of_breaks_the_service(described: Any) -> None:
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) == 15
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def ask(case: Any) -> None:
            response = case.call(headers=AUTHORISED)
            assert response.status_code < 500
            if response.status_code >= 400:
                assert set(response.json()["error"]) == {"what", "allowed", "got", "next", "request_id"}
            case.validate_response(response, checks=CONFORM)

        ask()
