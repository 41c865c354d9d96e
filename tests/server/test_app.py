"""Files of the web page, the OpenAPI description and the guide."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi.testclient import TestClient

from fewbits.server.app import STATIC, openapi_json
from helpers.service import error_of

OPENAPI = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_page_files_refer_to_no_other_host() -> None:
    for path in sorted(STATIC.iterdir()):
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")  # a name, never fetched
        assert "http:" not in text, path.name
        assert "https:" not in text, path.name
        assert "innerHTML" not in text, path.name


def test_page_recognises_the_error_of_a_query_without_known_words(client: TestClient) -> None:
    response = client.post("/v1/search", json={"query": "xyzzy"})
    assert f'"{error_of(response)["what"]}"' in (STATIC / "results.js").read_text()


def test_committed_openapi_description_is_current() -> None:
    assert OPENAPI.read_text() == openapi_json(), "run make openapi"


def test_guide_names_every_path() -> None:
    guide = OPENAPI.with_name("service.md").read_text()
    for path in json.loads(OPENAPI.read_text())["paths"]:
        assert path.split("{")[0] in guide, path
