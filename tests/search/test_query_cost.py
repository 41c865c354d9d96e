"""CPU time of a default query beside its two engines alone, interleaved in one thread; see the table with ``-rP``.

``FEWBITS_COST_DOCUMENTS`` is the number of documents, 100,000 by default; ``FEWBITS_COST_ENGINE`` is the folder of an
engine to measure instead. Documents are titles and abstracts of arXiv; beyond those, halves of two of them.
"""

from __future__ import annotations

import functools
import os
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faiss
import pytest

from fewbits import Document, SearchEngine, load_dataset
from fewbits.search import rerank, snapshot
from fewbits.search.encoder import Encoder
from fewbits.search.lexical import WORDS, LexicalSnapshot
from fewbits.search.snapshot import EngineStore

N_QUERIES, ROUNDS, HITS = 200, 5, 10
PARTS = [
    (EngineStore, "_try_snapshot", "open the snapshot"),
    (Encoder, "encode_texts", "text to row, code and confidence"),
    (LexicalSnapshot, "_scoring", "words to a query of tantivy"),
    (LexicalSnapshot, "_top", "search by tantivy, 100 candidates"),
    (rerank, "_nearest", "scan by faiss, 100 candidates"),
    (rerank, "_merge", "merge the candidates"),
    (rerank, "_agreement", "agreement of all candidates"),
    (snapshot, "read_hits", "read and check ten documents"),
]


@pytest.fixture(scope="module")
def titles_and_engine(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], SearchEngine]:
    texts = list(load_dataset("arxiv").train.texts or [])
    random.Random(0).shuffle(texts)
    titles = [text.partition("\n")[0] for text in texts[:N_QUERIES]]
    folder = Path(os.environ.get("FEWBITS_COST_ENGINE") or tmp_path_factory.mktemp("cost") / "engine")
    if not folder.exists():
        count = int(os.environ.get("FEWBITS_COST_DOCUMENTS", "100000"))
        SearchEngine.from_documents(make_documents(texts[N_QUERIES:], count), method="itq").save(folder)
    return titles, SearchEngine.load(folder, verify=False)


def make_documents(texts: list[str], count: int) -> Iterator[Document]:
    generator = random.Random(0)
    for number in range(count):
        text = texts[number] if number < len(texts) else mixed(*generator.sample(texts, 2))
        yield Document(number, text, (), {"year": 2000 + number % 25})


def mixed(first: str, second: str) -> str:
    parts, others = first.split(". "), second.split(". ")
    return ". ".join(parts[: len(parts) // 2] + others[len(others) // 2 :])


@pytest.mark.slow
@pytest.mark.xdist_group("archives")
def test_a_query_costs_little_beside_tantivy_and_faiss_alone(
    titles_and_engine: tuple[list[str], SearchEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    titles, engine = titles_and_engine
    faiss.omp_set_num_threads(1)
    with engine.snapshot() as opened:
        assert opened.words is not None
        index, searcher = bare_tantivy(opened.words, engine)
        codes = opened.index.arrays()[1]
        queries = {title: opened.model.encode_query(title).codes for title in titles}
        count = len(codes)

    def alone(title: str) -> None:
        plain = re.sub(r"[^\w ]", " ", title).lower()
        searcher.search(index.parse_query(plain, [WORDS]), HITS, count=False)

    kinds: dict[str, Callable[[str], Any]] = {
        "tantivy alone": alone,
        "faiss alone": lambda title: faiss.knn_hamming(queries[title], codes, HITS, variant="mc"),
        "hybrid": engine.search,
        "hybrid, where year>=2003": lambda title: engine.search(title, where=["year>=2003"]),
        "words": lambda title: engine.search(title, rank="words"),
    }
    seconds = measure(kinds, titles)
    least = {name: statistics.median(map(min, zip(*rounds, strict=True))) for name, rounds in seconds.items()}
    medians = {
        name: statistics.median(map(statistics.median, zip(*rounds, strict=True))) for name, rounds in seconds.items()
    }
    print(f"CPU ms per query, {count:,} documents; median of {N_QUERIES} titles: median and least of {ROUNDS} rounds")
    for name in kinds:
        print(f"  {name:36} {1000 * medians[name]:8.3f} {1000 * least[name]:8.3f}")
    for name in ("hybrid", "hybrid, where year>=2003"):
        ratios = [one[name] / (one["tantivy alone"] + one["faiss alone"]) for one in (medians, least)]
        print(f"  {name + ' / sum of both alone':48} {ratios[0]:.2f}, {ratios[1]:.2f}")
    by_filter = least["hybrid, where year>=2003"] / least["hybrid"]
    print(f"  {'with a condition / without it':48} {by_filter:.2f}")
    for label, milliseconds in parts_of_a_query(engine, titles, monkeypatch):
        print(f"    {label:46} {milliseconds:.3f}")
    assert by_filter < 1.5
    assert least["hybrid"] < 4 * (least["tantivy alone"] + least["faiss alone"])


def bare_tantivy(words: LexicalSnapshot, engine: SearchEngine) -> tuple[Any, Any]:
    """Return the index and its searcher, with the analyzer of queries, as a user of tantivy would have them."""
    index = engine._store.latest().state.words._index  # type: ignore[union-attr]
    index.register_tokenizer(WORDS, words.query_analyzer)
    return index, index.searcher()


def measure(kinds: dict[str, Callable[[str], Any]], titles: list[str]) -> dict[str, list[list[float]]]:
    """Return the CPU seconds of each kind of search, round and title; kinds take turns in random order."""
    generator = random.Random(0)
    seconds: dict[str, list[list[float]]] = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        for name in kinds:
            seconds[name].append([])
        for title in titles:
            for name in generator.sample(list(kinds), len(kinds)):
                start = time.thread_time()
                kinds[name](title)
                seconds[name][-1].append(time.thread_time() - start)
    return seconds


def parts_of_a_query(
    engine: SearchEngine, titles: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, float]]:
    """Yield the median CPU ms of each part of a query, and of the rest."""
    spent: dict[str, list[float]] = {label: [] for _, _, label in PARTS}
    for owner, name, label in PARTS:
        monkeypatch.setattr(owner, name, timed(getattr(owner, name), spent[label]))
    total = []
    for title in titles * 2:
        start = time.thread_time()
        engine.search(title)
        total.append(time.thread_time() - start)
    medians = {label: 1000 * statistics.median(values) for label, values in spent.items()}
    yield from medians.items()
    yield "everything else", 1000 * statistics.median(total) - sum(medians.values())


def timed(function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        start = time.thread_time()
        try:
            return function(*arguments, **options)
        finally:
            spent.append(time.thread_time() - start)

    return wrapper
