"""One state of an engine: its model, its codes in memory, and its documents as a transaction sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewbits.corpus.document import Document, DocumentId
from fewbits.errors import DataError, ParameterError
from fewbits.index import FlatIndex
from fewbits.search.database import Database
from fewbits.search.documents import Positions, Reader
from fewbits.search.explanation import BitMeaning, name_bits
from fewbits.search.filters import Condition
from fewbits.search.memory import CodesInMemory, Held
from fewbits.search.model import Model
from fewbits.search.ranking import Ranked
from fewbits.search.word_rows import LearntWords, StoredWords


@dataclass(frozen=True)
class Hit:
    """A document that was found, how many bits of its code differ from the query's, and its score: higher is nearer."""

    id: DocumentId
    distance: int
    score: float
    text: str
    labels: tuple[str, ...]
    metadata: dict[str, Any]


class Opened:
    """A model with its documents: what a folder holds between two saves."""

    def __init__(
        self, model: Model, database: Database, learnt_words: LearntWords | None = None, state: object = None
    ) -> None:
        self.model = model
        self.learnt_words = learnt_words
        self.database = database
        self.state = state  # of the folder, when it was opened
        self.codes = CodesInMemory(model.hasher.n_bits)
        self.meanings: list[BitMeaning] | None = None


@dataclass(frozen=True)
class View:
    """One state of an engine, the same until the block that holds it ends."""

    opened: Opened
    held: Held
    reader: Reader

    @property
    def index(self) -> FlatIndex:
        """All codes."""
        return self.held.index

    @property
    def words(self) -> StoredWords:
        """The words of all documents."""
        return StoredWords(self.reader, self.opened.learnt_words, self.held.new)

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
