"""The embedded index: all codes in one block of memory, scanned by faiss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.codes import Packed, check_packed, differing_bits, n_bytes, weighted_distances
from fewbits.errors import BrokenFolderError, DataError
from fewbits.index.base import FORMAT, FORMAT_VERSION, Index, Neighbours
from fewbits.index.fast_scan import MIN_FAST_SCAN, FastScanCache
from fewbits.index.ids import GrowingArray, Ids, IdTable, Rows, check_ids, has_duplicates, is_id, make_table, read_ids
from fewbits.storage import load_folder, read_array, read_json, write_array, write_json
from fewbits.validation import check_whole_number, smallest

ENGINE = "flat"


class FlatIndex(Index):
    """Exact search by a scan over all codes: about a millisecond for a million codes of 64 bits.

    faiss reads the codes in place, in memory or in a memory-mapped file, so there is no second copy.

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
        self._ids: IdTable | None = None  # None until the first ids decide on strings or integers
        self._fast_scan: FastScanCache | None = None  # of the present codes; None if they are few

    def __len__(self) -> int:
        return len(self._codes.rows)

    def __contains__(self, id: object) -> bool:
        if self._ids is None or not is_id(id):
            return False
        ids = check_ids([id])
        return self._same_kind(ids) and bool(self._ids.find(ids)[0] >= 0)

    def add(self, ids: Ids, codes: ArrayLike) -> None:
        """Add documents; an existing id is an error, and nothing is added."""
        table, checked, packed = self._check_batch(ids, codes)
        known = table.find(checked) >= 0
        if known.any():
            first = checked[int(np.flatnonzero(known)[0])]
            raise DataError(
                f"the id {first!r} is in the index already",
                hint="Use upsert to replace it, or choose another id.",
            )
        self._append(table, checked, packed)

    def upsert(self, ids: Ids, codes: ArrayLike) -> None:
        """Add documents, or replace the codes of existing ids."""
        table, checked, packed = self._check_batch(ids, codes)
        rows = table.find(checked)
        known = rows >= 0
        self._codes.rows[rows[known]] = packed[known]
        self._codes_changed()
        fresh = np.flatnonzero(~known)
        self._append(table, [checked[p] for p in fresh] if isinstance(checked, list) else checked[fresh], packed[fresh])

    def remove(self, ids: Ids) -> None:
        """Remove documents; an unknown id is an error, and nothing is removed."""
        kept = np.ones(len(self), dtype=bool)
        kept[self._rows(ids)] = False
        if self._ids is not None:
            self._ids.keep(kept)
            self._codes.keep(kept)
        self._codes_changed()

    def codes(self, ids: Ids) -> Packed:
        """Return the packed codes of documents."""
        return self._codes.rows[self._rows(ids)]

    def existing_codes(self, ids: NDArray[Any]) -> tuple[NDArray[np.bool_], Packed]:
        """Return which of some ids are in the index, and a packed code for each: any code for those that are not."""
        if self._ids is None or not len(self):
            return np.zeros(len(ids), dtype=np.bool_), np.zeros((len(ids), n_bytes(self.n_bits)), dtype=np.uint8)
        if self._ids.start is None:
            rows = self._ids.find(ids)
            exists = rows >= 0
        else:
            rows = ids - self._ids.start
            exists = (rows >= 0) & (rows < len(self))
        return exists, self._codes.rows[np.where(exists, rows, 0)]

    def arrays(self) -> tuple[NDArray[Any], Packed]:
        """Return all ids and codes in order of insertion; the codes are a view and must not be changed."""
        return self._ids_at(slice(None)), self._codes.rows

    def search(self, codes: ArrayLike, k: int, *, among: Ids | None = None) -> list[Neighbours]:
        """Find the k nearest documents of each query, all or ``among`` given ids (fewer if there are fewer)."""
        queries = self._check_search(codes, k)
        rows, database = self._candidates(among)
        if not len(database):
            return [self._answer(np.zeros(0, np.int64), np.zeros(0, np.int32)) for _ in queries]
        with _threads(1 if len(queries) == 1 else None):
            distances, found = faiss.knn_hamming(queries, database, min(k, len(database)), variant=self._variant(k))
        found = found if rows is None else rows[found]
        return [self._answer(*pair) for pair in zip(found, distances, strict=True)]

    def within(self, codes: ArrayLike, radius: int, *, among: Ids | None = None) -> list[Neighbours]:
        """Find all documents that differ from each query in at most ``radius`` bits."""
        check_whole_number("radius, the bits that may differ,", radius, 0, self.n_bits)
        rows, database = self._candidates(among)
        answers = []
        for found, distances in _range_search(check_packed(codes, self.n_bits), database, radius):
            order = np.lexsort((found, distances))
            chosen = found[order] if rows is None else rows[found[order]]
            answers.append(self._answer(chosen, distances[order]))
        return answers

    def search_weighted(self, code: ArrayLike, weights: ArrayLike, k: int, *, among: Ids | None = None) -> Neighbours:
        """Find the k nearest documents of one query, if a differing bit costs its weight."""
        query = self._check_search(code, k)
        bit_weights = np.asarray(weights, dtype=np.float32).ravel()
        if len(bit_weights) != self.n_bits or len(query) != 1:
            raise DataError("bit_weights must have one weight per bit", allowed=f"{self.n_bits}", got=len(bit_weights))
        scan = self._fast_scan.after_many_uses() if among is None and self._fast_scan is not None else None
        with _threads(1):
            nearest = None if scan is None else scan.search(query, bit_weights, k)
        if nearest is None:
            rows, database = self._candidates(among)
            costs = weighted_distances(query, database, bit_weights)
            chosen = smallest(costs, min(k, len(costs)))
            nearest = chosen if rows is None else rows[chosen], costs[chosen]
        distances = differing_bits(self._codes.rows[nearest[0]], query)
        return self._answer(nearest[0], distances, nearest[1])

    weighted = search_weighted  # the old name

    def prepare_weighted_search(self) -> None:
        """Build the fast scan of many codes, which otherwise happens after many weighted searches."""
        if self._fast_scan is not None:
            self._fast_scan.build()

    def _codes_changed(self) -> None:
        self._fast_scan = FastScanCache(self._codes.rows) if len(self) >= MIN_FAST_SCAN else None

    def write(self, folder: Path) -> None:
        """Write the index into an empty folder."""
        write_array(folder / "codes.npy", self._codes.rows)
        write_json(folder / "index.json", {"engine": ENGINE, "n_bits": self.n_bits, "documents": len(self)})
        if self._ids is not None:
            self._ids.write(folder)

    @classmethod
    def read(cls, folder: Path, *, memory_map: bool = False) -> FlatIndex:
        """Read what :meth:`write` wrote; memory-mapped codes stay on disk until they are needed."""
        settings = read_json(folder / "index.json")
        if settings["engine"] != ENGINE:
            raise BrokenFolderError(f"{folder} contains another kind of index", allowed=ENGINE, got=settings["engine"])
        index = cls(settings["n_bits"])
        index._codes = GrowingArray(read_array(folder / "codes.npy", memory_map=memory_map))
        index._codes_changed()
        index._ids = read_ids(folder, memory_map=memory_map) if settings["documents"] else None
        expected = (settings["documents"], n_bytes(index.n_bits))
        if index._codes.rows.shape != expected or index._codes.rows.dtype != np.uint8:
            raise BrokenFolderError(
                f"the codes in {folder} have the wrong shape", allowed=expected, got=index._codes.rows.shape
            )
        if index._ids is not None and len(index._ids) != len(index):
            raise BrokenFolderError(f"the number of ids in {folder} is wrong", allowed=len(index), got=len(index._ids))
        return index

    @classmethod
    def load(cls, folder: str | Path, *, memory_map: bool = False, verify: bool = True) -> FlatIndex:
        """Load a saved folder after checking it; without ``verify`` large files are checked by size only."""

        def read(generation: Path) -> FlatIndex:
            return cls.read(generation, memory_map=memory_map)

        return load_folder(Path(folder), FORMAT, FORMAT_VERSION, read, verify=verify)

    def _variant(self, k: int) -> str:
        """Return the faster algorithm: counting, for codes of one word if k rows per distance fit into the cache."""
        return "mc" if self.n_bits <= 64 and k <= 1000 else "hc"

    def _check_batch(self, ids: Ids, codes: ArrayLike) -> tuple[IdTable, Any, Packed]:
        checked, packed = check_ids(ids), check_packed(codes, self.n_bits)
        if len(checked) != len(packed):
            raise DataError("ids and codes differ in number", got=f"{len(checked)} and {len(packed)}")
        if has_duplicates(checked):
            raise DataError("an id is given twice in one call", hint="Ids must be unique.")
        if self._ids is not None and len(self._ids) and not self._same_kind(checked) and len(checked):
            raise DataError("ids must be all strings or all integers", got=f"{checked[0]!r} among others")
        if self._ids is None or not len(self._ids):
            return make_table(checked), checked, packed
        return self._ids, checked, packed

    def _same_kind(self, ids: Any) -> bool:
        return isinstance(self._ids, type(make_table(ids)))

    def _append(self, table: IdTable, ids: Any, packed: Packed) -> None:
        if len(ids):
            table.append(ids)
            self._codes.append(packed)
            self._ids = table
            self._codes_changed()

    def _rows(self, ids: Ids) -> Rows:
        checked = check_ids(ids)
        if not len(checked):
            return np.zeros(0, np.int64)
        table = self._ids if self._ids is not None and self._same_kind(checked) else make_table(checked)
        return table.rows(checked)

    def _candidates(self, among: Ids | None) -> tuple[Rows | None, Packed]:
        """Return the rows and codes of some documents, in order of insertion; None and all codes by default."""
        if among is None:
            return None, self._codes.rows
        rows = np.unique(self._rows(among))
        return rows, self._codes.rows[rows]

    def _check_search(self, codes: ArrayLike, k: int) -> Packed:
        hint = "Ask for fewer hits, or add documents first."
        check_whole_number("k, the number of hits,", k, 1, len(self), why=", the documents in the index", hint=hint)
        return check_packed(codes, self.n_bits)

    def _answer(self, rows: Rows, distances: NDArray[np.int32], costs: NDArray[np.float32] | None = None) -> Neighbours:
        return Neighbours(self._ids_at(rows), distances, costs)

    def _ids_at(self, rows: Rows | slice) -> NDArray[Any]:
        values = np.zeros(0, np.int64) if self._ids is None else self._ids.values
        if isinstance(values, np.ndarray):
            return values[rows]
        return np.array(values[rows] if isinstance(rows, slice) else [values[row] for row in rows], dtype=object)


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
    """Run the scans of the calling thread on one core, for a thread of a pool."""
    faiss.omp_set_num_threads(1)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Limit faiss to a number of threads; with more threads than free cores a single query is many times slower."""
    before = faiss.omp_get_max_threads()
    if number is not None and number != before:
        faiss.omp_set_num_threads(number)
        try:
            yield
        finally:
            faiss.omp_set_num_threads(before)
    else:
        yield
