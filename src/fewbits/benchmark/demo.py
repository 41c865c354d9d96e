"""The demonstration: codes for the default corpus, an engine that searches it, and how good they are."""

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
VOCABULARY = 5_000  # enough for so few documents, and nobody waits long for a demonstration
HELD_OUT_CUT = 0.9  # a tenth of the documents are queries that nothing was learnt from


@dataclass(frozen=True)
class Agreement:
    """How often the nearest documents of a held-out one have its label: codes learnt without and with labels."""

    label: str
    without_labels: float
    with_labels: float
    floor: float  # of a random ranking


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration did and found."""

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
    """Learn codes for nine tenths of the default corpus, measure on the rest, and save an engine with all of it.

    The engine's codes are learnt without labels; those learnt with labels are there to compare.
    """
    start = time.perf_counter()
    documents = list(watch(read_docstrings()))
    read = time.perf_counter()
    known = [document for document in documents if not _is_held_out(document)]
    held_out = [document for document in documents if _is_held_out(document)]
    options: dict[str, Any] = {
        "n_bits": n_bits,
        "vectorizer": TextVectorizer(max_features=VOCABULARY),
        "verbose": verbose,
    }
    engine = SearchEngine.from_documents(known, method=WITHOUT_LABELS, **options)
    learnt = time.perf_counter()
    taught = SearchEngine.from_documents(known, method=WITH_LABELS, **options)
    learnt_with_labels = time.perf_counter()
    agreement = [
        _agreement(engine, taught, known, held_out, kind, place) for place, kind in enumerate(("package", "module"))
    ]
    engine.add(held_out)
    engine.save(folder)
    return Demonstration(
        folder=str(folder),
        documents=len(engine),
        bits=n_bits,
        bytes_per_document=n_bytes(n_bits),
        method=engine.info()["method"],
        method_with_labels=taught.info()["method"],
        seconds_reading=read - start,
        seconds_learning=learnt - read,
        seconds_learning_with_labels=learnt_with_labels - learnt,
        queries={query: engine.search(query, k=3) for query in QUERIES},
        held_out=len(held_out),
        agreement=agreement,
    )


def _is_held_out(document: Document) -> bool:
    return assign_split("docstrings", document.id, (HELD_OUT_CUT, HELD_OUT_CUT)) == "test"


def _agreement(
    engine: SearchEngine,
    taught: SearchEngine,
    known: list[Document],
    held_out: list[Document],
    label: str,
    place: int,
) -> Agreement:
    query_labels = np.array([document.labels[place] for document in held_out])
    database_labels = np.array([document.labels[place] for document in known])

    def precision(codes_of: SearchEngine) -> float:
        queries = unpack(codes_of.encode([document.text for document in held_out]), codes_of.n_bits)
        database = unpack(codes_of.encode([document.text for document in known]), codes_of.n_bits)
        return precision_at_k(queries, query_labels, database, database_labels, k=DEPTH)

    return Agreement(label, precision(engine), precision(taught), random_floor(query_labels, database_labels))
