"""The map of the corpus: documents as points, near each other where their codes are."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.codes import unpack
from fewbits.data.document import Document, DocumentId
from fewbits.errors import FewbitsError
from fewbits.search import SearchEngine
from fewbits.server.layout import principal_plane
from fewbits.server.telemetry import LOGGER
from fewbits.storage import read_array, read_json, write_json

GRAIN = 10_000  # places are whole numbers from 0 to this
FILE = ".map.json"  # in the engine's folder, where a name with a dot is left alone


@dataclass(frozen=True)
class CorpusMap:
    """Documents as points of a square, side by side in lists."""

    method: str  # how places were found: umap or pca
    documents: int  # in the engine; the map may show a sample
    labels: list[str]  # most common first
    ids: list[DocumentId]
    label: list[int]  # number of each document's first label; -1 without one
    x: list[int]
    y: list[int]


class Maps:
    """The map of an engine: a quick one at once, a better one when it is drawn, kept for the next start."""

    def __init__(self, engine: SearchEngine, size: int, folder: Path | None = None, *, draws_better: bool) -> None:
        self._engine = engine
        self._size = size
        self._cache = None if folder is None else folder / FILE
        self._draws_better = draws_better and importlib.util.find_spec("umap") is not None
        self._drawn: tuple[str, list[Document], NDArray[np.uint8]] | None = None
        self.map: CorpusMap | None = None

    def draw(self) -> None:
        """Take the map that was kept, or draw a quick one."""
        documents, packed = self._engine.sample(self._size)
        codes = unpack(packed, self._engine.n_bits)
        mark = _fingerprint(documents, codes)
        kept = self._kept(mark)
        if kept is not None:
            self.map = self._make("umap", documents, kept)
        else:
            self.map = self._make("pca", documents, principal_plane(codes))
            self._drawn = mark, documents, codes

    async def improve(self) -> None:
        """Draw the better map in a process of its own, because it takes a minute of all that a processor has."""
        if not self._draws_better or self._drawn is None or len(self._drawn[1]) < 50:
            return
        mark, documents, codes = self._drawn
        with tempfile.TemporaryDirectory(prefix="fewbits-map-") as folder:
            source, target = Path(folder) / "codes.npy", Path(folder) / "places.npy"
            np.save(source, codes)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "fewbits.server.layout", str(source), str(target), stderr=asyncio.subprocess.PIPE
            )
            try:
                _, said = await process.communicate()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
            if process.returncode:
                LOGGER.warning("the map could not be improved: %s", said.decode(errors="replace")[-500:])
                return
            places = read_array(target).round(3)
        self.map = self._make("umap", documents, places)
        self._drawn = None
        self._keep(mark, places)

    def _make(self, method: str, documents: list[Document], places: NDArray[Any]) -> CorpusMap:
        grid = _to_grid(places)
        first = [document.labels[0] if document.labels else None for document in documents]
        names = [name for name, _ in Counter(name for name in first if name is not None).most_common()]
        number: dict[str | None, int] = {name: place for place, name in enumerate(names)}
        return CorpusMap(
            method=method,
            documents=self._engine.count(),
            labels=names,
            ids=[document.id for document in documents],
            label=[number.get(name, -1) for name in first],
            x=grid[:, 0].tolist(),
            y=grid[:, 1].tolist(),
        )

    def _kept(self, mark: str) -> NDArray[Any] | None:
        if self._cache is None:
            return None
        try:
            kept = read_json(self._cache)
            fits = kept["of"] == mark
            return np.array([kept["x"], kept["y"]], dtype=np.float64).T if fits else None
        except (FewbitsError, OSError, KeyError, TypeError, ValueError):
            return None  # it is only kept to save time

    def _keep(self, mark: str, places: NDArray[Any]) -> None:
        if self._cache is None:
            return
        try:
            write_json(self._cache, {"of": mark, "x": places[:, 0].tolist(), "y": places[:, 1].tolist()})
        except OSError as error:
            LOGGER.warning("the map could not be kept: %s", error)


def _fingerprint(documents: list[Document], codes: NDArray[np.uint8]) -> str:
    digest = hashlib.sha256(codes.tobytes())
    digest.update(repr([document.id for document in documents]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _to_grid(places: NDArray[Any]) -> NDArray[np.int64]:
    """Fill a square, keeping proportions; the farther out a point is, the more it is drawn in."""
    if not len(places):
        return np.zeros((0, 2), dtype=np.int64)
    low, middle, high = np.quantile(places, [0.1, 0.5, 0.9], axis=0)
    width = float((high - low).max()) or 1.0
    drawn = np.arcsinh(2 * (places - middle) / width)
    lowest, highest = drawn.min(axis=0), drawn.max(axis=0)
    span = float((highest - lowest).max()) or 1.0
    return np.rint(GRAIN * (0.5 + (drawn - (lowest + highest) / 2) / span)).astype(np.int64)
