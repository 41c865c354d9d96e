"""How good the codes of an engine are, measured only by documents that they were not learnt from."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from fewbits.codes import unpack
from fewbits.corpus.document import DocumentId
from fewbits.corpus.labels import label_table
from fewbits.evaluation import precision_at_k, random_floor
from fewbits.search import CodedDocuments, SearchEngine

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


def _copies(engine: SearchEngine, documents: CodedDocuments) -> set[DocumentId]:
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
