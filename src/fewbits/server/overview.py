"""Overview of the corpus: names for the regions of the map, and example queries, both derived from the documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from fewbits.data.document import Document
from fewbits.search import Snapshot
from fewbits.search.facets import FieldColumn, count_matches, parsed_for
from fewbits.search.snippets import split_title
from fewbits.search.words import tokens, writes_no_spaces

MIN_DOCUMENTS = 50  # to divide the map
DOCUMENTS_PER_REGION = 40
MAX_REGIONS = 14
WORDS_OF_REGION = 3
MIN_SHARE = 0.05  # of a region's documents that have a word of its name
CANDIDATES = 30  # words from which a name is chosen
READ_DOCUMENTS = 2_000  # for phrases
READ_CHARACTERS = 2_000  # of each document
LONGEST_EXAMPLE = 60  # characters
MAX_TITLE_WORDS = 8
WORDS_OF_OPENING = 4
UNSPACED = 6  # characters of an example in a script without spaces
MAX_PAIR_SHARE = 0.02  # of the documents; a more frequent pair of words is a formula
TOPICS = 4  # examples of this kind
READ_TITLES = 200  # documents whose titles may be examples
MIN_LETTERS = 3  # of a word of a phrase


@dataclass(frozen=True)
class Region:
    """A part of the map, named by words that are more frequent there than elsewhere."""

    words: list[str]
    x: int
    y: int
    documents: int


@dataclass(frozen=True)
class Example:
    """A query that this corpus answers, what it shows, and the number of documents that match."""

    query: str
    kind: str  # topic, phrase, without, filter or prefix
    total: int


def find_regions(points: NDArray[np.int64], rows: Any, vocabulary: Sequence[str]) -> list[Region]:
    """Divide points into regions, largest first, and name each by words; no word names two regions."""
    if len(points) < MIN_DOCUMENTS or not len(vocabulary):
        return []
    count = int(np.clip(len(points) // DOCUMENTS_PER_REGION, 2, MAX_REGIONS))
    places = KMeans(count, n_init=3, random_state=0).fit_predict(points.astype(np.float64))
    overall = np.asarray(rows.mean(axis=0)).ravel()
    sizes = np.bincount(places, minlength=count)
    regions, used = [], set[int]()
    for place in np.argsort(-sizes, kind="stable"):
        inside = np.flatnonzero(places == place)
        if not len(inside):
            continue
        words = _telling_words(rows[inside], overall, used)
        used.update(words)
        middle = _most_central(points[inside])
        regions.append(Region([vocabulary[word] for word in words], int(middle[0]), int(middle[1]), len(inside)))
    return [region for region in regions if region.words]


def _telling_words(rows: Any, overall: NDArray[np.float64], used: set[int]) -> list[int]:
    """Return the words whose weight is high in some rows, and higher than overall."""
    mean = np.asarray(rows.mean(axis=0)).ravel()
    shares = np.diff(rows.tocsc().indptr) / rows.shape[0]
    ratio = np.log((mean + 1e-6) / (overall + 1e-6))
    scores = np.where((shares >= MIN_SHARE) & (ratio > 0), mean * ratio**3, 0)
    order = np.argsort(-scores, kind="stable")[:CANDIDATES]
    return [int(word) for word in order if scores[word] > 0 and int(word) not in used][:WORDS_OF_REGION]


def _most_central(points: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the point nearest to the median: the mean may be far from every point."""
    distances = np.abs(points - np.median(points, axis=0)).sum(axis=1)
    return np.asarray(points[int(distances.argmin())])


