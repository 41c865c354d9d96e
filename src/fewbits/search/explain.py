"""Explanations: the words that stand for each bit, and the words that decided the bits of a query and a hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.codes import bit_column, unpack
from fewbits.data.document import Document, DocumentId
from fewbits.errors import DataError
from fewbits.index import Index
from fewbits.search.encoder import EncodedQueries, Encoder
from fewbits.search.store.reader import Positions, Reader
from fewbits.validation import evenly_spaced

MAX_WORDS = 5  # per bit
MAX_LEFT_OUT = 1_000  # words of a text whose effects are computed, as their cost grows with the square of the number
MAX_PULLING = 8  # words that move all of a code
BLOCK_VALUES = 1 << 22  # values of rows in memory at a time; a book has many words
SAMPLE = 10_000  # documents from which words and examples of bits are computed


@dataclass(frozen=True)
class TermVectors:
    """The stored tf-idf rows of all documents of one state."""

    reader: Reader
    n_features: int

    def rows(self, positions: Positions) -> Any:
        """Return tf-idf rows, (documents, features)."""
        terms, counts = self.reader.terms(positions)
        ends = np.concatenate([[0], counts.cumsum()])
        columns = terms["column"].astype(np.int64)
        return sparse.csr_array((terms["weight"], columns, ends), shape=(len(positions), self.n_features))


@dataclass(frozen=True)
class BitMeaning:
    """The words that are more likely in documents whose bit is 1, and those more likely if it is 0."""

    bit: int
    raises: tuple[str, ...]
    lowers: tuple[str, ...]


@dataclass(frozen=True)
class BitExamples:
    """A bit, the number of documents per value, and for each value the documents with the largest margin."""

    meaning: BitMeaning
    ones: int
    zeros: int
    examples_of_one: tuple[Document, ...]
    examples_of_zero: tuple[Document, ...]


@dataclass(frozen=True)
class DecidingWord:
    """A word and its effect on the margin of a bit: towards 1 if positive."""

    word: str
    weight: float


@dataclass(frozen=True)
class ExplainedBit:
    """A bit of a query and a hit: the words that stand for it, and the words that decided it."""

    bit: int
    query: int
    hit: int
    importance: float  # geometric mean of both margins
    raises: tuple[str, ...]
    lowers: tuple[str, ...]
    query_words: tuple[DecidingWord, ...]
    hit_words: tuple[DecidingWord, ...]

    @property
    def agrees(self) -> bool:
        """Return whether query and hit have the same bit."""
        return self.query == self.hit


@dataclass(frozen=True)
class Explanation:
    """Why a document has its distance from a query."""

    id: DocumentId
    distance: int
    cosine: float  # of the tf-idf rows
    shared_words: tuple[DecidingWord, ...]  # contributions to the cosine, largest first
    bits: tuple[ExplainedBit, ...]  # all, in order
    towards: tuple[DecidingWord, ...] = ()  # words of the document that move its code towards that of the query
    away: tuple[DecidingWord, ...] = ()  # words that move it away; both by their effect on all bits, largest first

    @property
    def agreeing(self) -> list[ExplainedBit]:
        """Return the bits that agree, the most important first."""
        return sorted((bit for bit in self.bits if bit.agrees), key=lambda bit: -bit.importance)

    @property
    def differing(self) -> list[ExplainedBit]:
        """Return the bits that differ, the most important first."""
        return sorted((bit for bit in self.bits if not bit.agrees), key=lambda bit: -bit.importance)


class MeaningCache:
    """A cache of the words of all bits.

    With loadings they depend on the model alone and never change. Without, they are computed from the documents, again
    for each version.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._cached: tuple[int, list[BitMeaning]] | None = None

    def at(self, version: int, index: Index, vectors: TermVectors) -> list[BitMeaning]:
        """Return the words of all bits at a version of the documents."""
        cached = self._cached
        if cached is not None and (cached[0] == version or self._encoder.hasher.bit_loadings() is not None):
            return cached[1]
        meanings = name_bits(self._encoder, index, vectors)
        self._cached = version, meanings
        return meanings


def name_bits(encoder: Encoder, index: Index, vectors: TermVectors) -> list[BitMeaning]:
    """Find the words of each bit: from the decoder, else from the encoder's weights, else from the documents.

    Loadings are weighted by the root of the word's document frequency, because those of rare words are mostly noise.
    """
    vocabulary = _vocabulary(encoder)
    table = encoder.hasher.bit_loadings()
    if table is None:
        table = _contrast(index, vectors)
    else:
        document_frequency = np.exp(1 - np.asarray(encoder.features.idf_))
        table = (table - table.mean(axis=0)) * document_frequency[:, None] ** 0.5
    order = np.argsort(table, axis=0)  # (words, bits)
    meanings = []
    for bit in range(table.shape[1]):
        lowest = [row for row in order[:MAX_WORDS, bit] if table[row, bit] < 0]
        highest = [row for row in order[::-1][:MAX_WORDS, bit] if table[row, bit] > 0]
        names = (tuple(vocabulary[row] for row in rows) for rows in (highest, lowest))
        meanings.append(BitMeaning(bit, *names))
    return meanings


