"""Near-duplicates of a collection, of an engine, and of one text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from fewbits.data.document import Document, DocumentId
from fewbits.errors import DataError, ParameterError
from fewbits.search.code_groups import duplicate_groups
from fewbits.search.near_duplicates import (
    LEAST_SIMILARITY,
    LONGEST,
    MIN_SIMILARITY,
    DuplicateOptions,
    FoundPairs,
    RowMatch,
    Texts,
    check_min_similarity,
    describe_matches,
    find_pairs,
    group_rows,
)
from fewbits.search.text_differences import Change, describe_change, same_numbers
from fewbits.search.word_rows import IGNORE, SAME
from fewbits.search.words import plain, split

if TYPE_CHECKING:
    from fewbits.search.lexical import LexicalSnapshot
    from fewbits.search.snapshot import Snapshot

RADIUS = 3  # bits that may differ, where codes decide
CANDIDATES = 50  # documents with the words of a text that it is compared with


@dataclass(frozen=True)
class NearDuplicate:
    """A document that a text nearly repeats, how similar they are, and what differs; ``id`` is None for a new text."""

    id: DocumentId | None
    of: DocumentId
    similarity: float  # cosine of the tf-idf weights of all words
    reason: str
    changes: tuple[Change, ...]  # from ``of`` to ``id``


@dataclass(frozen=True)
class DuplicateGroup:
    """Documents connected by a chain of near-duplicates; the representative stays, as do ``kept`` of the others.

    ``matches`` says for each of the others which document it nearly repeats. Codes alone give none.
    """

    representative: DocumentId
    others: tuple[DocumentId, ...]
    kept: tuple[DocumentId, ...] = ()
    matches: tuple[NearDuplicate, ...] = ()

    @property
    def left_out(self) -> tuple[DocumentId, ...]:
        """Return the documents that do not stay."""
        kept = set(self.kept)
        return tuple(id for id in self.others if id not in kept)


def without_duplicates(documents: Iterable[Document], groups: Iterable[DuplicateGroup]) -> Iterator[Document]:
    """Leave out the documents that do not stay."""
    left_out = {id for group in groups for id in group.left_out}
    return (document for document in documents if document.id not in left_out)


def make_groups(
    found: FoundPairs, texts: Texts, ids: Sequence[DocumentId] | Mapping[int, DocumentId], options: DuplicateOptions
) -> list[DuplicateGroup]:
    """Return the groups of a collection, with what differs in each; ``ids`` are those of the rows."""
    lengths = [len(text) for text in texts()] if options.prefer == LONGEST else None
    groups = group_rows(found, options, lengths)
    described = iter(name_matches([match for group in groups for match in group.matches], texts, ids))
    return [
        DuplicateGroup(
            ids[group.kept[0]],
            tuple(ids[match.row] for match in group.matches),
            tuple(ids[row] for row in group.kept[1:]),
            tuple(islice(described, len(group.matches))),
        )
        for group in groups
    ]


def name_matches(
    matches: Sequence[RowMatch], texts: Texts, ids: Sequence[DocumentId] | Mapping[int, DocumentId]
) -> Iterator[NearDuplicate]:
    """Yield matches with the ids of their rows and what differs."""
    for match, difference in zip(matches, describe_matches(texts, matches), strict=True):
        similarity = round(match.similarity, 4)
        yield NearDuplicate(ids[match.row], ids[match.of], similarity, difference.reason, difference.changes)


def duplicates_of_engine(
    snapshot: Snapshot, radius: int | None, min_similarity: float, settings: Mapping[str, Any]
) -> list[DuplicateGroup]:
    """Return the groups of an engine: by words, or by codes if there is a radius or there are no texts."""
    check_min_similarity(min_similarity)
    unknown = settings.keys() - {"numbers", "keep", "prefer"}
    if unknown:
        raise ParameterError("an option is unknown", allowed="numbers, keep, prefer", got=", ".join(sorted(unknown)))
    if radius is not None or min_similarity == 0 or not snapshot.model.has_words:
        return _by_codes(snapshot, RADIUS if radius is None else radius, min_similarity)
    options = DuplicateOptions(check_min_similarity(min_similarity, LEAST_SIMILARITY), **settings)
    numbers = options.numbers
    reader = snapshot.reader

    def texts() -> Iterator[str]:
        return (document.text for document in reader.all())

    found = snapshot.state.duplicate_cache.at(
        snapshot.version, min_similarity, numbers, lambda: find_pairs(texts, min_similarity, numbers)
    )
    ids = [one.id for _, one in sorted(reader.stored_documents(), key=lambda row: row[0])]
    return make_groups(found, texts, ids, options)


def _by_codes(snapshot: Snapshot, radius: int, min_similarity: float) -> list[DuplicateGroup]:
    vectors = snapshot.term_vectors if snapshot.model.takes_text else None
    groups = duplicate_groups(snapshot.index, vectors, radius, min_similarity)
    ids = snapshot.reader.ids_of(np.concatenate(groups)) if groups else {}
    named = ([ids[position] for position in group.tolist()] for group in groups)
    return [DuplicateGroup(first, tuple(others)) for first, *others in named]


def duplicate_of(
    snapshot: Snapshot, text: str, min_similarity: float = MIN_SIMILARITY, numbers: str = SAME
) -> NearDuplicate | None:
    """Return the document that a text nearly repeats; None if there is none.

    Documents with its words are compared with it. Words are weighted by the frequencies of the lexical index, in which
    the forms of a word are one.
    """
    options = DuplicateOptions(check_min_similarity(min_similarity, LEAST_SIMILARITY), numbers)
    if snapshot.words is None:
        raise DataError("the engine has no texts", allowed="an engine created from texts, or with texts and an encoder")
    if not isinstance(text, str):
        raise DataError("the text is not a text", allowed="a string", got=repr(text)[:60])
    near = snapshot.words.search(plain(text), CANDIDATES)
    best: tuple[float, Document] | None = None
    for document in snapshot.reader.get(sorted(near.positions.tolist())):
        cosine = _cosine(text, document.text, snapshot.words, numbers)
        agrees = numbers != SAME or same_numbers(document.text, text)
        if cosine >= options.min_similarity and agrees and (best is None or cosine > best[0]):
            best = cosine, document
    if best is None:
        return None
    cosine, document = best
    return NearDuplicate(None, document.id, round(cosine, 4), *describe_change(document.text, text))


def _cosine(left: str, right: str, words: LexicalSnapshot, numbers: str) -> float:
    """Return the cosine of the tf-idf weights of two texts."""
    vectors = []
    for text in (left, right):
        counts = Counter(word for word in split(text).words.split() if numbers != IGNORE or not _has_digit(word))
        weights = {word: count * words.inverse_frequency(word) for word, count in counts.items()}
        norm = math.sqrt(sum(weight**2 for weight in weights.values()))
        vectors.append({word: weight / norm for word, weight in weights.items()})
    return min(1.0, sum(weight * vectors[1].get(word, 0.0) for word, weight in vectors[0].items()))


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))