def find_examples(
    snapshot: Snapshot, documents: Sequence[Document], regions: Sequence[Region], columns: Sequence[FieldColumn]
) -> list[Example]:
    """Return queries of several kinds, each of which finds documents."""
    if snapshot.words is None or not documents:
        return []
    step = max(1, len(documents) // READ_DOCUMENTS)
    read = documents[::step]
    pairs = _frequent_pairs(snapshot, read)
    words = [region.words[0] for region in regions] or list(dict.fromkeys(pair[0] for pair in pairs))
    examples = list(_topics(snapshot, regions, read))[:TOPICS]
    for kind, queries in (
        ("phrase", (f'"{first} {second}"' for first, second in pairs)),
        ("without", (f"{first} -{second}" for first, second in pairs[1:])),
        ("filter", _filtered(words, columns)),
        ("prefix", (f"{word[: max(4, len(word) - 4)]}*" for word in words if word.isascii() and len(word) > 6)),
    ):
        examples += list(_answered(snapshot, kind, queries))[:1]
    return examples


def _answered(snapshot: Snapshot, kind: str, queries: Iterator[str]) -> Iterator[Example]:
    """Yield the queries that documents match, the first few of them."""
    for query, _ in zip(queries, range(CANDIDATES), strict=False):
        total = count_matches(snapshot, parsed_for(snapshot, query), (), ())[0] if len(query) <= LONGEST_EXAMPLE else 0
        if total and any(len(hits) for [hits] in [snapshot.search_texts([query], 1)] if isinstance(hits, list)):
            yield Example(query, kind, total)


def _topics(snapshot: Snapshot, regions: Sequence[Region], documents: Sequence[Document]) -> Iterator[Example]:
    """Yield titles of documents, and words of regions that documents have together, which share no word."""
    assert snapshot.words is not None
    titles = map(_opening, documents[:: max(1, len(documents) // READ_TITLES)])
    together = (region.words[:size] for region in regions for size in (3, 2) if len(region.words) >= size)
    named = (" ".join(words) for words in together if snapshot.words.count(*words))
    shown: set[str] = set()
    for query in chain.from_iterable(zip_longest(titles, named, fillvalue="")):
        terms = set(snapshot.words.query_analyzer.analyze(query.lower()))
        if query and terms and shown.isdisjoint(terms):
            found = list(_answered(snapshot, "topic", iter([query])))
            shown.update(terms if found else ())
            yield from found


def _opening(document: Document) -> str:
    """Return the title of a document if it is short, else the first words of its text."""
    title, body = split_title(document.text[:READ_CHARACTERS])
    title = title.rstrip(".:")
    if WORDS_OF_REGION <= len(title.split()) <= MAX_TITLE_WORDS and title.replace(" ", "").isalpha():
        return title
    if title:
        return ""
    opening = [match[0] for match in islice(tokens(body), MAX_TITLE_WORDS)]
    first = [token[:UNSPACED] for token in opening if writes_no_spaces(token)]
    words = [token for token in opening if token.isalpha() and len(token) >= MIN_LETTERS]
    return first[0] if first else " ".join(words[:WORDS_OF_OPENING])


def _frequent_pairs(snapshot: Snapshot, documents: Sequence[Document]) -> list[tuple[str, str]]:
    """Return pairs of adjacent words that several documents have, but not too many."""
    assert snapshot.words is not None
    analyzer = snapshot.words.query_analyzer
    counts: Counter[tuple[str, str]] = Counter()
    for document in documents:
        words = list(_surfaces(document.text[:READ_CHARACTERS]))
        counts.update({pair for pair in pairwise(words) if min(map(len, pair)) >= MIN_LETTERS})
    most = max(2, MAX_PAIR_SHARE * len(documents))
    frequent = islice((pair for pair, count in counts.most_common() if 1 < count <= most), 10 * CANDIDATES)
    return [pair for pair in frequent if pair[0] != pair[1] and len(analyzer.analyze(" ".join(pair))) == 2]


def _surfaces(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case as they are written, without numbers and codes."""
    found = (match[0] for match in tokens(text))
    return (token.lower() for token in found if token.isalpha() and not writes_no_spaces(token))


def _filtered(words: Sequence[str], columns: Sequence[FieldColumn]) -> Iterator[str]:
    """Yield a word with a condition on a field that has few values."""
    for column in columns:
        if column.field is not None and column.field.isidentifier() and column.kind == "values":
            for choice in column.choices[1:4]:
                value = str(choice.value)
                if value.replace("_", "").isalnum():
                    yield from (f"{word} {column.field}:{value}" for word in words[:5])