def explain(
    encoder: Encoder, meanings: Sequence[BitMeaning], id: DocumentId, encoded: EncodedQueries, hit_row: Any
) -> Explanation:
    """Compare an encoded query with the tf-idf row of the document with this id."""
    vocabulary = _vocabulary(encoder)
    query, hit = (_Side.of(encoder, sparse.csr_array(row)) for row in (encoded.rows, hit_row))
    importance = np.sqrt(np.abs(query.margins * hit.margins))
    bits = tuple(
        ExplainedBit(
            meaning.bit,
            int(query.bits[meaning.bit]),
            int(hit.bits[meaning.bit]),
            round(float(importance[meaning.bit]), 4),
            meaning.raises,
            meaning.lowers,
            query.deciding_words(meaning.bit, vocabulary),
            hit.deciding_words(meaning.bit, vocabulary),
        )
        for meaning in meanings
    )
    products = query.row.multiply(hit.row).tocsr()
    order = np.argsort(-products.data, kind="stable")
    shared = tuple(
        DecidingWord(vocabulary[products.indices[place]], round(float(products.data[place]), 4)) for place in order
    )
    distance = int((query.bits != hit.bits).sum())
    pulls = hit.pulls(np.where(query.bits, encoded.confidence[0], -encoded.confidence[0]))
    towards, away = (hit.words_by(sign * pulls, vocabulary) for sign in (1, -1))
    return Explanation(id, distance, round(float(products.data.sum()), 4), shared, bits, towards, away)


@dataclass(frozen=True, eq=False)
class _Side:
    """The query or the hit of an explanation."""

    row: Any  # (1, features)
    bits: NDArray[np.bool_]  # (bits,)
    margins: NDArray[np.float32]  # (bits,)
    words: NDArray[np.int64]  # places in the row of the words with the largest values
    effects: NDArray[np.float32]  # (words, bits): change of the margin by each of them

    @classmethod
    def of(cls, encoder: Encoder, row: Any) -> _Side:
        """Compute the margins of a row with all its words, and without each of those with the largest values.

        For a linear hasher the effect of a word is its weight times its tf-idf value.
        """
        margins = encoder.hasher.margins(row)
        words = np.sort(np.argsort(-row.data, kind="stable")[:MAX_LEFT_OUT])
        block = max(1, BLOCK_VALUES // len(row.indices))
        without = [
            encoder.hasher.margins(_without_each(row, words[start : start + block]))
            for start in range(0, len(words), block)
        ]
        return cls(row, margins[0] >= 0, margins[0], words, margins - np.concatenate(without))

    def deciding_words(self, bit: int, vocabulary: list[str]) -> tuple[DecidingWord, ...]:
        """Return the words that moved a bit most towards its value."""
        effects = self.effects[:, bit]
        towards = effects if self.bits[bit] else -effects
        order = np.argsort(-towards, kind="stable")[:MAX_WORDS]
        return tuple(
            DecidingWord(vocabulary[self.row.indices[self.words[place]]], round(float(effects[place]), 4))
            for place in order
            if towards[place] > 0
        )

    def pulls(self, directions: NDArray[np.float32]) -> NDArray[np.float32]:
        """Measure how far each word moves all bits in some directions: a bit counts by its sign and size.

        Margins are bounded first: a word does not matter for a bit that is certain without it.
        """
        scale = max(float(np.abs(self.margins).mean()), 1e-9)
        bounded = np.tanh(self.margins / scale) - np.tanh((self.margins - self.effects) / scale)
        return np.asarray(bounded @ directions / max(float(np.abs(directions).sum()), 1e-9))

    def words_by(self, values: NDArray[np.float32], vocabulary: list[str]) -> tuple[DecidingWord, ...]:
        """Return the words with the largest positive values."""
        order = np.argsort(-values, kind="stable")[:MAX_PULLING]
        return tuple(
            DecidingWord(vocabulary[self.row.indices[place]], round(float(values[place]), 4))
            for place in order
            if values[place] > 0
        )


def _without_each(row: Any, left_out: NDArray[np.int64]) -> Any:
    """Return a copy of the row per word to leave out, without that word."""
    copies = len(left_out)
    values = np.tile(row.data, (copies, 1))
    values[np.arange(copies), left_out] = 0
    ends = np.arange(copies + 1) * len(row.indices)
    table = sparse.csr_array((values.ravel(), np.tile(row.indices, copies), ends), shape=(copies, row.shape[1]))
    table.eliminate_zeros()
    return table


def _contrast(index: Index, vectors: TermVectors) -> NDArray[np.float32]:
    """Subtract the mean tf-idf row of documents whose bit is 0 from that of those whose bit is 1, (words, bits)."""
    positions, packed = index.arrays()
    chosen = evenly_spaced(len(positions), SAMPLE)
    rows = vectors.rows(positions[chosen])
    bits = unpack(packed[chosen], index.n_bits).astype(np.float32)
    ones, zeros = (rows.T @ side / np.maximum(side.sum(axis=0), 1) for side in (bits, 1 - bits))
    return np.asarray(ones - zeros)


def _vocabulary(encoder: Encoder) -> list[str]:
    if not encoder.takes_text:
        raise DataError("the bits of embeddings have no words", allowed="an engine created from texts")
    return list(encoder.features.vocabulary_)


def find_examples(
    encoder: Encoder, meaning: BitMeaning, index: Index, vectors: TermVectors, reader: Reader, k: int
) -> BitExamples:
    """Find k documents per value of a bit, those with the largest margins."""
    positions, codes = index.arrays()
    if not len(positions):
        return BitExamples(meaning, 0, 0, (), ())
    ones = int(bit_column(codes, meaning.bit).sum())
    chosen = positions[evenly_spaced(len(positions), SAMPLE)]
    margins = encoder.hasher.margins(vectors.rows(chosen))[:, meaning.bit]
    order = np.argsort(-margins, kind="stable")
    largest, smallest = order[margins[order] > 0][:k], order[::-1][margins[order[::-1]] < 0][:k]
    examples = (tuple(reader.get(chosen[places].tolist())) for places in (largest, smallest))
    return BitExamples(meaning, ones, len(positions) - ones, *examples)
