"""Test collections with relevance judgements: reading them, other rankings to compare with, and measures."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from fewbits.data import Document, DocumentId
from fewbits.data.document import Record
from fewbits.data.io import read_records
from fewbits.errors import DataError, MissingExtraError, MissingFileError
from fewbits.features import TextVectorizer
from fewbits.search import SearchEngine

CORPUS, QUERIES, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"
LAYOUT = f"{CORPUS}, {QUERIES} and {JUDGEMENTS}"
LSA_DIMENSIONS = 200
N_RESAMPLES = 2_000
DEPTH = 100  # hits that are judged
MEASURES = ("nDCG@10", "R@100", "RR")  # names of ir_measures

Find = Callable[[str, int], Sequence[DocumentId]]
PerQuery = NDArray[np.float64]  # (measures, queries)


@dataclass(frozen=True)
class JudgedCollection:
    """Documents, queries, and which documents are relevant to a query, with their grade."""

    name: str
    documents: list[Document]
    queries: dict[str, str]  # those with a relevant document
    judgements: dict[str, dict[str, int]]
    without_judgements: int  # queries that are left out

    @property
    def n_judgements(self) -> int:
        """Count the pairs of a query and a relevant document."""
        return sum(map(len, self.judgements.values()))


def read_collection(folder: str | Path) -> JudgedCollection:
    """Read a collection in BEIR's layout; queries without a relevant document are left out."""
    folder = Path(folder)
    documents = {id: _document(id, record, where) for id, record, where in _with_ids(folder, CORPUS)}
    queries = {id: _string(record, "text", where) for id, record, where in _with_ids(folder, QUERIES)}
    judgements: dict[str, dict[str, int]] = {}
    for where, record in read_records(_existing(folder, JUDGEMENTS)):
        query, document = (_string(record, name, where) for name in ("query-id", "corpus-id"))
        for kind, id, known, file in (("query", query, queries, QUERIES), ("document", document, documents, CORPUS)):
            if id not in known:
                raise DataError(f"{where}: the {kind} does not exist", allowed=f"an _id of {file}", got=repr(id))
        grade = _grade(record, where)
        if grade > 0:
            judgements.setdefault(query, {})[document] = grade
    if not judgements:
        raise DataError(f"no query of {folder} has a relevant document", allowed="a score above 0", got="none")
    judged = {id: text for id, text in queries.items() if id in judgements}
    ordered = {id: judgements[id] for id in judged}
    name = folder.resolve().name
    return JudgedCollection(name, list(documents.values()), judged, ordered, len(queries) - len(judged))


def _existing(folder: Path, name: str) -> Path:
    if not folder.is_dir():
        raise MissingFileError(f"{folder} is not a folder", allowed=f"a folder with {LAYOUT}")
    if not (folder / name).is_file():
        raise MissingFileError(f"{folder / name} does not exist", allowed=f"a folder with {LAYOUT}")
    return folder / name


def _with_ids(folder: Path, name: str) -> Iterable[tuple[str, Record, str]]:
    lines: dict[str, str] = {}
    for where, record in read_records(_existing(folder, name)):
        id = _string(record, "_id", where)
        if id in lines:
            raise DataError(f"{where} has the same _id as {lines[id]}", got=repr(id))
        lines[id] = where
        yield id, record, where
    if not lines:
        raise DataError(f"{folder / name} is empty", allowed="one record or more")


def _string(record: Record, name: str, where: str) -> str:
    value = record.get(name)
    if isinstance(value, int) and name.endswith("id"):  # ids are compared as strings
        return str(value)
    if not isinstance(value, str):
        got = "no such field" if name not in record else repr(value)[:60]
        raise DataError(f"{where}: field {name!r} is not a text", allowed="a string", got=got)
    return value


def _document(id: str, record: Record, where: str) -> Document:
    title = _string(record, "title", where) if record.get("title") else ""
    text = _string(record, "text", where)
    return Document(id, f"{title}\n{text}" if title else text)


def _grade(record: Record, where: str) -> int:
    try:
        return int(record["score"])
    except (KeyError, ValueError, TypeError):
        got = repr(record.get("score"))
        raise DataError(f"{where}: field 'score' is not a grade", allowed="a whole number", got=got) from None


