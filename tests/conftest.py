"""A tiny real corpus, an engine trained on it, and the way to the benchmark archives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fewbits import Dataset, Document, SearchEngine, load_dataset
from fewbits.corpus.archives import cache_folder, find_archive
from fewbits.datasets import SOURCES
from fewbits.errors import MissingFileError

# Archives are looked for where the user has them, before the tests hide the user's cache.
os.environ.setdefault("FEWBITS_DATA", str(cache_folder()))

TOPICS = {
    "cooking": "boil simmer the soup with onions garlic pepper salt and fresh herbs from the kitchen garden",
    "sailing": "the boat sails past the harbour while wind and waves push the mast and the crew pulls ropes",
    "astronomy": "a telescope shows distant galaxies stars and planets whose light crossed dark empty space",
}


def tiny_documents(count: int = 60) -> list[Document]:
    """Write short documents about three topics, each of another choice of the topic's words."""
    documents = []
    for number in range(count):
        topic = list(TOPICS)[number % len(TOPICS)]
        words = TOPICS[topic].split()
        chosen = [words[(number * 7 + step * 3) % len(words)] for step in range(8)]
        documents.append(Document(f"{topic}-{number}", " ".join(chosen), (topic,)))
    return documents


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    return tiny_documents()


@pytest.fixture
def engine(documents: list[Document]) -> SearchEngine:
    return SearchEngine.from_documents(documents, n_bits=20, method="itq")


@pytest.fixture(scope="session")
def benchmark_set() -> Callable[[str], Dataset]:
    """Load a benchmark set once, where its archive is; else the test says that it is not here."""
    loaded: dict[str, Dataset] = {}

    def load(name: str) -> Dataset:
        archive = SOURCES[name].archive
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
    """No test reads or fills the user's cache, and none reaches the network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache" / "fewbits"
