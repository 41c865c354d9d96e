"""Self-taught hashing: bits from eigenvectors of a neighbor graph, predicted by linear classifiers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.utils import check_random_state

from fewbits.features.neighbors import nearest_by_cosine
from fewbits.hashers._linalg import DEFLATION, as_int32_csr, sample_rows, trivial_eigenvectors, without_noise
from fewbits.hashers._svm import fit_svms
from fewbits.hashers.base import LinearHasher
from fewbits.validation import check_whole_number

BLOCK_PAIRS = 50_000  # pairs of documents multiplied at a time
DENSE_SIZE = 500  # documents up to which a dense solver is as fast
TOLERANCE = 1e-6  # of the eigenvalues: the vectors are only thresholded at their medians


class MissingEigenvectorsWarning(UserWarning):
    """The iterative solver did not find all requested eigenvectors."""


class SelfTaughtHashing(LinearHasher):
    """Find codes of the training documents that vary smoothly over a neighbor graph, then learn to predict them (STH).

    The graph links every document with its nearest by cosine, in both directions. The training documents' own codes are
    the eigenvectors of its Laplacian with the smallest eigenvalues, thresholded at their medians; left out are the
    constant eigenvector and those that only single out a few documents linked to no others. The result of the fit
    is a linear SVM per bit, which encodes training documents like all others.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code. A bit without an eigenvector is always 0.
    n_neighbours : int, default=25
        Neighbors of each document in the graph.
    C : float, default=1.0
        Regularization parameter of the SVMs.
    max_rows : int, default=20000
        Largest number of documents in the graph, a random sample: all pairs are compared.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample, the eigenvectors and the SVMs.

    References
    ----------
    D. Zhang, J. Wang, D. Cai, J. Lu. Self-taught hashing for fast similarity search. SIGIR 2010.
    """

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_neighbours: int = 25,
        C: float = 1.0,
        max_rows: int = 20_000,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.n_neighbours = n_neighbours
        self.C = C
        self.max_rows = max_rows

    def _fit(self, X: Any, y: Any) -> None:
        check_whole_number("n_neighbours", self.n_neighbours, 1)
        generator = check_random_state(self.random_state)
        rows = as_int32_csr(sparse.csr_array(sample_rows(X, self.max_rows, generator)))
        vectors = without_noise(smooth_vectors(neighbor_graph(rows, self.n_neighbours), self.n_bits, generator))
        targets = vectors > np.median(vectors, axis=0)
        seed = generator.randint(2**31 - 1)
        weights = np.zeros((rows.shape[1], self.n_bits), dtype=np.float32)
        offsets = np.ones(self.n_bits, dtype=np.float32)  # with weights of 0, a bit is 0
        for bit, svm, _ in fit_svms(rows, targets.T, seed=seed, C=self.C):
            weights[:, bit], offsets[bit] = svm.coef_[0], -svm.intercept_[0]
        self.weights_, self.offsets_ = weights, offsets


def neighbor_graph(rows: Any, n_neighbors: int) -> Any:
    """Return cosines of neighbors (documents, documents): linked if either is among the other's nearest."""
    count = rows.shape[0]
    k = min(n_neighbors, count - 1)
    left = np.repeat(np.arange(count), k + 1)
    right = nearest_by_cosine(rows, rows, k + 1).ravel()
    left, right = left[left != right], right[left != right]
    cosines = np.concatenate(
        [
            np.asarray(rows[left[part]].multiply(rows[right[part]]).sum(axis=1)).ravel()
            for part in np.array_split(np.arange(len(left)), max(1, len(left) // BLOCK_PAIRS))
        ]
    )
    graph = sparse.csr_array((cosines, (left, right)), shape=(count, count))
    graph.eliminate_zeros()  # documents without a common word are not neighbors
    return sparse.csr_array(graph.maximum(graph.T))


def smooth_vectors(graph: Any, count: int, generator: np.random.RandomState) -> NDArray[np.float64]:
    """Return vectors v with L v = lambda D v (documents, at most count), by increasing lambda, trivial ones left out.

    L = D - W is the graph's Laplacian, D its degrees; D^(1/2) v are the eigenvectors of the normalised graph. The
    trivial ones are known; after deflation the largest eigenvalues of the graph are the requested ones.
    """
    size = graph.shape[0]
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    roots = np.sqrt(np.where(degrees > 0, degrees, 1))
    normal = sparse.csr_array(sparse.diags_array(1 / roots) @ graph @ sparse.diags_array(1 / roots))
    trivial = trivial_eigenvectors(graph, roots, np.ones(size))
    requested = min(count, size - trivial.shape[1])
    if requested < 1:
        return np.zeros((size, 0))

    def apply(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(normal @ vector - DEFLATION * (trivial @ (trivial.T @ vector)))

    if size <= max(3 * requested, DENSE_SIZE):
        values, vectors = np.linalg.eigh(normal.toarray() - DEFLATION * (trivial @ trivial.T).toarray())
        return np.asarray(vectors[:, np.argsort(-values, kind="stable")[:requested]] / roots[:, None])
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    start = generator.standard_normal(size)
    try:
        values, vectors = eigsh(operator, requested, which="LA", v0=start, ncv=4 * requested + 20, tol=TOLERANCE)
    except ArpackNoConvergence as error:
        values, vectors = error.eigenvalues, error.eigenvectors
        warnings.warn(
            f"only {len(values)} of {requested} eigenvectors of the neighbor graph were found; the other bits are"
            " always 0. More neighbors or fewer bits may help.",
            MissingEigenvectorsWarning,
            stacklevel=4,
        )
    return np.asarray(vectors[:, np.argsort(-values, kind="stable")] / roots[:, None])
