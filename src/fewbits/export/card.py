"""A card that tells what an engine is, made from facts alone."""

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
from fewbits.data.document import DocumentId
from fewbits.data.labels import label_table
from fewbits.hashers.base import EXECUTION_PARAMETERS
from fewbits.hashers.registry import find_method
from fewbits.metrics import precision_at_k, random_floor
from fewbits.search import EncodedDocuments, SearchEngine

LABELS_SHOWN = 20
PACKAGES = ("fewbits", "numpy", "scipy", "scikit-learn", "faiss-cpu")  # what encodes and searches

USE = """\
Finding documents like a text or like another document, near-duplicates, and topics, among documents of the same kind
and language as those it learnt from. New documents can be added at any time; they are encoded by what was learnt."""

LIMITS = """\
- A code keeps what a document is about, not what it says: a claim and its denial have nearly the same code.
- Words outside the vocabulary are not seen. A document without a known word is kept but never found.
- Few differing bits mean alike in the eyes of this model. Whatever is one-sided in the documents it learnt from is
  one-sided in its codes.
- It is a help in finding, and no ground for a decision about a person.
- Codes hide nothing: from a code, the words it stands for can be guessed, and the folder holds the texts themselves."""

EMBEDDING_LIMITS = """\
- Codes are no better than the embeddings they were made from, and share whatever is one-sided in them.
- Queries need an embedding from the same source as the documents'.
- It is a help in finding, and no ground for a decision about a person."""


def render_card(engine: SearchEngine, name: str) -> str:
    """The card of an engine as Markdown."""
    facts = engine.info()
    sections = [
        f"# Model card: {_safe(name)}\n\n{_summary(facts)}",
        f"## Corpus\n\n{_corpus(facts, engine.coded().labels)}",
        f"## Method\n\n{_method(engine, facts)}",
        f"## Quality\n\n{_quality(measure_quality(engine))}",
        f"## Drift\n\n{_drift(facts['drift'])}",
        f"## Intended use\n\n{USE}",
        f"## Limits\n\n{LIMITS if facts['features'] == 'text' else EMBEDDING_LIMITS}",
        f"## Versions\n\n{_versions(facts)}",
    ]
    return "\n\n".join(sections) + "\n"


def _summary(facts: dict[str, Any]) -> str:
    kind = "text" if facts["features"] == "text" else "embedding"
    return (
        f"A search engine of fewbits: a code of {facts['bits']} bits"
        f" ({facts['bytes_per_document']} bytes) for every {kind}, so that similar ones differ in few bits."
    )


def _corpus(facts: dict[str, Any], labels: Iterable[tuple[str, ...]]) -> str:
    counts = Counter(label for some in labels for label in set(some))
    rows = [
        ("documents now", f"{facts['documents']:,}"),
        ("documents learnt from", f"{facts['documents_learnt_from']:,}"),
        ("documents without a known word", f"{facts['documents_without_known_words']:,}"),
        ("labels", f"{len(counts):,}"),
        ("codes learnt", facts["created"]),
    ]
    table = _table(("fact", "value"), rows)
    if not counts:
        return table
    shown = [(label, f"{count:,}") for label, count in counts.most_common(LABELS_SHOWN)]
    if len(counts) > LABELS_SHOWN:
        shown.append((f"and {len(counts) - LABELS_SHOWN:,} more", ""))
    return f"{table}\n\n{_table(('label', 'documents now'), shown)}"


def _method(engine: SearchEngine, facts: dict[str, Any]) -> str:
    method = find_method(facts["method"])
    kind = "words in the vocabulary" if facts["features"] == "text" else "dimensions of an embedding"
    told = {"unsupervised": "no labels", "semi-supervised": "the labels of a sample", "supervised": "all labels"}
    rows = [
        ("method", method.name),
        ("estimator", type(engine.hasher).__name__),
        ("source", method.reference),
        ("sees", told[method.setting]),
        (kind, f"{facts['n_features']:,}"),
        ("bits", facts["bits"]),
    ]
    parameters = [
        (name, repr(value))
        for name, value in sorted(engine.hasher.get_params(deep=False).items())
        if name not in EXECUTION_PARAMETERS
    ]
    return (
        f"{_table(('fact', 'value'), rows)}\n\nNone leaves a parameter to the method.\n\n"
        f"{_table(('parameter', 'value'), parameters)}"
    )


