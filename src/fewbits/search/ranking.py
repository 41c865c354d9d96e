"""Which documents come first: by bits, by bits weighed by how sure they are, or by the words of a shortlist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fewbits.checks import check_whole_number
from fewbits.codes import pack
from fewbits.errors import ParameterError
from fewbits.index import FlatIndex, Neighbours
from fewbits.search.documents import Positions
from fewbits.search.model import Model
from fewbits.search.word_rows import StoredWords

Rescoring = Literal["none", "bits", "words"]
SHORTLIST = 3_000  # documents whose words are looked at; docs/known-items.md shows why


@dataclass(frozen=True)
class Ranked:
    """Documents in order, with the bits that differ and a score: the higher, the nearer."""

    positions: Positions
    distances: NDArray[np.int32]
    scores: NDArray[np.float32]

    @classmethod
    def by_distance(cls, answer: Neighbours, n_bits: int) -> Ranked:
        """An answer scored by the share of bits that agree."""
        return cls(answer.ids, answer.distances, (1 - answer.distances / n_bits).astype(np.float32))

    def first(self, k: int, *, without: int | None = None) -> Ranked:
        """The first k, one document left out."""
        kept = np.flatnonzero(self.positions != without)[:k] if without is not None else slice(k)
        return Ranked(self.positions[kept], self.distances[kept], self.scores[kept])


def check_rescoring(wanted: str | None, usual: Rescoring, model: Model) -> Rescoring:
    """The way of rescoring: the usual one unless another is asked for."""
    if wanted is None:
        return usual if model.takes_text else "none"
    for known in get_args(Rescoring):
        if wanted == known and (known != "words" or model.takes_text):
            return known
    allowed = get_args(Rescoring) if model.takes_text else get_args(Rescoring)[:2]
    raise ParameterError("there is no such rescoring", allowed=", ".join(allowed), got=repr(wanted))


def rank(
    words: StoredWords,
    index: FlatIndex,
    model: Model,
    row: Any,
    k: int,
    *,
    rescore: Rescoring,
    shortlist: int | None,
    among: Positions | None,
) -> Ranked:
    """The k nearest documents to a row of features."""
    code = pack(model.hasher.transform(row))
    if rescore == "none":
        [answer] = index.search(code, k, among=among)
        return Ranked.by_distance(answer, index.n_bits)
    if rescore == "bits":
        return _by_certainty(index, code, model, row, k, among)
    length = SHORTLIST if shortlist is None else check_whole_number("shortlist", shortlist, 1)
    candidates = _by_certainty(index, code, model, row, min(max(k, length), len(index)), among)
    return _by_words(words, row, candidates).first(k)


def rank_many(
    words: StoredWords,
    index: FlatIndex,
    model: Model,
    rows: Any,
    k: int,
    *,
    rescore: Rescoring,
    shortlist: int | None,
    among: Positions | None,
) -> list[Ranked]:
    """As :func:`rank` for each of many rows; by bits alone, one scan answers all of them."""
    if rescore == "none":
        answers = index.search(pack(model.hasher.transform(rows)), k, among=among) if rows.shape[0] else []
        return [Ranked.by_distance(answer, index.n_bits) for answer in answers]
    return [
        rank(words, index, model, rows[[place]], k, rescore=rescore, shortlist=shortlist, among=among)
        for place in range(rows.shape[0])
    ]


def _by_certainty(index: FlatIndex, code: Any, model: Model, row: Any, k: int, among: Positions | None) -> Ranked:
    """By the expected number of differing bits: a bit of which the query is not sure counts less."""
    certainty = model.hasher.certainty(row)[0]
    answer = index.weighted(code, certainty, k, among=among)
    assert answer.costs is not None
    return Ranked(answer.ids, answer.distances, 1 - answer.costs / max(float(certainty.sum()), 1e-9))


def _by_words(words: StoredWords, row: Any, candidates: Ranked) -> Ranked:
    """By the cosine of tf-idf rows; documents that share no word with the query keep their order, after the others."""
    if not len(candidates.positions):
        return candidates
    query = np.zeros(row.shape[1], dtype=np.float32)
    query[row.indices] = row.data
    cosines = words.cosines(query, candidates.positions)
    order = np.argsort(-cosines, kind="stable")
    return Ranked(candidates.positions[order], candidates.distances[order], cosines[order])
