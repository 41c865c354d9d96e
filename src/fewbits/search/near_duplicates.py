"""Near-duplicates by their words: pairs, differences, groups, and the documents to keep."""

from __future__ import annotations

import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fewbits.errors import ParameterError
from fewbits.search.similarity_join import Pairs, Rows, similar_pairs
from fewbits.search.text_differences import Change, describe_change, read_numbers, same_numbers
from fewbits.search.word_rows import NUMBERS, SAME, WordRows
from fewbits.storage import FORM_ERRORS, atomic_write
from fewbits.validation import check_whole_number

MIN_SIMILARITY = 0.8  # default minimum cosine of near-duplicates
LEAST_SIMILARITY = 0.5  # below it texts share a topic, and pairs are too many to be found by their rarest words
FIRST, LONGEST, NEWEST = PREFERENCES = ("first", "longest", "newest")

Texts = Callable[[], Iterable[str]]  # all texts of a collection, from the beginning at each call


@dataclass(frozen=True)
class DuplicateOptions:
    """What counts as a near-duplicate, and which documents of a group stay.

    Attributes
    ----------
    min_similarity : float
        Minimum cosine of the tf-idf weights of all words.
    numbers : {"same", "word", "ignore"}
        Texts with other numbers or product codes are different ("same"), a number counts as any word ("word"), or
        words with digits do not count ("ignore").
    keep : int
        Number of documents of a group that stay.
    prefer : {"first", "longest", "newest"}
        Which documents stay; "newest" are the last ones.
    """

    min_similarity: float = MIN_SIMILARITY
    numbers: str = SAME
    keep: int = 1
    prefer: str = FIRST

    def __post_init__(self) -> None:
        check_min_similarity(self.min_similarity)
        check_whole_number("keep, the number of documents of a group that stay,", self.keep, 1)
        for name, value, allowed in (("numbers", self.numbers, NUMBERS), ("prefer", self.prefer, PREFERENCES)):
            if value not in allowed:
                raise ParameterError(f"{name} is unknown", allowed=", ".join(allowed), got=repr(value))


