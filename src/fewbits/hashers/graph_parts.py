"""The connected parts of a graph of documents, and which vectors on them say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

LARGE_SHARE = 0.01  # of all documents: a bit may tell such a part from the others
TAKEN_OUT = 3  # times a trivial vector: its eigenvalue, now -2, is below all others, which are -1 or more
NOISE = 1e-6  # of a vector's largest value: smooth vectors of one part are 0 on the others, but for rounding


def trivial_vectors(graph: Any, roots: NDArray[np.float64], sizes: NDArray[np.float64]) -> Any:
    """Orthonormal vectors (nodes, few), sparse, of the largest eigenvalue of a normalised graph that make no bit.

    Such vectors are the roots of the degrees on each connected part, one each. The constant, that on all parts, says
    nothing, and that of a small part is a bit wasted on a few documents. What remains of the large parts' vectors tells
    these parts apart. ``sizes`` are documents of each node.
    """
    _, part_of = connected_components(graph, directed=False)
    is_large = np.bincount(part_of, weights=sizes) >= LARGE_SHARE * sizes.sum()
    merged = np.where(is_large, -1, np.arange(len(is_large)))  # the large parts are one
    _, column_of = np.unique(merged[part_of], return_inverse=True)
    vectors = sparse.csr_array((roots, (np.arange(len(roots)), column_of)))
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=0)).ravel())
    return sparse.csr_array(vectors @ sparse.diags_array(1 / lengths))


def without_noise(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors (nodes, some) that are 0 where only rounding is left of them."""
    return np.where(np.abs(vectors) > NOISE * np.abs(vectors).max(axis=0, initial=0), vectors, 0)
