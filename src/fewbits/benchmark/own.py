"""A bench for the user's own corpus: which method, how many bits, and what it costs."""

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
from fewbits.metrics import precision_at_k_per_query, random_floor

# A code that is the predicted class alone would win here, and could not tell two documents of a class apart.
COMPARED = ("lsh", "itq", "bernoulli-vae", "pairwise")
LENGTHS = (16, 32, 64)
DEPTH = 10  # what a person looks at
HELD_OUT_CUT = 0.8
FEWEST = 100  # documents, of which a fifth are queries
FEWEST_PAIRS = 50
ALIKE = 0.01  # nobody would notice a smaller difference
SURE = 3  # standard errors above chance: the best of a dozen candidates is easily two above it by luck
TIMED_QUERIES = 100


@dataclass(frozen=True)
class Candidate:
    """A method at a length: how good, and what it costs."""

    method: str
    bits: int
    quality: float
    error: float  # standard error of the quality
    seconds_learning: float
    bytes_per_document: int
    milliseconds_per_query: float  # from text to hits


@dataclass(frozen=True)
class Corpus:
    """A corpus that can be benched: what is learnt from, and how codes are judged."""

    texts: list[str]  # of queries, to time them
    vectorizer: TextVectorizer
    known: Any  # features that are learnt from, and that are searched
    learn: Callable[[Hasher], Hasher]
    judge: Callable[[Hasher], tuple[float, float]]  # the quality and its standard error
    floor: float
    measure: str  # what the quality is
    told: str  # what is known about the documents beside their texts


@dataclass(frozen=True)
class Recommendation:
    """The cheapest of those that are as good as the best."""

    best: Candidate
    chosen: Candidate
    floor: float
    measure: str
    needs: str  # what the chosen method learns from
    told: str  # what is known about the documents beside their texts
    helps: bool  # whether even the best is above chance

    def __str__(self) -> str:
        one = self.chosen
        size = f"{one.bytes_per_document} byte{'s' if one.bytes_per_document > 1 else ''} a document"
        if not self.helps:
            return (
                f"Codes do not help on these texts: even the best, {self.best.method} with {self.best.bits} bits, has"
                f" {self.measure} {self.best.quality:.3f} (at random {self.floor:.3f})."
                f" Look at whether the {self.told} tell what the texts are about."
            )
        said = (
            f"Take {one.method} with {one.bits} bits: {self.measure} {one.quality:.3f} (at random {self.floor:.3f}),"
            f" {size}, {one.seconds_learning:.1f} s to learn, {one.milliseconds_per_query:.2f} ms a query."
            f" It learns from {self.needs}."
        )
        if self.best.quality > one.quality:
            said += f" The best, {self.best.method} with {self.best.bits} bits, has {self.best.quality:.3f}."
        return said


def corpus_with_labels(documents: Iterable[Document], vectorizer: TextVectorizer) -> Corpus:
    """Hold out a fifth of the labelled documents as queries: do their nearest documents share a label with them?

    Documents without a label are learnt from too, as when an engine is made, but are not searched.
    """
    documents, _ = _with_words(documents)
    labelled = [document for document in documents if document.labels]
    if len(labelled) < FEWEST:
        raise DataError(
            "too few documents have a label",
            allowed=f"{FEWEST} or more",
            got=len(labelled),
            hint="Name its field: --label; or give pairs: --pairs",
        )
    _, names = label_table([document.labels for document in labelled])
    if len(names) < 2:
        raise DataError("all documents have the same label", allowed="two labels or more", got=", ".join(names))
    queries = [document for document in labelled if _is_held_out(document.id)]
    known = [document for document in documents if not (document.labels and _is_held_out(document.id))]
    features = vectorizer.fit_transform(document.text for document in known)
    asked = vectorizer.transform(document.text for document in queries)
    table, _ = label_table([document.labels for document in [*known, *queries]])
    (features, known_labels), (asked, query_labels) = (
        _saying_something(*both) for both in ((features, table[: len(known)]), (asked, table[len(known) :]))
    )
    searched = np.flatnonzero(np.diff(known_labels.indptr))
    found = int((known_labels.sum(axis=0) > 0).sum())
    if found < 2 or not asked.shape[0]:
        raise DataError(
            "too little is left when a fifth of the documents are queries",
            allowed="two labels or more among the others, and a query that has one of their words",
            got=f"labels among the others: {found}, such queries: {asked.shape[0]}",
        )

    def judge(hasher: Hasher) -> tuple[float, float]:
        database = (hasher.transform(features[searched]), known_labels[searched])
        precisions = precision_at_k_per_query(
            hasher.transform(asked), query_labels, *database, k=min(DEPTH, len(searched))
        )
        return float(precisions.mean()), float(precisions.std() / len(precisions) ** 0.5)

    return Corpus(
        texts=[document.text for document in queries],
        vectorizer=vectorizer,
        known=features,
        learn=lambda hasher: hasher.fit(features, known_labels),
        judge=judge,
        floor=random_floor(query_labels, known_labels[searched]),
        measure=f"precision at {DEPTH}",
        told="labels",
    )