class Bm25s:
    """BM25 by the package bm25s, with English stop words and the English Snowball stemmer."""

    def __init__(self, documents: Sequence[Document]) -> None:
        import bm25s
        import Stemmer

        self._bm25s, self._stemmer = bm25s, Stemmer.Stemmer("english")
        self._ids = [document.id for document in documents]
        self._retriever = bm25s.BM25()
        self._retriever.index(self._tokens([document.text for document in documents]), show_progress=False)

    def _tokens(self, texts: list[str]) -> Any:
        return self._bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)

    def find(self, query: str, k: int) -> list[DocumentId]:
        """Return the ids of the k best documents with a word of the query."""
        tokens = self._tokens([query])
        found, scores = self._retriever.retrieve(tokens, k=min(k, len(self._ids)), show_progress=False)
        return [self._ids[row] for row, score in zip(found[0].tolist(), scores[0].tolist(), strict=True) if score > 0]

    def save(self, folder: Path) -> None:
        """Write the index to files."""
        self._retriever.save(str(folder), show_progress=False)


class CosineSearch:
    """The cosine of tf-idf rows, or of their latent semantic analysis, over all documents."""

    def __init__(self, vectorizer: TextVectorizer, rows: Any, ids: Sequence[DocumentId], dimensions: int | None = None):
        self._vectorizer, self._ids = vectorizer, ids
        self._svd = None
        if dimensions is not None:
            self._svd = TruncatedSVD(min(dimensions, min(rows.shape) - 1), random_state=0).fit(rows)
            rows = normalize(self._svd.transform(rows))
        self._columns = rows.T.tocsr() if self._svd is None else rows.T

    def find(self, query: str, k: int) -> list[DocumentId]:
        """Return the ids of the k nearest documents."""
        row = self._vectorizer.transform([query])
        if self._svd is None:
            similarities = (row @ self._columns).toarray()[0]
        else:
            similarities = (self._svd.transform(row) @ self._columns)[0]
        return [self._ids[place] for place in np.argsort(-similarities, kind="stable")[:k]]


@contextmanager
def saved_and_loaded(engine: SearchEngine) -> Iterator[tuple[SearchEngine, Path]]:
    """Save an engine to a temporary folder and load it from there."""
    with tempfile.TemporaryDirectory(prefix="fewbits-bench-") as parent:
        folder = Path(parent) / "engine"
        engine.save(folder)
        yield SearchEngine.load(folder, verify=False), folder


def engine_search(engine: SearchEngine, **options: Any) -> Find:
    """Return the function from a query to the ids of its hits."""
    return lambda query, k: [hit.id for hit in engine.search(query, k, **options)]


def run_queries(find: Find, queries: Iterable[str], k: int) -> tuple[list[list[DocumentId]], float]:
    """Return the answer to each query, empty where there is none, and the median CPU time per query in ms."""
    answers: list[list[DocumentId]] = []
    seconds = []
    for query in queries:
        start = time.process_time()
        try:
            answers.append(list(find(query, k)))
        except DataError:  # a query without a known word finds nothing
            answers.append([])
        seconds.append(time.process_time() - start)
    return answers, round(1000 * float(np.median(seconds)), 3)


def measure(answers: Sequence[Sequence[DocumentId]], judgements: Mapping[str, Mapping[str, int]]) -> PerQuery:
    """Return the measures of each query, (measures, queries), by ir_measures."""
    import ir_measures

    names = list(judgements)
    run = {
        name: {str(id): -float(place) for place, id in enumerate(answer)}
        for name, answer in zip(names, answers, strict=True)
        if answer
    }
    measures = [ir_measures.parse_measure(name) for name in MEASURES]
    qrels = {name: dict(graded) for name, graded in judgements.items()}
    values = np.zeros((len(measures), len(names)))
    columns = {name: column for column, name in enumerate(names)}
    for one in ir_measures.iter_calc(measures, qrels, run):
        values[measures.index(one.measure), columns[one.query_id]] = one.value
    return values


def bootstrap_interval(values: NDArray[np.float64], seed: int = 0) -> list[float]:
    """Return the 95% percentile interval of the mean over queries.

    >>> bootstrap_interval(np.array([0.5, 0.5]))
    [0.5, 0.5]
    """
    chosen = np.random.default_rng(seed).integers(0, len(values), (N_RESAMPLES, len(values)))
    return [round(float(bound), 4) for bound in np.percentile(values[chosen].mean(axis=1), [2.5, 97.5])]


def check_extra() -> None:
    """Raise an error if a package of the extra is missing."""
    if any(find_spec(name) is None for name in ("bm25s", "ir_measures", "Stemmer")):
        raise MissingExtraError("measuring search quality", extra="retrieval")
