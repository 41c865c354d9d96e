"""The map of the corpus."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from fewbits import SearchEngine
from fewbits.server.app import create_app
from helpers.corpora import tiny_documents
from helpers.service import serving


def test_map_has_every_document_within_the_grid(client: TestClient) -> None:
    shown = client.get("/v1/map").json()
    assert sorted(shown["ids"]) == sorted(document.id for document in tiny_documents())
    assert shown["method"] == "pca"
    assert all(0 <= value <= 10_000 for value in shown["x"] + shown["y"])
    names = [shown["labels"][number] for number in shown["label"]]
    assert names == [id.split("-")[0] for id in shown["ids"]]


@pytest.mark.slow
def test_umap_map_is_computed_once_and_cached_in_the_folder(engine: SearchEngine, tmp_path: Path) -> None:
    pytest.importorskip("umap", reason="umap-learn is not installed")
    folder = tmp_path / "engine"
    engine.save(folder)
    with serving(create_app(SearchEngine.load(folder), folder=folder)) as client:
        assert client.get("/v1/map").json()["method"] == "pca"
        deadline = time.monotonic() + 120
        while client.get("/v1/map").json()["method"] != "umap":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        computed = client.get("/v1/map").json()
    with serving(create_app(SearchEngine.load(folder), folder=folder)) as client:
        assert client.get("/v1/map").json() == computed
    assert len(SearchEngine.load(folder)) == 60
