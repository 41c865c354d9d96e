"""The map of the corpus."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from fewbits import SearchEngine
from fewbits.server.app import create_app
from fewbits.server.corpus_map import _run_umap
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


@pytest.mark.parametrize("name", ["umap", "numpy", "json"])
def test_a_module_in_the_working_directory_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n")
    (tmp_path / "relative").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["relative", *filter(None, [os.environ.get("PYTHONPATH")])]))
    codes = np.random.default_rng(0).integers(0, 2, (60, 16)).astype(np.uint8)
    points = asyncio.run(_run_umap(codes))
    assert not (tmp_path / "ran").exists()
    if importlib.util.find_spec("umap") is not None:
        assert points is not None
        assert points.shape == (60, 2)