def check_min_similarity(value: float, least: float = 0) -> float:
    """Return a valid minimum cosine."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 1:
        raise ParameterError("min_similarity, a cosine, is out of range", allowed=f"{least:g} to 1", got=repr(value))
    return float(value)


@dataclass(frozen=True)
class FoundPairs:
    """All near-duplicate pairs of a collection, from which groups at any larger similarity follow."""

    pairs: Pairs  # of rows with different words
    originals: Rows  # for each row the first one with the same words
    n_empty: int  # texts that are not compared
    min_similarity: float
    numbers: str

    def save(self, path: Path, stamp: int) -> None:
        """Write the pairs to a file, for the state of the collection that a stamp stands for."""
        arrays = self._arrays(stamp)
        with atomic_write(path) as stream:
            stream.write(save({**arrays, "checksum": np.array([_checksum(arrays)])}))

    @classmethod
    def load(cls, path: Path, stamp: int, numbers: str, min_similarity: float) -> FoundPairs | None:
        """Read what :meth:`save` wrote; None if it is damaged, or of another state or another search."""
        found = cls.read(path, stamp)
        is_enough = found is not None and found.min_similarity <= min_similarity and found.numbers == numbers
        return found if is_enough else None

    @classmethod
    def read(cls, path: Path, stamp: int | None = None) -> FoundPairs | None:
        """Read what :meth:`save` wrote; None if it is damaged, or of another state than that of the stamp, if given."""
        try:
            arrays = {} if path.is_symlink() else load(path.read_bytes())
            checksum = arrays.pop("checksum", None)
            if checksum is None or int(checksum[0]) != _checksum(arrays):
                return None
            of_stamp, n_empty, of_numbers = arrays["facts"].tolist()
            pairs = Pairs(arrays["left"], arrays["right"], arrays["cosine"])
            found = cls(pairs, arrays["originals"], n_empty, float(arrays["similarity"][0]), NUMBERS[of_numbers])
        except (OSError, SafetensorError, *FORM_ERRORS):
            return None
        return found if stamp is None or of_stamp == stamp else None

    def _arrays(self, stamp: int) -> dict[str, NDArray[Any]]:
        return {
            "left": self.pairs.left,
            "right": self.pairs.right,
            "cosine": self.pairs.cosine,
            "originals": self.originals,
            "facts": np.array([stamp, self.n_empty, NUMBERS.index(self.numbers)], dtype=np.int64),
            "similarity": np.array([self.min_similarity]),
        }


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> int:
    result = 0
    for name in sorted(arrays):
        result = zlib.crc32(np.ascontiguousarray(arrays[name]).tobytes(), zlib.crc32(name.encode(), result))
    return result


def find_pairs(texts: Texts, min_similarity: float = MIN_SIMILARITY, numbers: str = SAME) -> FoundPairs:
    """Find all pairs of near-duplicates; the texts are read twice, and are never all in memory."""
    check_min_similarity(min_similarity, LEAST_SIMILARITY)
    rows = WordRows(numbers)
    rows.extend(texts())
    originals, pairs = similar_pairs(rows, min_similarity)
    if numbers == SAME and len(pairs):
        has_numbers = rows.signatures[pairs.left] != 0
        with StoredTexts(texts, np.union1d(pairs.left[has_numbers], pairs.right[has_numbers])) as stored:
            agree = [
                not numbered or _same_codes(stored[left], stored[right])
                for left, right, numbered in zip(
                    pairs.left.tolist(), pairs.right.tolist(), has_numbers.tolist(), strict=True
                )
            ]
        pairs = pairs.take(np.flatnonzero(agree))
    return FoundPairs(pairs, originals, rows.n_empty, min_similarity, numbers)


def _same_codes(left: str, right: str) -> bool:
    return read_numbers(left) == read_numbers(right) or same_numbers(left, right)


class DuplicateCache:
    """The pairs found in the documents of an engine, in memory and in its folder, so that they are found once."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._cached: tuple[int, FoundPairs] | None = None

    def at(self, version: int, min_similarity: float, numbers: str, find: Callable[[], FoundPairs]) -> FoundPairs:
        """Return the pairs at a version of the documents, at the similarity or a smaller one."""
        cached = self._cached
        if cached is not None and cached[0] == version:
            found = cached[1]
            if found.numbers == numbers and found.min_similarity <= min_similarity:
                return found
        path = None if self._folder is None else self._folder / f"duplicates-{numbers}.safetensors"
        found_before = None if path is None else FoundPairs.load(path, version, numbers, min_similarity)
        found = find() if found_before is None else found_before
        self._cached = version, found
        if path is not None and found_before is None:
            with suppress(OSError):  # of a folder that cannot be written to
                found.save(path, version)
        return found


@dataclass(frozen=True)
class RowMatch:
    """A row, the row that it is a near-duplicate of, and their cosine."""

    row: int
    of: int
    similarity: float


@dataclass(frozen=True)
class RowGroup:
    """Rows that are connected by near-duplicates: those that stay, and a match for each but the first."""

    kept: tuple[int, ...]
    matches: tuple[RowMatch, ...]

    @property
    def left_out(self) -> tuple[int, ...]:
        """Return the rows that do not stay."""
        return tuple(match.row for match in self.matches if match.row not in self.kept)


class Neighbours:
    """Near-duplicates of single rows, by the pairs found."""

    def __init__(self, found: FoundPairs, min_similarity: float) -> None:
        self.originals = found.originals.tolist()
        self._near: dict[int, dict[int, float]] = defaultdict(dict)
        pairs = found.pairs.at_least(min_similarity)
        for left, right, cosine in zip(pairs.left.tolist(), pairs.right.tolist(), pairs.cosine.tolist(), strict=True):
            self._near[left][right] = self._near[right][left] = cosine

    def near(self, row: int) -> dict[int, float]:
        """Return the rows with other words that are near-duplicates, and their cosines; of copies the first."""
        return self._near.get(self.originals[row], {})


