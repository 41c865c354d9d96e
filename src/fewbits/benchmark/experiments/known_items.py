"""Known-item search: how often the title of a document finds the document, and how fast, by way of ranking.

Titles are queries against the bodies alone. The weight of the codes is chosen on other titles than those reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fewbits.benchmark.experiments.base import Experiment, markdown_table
from fewbits.benchmark.experiments.judged import CosineSearch, Find, engine_search, run_queries, saved_and_loaded
from fewbits.data import Document, DocumentId
from fewbits.data.datasets import Dataset
from fewbits.errors import DataError
from fewbits.features import TextVectorizer
from fewbits.hashers.registry import make_hasher
from fewbits.search import SearchEngine
from fewbits.search.rerank import SEMANTIC_WEIGHT

DEPTH = 10
N_REPORTED, N_CHOOSING = 2_000, 500  # titles
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
TRAINING_SIZE = 30_000
EXACT = "tf-idf cosine, exact"
CODES, BITS = "codes alone", "codes, bits weighed by certainty"
WORDS, HYBRID = "words alone", "words and codes"
SHORTLIST = "codes, then words of a shortlist"  # in earlier files
RANKING_TITLES = {BITS: "codes, bits weighted by confidence", SHORTLIST: "codes, then cosine of a shortlist"}


@dataclass(frozen=True)
class TitledDocument:
    """A document split into the query and the text that is searched."""

    id: DocumentId
    title: str
    body: str


@dataclass(frozen=True)
class KnownItems:
    """How often a ranking puts the document of a title among the first DEPTH, and how fast."""

    ranking: str
    shortlist: int | None  # in earlier files: documents ranked by their words
    titles: str  # "reported", or "choosing": those used to choose the weight of the codes
    queries: int
    share: float
    of_exact: float
    milliseconds: float
    weight: float | None = None  # of the codes, relative to the words


@dataclass(frozen=True)
class Comparison:
    """All rankings of one collection with codes of one length."""

    dataset: str
    method: str
    bits: int
    documents: int
    learnt_from: int  # documents the hasher was fitted on
    default_shortlist: int | None  # in earlier files
    rows: list[KnownItems]
    load: float | None = None  # load average per core, in earlier files, whose times are wall-clock times
    default_weight: float | None = None


def split_titles(dataset: Dataset) -> list[TitledDocument]:
    """Split each training document into its first line, the title, and the rest."""
    if dataset.train.texts is None:
        raise DataError(
            f"{dataset.name} has no texts", allowed="a data set whose texts begin with a title, such as arxiv"
        )
    parts = (text.partition("\n") for text in dataset.train.texts)
    return [TitledDocument(id, title, body) for id, (title, _, body) in zip(dataset.train.ids, parts, strict=True)]


@dataclass(frozen=True)
class KnownItemSearch(Experiment[Comparison]):
    """Measure all rankings, with a hasher fitted on a sample of the bodies."""

    folder = "known-items"
    page = "known-items.md"

    dataset_name: str
    documents: Sequence[TitledDocument]
    lengths: Sequence[int] = (64, 128)
    method: str = "bernoulli-vae"
    training_size: int = TRAINING_SIZE
    n_reported: int = N_REPORTED
    n_choosing: int = N_CHOOSING
    weights: Sequence[float] = WEIGHTS
    max_features: int = 20_000
    checkpoint: Path | None = None
    progress: Callable[[str], object] = lambda _: None

    def measure(self) -> Iterator[Comparison]:
        """Yield the facts of one code length at a time."""
        documents = self.documents
        vectorizer = TextVectorizer(max_features=self.max_features)
        rows = vectorizer.fit_transform(document.body for document in documents)
        order = np.random.default_rng(0).permutation(len(documents))
        choosing_end = self.n_reported + self.n_choosing
        samples = {"reported": order[: self.n_reported], "choosing": order[self.n_reported : choosing_end]}
        queries = {name: [documents[row] for row in chosen] for name, chosen in samples.items()}
        for n_bits in self.lengths:
            self.progress(EXACT)
            exact = CosineSearch(vectorizer, rows, [document.id for document in documents])
            baseline = {name: _measure(exact.find, EXACT, name, titles) for name, titles in queries.items()}
            self.progress(f"fitting {n_bits} bits")
            engine, training_size = self._fit(vectorizer, rows, n_bits)
            measured = [*baseline.values(), *self._rankings(engine, queries, baseline)]
            yield Comparison(
                self.dataset_name,
                self.method,
                n_bits,
                len(documents),
                training_size,
                None,
                measured,
                default_weight=SEMANTIC_WEIGHT,
            )

    def _fit(self, vectorizer: TextVectorizer, rows: Any, n_bits: int) -> tuple[SearchEngine, int]:
        """Return an engine of the bodies, and the number of documents that its hasher was fitted on."""
        count = len(self.documents)
        sample = np.sort(np.random.default_rng(0).choice(count, min(self.training_size, count), replace=False))
        hasher = make_hasher(self.method, n_bits, 0)
        if self.checkpoint is not None and "checkpoint" in hasher.get_params():
            hasher.set_params(checkpoint=str(self.checkpoint / str(n_bits)))
        hasher.fit(rows[sample])
        bodies = (Document(document.id, document.body) for document in self.documents)
        engine = SearchEngine.from_fitted(vectorizer, hasher, bodies, rows, method=self.method)
        return engine, len(sample)

    def _rankings(
        self,
        engine: SearchEngine,
        queries: dict[str, list[TitledDocument]],
        baseline: dict[str, KnownItems],
    ) -> Iterator[KnownItems]:
        """Measure the rankings by codes, on an engine that was saved and loaded, as a service would use it."""
        rankings: list[tuple[str, dict[str, Any], str]] = [
            (CODES, {"rerank": "none"}, "reported"),
            (BITS, {"rank": "codes"}, "reported"),
            (WORDS, {"rank": "words"}, "reported"),
            (HYBRID, {"rank": "hybrid"}, "reported"),
            *((HYBRID, {"rank": "hybrid", "weight": weight}, "choosing") for weight in self.weights),
        ]
        with saved_and_loaded(engine) as (loaded, _):
            for ranking, options, titles in rankings:
                self.progress(ranking)
                facts = _measure(engine_search(loaded, **options), ranking, titles, queries[titles])
                exact_share = baseline[titles].share
                of_exact = round(facts.share / exact_share, 3) if exact_share else 1.0
                yield replace(facts, of_exact=of_exact, weight=options.get("weight"))

    @classmethod
    def file_name(cls, facts: Comparison) -> str:
        """Return the name of the JSON file."""
        return f"known-items-{facts.dataset}-{facts.bits}bits.json"

    @classmethod
    def from_json(cls, content: Any) -> Comparison:
        """Return the facts in the content of a JSON file."""
        return Comparison(**{**content, "rows": [KnownItems(**row) for row in content["rows"]]})

    @classmethod
    def render(cls, facts: Sequence[Comparison]) -> str:
        """Return the page in Markdown."""
        parts = [INTRODUCTION]
        for one in facts:
            load = "" if one.load is None else f" The load of the machine was {one.load} per core."
            parts.append(f"## {one.dataset}, {one.bits} bits\n")
            parts.append(
                f"{one.documents:,} documents; codes of `{one.method}`, fitted on a random sample of"
                f" {one.learnt_from:,}. {one.rows[0].queries:,} titles.{load}\n"
            )
            parts.append(_table([row for row in one.rows if row.titles == "reported"]))
            chosen = "Length of the shortlist" if one.default_weight is None else "Weight of the codes"
            parts.append(f"{chosen}, on other titles:\n")
            parts.append(_table([row for row in one.rows if row.titles == "choosing"]))
            command = f"fewbits bench known-items --dataset {one.dataset} --bits {one.bits} --save"
            parts.append(f"```sh\n{command}\n```\n")
        return "\n".join(parts)


def _measure(find: Find, ranking: str, titles: str, documents: Sequence[TitledDocument]) -> KnownItems:
    answers, milliseconds = run_queries(find, [document.title for document in documents], DEPTH)
    n_found = sum(document.id in answer for document, answer in zip(documents, answers, strict=True))
    share = round(n_found / len(documents), 4)
    return KnownItems(ranking, None, titles, len(documents), share, 1.0, round(milliseconds, 2))


def _table(rows: Sequence[KnownItems]) -> str:
    header = ["ranking", "shortlist or weight", "found in the top ten", "relative to exact", "ms per query"]
    cells = [
        [
            RANKING_TITLES.get(row.ranking, row.ranking),
            f"{row.shortlist:,}" if row.shortlist is not None else "" if row.weight is None else f"{row.weight:g}",
            f"{row.share:.3f}",
            f"{row.of_exact:.2f}",
            f"{row.milliseconds:.1f}",
        ]
        for row in rows
    ]
    return markdown_table(header, cells)


INTRODUCTION = f"""\
# Known-item search

Rendered by `fewbits bench report`. A user looks for a particular document and types a few words of it. To simulate
this, the titles of documents are used as queries, and only the bodies are searched. The tables show the share of titles
whose document is among the first {DEPTH} hits, and this share relative to that of the exact tf-idf cosine over all
documents. The time is the median CPU time per query, from text to documents, with one query at a time in one thread;
where the load is given, it is wall-clock time.

A title contains little information for a short code, and codes represent what a document is about, not which document
it is. By default, `search` therefore adds two parts: the BM25 score of the words, relative to the best hit, and
{SEMANTIC_WEIGHT:g} times the share of agreeing bits, each weighted by the confidence of the query's bit. Rows with
a shortlist were measured with an earlier release, which reranked the documents with the nearest codes by the cosine of
their words.
"""