def corpus_with_pairs(documents: Iterable[Document], pairs: Sequence[Pair], vectorizer: TextVectorizer) -> Corpus:
    """Hold out a fifth of the pairs: do codes tell those that belong together from the others?"""
    documents, rows = _with_words(documents)
    unknown = [id for pair in pairs for id in (pair.left, pair.right) if str(id) not in rows]
    if unknown:
        raise DataError(
            "pairs name documents that are not there, or have no text",
            got=f"{len(unknown)}, the first {unknown[0]!r}",
            hint="Name the field of the documents' ids: --id",
        )
    # Two documents with the same text are one: whatever the method, their codes are the same.
    marked = {(*sorted((rows[str(pair.left)], rows[str(pair.right)])), pair.same) for pair in pairs}
    chosen = np.array(sorted(pair for pair in marked if pair[0] != pair[1]), dtype=np.int64).reshape(-1, 3)
    same = chosen[:, 2] == 1
    is_held_out = np.array([_is_held_out(f"{documents[a].id} {documents[b].id}") for a, b, _ in chosen], dtype=bool)
    if len(chosen) < FEWEST_PAIRS or any(len(set(some)) < 2 for some in (same[is_held_out], same[~is_held_out])):
        got = f"{same.sum()} that belong together, {(~same).sum()} that do not"
        allowed = f"{FEWEST_PAIRS} or more of documents with different texts, of both kinds"
        raise DataError("there are too few pairs", allowed=allowed, got=got)
    features = vectorizer.fit_transform(document.text for document in documents)

    def learn(hasher: Hasher) -> Hasher:
        if isinstance(hasher, PairwiseHasher):
            return hasher.fit_pairs(features, chosen[~is_held_out, :2], same[~is_held_out])
        return hasher.fit(features)  # one that needs labels says so

    def judge(hasher: Hasher) -> tuple[float, float]:
        codes = hasher.transform(features)
        left, right, _ = chosen[is_held_out].T
        asked = same[is_held_out]
        differing: NDArray[np.int64] = (codes[left] != codes[right]).sum(axis=1)
        ones, zeros = int(asked.sum()), int((~asked).sum())
        error = ((ones + zeros + 1) / (12 * ones * zeros)) ** 0.5  # of a random order (Mann and Whitney, 1947)
        return float(roc_auc_score(asked, -differing)), error

    return Corpus(
        texts=[document.text for document in documents[:TIMED_QUERIES]],
        vectorizer=vectorizer,
        known=features,
        learn=learn,
        judge=judge,
        floor=0.5,
        measure="share of pairs in the right order",
        told="pairs",
    )


def check_candidates(methods: Sequence[str], lengths: Sequence[int], *, with_pairs: bool = False) -> None:
    """Refuse, before any long work, a length or a method that would fail when its turn comes."""
    for bits in lengths:
        check_n_bits(bits)
    for method in map(find_method, methods):
        learns_from_pairs = method.setting == "unsupervised" or issubclass(method.hasher, PairwiseHasher)
        if with_pairs and not learns_from_pairs:
            raise ParameterError(
                f"{method.name} learns from labels, and there are pairs",
                allowed="an unsupervised method, or one that learns from pairs: " + ", ".join(COMPARED),
                got=method.name,
                hint="Leave it out, or give labels: --label",
            )


def bench_corpus(
    corpus: Corpus, methods: Sequence[str] | None = None, lengths: Sequence[int] = LENGTHS, seed: int = 0
) -> Iterator[Candidate]:
    """Measure every method at every length, each once however often it is named."""
    for method in dict.fromkeys(methods or COMPARED):
        for bits in dict.fromkeys(lengths):
            hasher = make_hasher(method, bits, seed)
            start = time.perf_counter()
            corpus.learn(hasher)
            seconds = time.perf_counter() - start
            quality, error = corpus.judge(hasher)
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
    """Of those within a standard error of the best: the fewest bytes, then the least time to learn."""
    best = max(candidates, key=lambda one: one.quality)
    as_good = [one for one in candidates if best.quality - one.quality <= max(ALIKE, best.error)]
    chosen = min(as_good, key=lambda one: (one.bytes_per_document, one.seconds_learning))
    setting = find_method(chosen.method).setting
    needs = "texts alone" if setting == "unsupervised" else f"texts and {corpus.told}; documents to search need none"
    helps = best.quality - corpus.floor > max(ALIKE, SURE * best.error)
    return Recommendation(best, chosen, corpus.floor, corpus.measure, needs, corpus.told, helps)


def _milliseconds_per_query(corpus: Corpus, hasher: Hasher) -> float:
    """From the text to the nearest documents, one query at a time; the median."""
    index = FlatIndex(hasher.n_bits)
    database: Bits = hasher.transform(corpus.known)
    index.add(np.arange(len(database)), pack(database))
    seconds = []
    for text in corpus.texts[:TIMED_QUERIES]:
        start = time.perf_counter()
        index.search(pack(hasher.transform(corpus.vectorizer.transform([text]))), k=min(DEPTH, len(index)))
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds))


def _is_held_out(id: object) -> bool:
    return assign_split("own", id, (HELD_OUT_CUT, HELD_OUT_CUT)) == "test"


def _with_words(documents: Iterable[Document]) -> tuple[list[Document], dict[str, int]]:
    """All documents that have a word, each once: a copy among the queries would make any figure look better.

    Beside them, which of them has the text of each id; a number is a text in a CSV file.
    """
    places: dict[bytes, int] = {}
    kept: list[Document] = []
    rows: dict[str, int] = {}
    for document in documents:
        if document.text.strip():
            digest = hashlib.sha256(document.text.encode()).digest()
            if digest not in places:
                places[digest] = len(kept)
                kept.append(document)
            rows[str(document.id)] = places[digest]
    if len(kept) < FEWEST:
        raise DataError("too few different documents", allowed=f"{FEWEST} or more", got=len(kept))
    return kept, rows


def _saying_something(features: Any, labels: Any) -> tuple[Any, Any]:
    """The rows of documents that have a word of the vocabulary."""
    rows = np.flatnonzero(np.diff(features.indptr) > 0)
    return features[rows], labels[rows]
