"""Corpora made from the benchmark archives, to evaluate settings on corpora on which they were not chosen.

Everything follows from hashes of ids: documents, split into two halves, and queries. Settings may be chosen on the
corpora of half A; those of half B are only reported. The documents of arXiv, 20 Newsgroups and the docstrings are
divided between the halves, so no document is in corpora of both.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fewbits.data.datasets.base import Source
from fewbits.data.datasets.docstrings import read_docstrings
from fewbits.data.datasets.text_collections import read_all_abstracts, read_newsgroups, read_reuters
from fewbits.data.document import Document

PREFIX = "general-"
MAX_FEATURES = 20_000
Half = Literal["A", "B"]
HALVES: tuple[Half, ...] = ("A", "B")
PHYSICS = ("astro-ph", "cond-mat", "hep-", "physics", "quant-ph", "gr-qc", "nucl-", "nlin", "math-ph")
ARXIV, NG20, REUTERS = "arxiv-abstracts-140k.jsonl.gz", "20news-bydate.tar.gz", "reuters21578.tar.gz"


@dataclass(frozen=True)
class Corpus:
    """One corpus: the half it belongs to, how its documents are read, and how many of them are used.

    Of the documents with the smallest hashes, those in a class of fewer than ``min_class`` are left out.
    """

    name: str
    half: Half
    description: str
    read: Callable[[Path], Iterable[Document]]
    size: int
    min_class: int = 0
    archive: str | None = None
    is_large: bool = False  # a tenth of the documents instead of a fifth are queries
    by_half: bool = True  # whether the documents are divided between the halves

    def documents(self, archive: Path) -> list[Document]:
        """Return the documents of the corpus, in the order of their hashes."""
        candidates = (one for one in self.read(archive) if not self.by_half or half_of(one.id) == self.half)
        taken = sorted(candidates, key=lambda one: _share(f"{self.name}:{one.id}"))[: self.size]
        counts = Counter(one.labels[0] for one in taken)
        return [one for one in taken if counts[one.labels[0]] >= self.min_class]

    def source(self) -> Source:
        """Return the corpus as the source of a data set."""
        cut = 0.9 if self.is_large else 0.8
        return Source(
            PREFIX + self.name,
            self.documents,
            (cut, cut),  # no validation part
            MAX_FEATURES,
            archive=self.archive,
            split_key=f"{self.name}:query",
        )


def _share(key: str) -> float:
    """Return a number from 0 to 1 that depends on a text alone."""
    return int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) / 2**32


def half_of(document_id: object) -> Half:
    """Return the half whose corpora a document may be in."""
    return "A" if _share(f"half:{document_id}") < 0.5 else "B"


def _fine(category: str) -> str:
    return category


def _coarse(category: str) -> str:
    """Return the field of an arXiv category, with the small fields of physics merged."""
    if category.startswith(("physics", "nlin")):
        return "physics"
    return "hep-nucl" if category.startswith(("hep", "nucl")) else category.split(".")[0]


def _arxiv(
    name: str,
    half: Half,
    description: str,
    size: int,
    label: Callable[[str], str],
    *,
    field: str | tuple[str, ...] = "",
    text: tuple[str, ...] = ("title", "abstract"),
) -> Corpus:
    """Return a corpus of arXiv documents, labelled by their primary category; ``field`` is how it must begin."""

    def read(archive: Path) -> Iterable[Document]:
        for document in read_all_abstracts(archive, text):
            if document.labels[0].startswith(field):
                yield replace(document, labels=(label(document.labels[0]),))

    return Corpus(name, half, description, read, size, max(8, size // 150), ARXIV, is_large=size >= 10_000)


def _newsgroups(archive: Path) -> Iterable[Document]:
    return read_newsgroups(archive)


def _short_newsgroups(archive: Path) -> Iterable[Document]:
    return (document for document in read_newsgroups(archive) if len(document.text.split()) <= 90)


def _docstrings(_: Path) -> Iterable[Document]:
    return (replace(document, labels=document.labels[1:2]) for document in read_docstrings())


CORPORA = {
    corpus.name: corpus
    for corpus in (
        _arxiv("ax500c", "A", "arXiv, 500 documents, coarse categories", 500, _coarse),
        _arxiv("ax1500f", "A", "arXiv, 1,500 documents, fine categories", 1500, _fine),
        _arxiv("ax3000c", "A", "arXiv, 3,000 documents, coarse categories", 3000, _coarse),
        _arxiv("phys3000", "A", "arXiv, 3,000 documents of physics", 3000, _fine, field=PHYSICS),
        _arxiv("titles3000", "A", "arXiv, 3,000 titles, coarse categories", 3000, _coarse, text=("title",)),
        Corpus("ng20tenth", "A", "20 Newsgroups, a tenth", _newsgroups, 1885, archive=NG20),
        Corpus("docsA", "A", "docstrings by module", _docstrings, 3000, 20),
        _arxiv("ax10000f", "A", "arXiv, 10,000 documents, fine categories", 10_000, _fine),
        _arxiv("ax500f", "B", "arXiv, 500 documents, fine categories", 500, _fine),
        _arxiv("ax1500c", "B", "arXiv, 1,500 documents, coarse categories", 1500, _coarse),
        _arxiv("ax3000f", "B", "arXiv, 3,000 documents, fine categories", 3000, _fine),
        _arxiv("cs3000", "B", "arXiv, 3,000 documents of computer science", 3000, _fine, field="cs."),
        _arxiv("math1500", "B", "arXiv, 1,500 documents of mathematics", 1500, _fine, field="math."),
        _arxiv("titles1500", "B", "arXiv, 1,500 titles, fine categories", 1500, _fine, text=("title",)),
        Corpus("ng20short", "B", "20 Newsgroups, posts of at most 90 words", _short_newsgroups, 2000, archive=NG20),
        Corpus("reuterstenth", "B", "Reuters, a tenth", read_reuters, 985, archive=REUTERS, by_half=False),
        Corpus("docsB", "B", "docstrings by module", _docstrings, 2000, 15),
        _arxiv("ax10000c", "B", "arXiv, 10,000 documents, coarse categories", 10_000, _coarse),
    )
}
GENERALISATION_SOURCES = {PREFIX + name: corpus.source() for name, corpus in CORPORA.items()}
