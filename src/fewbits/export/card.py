"""Model card of an engine: corpus, method, measured quality, drift, limits and versions."""

from __future__ import annotations

import html
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np

from fewbits.codes import unpack
from fewbits.data.document import Document, DocumentId
from fewbits.data.labels import label_table
from fewbits.hashers.base import EXECUTION_PARAMETERS, Hasher
from fewbits.hashers.registry import find_method
from fewbits.metrics import precision_at_k, random_floor
from fewbits.search import EncodedDocuments, SearchEngine
from fewbits.search.drift import DRIFT_TITLES

MAX_LABELS = 20  # listed by name
PACKAGES = ("fewbits", "numpy", "scipy", "scikit-learn", "faiss-cpu")
K = 10  # precision at K
MIN_QUERIES = 100
MAX_QUERIES = 1000

USE = """\
Search, "more like this", detection of near-duplicates and exploration of topics, for documents of the same kind and
language as the training documents. Documents can be added at any time without retraining."""

LIMITS = """\
- A code represents the topic of a document, not its statements: a claim and its negation have nearly the same code.
- Words outside the vocabulary are ignored. A document without a word of the vocabulary is stored but never found.
- A small distance means that documents are similar according to this model. Codes reproduce the biases of the training
  documents.
- The engine is a search tool. Do not base decisions about people on it.
- Codes do not protect content: the words of a document can be guessed from its code, and the engine's folder contains
  the texts."""

EMBEDDING_LIMITS = """\
- Codes are at most as good as the embeddings they were computed from, and reproduce their biases.
- Queries need embeddings from the same source as the documents' embeddings.
- The engine is a search tool. Do not base decisions about people on it."""


@dataclass(frozen=True)
class Quality:
    """Precision of the codes for documents added after training."""

    queries: int
    database: int
    precision: float
    chance_level: float  # expected precision of a random ranking


def render_card(engine: SearchEngine, name: str) -> str:
    """Return the model card of an engine as Markdown."""
    with engine.snapshot() as snapshot:
        facts = snapshot.info()
        hasher = snapshot.model.hasher
        encoded = snapshot.encoded_documents()
        quality = measure_quality(encoded, snapshot.documents())
    sections = [
        f"# Model card: {_escape(name)}\n\n{_summary(facts)}",
        f"## Corpus\n\n{_corpus(facts, encoded.labels)}",
        f"## Method\n\n{_method(hasher, facts)}",
        f"## Quality\n\n{_quality(quality)}",
        f"## Drift\n\n{_drift(facts['drift'])}",
        f"## Intended use\n\n{USE}",
        f"## Limits\n\n{LIMITS if facts['features'] == 'text' else EMBEDDING_LIMITS}",
        f"## Versions\n\n{_versions(facts)}",
    ]
    return "\n\n".join(sections) + "\n"


def _summary(facts: dict[str, Any]) -> str:
    kind = "text" if facts["features"] == "text" else "embedding"
    return (
        f"A fewbits search engine: each {kind} is represented by a code of {facts['bits']} bits"
        f" ({facts['bytes_per_document']} bytes), and similar {kind}s have codes that differ in few bits."
    )


def _corpus(facts: dict[str, Any], labels: Iterable[tuple[str, ...]]) -> str:
    counts = Counter(label for document_labels in labels for label in set(document_labels))
    rows = [
        ("documents", f"{facts['documents']:,}"),
        ("training documents", f"{facts['documents_learnt_from']:,}"),
        ("documents without a code", f"{facts['documents_without_known_words']:,}"),
        ("labels", f"{len(counts):,}"),
        ("trained", facts["created"]),
    ]
    table = _table(("fact", "value"), rows)
    if not counts:
        return table
    shown = [(label, f"{count:,}") for label, count in counts.most_common(MAX_LABELS)]
    if len(counts) > MAX_LABELS:
        shown.append((f"and {len(counts) - MAX_LABELS:,} more", ""))
    return f"{table}\n\n{_table(('label', 'documents'), shown)}"


