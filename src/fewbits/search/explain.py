"""Why a document was found: what each bit is about, and which words decided it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.codes import unpack
from fewbits.data.document import Document, DocumentId
from fewbits.errors import DataError
from fewbits.index import FlatIndex
from fewbits.search.encoder import Model
from fewbits.search.store.documents import Reader

SHOWN = 5  # words a bit is named by, and words that decided it
BLOCK_VALUES = 1 << 22  # values of rows that are held at one time; a book has many words
SAMPLE = 10_000  # documents that tell the words of bits whose method does not know them


@dataclass(frozen=True)
class BitMeaning:
    """The words that are likelier in documents whose bit is 1, and those likelier where it is 0."""

    bit: int
    raises: tuple[str, ...]
    lowers: tuple[str, ...]


@dataclass(frozen=True)
class DecidingWord:
    """A word of a text, and by how much it moved a bit: above 0 towards 1."""

    word: str
    weight: float


@dataclass(frozen=True)
class ExplainedBit:
    """A bit of a query and of a hit: what it is about, and the words that made it what it is."""

    bit: int
    query: int
    hit: int
    importance: float  # how sure both are of it, by their margins
    raises: tuple[str, ...]
    lowers: tuple[str, ...]
    query_words: tuple[DecidingWord, ...]
    hit_words: tuple[DecidingWord, ...]

    @property
    def agrees(self) -> bool:
        """Whether query and hit have the same bit."""
        return self.query == self.hit


@dataclass(frozen=True)
class Explanation:
    """Why a document is as near to a query as it is."""

    id: DocumentId
    distance: int
    cosine: float  # of the tf-idf rows
    shared_words: tuple[DecidingWord, ...]  # what each word of both adds to the cosine, largest first
    bits: tuple[ExplainedBit, ...]  # all, in order

    @property
    def agreeing(self) -> list[ExplainedBit]:
        """Bits that are the same, the surest first."""
        return sorted((bit for bit in self.bits if bit.agrees), key=lambda bit: -bit.importance)

    @property
    def differing(self) -> list[ExplainedBit]:
        """Bits that differ, the surest first."""
        return sorted((bit for bit in self.bits if not bit.agrees), key=lambda bit: -bit.importance)


def name_bits(model: Model, reader: Reader) -> list[BitMeaning]:
    """Name each bit by its words: from the decoder, else from the encoder's weights, else from the documents.

    A weight counts by how often its word is seen (the root of the share of documents with it), because what is learnt
    about a word of few documents is mostly noise.
    """
    vocabulary = _vocabulary(model)
    table = model.hasher.bit_loadings()
    if table is None:
        table = _contrast(model, reader)
    else:
        common = np.exp(1 - np.asarray(model.features.idf_)) ** 0.5
        table = (table - table.mean(axis=0)) * common[:, None]
    order = np.argsort(table, axis=0)  # (words, bits)
    meanings = []
    for bit in range(table.shape[1]):
        lowest = [row for row in order[:SHOWN, bit] if table[row, bit] < 0]
        highest = [row for row in order[::-1][:SHOWN, bit] if table[row, bit] > 0]
        names = (tuple(vocabulary[row] for row in rows) for rows in (highest, lowest))
        meanings.append(BitMeaning(bit, *names))
    return meanings


def explain(model: Model, meanings: Sequence[BitMeaning], id: DocumentId, query: Any, hit: Any) -> Explanation:
    """Compare two rows of tf-idf: a query's and that of the document with this id."""
    vocabulary = _vocabulary(model)
    query, hit = (sparse.csr_array(row) for row in (query, hit))
    sides = [
        (model.hasher.transform(row)[0], model.hasher.margins(row)[0], _deciding(model, row)) for row in (query, hit)
    ]
    (query_bits, query_margins, _), (hit_bits, hit_margins, _) = sides
    importance = np.sqrt(np.abs(query_margins * hit_margins))
    explained = tuple(
        ExplainedBit(
            meaning.bit,
            int(query_bits[meaning.bit]),
            int(hit_bits[meaning.bit]),
            round(float(importance[meaning.bit]), 4),
            meaning.raises,
            meaning.lowers,
            *(
                _largest(vocabulary, words, moved[:, meaning.bit], bits[meaning.bit])
                for bits, _, (words, moved) in sides
            ),
        )
        for meaning in meanings
    )
    products = query.multiply(hit).tocsr()
    order = np.argsort(-products.data, kind="stable")
    shared = tuple(
        DecidingWord(vocabulary[products.indices[place]], round(float(products.data[place]), 4)) for place in order
    )
    distance = int((query_bits != hit_bits).sum())
    return Explanation(id, distance, round(float(products.data.sum()), 4), shared, explained)


