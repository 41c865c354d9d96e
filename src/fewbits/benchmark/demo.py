"""The demonstration: an engine of the default corpus, with example queries and the quality of its codes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewbits.codes import n_bytes, unpack
from fewbits.data import Document, read_docstrings
from fewbits.data.datasets import assign_split
from fewbits.features import TextVectorizer
from fewbits.hashers.registry import WITH_LABELS, WITHOUT_LABELS
from fewbits.metrics import precision_at_k, random_floor
from fewbits.search import Hit, SearchEngine

QUERIES = (
    "read rows from a CSV file with a header",
    "eigenvalues and eigenvectors of a symmetric matrix",
    "wait until a thread or process has finished",
)
DEPTH = 10
VOCABULARY_SIZE = 5_000  # sufficient for this corpus and fast to fit
TRAINING_FRACTION = 0.9  # the other documents are queries


@dataclass(frozen=True)
class Agreement:
    """Precision of held-out documents for one kind of label, with hashers fitted without and with labels."""

    label: str
    without_labels: float
    with_labels: float
    floor: float  # chance level


@dataclass(frozen=True)
class Demonstration:
    """Facts about the saved engine, with the results of the queries and the precision."""

    folder: str
    documents: int
    bits: int
    bytes_per_document: int
    method: str
    method_with_labels: str
    seconds_reading: float
    seconds_learning: float
    seconds_learning_with_labels: float
    queries: dict[str, list[Hit]]
    held_out: int
    agreement: list[Agreement]


def demonstrate(
    folder: Path,
    n_bits: int = 64,
    watch: Callable[[Iterable[Document]], Iterable[Document]] = iter,
    *,
    verbose: bool = False,
) -> Demonstration:
    """Fit on nine tenths of the default corpus, evaluate on the rest, and save an engine of all documents.

    The saved engine is fitted without labels; a second one, fitted with labels, serves as a comparison.
    """
    start = time.perf_counter()
    documents = list(watch(read_docstrings()))
    read = time.perf_counter()
    train = [document for document in documents if not _is_held_out(document)]
    held_out = [document for document in documents if _is_held_out(document)]
    options: dict[str, Any] = {
        "n_bits": n_bits,
        "vectorizer": TextVectorizer(max_features=VOCABULARY_SIZE),
        "verbose": verbose,
    }
    engine = SearchEngine.from_documents(train, method=WITHOUT_LABELS, **options)
    fitted = time.perf_counter()
    labelled_engine = SearchEngine.from_documents(train, method=WITH_LABELS, **options)
    fitted_with_labels = time.perf_counter()
    agreement = [
        _agreement(engine, labelled_engine, train, held_out, kind, position)
        for position, kind in enumerate(("package", "module"))
    ]
    engine.add(held_out)
    engine.save(folder)
    return Demonstration(
        folder=str(folder),
        documents=len(engine),
        bits=n_bits,
        bytes_per_document=n_bytes(n_bits),
        method=engine.info()["method"],
        method_with_labels=labelled_engine.info()["method"],
        seconds_reading=read - start,
        seconds_learning=fitted - read,
        seconds_learning_with_labels=fitted_with_labels - fitted,
        queries={query: engine.search(query, k=3) for query in QUERIES},
        held_out=len(held_out),
        agreement=agreement,
    )


def _is_held_out(document: Document) -> bool:
    return assign_split("docstrings", document.id, (TRAINING_FRACTION, TRAINING_FRACTION)) == "test"


def _agreement(
    engine: SearchEngine,
    labelled_engine: SearchEngine,
    train: list[Document],
    held_out: list[Document],
    label: str,
    position: int,
) -> Agreement:
    query_labels = np.array([document.labels[position] for document in held_out])
    database_labels = np.array([document.labels[position] for document in train])

    def precision(one: SearchEngine) -> float:
        queries, database = (
            unpack(one.encode([document.text for document in some]), one.n_bits) for some in (held_out, train)
        )
        return precision_at_k(queries, query_labels, database, database_labels, k=DEPTH)

    return Agreement(label, precision(engine), precision(labelled_engine), random_floor(query_labels, database_labels))
