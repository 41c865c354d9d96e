"""The codes of an engine in memory, kept up with what is on the disk."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.codes import Packed
from fewbits.data.document import Document, DocumentId
from fewbits.errors import DataError, ParameterError
from fewbits.index import FlatIndex
from fewbits.search.encoder import Model
from fewbits.search.explain import BitMeaning, name_bits
from fewbits.search.rerank import Ranked, TermVectorFile, TermVectors
from fewbits.search.store.database import Database
from fewbits.search.store.documents import Positions, Reader
from fewbits.search.store.filters import Condition


@dataclass(frozen=True)
class IndexSnapshot:
    """What is in memory of one state."""

    version: int
    index: FlatIndex
    new: Positions  # documents that were added or updated since the codes were learnt


class IndexCache:
    """An index of the codes of the state that was read last.

    An index is never changed once it is here: threads that search it see one state to the end.
    """

    def __init__(self, n_bits: int) -> None:
        self._n_bits = n_bits
        self._lock = threading.Lock()
        self._held: IndexSnapshot | None = None

    def at(self, reader: Reader) -> IndexSnapshot | None:
        """The state that a reader sees; None where memory is ahead of it, and it must look again."""
        version = reader.version()
        held = self._held
        if held is None or held.version < version:
            with self._lock:
                held = self._held
                if held is None or held.version < version:
                    held = self._held = IndexSnapshot(version, self._read(reader, held), reader.new_positions())
        return held if held.version == version else None

    def _read(self, reader: Reader, held: IndexSnapshot | None) -> FlatIndex:
        changes = None if held is None else reader.changes_since(held.version, self._n_bits)
        if held is None or changes is None:
            positions, codes = reader.codes(self._n_bits)
        else:
            positions, codes = held.index.arrays()
            kept = ~np.isin(positions, changes.gone)
            codes = np.concatenate([codes[kept], changes.codes])
            positions = np.concatenate([positions[kept], changes.fresh])
            order = np.argsort(positions, kind="stable")  # as if all had been read again
            positions, codes = positions[order], codes[order]
        index = FlatIndex(self._n_bits)
        index.add(positions, codes)
        return index


@dataclass(frozen=True)
class EncodedDocuments:
    """Documents that have a code, in order of insertion."""

    n_bits: int
    ids: list[DocumentId]
    labels: list[tuple[str, ...]]
    codes: Packed
    is_unseen: NDArray[np.bool_]  # whether it was added after the codes were learnt


def read_encoded(reader: Reader, model: Model) -> EncodedDocuments:
    """Read the codes of one state."""
    positions, codes = reader.codes(model.hasher.n_bits)
    rows = {position: (id, labels, is_new) for position, id, labels, is_new in reader.listed()}
    found = [rows[position] for position in positions.tolist()]
    old = [position for position, (_, _, is_new) in rows.items() if not is_new]
    # An updated document keeps its place, and something like it was learnt from: what was added stands behind.
    last = max(model.documents_when_learnt, max(old, default=0))
    return EncodedDocuments(
        n_bits=model.hasher.n_bits,
        ids=[id for id, _, _ in found],
        labels=[labels for _, labels, _ in found],
        codes=codes,
        is_unseen=positions > last,
    )


@dataclass(frozen=True)
class Hit:
    """A document that was found, how many bits of its code differ from the query's, and its score: higher is nearer."""

    id: DocumentId
    distance: int
    score: float
    text: str
    labels: tuple[str, ...]
    metadata: dict[str, Any]


class EngineState:
    """A model with its documents: what a folder holds between two saves."""

    def __init__(
        self, model: Model, database: Database, learnt_words: TermVectorFile | None = None, state: object = None
    ) -> None:
        self.model = model
        self.learnt_words = learnt_words
        self.database = database
        self.state = state  # of the folder, when it was opened
        self.codes = IndexCache(model.hasher.n_bits)
        self.meanings: list[BitMeaning] | None = None


@dataclass(frozen=True)
class Snapshot:
    """One state of an engine, the same until the block that holds it ends."""

    opened: EngineState
    held: IndexSnapshot
    reader: Reader

    @property
    def index(self) -> FlatIndex:
        """All codes."""
        return self.held.index

    @property
    def words(self) -> TermVectors:
        """The words of all documents."""
        return TermVectors(self.reader, self.opened.learnt_words, self.held.new)

    @property
    def model(self) -> Model:
        """What was learnt."""
        return self.opened.model

    def meanings(self) -> list[BitMeaning]:
        """What each bit is about, which does not change with the documents."""
        if self.opened.meanings is None:
            self.opened.meanings = name_bits(self.model, self.reader)
        return self.opened.meanings

    def allowed(
        self, labels: Sequence[str], where: Sequence[str | Condition], among: Sequence[DocumentId] | None
    ) -> Positions | None:
        """Positions of documents that pass all filters and have a code; None where there is no filter."""
        if isinstance(labels, str) or isinstance(where, str):
            raise ParameterError(
                "labels and conditions are lists", got=repr(labels or where), hint="Put it into a list."
            )
        chosen: Positions | None = None
        if labels or where:
            chosen = self.reader.matching(labels, conditions_of(where))
        if among is not None:
            named = np.array(self.reader.positions(list(among)), dtype=np.int64)
            chosen = named if chosen is None else np.intersect1d(chosen, named)
        return None if chosen is None else chosen[np.isin(chosen, self.index.arrays()[0])]

    def hits(self, found: Ranked) -> list[Hit]:
        """Documents of an answer."""
        return self.hits_of_many([found])[0]

    def hits_of_many(self, answers: Sequence[Ranked]) -> list[list[Hit]]:
        """Documents of many answers, each read once."""
        wanted = sorted({position for found in answers for position in found.positions.tolist()})
        documents = dict(zip(wanted, self.reader.get(wanted), strict=True))
        return [
            [
                _hit(documents[position], distance, score)
                for position, distance, score in zip(
                    found.positions.tolist(), found.distances.tolist(), found.scores.tolist(), strict=True
                )
            ]
            for found in answers
        ]

    def position(self, id: DocumentId) -> int:
        """Position of a document that has a code."""
        [position] = self.reader.positions([id])
        if position not in self.index:
            raise DataError(f"the document {id!r} has no word that this engine knows", hint="Search by a text instead.")
        return position


def conditions_of(where: Sequence[str | Condition]) -> list[Condition]:
    """Conditions, those that are written read."""
    return [one if isinstance(one, Condition) else Condition.parse(one) for one in where]


def _hit(document: Document, distance: int, score: float) -> Hit:
    return Hit(document.id, distance, round(score, 4), document.text, document.labels, dict(document.metadata))
