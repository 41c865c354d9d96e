"""Calibration: how likely it is that a hit at some distance has the label of the query.

The figures are measured at the fit, on labelled documents that the hasher does not see: each is searched for among the
others, as a whole and by three of its words, by codes alone and by words and codes. Of each query the first hits are
counted, by distance and by whether they share a label with it; isotonic regression makes the share fall with the
distance. A hit that shares words with a short query is more often of its label than one at the same distance that does
not, so there is a curve for each ranking. In the place of BM25, which needs an index, stands the cosine of tf-idf rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.isotonic import IsotonicRegression

from fewbits.codes import Packed, as_signs, hamming
from fewbits.features import TextVectorizer
from fewbits.search.encoder import Encoder, ModelInfo, nonzero_rows
from fewbits.search.rerank import SEMANTIC_WEIGHT

HELD_OUT_SHARE = 0.05  # of the labelled documents that would be learned from
MIN_HELD_OUT, MAX_HELD_OUT = 100, 500
DATABASE = 20_000  # documents among which the held-out ones are searched
NEAREST = 20  # per query
WORDS_OF_QUERY = 3
MAX_QUERY_WORDS = 12  # a query of more words is compared with whole documents
BLOCK = 50  # queries at a time


@dataclass(frozen=True)
class Calibration:
    """The share of hits at each distance, from 0 to the number of bits, that have a label of the query."""

    documents: tuple[float, ...]  # of queries that are documents
    queries: tuple[float, ...]  # of short queries, ranked by codes; empty for embeddings
    hybrid: tuple[float, ...]  # of short queries, ranked by words and codes; empty for embeddings
    held_out: int  # documents that were searched for

    @classmethod
    def of(cls, info: ModelInfo) -> Calibration | None:
        """Return the calibration of a fitted model; None if it has none."""
        try:
            facts = info.same_label or {}
            names = ("documents", "queries", "hybrid")
            documents, queries, hybrid = (tuple(map(float, facts[name])) for name in names)
            return cls(documents, queries, hybrid, int(facts["held_out"]))
        except (KeyError, TypeError, ValueError):  # an engine without labels
            return None

    def same_label(self, distance: int, query: str | None = None, *, by_codes: bool = False) -> float | None:
        """Return the likelihood for a distance from a text, or from a document if there is no text."""
        is_short = query is not None and len(query.split()) <= MAX_QUERY_WORDS
        shares = (self.queries if by_codes else self.hybrid) if is_short else self.documents
        return shares[distance] if distance < len(shares) else None


def split_held_out(is_labelled: NDArray[np.bool_], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the documents to hold out: labelled ones, preferably not among the sample for the fit.

    There are none if fewer than 100 could be held out.
    """
    generator = np.random.default_rng(0)
    others = np.setdiff1d(np.flatnonzero(is_labelled), chosen)
    if len(others) < MIN_HELD_OUT:
        labelled = chosen[is_labelled[chosen]]
        size = int(HELD_OUT_SHARE * len(labelled))
        return np.sort(generator.permutation(labelled)[:MAX_HELD_OUT][: size if size >= MIN_HELD_OUT else 0])
    return np.sort(generator.permutation(others)[:MAX_HELD_OUT])


def calibrate(
    encoder: Encoder, rows: Any, labels: Any, held_out: NDArray[np.int64], seen: NDArray[np.int64]
) -> dict[str, Any] | None:
    """Search for held-out documents among those the hasher has seen; None without held-out documents."""
    if not len(held_out):
        return None
    generator = np.random.default_rng(0)
    seen = seen[np.diff(labels.indptr)[seen] > 0]
    database = np.sort(generator.permutation(seen)[:DATABASE])
    codes = encoder.encode(rows[database])

    def curve(features: Any, *, with_words: bool = False) -> tuple[float, ...]:
        known = nonzero_rows(features)
        queries = encoder.encode_queries(features[np.flatnonzero(known)])
        is_text = isinstance(encoder.features, TextVectorizer)
        confidence = queries.confidence if is_text else np.ones_like(queries.confidence)
        cosines = sparse.csr_array(queries.rows @ rows[database].T) if with_words else None
        pairs = count_pairs(queries.codes, confidence, labels[held_out[known]], codes, labels[database], cosines)
        return fit_curve(*pairs)

    short: tuple[float, ...] = ()
    hybrid: tuple[float, ...] = ()
    if isinstance(encoder.features, TextVectorizer):
        words = sample_words(rows[held_out], np.asarray(encoder.features.idf_), generator)
        short, hybrid = curve(words), curve(words, with_words=True)
    return asdict(Calibration(curve(rows[held_out]), short, hybrid, len(held_out)))


