"""The embedded engine: all codes in one block of memory, scanned by faiss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.codes import Packed, check_packed, n_bytes
from fewbits.errors import BrokenFolderError, DataError
from fewbits.index.base import FORMAT, FORMAT_VERSION, Index, Neighbours
from fewbits.index.fast_scan import FastScan
from fewbits.index.ids import GrowingArray, Ids, IdTable, Rows, check_ids, has_duplicates, is_id, make_table, read_ids
from fewbits.index.weights import smallest, weighted_distances
from fewbits.storage import load_folder, read_array, read_json, write_array, write_json

ENGINE = "flat"
MANY_CODES = 20_000  # that many are worth a second form
WORTH_A_COPY = 50  # scans that take as long as making it
SPARE = 1000  # codes that a fast scan looks at beside twice as many as are asked for


class FlatIndex(Index):
    """Exact search by a scan over all codes: about a millisecond for a million codes of 64 bits.

    faiss works on the codes where they lie, in memory or in a mapped file, so nothing is held twice.

    >>> from fewbits.codes import pack
    >>> index = FlatIndex(n_bits=4)
    >>> index.add(["a", "b"], pack([[0, 0, 0, 0], [1, 1, 1, 1]]))
    >>> [answer] = index.search(pack([[0, 1, 0, 0]]), k=2)
    >>> answer.ids.tolist(), answer.distances.tolist()
    (['a', 'b'], [1, 3])
    """

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        self._codes = GrowingArray(np.zeros((0, n_bytes(n_bits)), dtype=np.uint8))
        self._ids: IdTable | None = None  # the first ids decide whether they are texts or numbers
        self._fast: FastScan | None = None
        self._scans = 0  # weighed ones, since the codes last changed

    def __len__(self) -> int:
        return len(self._codes)

    def __contains__(self, id: object) -> bool:
        if self._ids is None or not is_id(id):
            return False
        ids = check_ids([id])
        return self._same_kind(ids) and bool(self._ids.find(ids)[0] >= 0)

    def add(self, ids: Ids, codes: ArrayLike) -> None:
        """Add documents; an id that is there already is an error, and nothing is added."""
        table, checked, packed = self._check_batch(ids, codes)
        known = table.find(checked) >= 0
        if known.any():
            first = checked[int(np.flatnonzero(known)[0])]
            raise DataError(
                f"the id {first!r} is in the index already",
                hint="Use upsert to replace, or choose another id.",
            )
        self._append(table, checked, packed)

    def upsert(self, ids: Ids, codes: ArrayLike) -> None:
        """Add documents, or replace the codes of those whose id is there already."""
        table, checked, packed = self._check_batch(ids, codes)
        rows = table.find(checked)
        known = rows >= 0
        self._forget_copies()
        self._codes.rows[rows[known]] = packed[known]
        fresh = np.flatnonzero(~known)
        self._append(table, [checked[p] for p in fresh] if isinstance(checked, list) else checked[fresh], packed[fresh])

    def remove(self, ids: Ids) -> None:
        """Remove documents; an unknown id is an error, and nothing is removed."""
        kept = np.ones(len(self), dtype=bool)
        kept[self._rows(ids)] = False
        self._forget_copies()
        if self._ids is not None:
            self._ids.keep(kept)
            self._codes.keep(kept)

    def codes(self, ids: Ids) -> Packed:
        """Packed codes of documents."""
        return self._codes.rows[self._rows(ids)]

    def ids(self) -> Sequence[Any]:
        """All ids in order of insertion."""
        return [] if self._ids is None else list(self._ids.all())

    def arrays(self) -> tuple[NDArray[Any], Packed]:
        """All ids and codes in order of insertion, where they lie: not to be changed."""
        return np.zeros(0, np.int64) if self._ids is None else self._ids.at(slice(None)), self._codes.rows

    def search(self, codes: ArrayLike, k: int, *, among: Ids | None = None) -> list[Neighbours]:
        """The k nearest documents of each query, or of those ``among`` a list of ids (fewer if that is shorter)."""
        queries = self._check_search(codes, k)
        rows = None if among is None else np.unique(self._rows(among))  # in order of insertion
        database = self._codes.rows if rows is None else self._codes.rows[rows]
        if not len(database):
            return [self._answer(np.zeros(0, np.int64), np.zeros(0, np.int32)) for _ in queries]
        with _threads(1 if len(queries) == 1 else None):
            distances, found = faiss.knn_hamming(queries, database, min(k, len(database)), variant=self._variant(k))
        found = found if rows is None else rows[found]
        return [self._answer(*pair) for pair in zip(found, distances, strict=True)]

    def within(self, codes: ArrayLike, radius: int, *, among: Ids | None = None) -> list[Neighbours]:
        """All documents that differ from each query in at most ``radius`` bits."""
        queries = self._check_radius(codes, radius)
        rows = None if among is None else np.unique(self._rows(among))
        database = self._codes.rows if rows is None else self._codes.rows[rows]
        answers = []
        for found, distances in _range_search(queries, database, radius):
            order = np.lexsort((found, distances))
            chosen = found[order] if rows is None else rows[found[order]]
            answers.append(self._answer(chosen, distances[order]))
        return answers

    def search_weighted(self, code: ArrayLike, weights: ArrayLike, k: int, *, among: Ids | None = None) -> Neighbours:
        """The k documents that are nearest to one query where each bit has a weight: what differing in it costs."""
        query = self._check_search(code, k)
        rows = None if among is None else np.unique(self._rows(among))
        costs_of_bits = np.asarray(weights, dtype=np.float32).ravel()
        found = None if rows is not None else self._found_fast(query, costs_of_bits, k)
        if found is None:
            database = self._codes.rows if rows is None else self._codes.rows[rows]
            costs = weighted_distances(query, database, costs_of_bits, self.n_bits)
            nearest = smallest(costs, min(k, len(database)))
            found = nearest if rows is None else rows[nearest], costs[nearest]
        chosen, costs = found
        distances = np.bitwise_count(self._codes.rows[chosen] ^ query).sum(axis=1, dtype=np.int32)
        return Neighbours(self._answer(chosen, distances).ids, distances, costs)

    def prepare_weighted_search(self) -> None:
        """Make now, where there are many codes, what else is made when :meth:`weighted` has been called often."""
        if self._fast is None and len(self) >= MANY_CODES:
            self._fast = FastScan(self._codes.rows)

    def _found_fast(
        self, query: Packed, weights: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """Rows and costs of the k nearest, where a fast scan is worth it and is sure of them."""
        if len(self) < MANY_CODES or len(weights) != self.n_bits:
            return None
        self._scans += 1
        if self._fast is None and self._scans < WORTH_A_COPY:
            return None
        self.prepare_weighted_search()
        assert self._fast is not None
        for count in (2 * k + SPARE, 8 * (k + SPARE)):
            with _threads(1):
                rows, others_cost = self._fast.candidates(query, weights, count)
            costs = weighted_distances(query, self._codes.rows[rows], weights, self.n_bits)
            chosen = smallest(costs, min(k, len(costs)))
            if len(rows) == len(self) or costs[chosen[-1]] < others_cost:
                return rows[chosen], costs[chosen]
        return None

    def _forget_copies(self) -> None:
        self._fast, self._scans = None, 0

    def write(self, folder: Path) -> None:
        """Write the index's files into an empty folder."""
        write_array(folder / "codes.npy", self._codes.rows)
        write_json(folder / "index.json", {"engine": ENGINE, "n_bits": self.n_bits, "documents": len(self)})
        if self._ids is not None:
            self._ids.write(folder)

    @classmethod
    def read(cls, folder: Path, *, memory_map: bool = False) -> FlatIndex:
        """Read what :meth:`write` wrote; memory-mapped, codes stay on disk until they are needed."""
        settings = read_json(folder / "index.json")
        if settings["engine"] != ENGINE:
            raise BrokenFolderError(f"{folder} is an index of another engine", allowed=ENGINE, got=settings["engine"])
        index = cls(settings["n_bits"])
        index._codes = GrowingArray(read_array(folder / "codes.npy", memory_map=memory_map))
        index._ids = read_ids(folder, memory_map=memory_map) if settings["documents"] else None
        expected = (settings["documents"], n_bytes(index.n_bits))
        if index._codes.rows.shape != expected or index._codes.rows.dtype != np.uint8:
            raise BrokenFolderError(f"{folder} holds other codes", allowed=expected, got=index._codes.rows.shape)
        if index._ids is not None and len(index._ids) != len(index):
            raise BrokenFolderError(f"{folder} holds another number of ids", allowed=len(index), got=len(index._ids))
        return index

    @classmethod
    def load(cls, folder: str | Path, *, memory_map: bool = False, verify: bool = True) -> FlatIndex:
        """Load a saved folder after checking it; without ``verify`` large files are checked by size only."""

        def read(generation: Path) -> FlatIndex:
            return cls.read(generation, memory_map=memory_map)

        return load_folder(Path(folder), FORMAT, FORMAT_VERSION, read, verify=verify)

    def _variant(self, k: int) -> str:
        """Counting beats a heap for codes of one word; it keeps k rows for every distance, so k must be small."""
        return "mc" if self.n_bits <= 64 and k <= 1000 else "hc"

    def _check_batch(self, ids: Ids, codes: ArrayLike) -> tuple[IdTable, Any, Packed]:
        checked, packed = check_ids(ids), check_packed(codes, self.n_bits)
        if len(checked) != len(packed):
            raise DataError("ids and codes differ in number", got=f"{len(checked)} and {len(packed)}")
        if has_duplicates(checked):
            raise DataError("an id is given twice in one call", hint="Keep one document for each id.")
        if self._ids is not None and len(self._ids) and not self._same_kind(checked) and len(checked):
            raise DataError("ids of one index are all texts or all whole numbers", got=f"{checked[0]!r} beside others")
        if self._ids is None or not len(self._ids):
            return make_table(checked), checked, packed
        return self._ids, checked, packed

    def _same_kind(self, ids: Any) -> bool:
        return isinstance(self._ids, type(make_table(ids)))

    def _append(self, table: IdTable, ids: Any, packed: Packed) -> None:
        if len(ids):
            table.append(ids)
            self._forget_copies()
            self._codes.append(packed)
            self._ids = table

    def _rows(self, ids: Ids) -> Rows:
        checked = check_ids(ids)
        if not len(checked):
            return np.zeros(0, np.int64)
        table = self._ids if self._ids is not None and self._same_kind(checked) else make_table(checked)
        return table.rows(checked)

    def _answer(self, rows: Rows, distances: NDArray[np.int32]) -> Neighbours:
        return Neighbours(np.zeros(0, object) if self._ids is None else self._ids.at(rows), distances)


