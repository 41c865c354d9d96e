"""Places in a plane for codes; as a program, those of UMAP for a file of codes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def principal_plane(codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Places by the two directions in which codes vary most, each document moved a little off those with its code."""
    centred = codes - codes.mean(axis=0) if len(codes) else codes.astype(np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)
    places = centred @ directions[:, -2:][:, ::-1]
    if places.shape[1] < 2:  # codes of one bit
        places = np.column_stack([places, np.zeros(len(places))])
    return places + np.random.default_rng(0).normal(0, 0.05, places.shape)


def umap_plane(codes: NDArray[np.uint8]) -> NDArray[Any]:
    """Places by UMAP under Hamming distance."""
    from umap import UMAP

    neighbours = min(15, len(codes) - 1)
    layout = UMAP(n_neighbors=neighbours, min_dist=0.15, metric="hamming", init="pca", random_state=0, n_jobs=1)
    return np.asarray(layout.fit_transform(codes.astype(np.float32)))


if __name__ == "__main__":
    np.save(sys.argv[2], umap_plane(np.load(sys.argv[1], allow_pickle=False)), allow_pickle=False)