def group_rows(found: FoundPairs, options: DuplicateOptions, lengths: Sequence[int] | None = None) -> list[RowGroup]:
    """Group rows that are connected by near-duplicates, and choose those that stay.

    A row is left out only if it is a near-duplicate of one that stays, so more than ``keep`` may stay.
    """
    size = len(found.originals)
    pairs = found.pairs.at_least(options.min_similarity)
    copies = np.flatnonzero(found.originals != np.arange(size))
    edges = np.concatenate([pairs.left, found.originals[copies]]), np.concatenate([pairs.right, copies])
    graph = sparse.coo_array((np.ones(len(edges[0]), np.bool_), edges), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    neighbours = Neighbours(found, options.min_similarity)
    groups = [_choose(group.tolist(), neighbours, options, lengths) for group in members if len(group) > 1]
    return sorted(groups, key=lambda group: group.kept[0])


def _choose(
    members: list[int], neighbours: Neighbours, options: DuplicateOptions, lengths: Sequence[int] | None
) -> RowGroup:
    if options.prefer == NEWEST:
        members = members[::-1]
    elif options.prefer == LONGEST:
        assert lengths is not None
        members = sorted(members, key=lambda row: -lengths[row])
    kept: list[int] = []
    by_words: dict[int, int] = {}  # the first row that stays by its words, to find matches of large groups
    matches = []
    for row in members:
        match = _match(row, kept, by_words, neighbours)
        if match is None or len(kept) < options.keep:
            kept.append(row)
            by_words.setdefault(neighbours.originals[row], row)
        if match is None and len(kept) > 1:
            match = _any_match(row, neighbours)
        if match is not None:
            matches.append(match)
    return RowGroup(tuple(kept), tuple(matches))


def _match(row: int, kept: list[int], by_words: dict[int, int], neighbours: Neighbours) -> RowMatch | None:
    """Return the most similar row of those that stay."""
    original = neighbours.originals[row]
    if original in by_words:
        return RowMatch(row, by_words[original], 1.0)
    near = [(cosine, -by_words[other]) for other, cosine in neighbours.near(row).items() if other in by_words]
    if not near:
        return None
    cosine, other = max(near)
    return RowMatch(row, -other, cosine)


def _any_match(row: int, neighbours: Neighbours) -> RowMatch | None:
    near = neighbours.near(row)
    return RowMatch(row, *max(near.items(), key=lambda one: one[1])) if near else None


def match_against(found: FoundPairs, n_first: int, min_similarity: float) -> list[RowMatch]:
    """Return the rows after the first ``n_first`` that are near-duplicates of one of these, with the most similar."""
    neighbours = Neighbours(found, min_similarity)
    first_of: dict[int, int] = {}
    for row in range(n_first):
        first_of.setdefault(neighbours.originals[row], row)
    matches = (_match(row, [], first_of, neighbours) for row in range(n_first, len(found.originals)))
    return [match for match in matches if match is not None]


class StoredTexts:
    """Some texts of a collection by their row, in a temporary file."""

    def __init__(self, texts: Texts, rows: Iterable[int] | Rows) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._places: dict[int, tuple[int, int]] = {}
        needed = {int(row) for row in rows}
        start = 0
        for row, text in enumerate(texts() if needed else ()):
            if row in needed:
                content = text.encode("utf-8", "surrogatepass")
                self._file.write(content)
                self._places[row] = start, len(content)
                start += len(content)

    def __enter__(self) -> StoredTexts:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getitem__(self, row: int) -> str:
        start, length = self._places[row]
        self._file.seek(start)
        return self._file.read(length).decode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Difference:
    """How a text differs from another: in a few words, and the passages."""

    reason: str
    changes: tuple[Change, ...]


def describe_matches(texts: Texts, matches: Sequence[RowMatch]) -> Iterator[Difference]:
    """Yield what differs between the rows of each match."""
    with StoredTexts(texts, {row for match in matches for row in (match.row, match.of)}) as stored:
        for match in matches:
            yield Difference(*describe_change(stored[match.of], stored[match.row]))
