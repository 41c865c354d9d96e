"""Comparison of methods and code lengths on a user's corpus, with a recommendation and its costs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fewbits.codes import Bits, check_n_bits, n_bytes, pack
from fewbits.data import Document
from fewbits.data.datasets import assign_split
from fewbits.data.io import Pair
from fewbits.data.labels import label_table
from fewbits.errors import DataError, ParameterError
from fewbits.features import TextVectorizer
from fewbits.hashers.base import Hasher
from fewbits.hashers.pairwise import PairwiseHasher
from fewbits.hashers.registry import find_method, make_hasher
from fewbits.index import FlatIndex
from fewbits.metrics import asymmetric_precision_at_k_per_query, random_floor

# Without class-code: its code is just the predicted class, which would score best here but ranks nothing in a class.
COMPARED = ("lsh", "itq", "bernoulli-vae", "pairwise")
LENGTHS = (16, 32, 64)
DEPTH = 10  # hits that a user reads
HELD_OUT_CUT = 0.8
MIN_DOCUMENTS = 100  # of which a fifth are queries
MIN_PAIRS = 50
NEGLIGIBLE = 0.01  # difference in quality
SIGNIFICANT = 3  # standard errors above chance: the best of a dozen candidates can be two above it by chance
N_TIMED_QUERIES = 100
TINY = 1e-9


@dataclass(frozen=True)
class Candidate:
    """The quality and the costs of a method at one code length."""

    method: str
    bits: int
    quality: float
    error: float  # standard error of the quality
    seconds_learning: float
    bytes_per_document: int
    milliseconds_per_query: float  # from text to hits


@dataclass(frozen=True)
class Corpus:
    """A corpus prepared for comparison: how hashers are fitted on it and how their codes are evaluated."""

    texts: list[str]  # of queries, for the time per query
    vectorizer: TextVectorizer
    X_train: Any  # also the database for the time per query
    fit: Callable[[Hasher], Hasher]
    evaluate: Callable[[Hasher], tuple[float, float]]  # returns the quality and its standard error
    chance: float
    measure: str  # name of the quality measure
    supervision: str  # "labels" or "pairs"


@dataclass(frozen=True)
class Recommendation:
    """The cheapest candidate whose quality is close to the best."""

    best: Candidate
    chosen: Candidate
    floor: float  # chance level
    measure: str
    needs: str  # the data that the chosen method is fitted on
    told: str  # "labels" or "pairs"
    helps: bool  # whether the best candidate is above chance

    def __str__(self) -> str:
        one = self.chosen
        size = f"{one.bytes_per_document} byte{'s' if one.bytes_per_document > 1 else ''} per document"
        if not self.helps:
            return (
                f"Codes are not useful for these texts: even the best candidate, {self.best.method} with"
                f" {self.best.bits} bits, has {self.measure} {self.best.quality:.3f} (chance level {self.floor:.3f})."
                f" Check that the {self.told} are related to the contents of the texts."
            )
        text = (
            f"Use {one.method} with {one.bits} bits: {self.measure} {one.quality:.3f} (chance level {self.floor:.3f}),"
            f" {size}, {one.seconds_learning:.1f} s to fit, {one.milliseconds_per_query:.2f} ms per query."
            f" It is trained on {self.needs}."
        )
        if self.best.quality > one.quality:
            text += (
                f" The best candidate, {self.best.method} with {self.best.bits} bits, reaches {self.best.quality:.3f}."
            )
        return text


def corpus_with_labels(documents: Iterable[Document], vectorizer: TextVectorizer) -> Corpus:
    """Hold out a fifth of the labelled documents as queries; the quality is the precision at 10.

    A differing bit costs the query's confidence in it. Documents without a label are used for fitting, as in an engine,
    but are not searched.
    """
    documents, _ = _distinct_documents(documents)
    labelled = [document for document in documents if document.labels]
    if len(labelled) < MIN_DOCUMENTS:
        raise DataError(
            "too few documents have a label",
            allowed=f"{MIN_DOCUMENTS} or more",
            got=len(labelled),
            hint="Name the field of the labels with --label, or use --pairs.",
        )
    _, names = label_table([document.labels for document in labelled])
    if len(names) < 2:
        raise DataError("all documents have the same label", allowed="two labels or more", got=", ".join(names))
    queries = [document for document in labelled if _is_held_out(document.id)]
    train = [document for document in documents if not (document.labels and _is_held_out(document.id))]
    X_train = vectorizer.fit_transform(document.text for document in train)
    X_query = vectorizer.transform(document.text for document in queries)
    table, _ = label_table([document.labels for document in [*train, *queries]])
    X_train, y_train = _drop_empty_rows(X_train, table[: len(train)])
    X_query, y_query = _drop_empty_rows(X_query, table[len(train) :])
    searched = np.flatnonzero(np.diff(y_train.indptr))
    n_labels = int((y_train.sum(axis=0) > 0).sum())
    if n_labels < 2 or not X_query.shape[0]:
        raise DataError(
            "too few labels or queries remain after a fifth of the documents are held out as queries",
            allowed="two labels or more among the training documents, and a query with a word of their vocabulary",
            got=f"labels among the training documents: {n_labels}, such queries: {X_query.shape[0]}",
        )

    def evaluate(hasher: Hasher) -> tuple[float, float]:
        database = (hasher.transform(X_train[searched]), y_train[searched])
        precisions = asymmetric_precision_at_k_per_query(
            hasher.signed_confidence(X_query), y_query, *database, k=min(DEPTH, len(searched))
        )
        return float(precisions.mean()), float(precisions.std() / len(precisions) ** 0.5)

    return Corpus(
        texts=[document.text for document in queries],
        vectorizer=vectorizer,
        X_train=X_train,
        fit=lambda hasher: hasher.fit(X_train, y_train),
        evaluate=evaluate,
        chance=random_floor(y_query, y_train[searched]),
        measure=f"precision at {DEPTH}",
        supervision="labels",
    )


def corpus_with_pairs(documents: Iterable[Document], pairs: Sequence[Pair], vectorizer: TextVectorizer) -> Corpus:
    """Hold out a fifth of the pairs; the quality is how often similar pairs are nearer than dissimilar ones."""
    documents, rows = _distinct_documents(documents)
    unknown = [id for pair in pairs for id in (pair.left, pair.right) if str(id) not in rows]
    if unknown:
        raise DataError(
            "some pairs refer to documents that do not exist or have no text",
            got=f"{len(unknown)} ids, the first {unknown[0]!r}",
            hint="Name the field of the document ids with --id.",
        )
    # Documents with the same text count as one: their codes are equal with every method.
    distinct = {(*sorted((rows[str(pair.left)], rows[str(pair.right)])), pair.same) for pair in pairs}
    labelled = np.array(sorted(pair for pair in distinct if pair[0] != pair[1]), dtype=np.int64).reshape(-1, 3)
    same = labelled[:, 2] == 1
    is_held_out = np.array([_is_held_out(f"{documents[a].id} {documents[b].id}") for a, b, _ in labelled], dtype=bool)
    if len(labelled) < MIN_PAIRS or any(len(set(some)) < 2 for some in (same[is_held_out], same[~is_held_out])):
        got = f"{same.sum()} similar and {(~same).sum()} dissimilar pairs"
        allowed = f"{MIN_PAIRS} or more pairs of different texts, with both kinds in either part"
        raise DataError("too few labelled pairs", allowed=allowed, got=got)
    X_train = vectorizer.fit_transform(document.text for document in documents)

    def fit(hasher: Hasher) -> Hasher:
        if isinstance(hasher, PairwiseHasher):
            return hasher.fit_pairs(X_train, labelled[~is_held_out, :2], same[~is_held_out])
        return hasher.fit(X_train)  # raises an error if the method needs labels

    def evaluate(hasher: Hasher) -> tuple[float, float]:
        left, right, _ = labelled[is_held_out].T
        is_similar = same[is_held_out]
        distances = _weighted_distances(hasher, X_train[left], X_train[right])
        n_similar, n_dissimilar = int(is_similar.sum()), int((~is_similar).sum())
        # Standard error of the area under a random order (Mann and Whitney, 1947).
        error = ((n_similar + n_dissimilar + 1) / (12 * n_similar * n_dissimilar)) ** 0.5
        return float(roc_auc_score(is_similar, -distances)), error

    return Corpus(
        texts=[document.text for document in documents[:N_TIMED_QUERIES]],
        vectorizer=vectorizer,
        X_train=X_train,
        fit=fit,
        evaluate=evaluate,
        chance=0.5,
        measure="share of pairs in the right order",
        supervision="pairs",
    )


def _weighted_distances(hasher: Hasher, left: Any, right: Any) -> NDArray[np.float32]:
    """Return the share of the confidence that lies on differing bits, averaged over either of a pair as the query."""
    first, second = hasher.signed_confidence(left), hasher.signed_confidence(right)
    differs = (first >= 0) != (second >= 0)
    sides = (np.abs(first), np.abs(second))
    return np.asarray(sum((side * differs).sum(axis=1) / np.maximum(side.sum(axis=1), TINY) for side in sides))


def check_candidates(methods: Sequence[str], lengths: Sequence[int], *, with_pairs: bool = False) -> None:
    """Raise an error for a code length or method that would fail later, before any long computation."""
    for bits in lengths:
        check_n_bits(bits)
    for method in map(find_method, methods):
        accepts_pairs = method.setting == "unsupervised" or issubclass(method.hasher, PairwiseHasher)
        if with_pairs and not accepts_pairs:
            raise ParameterError(
                f"{method.name} needs labels and cannot be fitted on pairs",
                allowed="an unsupervised method, or one that uses pairs: " + ", ".join(COMPARED),
                got=method.name,
                hint="Remove the method, or provide labels with --label.",
            )


def bench_corpus(
    corpus: Corpus, methods: Sequence[str] | None = None, lengths: Sequence[int] = LENGTHS, seed: int = 0
) -> Iterator[Candidate]:
    """Yield a candidate per distinct method and length."""
    for method in dict.fromkeys(methods or COMPARED):
        for bits in dict.fromkeys(lengths):
            hasher = make_hasher(method, bits, seed)
            start = time.perf_counter()
            corpus.fit(hasher)
            seconds = time.perf_counter() - start
            quality, error = corpus.evaluate(hasher)
            yield Candidate(
                method=method,
                bits=bits,
                quality=round(quality, 4),
                error=round(error, 4),
                seconds_learning=round(seconds, 2),
                bytes_per_document=n_bytes(bits),
                milliseconds_per_query=round(_milliseconds_per_query(corpus, hasher), 3),
            )


def recommend(candidates: Sequence[Candidate], corpus: Corpus) -> Recommendation:
    """Choose the candidate with the shortest codes, then the fastest fit, among those within an error of the best."""
    best = max(candidates, key=lambda one: one.quality)
    close = [one for one in candidates if best.quality - one.quality <= max(NEGLIGIBLE, best.error)]
    chosen = min(close, key=lambda one: (one.bytes_per_document, one.seconds_learning))
    setting = find_method(chosen.method).setting
    needs = (
        "texts alone"
        if setting == "unsupervised"
        else f"texts and {corpus.supervision}; the documents to search need none"
    )
    helps = best.quality - corpus.chance > max(NEGLIGIBLE, SIGNIFICANT * best.error)
    return Recommendation(best, chosen, corpus.chance, corpus.measure, needs, corpus.supervision, helps)


def _milliseconds_per_query(corpus: Corpus, hasher: Hasher) -> float:
    """Return the median time from a text to its nearest documents, one query at a time."""
    index = FlatIndex(hasher.n_bits)
    database: Bits = hasher.transform(corpus.X_train)
    index.add(np.arange(len(database)), pack(database))
    seconds = []
    for text in corpus.texts[:N_TIMED_QUERIES]:
        start = time.perf_counter()
        bits, confidence = hasher.transform_with_confidence(corpus.vectorizer.transform([text]))
        index.search_weighted(pack(bits), confidence, k=min(DEPTH, len(index)))
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds))


def _is_held_out(id: object) -> bool:
    return assign_split("own", id, (HELD_OUT_CUT, HELD_OUT_CUT)) == "test"


def _distinct_documents(documents: Iterable[Document]) -> tuple[list[Document], dict[str, int]]:
    """Return the nonempty documents without copies, and for each id the position of the document with its text.

    Copies among the queries would improve every figure. Ids are strings, because a CSV file has no numbers.
    """
    positions: dict[bytes, int] = {}
    distinct_documents: list[Document] = []
    rows: dict[str, int] = {}
    for document in documents:
        if document.text.strip():
            digest = hashlib.sha256(document.text.encode()).digest()
            if digest not in positions:
                positions[digest] = len(distinct_documents)
                distinct_documents.append(document)
            rows[str(document.id)] = positions[digest]
    if len(distinct_documents) < MIN_DOCUMENTS:
        raise DataError("too few different documents", allowed=f"{MIN_DOCUMENTS} or more", got=len(distinct_documents))
    return distinct_documents, rows


def _drop_empty_rows(features: Any, labels: Any) -> tuple[Any, Any]:
    """Return the rows of documents with a word of the vocabulary."""
    rows = np.flatnonzero(np.diff(features.indptr) > 0)
    return features[rows], labels[rows]