def count_pairs(
    queries: Packed,
    confidence: NDArray[np.float32],
    query_labels: Any,
    database: Packed,
    labels: Any,
    cosines: Any = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Count pairs by distance: those of the first documents by confidence, and of these the ones that share a label.

    With the cosines of their words these are the first by words and codes. At distances that none of them has, all
    pairs count.
    """
    n_bits = confidence.shape[1]
    pairs, same = np.zeros((2, n_bits + 1)), np.zeros((2, n_bits + 1))  # of the nearest, and of all
    signs = as_signs(database)[:, :n_bits]
    for start in range(0, len(queries), BLOCK):
        block = slice(start, start + BLOCK)
        distances = hamming(queries[block], database)
        agreement = (as_signs(queries[block])[:, :n_bits] * confidence[block]) @ signs.T
        if cosines is not None:
            lexical = cosines[block].toarray()
            lexical /= np.maximum(lexical.max(axis=1, keepdims=True), 1e-9)
            share = (1 + agreement / np.maximum(confidence[block].sum(axis=1, keepdims=True), 1e-9)) / 2
            agreement = lexical + SEMANTIC_WEIGHT * share
        shares = np.asarray((query_labels[block].astype(np.int32) @ labels.T).toarray() > 0)
        nearest = np.argpartition(-agreement, min(NEAREST, len(database)) - 1, axis=1)[:, :NEAREST]
        for row, is_same, near in zip(distances, shares, nearest, strict=True):
            for place, chosen in enumerate((near, slice(None))):
                pairs[place] += np.bincount(row[chosen], minlength=n_bits + 1)
                same[place] += np.bincount(row[chosen], weights=is_same[chosen], minlength=n_bits + 1)
    is_near = pairs[0] > 0
    return np.where(is_near, pairs[0], pairs[1]), np.where(is_near, same[0], same[1])


def fit_curve(pairs: NDArray[np.float64], same: NDArray[np.float64]) -> tuple[float, ...]:
    """Fit a share per distance that never rises; where there are few pairs it is close to that of all pairs.

    >>> fit_curve(np.array([1e6, 1e6, 0, 1e6]), np.array([9e5, 5e5, 0, 6e5]))
    (0.9, 0.55, 0.55, 0.55)
    """
    mean = same.sum() / max(pairs.sum(), 1.0)
    shares = (same + mean) / (pairs + 1)
    places = np.flatnonzero(pairs)
    if not len(places):
        return ()
    regression = IsotonicRegression(increasing=False, out_of_bounds="clip")
    regression.fit(places, shares[places], sample_weight=pairs[places])
    return tuple(round(float(share), 4) for share in regression.predict(np.arange(len(pairs))))


def sample_words(rows: Any, idf: NDArray[np.float64], generator: np.random.Generator) -> Any:
    """Make a query of each tf-idf row, with three of its words; words with a high weight are more likely."""
    rows = sparse.csr_array(rows)
    columns: list[NDArray[np.int64]] = []
    for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        weights, words = rows.data[start:end].astype(np.float64), rows.indices[start:end]
        count = min(WORDS_OF_QUERY, len(words))
        likely = weights / weights.sum() if count else None
        columns.append(np.sort(generator.choice(words, count, replace=False, p=likely)) if count else words)
    return _unit_rows(columns, idf, rows.shape)


def _unit_rows(columns: Sequence[NDArray[np.int64]], idf: NDArray[np.float64], shape: tuple[int, int]) -> Any:
    """Return rows in which each word occurs once."""
    values = [idf[one] / max(float(np.linalg.norm(idf[one])), 1e-12) for one in columns]
    ends = np.concatenate([[0], np.cumsum([len(one) for one in columns])])
    return sparse.csr_array((np.concatenate(values).astype(np.float32), np.concatenate(columns), ends), shape=shape)
