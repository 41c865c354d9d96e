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
from fewbits.corpus import Document
from fewbits.corpus.labels import label_table
from fewbits.corpus.pairs import Pair
from fewbits.corpus.splits import part_of
from fewbits.errors import DataError, ParameterError
from fewbits.evaluation import precision_at_k, random_floor
from fewbits.features import TextVectorizer
from fewbits.hashers.base import Hasher
from fewbits.hashers.pairwise import PairwiseHasher
from fewbits.hashers.registry import find_method, make_hasher
from fewbits.index import FlatIndex

# A code that is the predicted class alone would win here, and could not tell two documents of a class apart.
COMPARED = ("lsh", "itq", "bernoulli-vae", "pairwise")
LENGTHS = (16, 32, 64)
DEPTH = 10  # what a person looks at
HELD_OUT_CUT = 0.8
FEWEST = 100  # documents, of which a fifth are queries
FEWEST_PAIRS = 50
ALIKE = 0.01  # differences below it mean nothing with so few queries
TIMED_QUERIES = 100


@dataclass(frozen=True)
class Candidate:
    """A method at a length: how good, and what it costs."""

    method: str
    bits: int
    quality: float
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
    judge: Callable[[Hasher], float]
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
        if not self.helps:
            return (
                f"Codes do not help on these texts: even the best, {self.best.method} with {self.best.bits} bits, has"
                f" {self.measure} {self.best.quality:.3f} (at random {self.floor:.3f})."
                f" Look at whether the {self.told} tell what the texts are about."
            )
        said = (
            f"Take {one.method} with {one.bits} bits: {self.measure} {one.quality:.3f} (at random {self.floor:.3f}),"
            f" {one.bytes_per_document} bytes a document, {one.seconds_learning:.1f} s to learn,"
            f" {one.milliseconds_per_query:.2f} ms a query. It learns from {self.needs}."
        )
        if self.best is not one:
            said += f" The best, {self.best.method} with {self.best.bits} bits, has {self.best.quality:.3f}."
        return said


def corpus_with_labels(documents: Iterable[Document], max_features: int = 20_000) -> Corpus:
    """Hold out a fifth of the labelled documents as queries: do their nearest documents share a label with them?"""
    documents = _with_words(documents)
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
    known = [document for document in labelled if not _is_held_out(document.id)]
    vectorizer, features = _vectorize(known, max_features)
    asked = vectorizer.transform(document.text for document in queries)
    table, _ = label_table([document.labels for document in [*known, *queries]])
    known_labels, query_labels = table[: len(known)], table[len(known) :]
    (features, known_labels), (asked, query_labels) = (
        _saying_something(*both) for both in ((features, known_labels), (asked, query_labels))
    )
    return Corpus(
        texts=[document.text for document in queries],
        vectorizer=vectorizer,
        known=features,
        learn=lambda hasher: hasher.fit(features, known_labels),
        judge=lambda hasher: precision_at_k(
            hasher.transform(asked), query_labels, hasher.transform(features), known_labels, k=DEPTH
        ),
        floor=random_floor(query_labels, known_labels),
        measure=f"precision at {DEPTH}",
        told="labels",
    )


def corpus_with_pairs(documents: Iterable[Document], pairs: Sequence[Pair], max_features: int = 20_000) -> Corpus:
    """Hold out a fifth of the pairs: do codes tell those that belong together from the others?"""
    documents = _with_words(documents)
    rows = {str(document.id): row for row, document in enumerate(documents)}  # a number is a text in a CSV file
    unknown = [id for pair in pairs for id in (pair.left, pair.right) if str(id) not in rows]
    if unknown:
        raise DataError(
            "pairs name documents that are not there, or are empty or copies",
            got=f"{len(unknown)}, the first {unknown[0]!r}",
            hint="Name the field of the documents' ids: --id",
        )
    held_out = [pair for pair in pairs if _is_held_out(f"{pair.left} {pair.right}")]
    taught = [pair for pair in pairs if not _is_held_out(f"{pair.left} {pair.right}")]
    together = sum(pair.same for pair in pairs)
    if len(pairs) < FEWEST_PAIRS or any(len({pair.same for pair in some}) < 2 for some in (held_out, taught)):
        got = f"{together} that belong together, {len(pairs) - together} that do not"
        raise DataError("there are too few pairs", allowed=f"{FEWEST_PAIRS} or more, of both kinds", got=got)
    vectorizer, features = _vectorize(documents, max_features)

    def places(some: Sequence[Pair]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        chosen = np.array([(rows[str(pair.left)], rows[str(pair.right)]) for pair in some], dtype=np.int64)
        return chosen, np.array([pair.same for pair in some])

    def learn(hasher: Hasher) -> Hasher:
        if isinstance(hasher, PairwiseHasher):
            return hasher.fit_pairs(features, *places(taught))
        return hasher.fit(features)  # one that needs labels says so

    def judge(hasher: Hasher) -> float:
        codes = hasher.transform(features)
        asked, same = places(held_out)
        differing: NDArray[np.int64] = (codes[asked[:, 0]] != codes[asked[:, 1]]).sum(axis=1)
        return float(roc_auc_score(same, -differing))

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
    """Measure every method at every length."""
    for method in methods or COMPARED:
        for bits in lengths:
            hasher = make_hasher(method, bits, seed)
            start = time.perf_counter()
            corpus.learn(hasher)
            seconds = time.perf_counter() - start
            yield Candidate(
                method=method,
                bits=bits,
                quality=round(corpus.judge(hasher), 4),
                seconds_learning=round(seconds, 2),
                bytes_per_document=n_bytes(bits),
                milliseconds_per_query=round(_milliseconds_per_query(corpus, hasher), 3),
            )


def recommend(candidates: Sequence[Candidate], corpus: Corpus) -> Recommendation:
    """Of those as good as the best but for chance: the fewest bytes, then the least time to learn."""
    best = max(candidates, key=lambda one: one.quality)
    as_good = [one for one in candidates if best.quality - one.quality <= ALIKE]
    chosen = min(as_good, key=lambda one: (one.bytes_per_document, one.seconds_learning))
    setting = find_method(chosen.method).setting
    needs = "texts alone" if setting == "unsupervised" else f"texts and {corpus.told}; documents to search need none"
    helps = best.quality - corpus.floor > ALIKE
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
    return part_of("own", id, (HELD_OUT_CUT, HELD_OUT_CUT)) == "test"


def _with_words(documents: Iterable[Document]) -> list[Document]:
    """All documents that have a word, each once: a copy among the queries would make any figure look better."""
    seen: set[bytes] = set()
    kept = []
    for document in documents:
        digest = hashlib.sha256(document.text.encode()).digest()
        if document.text.strip() and digest not in seen:
            seen.add(digest)
            kept.append(document)
    if len(kept) < FEWEST:
        raise DataError("too few different documents", allowed=f"{FEWEST} or more", got=len(kept))
    return kept


def _saying_something(features: Any, labels: Any) -> tuple[Any, Any]:
    """The rows of documents that have a word of the vocabulary."""
    rows = np.flatnonzero(np.diff(features.indptr) > 0)
    return features[rows], labels[rows]


def _vectorize(documents: Sequence[Document], max_features: int) -> tuple[TextVectorizer, Any]:
    vectorizer = TextVectorizer(max_features=max_features)
    return vectorizer, vectorizer.fit_transform(document.text for document in documents)
