"""Map of the corpus: documents as points in the plane, near each other if their codes are similar.

Run as a program, this module computes the UMAP layout of a file of codes: UMAP holds the interpreter lock for a minute,
so the service runs it in a separate process.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
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
from fewbits.search.facets import FieldColumn, read_columns
from fewbits.server.overview import Region, find_regions
from fewbits.server.telemetry import LOGGER
from fewbits.storage import read_array, read_json, write_json
from fewbits.validation import evenly_spaced

GRID_SIZE = 10_000  # coordinates are integers from 0 to this
CACHE_FILE = ".map.json"  # in the engine's folder, where saving ignores names with a leading dot
MIN_DOCUMENTS = 50  # for UMAP
UMAP_NEIGHBORS = 15
MAX_COLORS = 8  # of the values of a field
JITTER = 0.05  # standard deviation, separates documents with equal codes


@dataclass(frozen=True)
class MapField:
    """What points can be colored by: the labels (None) or a metadata field."""

    field: str | None
    kind: str  # values or ranges
    values: list[str | float]  # at most 8, the most frequent first; ranges in order
    index: list[int]  # of each document's value; -1 for another or none


@dataclass(frozen=True)
class CorpusMap:
    """Documents as points in a square, one list per attribute."""

    method: str  # of the layout: umap or pca
    documents: int  # in the engine; the map may show a sample
    labels: list[str]  # most common first
    ids: list[DocumentId]
    label: list[int]  # index of each document's first label in labels; -1 without a label
    x: list[int]
    y: list[int]
    fields: list[MapField]
    regions: list[Region]


@dataclass(frozen=True)
class MapSample:
    """Documents to be shown, with their codes and a fingerprint of both."""

    total: int  # documents in the engine
    documents: list[Document]
    codes: NDArray[np.uint8]
    fingerprint: str
    fields: list[MapField]
    rows: Any  # of tf-idf, (documents, words); None for embeddings
    vocabulary: list[str]


class MapBuilder:
    """Build the map of an engine: by principal components at once, then by UMAP in a separate process."""

    def __init__(self, engine: SearchEngine, size: int, folder: Path | None = None, *, use_umap: bool = True) -> None:
        self._engine = engine
        self._size = size
        self._cache = None if folder is None else folder / CACHE_FILE
        self._use_umap = use_umap and importlib.util.find_spec("umap") is not None

    def sample(self) -> MapSample:
        """Return the documents to show."""
        with self._engine.snapshot() as snapshot:
            positions = snapshot.index.arrays()[0]
            positions = positions[evenly_spaced(len(positions), self._size)]
            documents = snapshot.reader.get(positions.tolist())
            codes = unpack(snapshot.index.codes(positions), snapshot.index.n_bits)
            is_text = snapshot.model.takes_text
            return MapSample(
                total=snapshot.count(),
                documents=documents,
                codes=codes,
                fingerprint=_fingerprint(documents, codes),
                fields=[_map_field(column, positions) for column in read_columns(snapshot.reader)],
                rows=snapshot.term_vectors.rows(positions) if is_text and len(positions) else None,
                vocabulary=list(snapshot.model.features.vocabulary_) if is_text else [],
            )

    def read_cached(self, sample: MapSample) -> CorpusMap | None:
        """Return the UMAP map saved in the engine's folder; None if there is none for this sample."""
        if self._cache is None:
            return None
        try:
            content = read_json(self._cache)
            if content["of"] != sample.fingerprint:
                return None
            points = np.array([content["x"], content["y"]], dtype=np.float64).T
        except (FewbitsError, OSError, KeyError, TypeError, ValueError):
            return None  # unreadable: the map is computed again
        return _make_map("umap", sample, points)

    def compute_pca(self, sample: MapSample) -> CorpusMap:
        """Compute the map by principal components, which takes less than a second."""
        return _make_map("pca", sample, principal_plane(sample.codes))

    async def compute_umap(self, sample: MapSample) -> CorpusMap | None:
        """Compute the map by UMAP and save it; None if UMAP is not available, fails or has too few documents."""
        if not self._use_umap or len(sample.documents) < MIN_DOCUMENTS:
            return None
        points = await _run_umap(sample.codes)
        if points is None:
            return None
        self._write_cache(sample, points)
        return await asyncio.to_thread(_make_map, "umap", sample, points)

    def _write_cache(self, sample: MapSample, points: NDArray[Any]) -> None:
        if self._cache is None:
            return
        try:
            write_json(self._cache, {"of": sample.fingerprint, "x": points[:, 0].tolist(), "y": points[:, 1].tolist()})
        except OSError as error:
            LOGGER.warning("the map could not be saved: %s", error)


