"""arXiv titles and abstracts with one of the 40 most frequent categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fewbits.corpus.document import Document
from fewbits.corpus.readers import read_documents

CATEGORIES_KEPT = 40


def read_arxiv(archive: Path) -> Iterator[Document]:
    """Read title, newline, abstract; labelled by those of its categories that are kept."""
    # Two passes over the file hold one document at a time.
    frequency = Counter(category for document in _all(archive) for category in document.labels)
    kept = set(sorted(frequency, key=lambda category: (-frequency[category], category))[:CATEGORIES_KEPT])
    for document in _all(archive):
        labels = tuple(category for category in document.labels if category in kept)
        if labels:
            yield replace(document, labels=labels)


def _all(archive: Path) -> Iterator[Document]:
    return read_documents(archive, text=("title", "abstract"), id="id", label="categories", label_separator=" ")