def _deciding(model: Model, row: Any) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The words of a row, and by how much each moves each bit's margin, (words, bits): by what changes without it.

    Where margins are linear in the row, this is the weight times the word's tf-idf value.
    """
    count = len(row.indices)
    block = max(1, BLOCK_VALUES // count)
    margins = [
        model.hasher.margins(_without_each(row, np.arange(start, min(count, start + block))))
        for start in range(0, count, block)
    ]
    return row.indices, model.hasher.margins(row) - np.concatenate(margins)


def _without_each(row: Any, left_out: NDArray[np.int64]) -> Any:
    """The row as often as there are words to leave out, each time without one of them."""
    copies = len(left_out)
    values = np.tile(row.data, (copies, 1))
    values[np.arange(copies), left_out] = 0
    ends = np.arange(copies + 1) * len(row.indices)
    table = sparse.csr_array((values.ravel(), np.tile(row.indices, copies), ends), shape=(copies, row.shape[1]))
    table.eliminate_zeros()
    return table


def _largest(
    vocabulary: list[str], words: NDArray[np.int64], moved: NDArray[np.float32], bit: int
) -> tuple[DecidingWord, ...]:
    """The words that moved a bit most to where it is."""
    towards = moved if bit else -moved
    order = np.argsort(-towards, kind="stable")[:SHOWN]
    return tuple(
        DecidingWord(vocabulary[words[place]], round(float(moved[place]), 4)) for place in order if towards[place] > 0
    )


def stored_rows(model: Model, reader: Reader, positions: NDArray[np.int64]) -> Any:
    """The tf-idf rows of documents, from the words that are stored with them."""
    words, counts = reader.words(positions)
    ends = np.concatenate([[0], np.cumsum(counts)])
    return sparse.csr_array((words["weight"], words["column"], ends), shape=(len(counts), model.features.n_features))


def _contrast(model: Model, reader: Reader) -> NDArray[np.float32]:
    """How much more of each word is in documents whose bit is 1 than in those whose bit is 0, (words, bits)."""
    positions, packed = reader.codes(model.hasher.n_bits)
    chosen = np.linspace(0, len(positions) - 1, min(SAMPLE, len(positions))).astype(np.int64)
    rows = stored_rows(model, reader, positions[chosen])
    bits = np.unpackbits(packed[chosen], axis=1, count=model.hasher.n_bits, bitorder="big").astype(np.float32)
    ones, zeros = (rows.T @ side / np.maximum(side.sum(axis=0), 1) for side in (bits, 1 - bits))
    return np.asarray(ones - zeros)


def _vocabulary(model: Model) -> list[str]:
    if not model.takes_text:
        raise DataError("the bits of embeddings have no words", allowed="an engine made from texts")
    return list(model.features.vocabulary_)


EXAMPLE_SAMPLE = 2_000  # documents among which the surest are looked for


@dataclass(frozen=True)
class BitExamples:
    """A bit, how many documents have it as 1 and as 0, and those of a sample that are surest of each."""

    meaning: BitMeaning
    ones: int
    zeros: int
    examples_of_one: tuple[Document, ...]
    examples_of_zero: tuple[Document, ...]


def examples(model: Model, meaning: BitMeaning, index: FlatIndex, reader: Reader, k: int) -> BitExamples:
    """Find documents on both sides of a bit, the surest first."""
    positions = np.asarray(index.ids(), dtype=np.int64)
    if not len(positions):
        return BitExamples(meaning, 0, 0, (), ())
    byte, place = divmod(meaning.bit, 8)
    is_one = unpack(index.codes(positions)[:, [byte]], 8)[:, place] == 1
    chosen = positions[np.linspace(0, len(positions) - 1, min(SAMPLE, len(positions))).astype(np.int64)]
    margins = model.hasher.margins(stored_rows(model, reader, chosen))[:, meaning.bit]
    order = np.argsort(-margins, kind="stable")

    def documents(places: np.ndarray) -> tuple[Document, ...]:
        return tuple(reader.get(chosen[places[:k]].tolist()))

    return BitExamples(
        meaning,
        int(is_one.sum()),
        int((~is_one).sum()),
        documents(order[margins[order] > 0]),
        documents(order[::-1][margins[order[::-1]] < 0]),
    )