def _quality(measured: Quality | None) -> str:
    if measured is None:
        return (
            "Not measured: the documents that codes were learnt from cannot judge them, and fewer than"
            f" {FEWEST} other documents with a label are here. To measure, run `fewbits bench own FILE --label FIELD`"
            " on the corpus, which learns anew without a fifth of it; or add labelled documents and make it again."
        )
    return (
        f"Precision at {DEPTH} by codes alone: {measured.precision:.3f} (a random ranking: {measured.floor:.3f}).\n\n"
        f"So large a share of the {DEPTH} nearest among {measured.database:,} labelled documents that were learnt from"
        f" has a label of the query's; the queries are {measured.queries:,} labelled documents that were added later"
        " and are no copies. Documents at the same distance count by expectation."
    )


def _drift(drift: dict[str, Any]) -> str:
    rows = [(name.replace("_", " "), value) for name, value in drift.items() if name not in ("advice", "retrain")]
    return f"{drift['advice']}\n\n{_table(('fact', 'value'), rows)}"


def _versions(facts: dict[str, Any]) -> str:
    rows = [
        ("fewbits that learnt the codes", facts["fewbits"]),
        ("Python that wrote this card", platform.python_version()),
        *((f"{package} that wrote this card", version(package)) for package in PACKAGES),
    ]
    return _table(("what", "version"), rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_safe(cell) for cell in line)} |" for line in lines)


def _safe(value: object) -> str:
    """A value on one line that neither ends a table's cell nor is read as HTML."""
    flat = " ".join(str(value).split())
    return html.escape(flat, quote=False).replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`")


DEPTH = 10  # what a person looks at
FEWEST = 100  # queries that can say something
MOST = 1000  # queries


@dataclass(frozen=True)
class Quality:
    """Whether the nearest documents of those added later share a label with them."""

    queries: int
    database: int
    precision: float
    floor: float  # of a random ranking


def measure_quality(engine: SearchEngine) -> Quality | None:
    """Precision of labelled documents that were added after learning; None where they are too few to tell.

    The documents that were learnt from are searched, by codes alone. A copy of one of them is no query: that it is
    found says nothing.
    """
    documents = engine.coded()
    has_label = np.array([bool(labels) for labels in documents.labels], dtype=bool)
    database = np.flatnonzero(has_label & ~documents.is_unseen)
    queries = np.flatnonzero(has_label & documents.is_unseen)
    if len(queries) < FEWEST or len(database) < DEPTH:
        return None
    copies = _copies(engine, documents)
    queries = np.array([row for row in queries if documents.ids[row] not in copies][:MOST], dtype=np.int64)
    if len(queries) < FEWEST:
        return None
    bits = unpack(documents.codes, documents.n_bits)
    labels, _ = label_table(documents.labels)
    sides = bits[queries], labels[queries], bits[database], labels[database]
    return Quality(
        queries=len(queries),
        database=len(database),
        precision=precision_at_k(*sides, k=DEPTH),
        floor=random_floor(labels[queries], labels[database]),
    )


def _copies(engine: SearchEngine, documents: EncodedDocuments) -> set[DocumentId]:
    """Documents added later whose text stood before them."""
    unseen = {id for id, is_unseen in zip(documents.ids, documents.is_unseen.tolist(), strict=True) if is_unseen}
    seen: set[bytes] = set()
    copies: set[DocumentId] = set()
    for document in engine.documents():
        digest = sha256(document.text.encode("utf-8", "surrogatepass")).digest()
        if document.id in unseen and digest in seen:
            copies.add(document.id)
        seen.add(digest)
    return copies
