"""A tiny real corpus, an engine trained on it, and the way to the benchmark archives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse

from fewbits import Dataset, Document, SearchEngine, load_dataset
from fewbits.data.datasets import find_source
from fewbits.data.datasets.base import cache_folder, find_archive
from fewbits.errors import MissingFileError
from helpers.corpora import tiny_documents

settings.register_profile("fewbits", deadline=None)  # a slow machine must not fail a test
settings.load_profile("fewbits")

# Look for archives in the user's cache, which the tests hide below.
os.environ.setdefault("FEWBITS_DATA", str(cache_folder()))


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    return tiny_documents()


@pytest.fixture
def engine(documents: list[Document]) -> SearchEngine:
    return SearchEngine.from_documents(documents, n_bits=20, method="itq")


@pytest.fixture(scope="session")
def benchmark_set() -> Callable[[str], Dataset]:
    """Return a function that loads a benchmark set once, and skips the test if its archive is missing."""
    loaded: dict[str, Dataset] = {}

    def load(name: str) -> Dataset:
        archive = find_source(name).archive
        assert archive is not None
        try:
            find_archive(archive)  # without an address: nothing is downloaded
        except MissingFileError as error:
            pytest.skip(f"not tested: {error}")
        if name not in loaded:
            loaded[name] = load_dataset(name)
        return loaded[name]

    return load


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep tests from using the user's cache and the network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache" / "fewbits"


WITHOUT_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("there is no torch")
sys.meta_path.insert(0, NoTorch())
import numpy as np
from scipy import sparse
from pathlib import Path
from fewbits.hashers.registry import read_hasher
hasher = read_hasher(Path(sys.argv[1]))
np.save(sys.argv[3], hasher.transform(sparse.load_npz(sys.argv[2])))
"""


@pytest.fixture
def encode_without_torch(tmp_path: Path) -> Callable[[Path, Any], Any]:
    """Encode rows with a written hasher in a process that cannot import torch."""

    def encode(folder: Path, rows: Any) -> Any:
        sparse.save_npz(tmp_path / "rows.npz", rows)
        arguments = [folder, tmp_path / "rows.npz", tmp_path / "codes.npy"]
        subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *arguments], check=True)
        return np.load(tmp_path / "codes.npy")

    return encode