def _range_search(
    queries: Packed, database: Packed, radius: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    result = faiss.RangeSearchResult(len(queries))
    pointer = faiss.swig_ptr
    with _threads(1 if len(queries) == 1 else None):
        # faiss counts distances below its radius, not up to it
        faiss.hamming_range_search(
            pointer(queries),
            pointer(database),
            len(queries),
            len(database),
            radius + 1,
            queries.shape[1],
            result,
        )
    limits = faiss.rev_swig_ptr(result.lims, len(queries) + 1)
    found = faiss.rev_swig_ptr(result.labels, int(limits[-1])).copy()
    distances = faiss.rev_swig_ptr(result.distances, int(limits[-1])).astype(np.int32)
    for low, high in zip(limits[:-1].tolist(), limits[1:].tolist(), strict=True):
        yield found[low:high], distances[low:high]


def scan_with_one_thread() -> None:
    """Let scans that the calling thread asks for run in it alone, because others run beside it."""
    faiss.omp_set_num_threads(1)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Let faiss use one thread for one query: on a busy machine a second one makes it many times slower."""
    before = faiss.omp_get_max_threads()
    if number is not None and number != before:
        faiss.omp_set_num_threads(number)
        try:
            yield
        finally:
            faiss.omp_set_num_threads(before)
    else:
        yield
