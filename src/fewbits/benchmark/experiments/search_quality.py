"""Search quality on a collection with relevance judgements: words, codes, both, and BM25 by another package."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fewbits.benchmark.experiments.base import Experiment, markdown_table
from fewbits.benchmark.experiments.judged import (
    DEPTH,
    LSA_DIMENSIONS,
    Bm25s,
    CosineSearch,
    Find,
    JudgedCollection,
    PerQuery,
    bootstrap_interval,
    check_extra,
    engine_search,
    measure,
    run_queries,
    saved_and_loaded,
)
from fewbits.features import TextVectorizer
from fewbits.hashers.registry import WITHOUT_LABELS
from fewbits.search import SearchEngine

HITS = 10  # of a timed query
HYBRID, WORDS, CODES = "hybrid", "words", "codes"
PEER, LSA = "bm25s", "LSA cosine"
RANKINGS = (HYBRID, WORDS, CODES)
TITLES = {"ndcg_at_10": "nDCG@10", "recall_at_100": "recall@100", "mrr": "MRR"}
TABLES = {"codes": "codes", "words": "term vectors"}  # of the documents' file, and what they hold


@dataclass(frozen=True)
class Ranking:
    """The measures of one ranking, each with the bounds of its 95% interval over queries."""

    name: str
    ndcg_at_10: list[float]  # mean, lower and upper bound
    recall_at_100: list[float]
    mrr: list[float]
    cpu_milliseconds: float  # per query with ten hits, median
    without_answer: int  # queries


@dataclass(frozen=True)
class SearchQualityFacts:
    """All rankings of one collection, with codes of one length and one seed."""

    collection: str
    documents: int
    queries: int
    judgements: int
    without_judgements: int  # queries that were left out
    method: str
    bits: int
    seed: int
    weight: float | None  # of the codes; None for the default
    cpu_seconds_of_fit: float
    rankings: list[Ranking]
    hybrid_minus_peer: dict[str, list[float]]  # by measure: mean, lower and upper bound of the paired difference
    bytes_per_document: dict[str, float] = field(default_factory=dict)  # on disk


@dataclass(frozen=True)
class SearchQuality(Experiment[SearchQualityFacts]):
    """Fit an engine to the documents of a collection, and rank them for its queries."""

    folder = "search-quality"
    page = "search-quality.md"

    collection: JudgedCollection
    lengths: Sequence[int] = (64,)
    seeds: Sequence[int] = (0,)
    method: str = WITHOUT_LABELS
    weight: float | None = None
    progress: Callable[[str], object] = lambda _: None

    def __post_init__(self) -> None:
        check_extra()

    def measure(self) -> Iterator[SearchQualityFacts]:
        """Yield the facts of one code length and seed at a time."""
        documents = self.collection.documents
        self.progress(PEER)
        peer = Bm25s(documents)
        with tempfile.TemporaryDirectory(prefix="fewbits-bm25s-") as folder:
            peer.save(Path(folder))
            size = _size(Path(folder)) / len(documents)
        others = [self._rank(PEER, peer.find)]
        self.progress(LSA)
        vectorizer = TextVectorizer()
        rows = vectorizer.fit_transform(document.text for document in documents)
        lsa = CosineSearch(vectorizer, rows, [document.id for document in documents], LSA_DIMENSIONS)
        others.append(self._rank(LSA, lsa.find))
        for n_bits in self.lengths:
            for seed in self.seeds:
                yield self._measure(n_bits, seed, others, size)

    def _measure(
        self, n_bits: int, seed: int, others: list[tuple[Ranking, PerQuery]], size: float
    ) -> SearchQualityFacts:
        """Fit an engine, and measure it after it was saved and loaded, as a service would use it."""
        collection = self.collection
        self.progress(f"fitting {n_bits} bits, seed {seed}")
        start = time.process_time()
        engine = SearchEngine.from_documents(collection.documents, n_bits=n_bits, method=self.method, random_state=seed)
        seconds = time.process_time() - start
        with saved_and_loaded(engine) as (loaded, folder):
            sizes = {**bytes_on_disk(folder, len(collection.documents)), PEER: round(size, 1)}
            self.progress(f"searching {n_bits} bits, seed {seed}")
            measured = [self._rank(name, engine_search(loaded, rank=name, weight=self.weight)) for name in RANKINGS]
        differences = measured[0][1] - others[0][1]
        return SearchQualityFacts(
            collection=collection.name,
            documents=len(collection.documents),
            queries=len(collection.queries),
            judgements=collection.n_judgements,
            without_judgements=collection.without_judgements,
            method=self.method,
            bits=n_bits,
            seed=seed,
            weight=self.weight,
            cpu_seconds_of_fit=round(seconds, 1),
            rankings=[ranking for ranking, _ in (*measured, *others)],
            hybrid_minus_peer=_with_intervals(differences),
            bytes_per_document=sizes,
        )

    def _rank(self, name: str, find: Find) -> tuple[Ranking, PerQuery]:
        """Return a ranking's measures, and those of each query."""
        texts = self.collection.queries.values()
        answers, _ = run_queries(find, texts, min(DEPTH, len(self.collection.documents)))
        _, milliseconds = run_queries(find, texts, min(HITS, len(self.collection.documents)))
        values = measure(answers, self.collection.judgements)
        n_empty = sum(not answer for answer in answers)
        return Ranking(name, **_with_intervals(values), cpu_milliseconds=milliseconds, without_answer=n_empty), values

    @classmethod
    def file_name(cls, facts: SearchQualityFacts) -> str:
        """Return the name of the JSON file."""
        weight = "" if facts.weight is None else f"-weight{facts.weight:g}"
        return f"search-{facts.collection}-{facts.method}-{facts.bits}bits-seed{facts.seed}{weight}.json"

    @classmethod
    def from_json(cls, content: Any) -> SearchQualityFacts:
        """Return the facts in the content of a JSON file."""
        return SearchQualityFacts(**{**content, "rankings": [Ranking(**one) for one in content["rankings"]]})

    @classmethod
    def render(cls, facts: Sequence[SearchQualityFacts]) -> str:
        """Return the page in Markdown."""
        parts = [INTRODUCTION]
        for name in dict.fromkeys(one.collection for one in facts):
            some = [one for one in facts if one.collection == name]
            parts += [f"## {name}\n", *_section(some)]
        return "\n".join(parts)


