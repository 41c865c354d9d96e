"""Reads of single facts from an engine."""

from __future__ import annotations

from fewbits import Document, SearchEngine
from fewbits.data import DocumentId
from fewbits.search import EncodedDocuments


def document_of(engine: SearchEngine, id: DocumentId) -> Document:
    """Return the document with an id."""
    with engine.snapshot() as snapshot:
        return snapshot.document(id)


def count_of(engine: SearchEngine) -> int:
    """Return the number of documents, including those without a known word."""
    with engine.snapshot() as snapshot:
        return snapshot.count()


def encoded_documents_of(engine: SearchEngine) -> EncodedDocuments:
    """Return ids, labels and codes of all documents that have a code."""
    with engine.snapshot() as snapshot:
        return snapshot.encoded_documents()