def _make_map(method: str, sample: MapSample, points: NDArray[Any]) -> CorpusMap:
    grid = _to_grid(points)
    first_labels = [document.labels[0] if document.labels else None for document in sample.documents]
    names = [name for name, _ in Counter(name for name in first_labels if name is not None).most_common()]
    index_of: dict[str | None, int] = {name: index for index, name in enumerate(names)}
    return CorpusMap(
        method=method,
        documents=sample.total,
        labels=names,
        ids=[document.id for document in sample.documents],
        label=[index_of.get(name, -1) for name in first_labels],
        x=grid[:, 0].tolist(),
        y=grid[:, 1].tolist(),
        fields=sample.fields,
        regions=[] if sample.rows is None else find_regions(grid, sample.rows, sample.vocabulary),
    )


def _map_field(column: FieldColumn, positions: NDArray[np.int64]) -> MapField:
    """Return the value of a field for each position."""
    shown = column.choices[:MAX_COLORS]
    places = column.by_position()
    found = (places.get(position, -1) for position in positions.tolist())
    index = [place if place < len(shown) else -1 for place in found]
    return MapField(column.field, column.kind, [one.value for one in shown], index)


def principal_plane(codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Project codes on their first two principal components, with a little noise to separate equal codes."""
    centered = codes - codes.mean(axis=0) if len(codes) else codes.astype(np.float64)
    _, directions = np.linalg.eigh(centered.T @ centered)
    points = centered @ directions[:, -2:][:, ::-1]
    if points.shape[1] < 2:  # codes of one bit
        points = np.column_stack([points, np.zeros(len(points))])
    return points + np.random.default_rng(0).normal(0, JITTER, points.shape)


def umap_plane(codes: NDArray[np.uint8]) -> NDArray[Any]:
    """Compute the UMAP layout of codes under the Hamming distance."""
    from umap import UMAP

    n_neighbors = min(UMAP_NEIGHBORS, len(codes) - 1)
    layout = UMAP(n_neighbors=n_neighbors, min_dist=0.15, metric="hamming", init="pca", random_state=0, n_jobs=1)
    return np.asarray(layout.fit_transform(codes.astype(np.float32)))


async def _run_umap(codes: NDArray[np.uint8]) -> NDArray[Any] | None:
    """Compute the UMAP layout in a process that runs this module; None if it fails."""
    with tempfile.TemporaryDirectory(prefix="fewbits-map-") as folder:
        source, target = Path(folder) / "codes.npy", Path(folder) / "points.npy"
        np.save(source, codes)
        command = [sys.executable, "-m", "fewbits.server.corpus_map", str(source), str(target)]
        # Python looks for modules in the working directory first, where anything may lie.
        environment = dict(os.environ)
        if paths := environment.get("PYTHONPATH"):
            environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
        process = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE, cwd=folder, env=environment
        )
        try:
            _, stderr = await process.communicate()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        if process.returncode:
            LOGGER.warning("UMAP failed: %s", stderr.decode(errors="replace")[-500:])
            return None
        return read_array(target).round(3)


def _fingerprint(documents: list[Document], codes: NDArray[np.uint8]) -> str:
    digest = hashlib.sha256(codes.tobytes())
    digest.update(repr([document.id for document in documents]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _to_grid(points: NDArray[Any]) -> NDArray[np.int64]:
    """Scale points to the grid with their proportions; arcsinh compresses the distances of outliers."""
    if not len(points):
        return np.zeros((0, 2), dtype=np.int64)
    low, middle, high = np.quantile(points, [0.1, 0.5, 0.9], axis=0)
    width = float((high - low).max()) or 1.0
    compressed = np.arcsinh(2 * (points - middle) / width)
    lowest, highest = compressed.min(axis=0), compressed.max(axis=0)
    span = float((highest - lowest).max()) or 1.0
    return np.rint(GRID_SIZE * (0.5 + (compressed - (lowest + highest) / 2) / span)).astype(np.int64)


if __name__ == "__main__":
    np.save(sys.argv[2], umap_plane(np.load(sys.argv[1], allow_pickle=False)), allow_pickle=False)