def bytes_on_disk(folder: Path, n_documents: int) -> dict[str, float]:
    """Return the bytes per document of an engine's folder, by what they hold."""
    [database] = folder.glob("*/documents.sqlite")
    sizes = {"codes": 0, "term vectors": 0, "lexical index": _size(database.parent / "lexical")}
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        try:
            tables = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
        except sqlite3.OperationalError:  # compiled without this table
            tables = []
    sizes.update({TABLES[name]: size for name, size in tables if name in TABLES})
    sizes["documents"] = database.stat().st_size - sizes["codes"] - sizes["term vectors"]
    return {name: round(size / n_documents, 1) for name, size in sizes.items()}


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _with_intervals(values: PerQuery) -> dict[str, list[float]]:
    return {
        name: [round(float(np.mean(row)), 4), *bootstrap_interval(row)]
        for name, row in zip(TITLES, values, strict=True)
    }


def _section(facts: Sequence[SearchQualityFacts]) -> Iterator[str]:
    """Yield the tables of one collection; rankings that depend on no codes are shown once."""
    first = facts[0]
    sizes = f"{first.documents:,} documents, {first.queries:,} queries, {first.judgements:,} relevant pairs."
    yield f"{sizes} Queries left out because nothing was judged relevant: {first.without_judgements:,}.\n"
    yield markdown_table(["ranking", *TITLES.values(), "CPU ms"], ranking_rows(facts))
    yield f"Hybrid minus {PEER}, paired by query:\n"
    yield markdown_table(
        ["codes", *TITLES.values()],
        [[codes_title(one), *(_signed(one.hybrid_minus_peer[name]) for name in TITLES)] for one in facts],
    )
    yield "Bytes per document on disk:\n"
    stored = {one.bits: one.bytes_per_document for one in facts}  # the same for all seeds
    names = list(first.bytes_per_document)
    cells = [[f"{bits} bits", *(f"{each[name]:,.0f}" for name in names)] for bits, each in stored.items()]
    yield markdown_table(["codes", *names], cells)
    commands = sorted({command(one) for one in facts})
    yield "```sh\n" + "\n".join(commands) + "\n```\n"


def ranking_rows(facts: Sequence[SearchQualityFacts]) -> list[list[str]]:
    """Return a row per ranking, with its measures and their intervals."""
    shown = [(one, "") for one in facts[0].rankings if one.name in (PEER, LSA, WORDS)]
    shown += [(one, ", " + codes_title(some)) for some in facts for one in some.rankings if one.name in (CODES, HYBRID)]
    return [
        [
            one.name + suffix,
            *(
                f"{mean:.3f} [{low:.3f}, {high:.3f}]"
                for mean, low, high in (one.ndcg_at_10, one.recall_at_100, one.mrr)
            ),
            f"{one.cpu_milliseconds:.2f}",
        ]
        for one, suffix in shown
    ]


def codes_title(facts: SearchQualityFacts) -> str:
    """Return the name by which tables distinguish the codes of one file."""
    method = "" if facts.method == WITHOUT_LABELS else f", {facts.method}"
    weight = "" if facts.weight is None else f", weight {facts.weight:g}"
    return f"{facts.bits} bits, seed {facts.seed}{method}{weight}"


def command(facts: SearchQualityFacts) -> str:
    """Return the command that measures the facts."""
    method = "" if facts.method == WITHOUT_LABELS else f" --method {facts.method}"
    weight = "" if facts.weight is None else f" --weight {facts.weight:g}"
    options = f"--bits {facts.bits} --seed {facts.seed}{method}{weight}"
    return f"fewbits bench search {facts.collection} {options} --save"


def _bounded(values: Sequence[float]) -> str:
    mean, low, high = values
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def _signed(values: Sequence[float]) -> str:
    mean, low, high = values
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


INTRODUCTION = f"""\
# Search quality

Rendered by `fewbits bench report`. Each collection has documents, queries, and judgements of which documents are
relevant to which query, in the layout of BEIR (`corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`). *hybrid* is the
default ranking of a text search, *words* is BM25 by the lexical index, and *codes* are the codes alone. For comparison
there are two rankings by other packages: *{PEER}* is BM25 by the package of that name, with its English stop words and
the English Snowball stemmer, and *{LSA}* is the cosine in {LSA_DIMENSIONS} dimensions of latent semantic analysis.

nDCG@10, recall@100 and the mean reciprocal rank are computed by `ir_measures` on the first {DEPTH} hits. A query
without an answer counts as 0. Brackets contain the 95% interval over queries (bootstrap with resampled queries;
differences are paired). The CPU time is the median per query, from text to {HITS} hits, with one query at a time in one
thread; an engine's includes reading the documents. Sizes are those of a saved engine; *{PEER}* is its index without
texts.

The score of a hybrid search and its parameters are explained in [architecture.md](architecture.md).
"""