def _method(hasher: Hasher, facts: dict[str, Any]) -> str:
    method = find_method(facts["method"])
    kind = "words in the vocabulary" if facts["features"] == "text" else "dimensions of an embedding"
    labels_used = {"unsupervised": "none", "semi-supervised": "those of a sample", "supervised": "all"}
    rows = [
        ("method", method.name),
        ("estimator", type(hasher).__name__),
        ("source", method.reference),
        ("labels used", labels_used[method.setting]),
        (kind, f"{facts['n_features']:,}"),
        ("bits", facts["bits"]),
    ]
    parameters = [
        (name, repr(value))
        for name, value in sorted(hasher.get_params(deep=False).items())
        if name not in EXECUTION_PARAMETERS
    ]
    return (
        f"{_table(('fact', 'value'), rows)}\n\nThe method chooses the values of parameters that are None.\n\n"
        f"{_table(('parameter', 'value'), parameters)}"
    )


def _quality(measured: Quality | None) -> str:
    if measured is None:
        return (
            "Not measured: training documents cannot be used as queries, and the engine has fewer than"
            f" {MIN_QUERIES} other labelled documents. To measure the quality on this corpus, run"
            " `fewbits bench own FILE --label FIELD`, which trains without a fifth of the documents and searches for"
            " them; or add labelled documents and write the card again."
        )
    return (
        f"Precision at {K} by codes alone: {measured.precision:.3f} (chance level: {measured.chance_level:.3f}).\n\n"
        f"This is the mean fraction of the {K} nearest documents that share a label with the query. The queries are"
        f" {measured.queries:,} labelled documents added after training, without copies of earlier documents. The"
        f" database is the {measured.database:,} labelled training documents. Ties count with their expected value."
    )


def _drift(drift: dict[str, Any]) -> str:
    rows = [(title, drift[name]) for name, title in DRIFT_TITLES.items()]
    return f"{drift['advice']}\n\n{_table(('fact', 'value'), rows)}"


def _versions(facts: dict[str, Any]) -> str:
    rows = [
        ("fewbits (training)", facts["fewbits"]),
        ("Python (this card)", platform.python_version()),
        *((f"{package} (this card)", version(package)) for package in PACKAGES),
    ]
    return _table(("package", "version"), rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_escape(cell) for cell in line)} |" for line in lines)


def _escape(value: object) -> str:
    """Return a value on one line, escaped for a table cell in Markdown."""
    line = " ".join(str(value).split())
    return html.escape(line, quote=False).replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`")


def measure_quality(encoded: EncodedDocuments, documents: Iterable[Document]) -> Quality | None:
    """Measure the precision of labelled documents added after training; None if there are too few.

    ``documents`` are all documents of the engine in order of insertion. The database is the training documents. Copies
    of earlier documents are not used as queries, as finding them would say nothing about new documents.
    """
    has_label = np.array([bool(labels) for labels in encoded.labels], dtype=bool)
    database = np.flatnonzero(has_label & ~encoded.is_unseen)
    queries = np.flatnonzero(has_label & encoded.is_unseen)
    if len(queries) < MIN_QUERIES or len(database) < K:
        return None
    copies = _copies(encoded, documents)
    queries = np.array([row for row in queries if encoded.ids[row] not in copies][:MAX_QUERIES], dtype=np.int64)
    if len(queries) < MIN_QUERIES:
        return None
    bits = unpack(encoded.codes, encoded.n_bits)
    labels, _ = label_table(encoded.labels)
    return Quality(
        queries=len(queries),
        database=len(database),
        precision=precision_at_k(bits[queries], labels[queries], bits[database], labels[database], k=K),
        chance_level=random_floor(labels[queries], labels[database]),
    )


def _copies(encoded: EncodedDocuments, documents: Iterable[Document]) -> set[DocumentId]:
    """Return the ids of documents added after training whose text occurs earlier."""
    unseen = {id for id, is_unseen in zip(encoded.ids, encoded.is_unseen.tolist(), strict=True) if is_unseen}
    earlier: set[bytes] = set()
    copies: set[DocumentId] = set()
    for document in documents:
        digest = sha256(document.text.encode("utf-8", "surrogatepass")).digest()
        if document.id in unseen and digest in earlier:
            copies.add(document.id)
        earlier.add(digest)
    return copies
