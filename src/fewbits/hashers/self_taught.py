"""Self-taught hashing: bits from the eigenvectors of a neighbour graph, taught to linear classifiers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state

from fewbits.features.neighbors import nearest_by_cosine
from fewbits.hashers._linalg import DEFLATION, trivial_eigenvectors, without_noise
from fewbits.hashers.base import LinearHasher, as_int32_csr, sample_rows
from fewbits.validation import check_whole_number

BLOCK = 50_000  # pairs of documents that are multiplied at one time
FEW = 500  # documents for which a dense solver is as fast
TOLERANCE = 1e-6  # of the eigenvalues: the vectors are only cut at their medians


class MissingEigenvectorsWarning(UserWarning):
    """The iterative solver did not find all eigenvectors that were asked for."""


class SelfTaughtHashing(LinearHasher):
    """Find codes of the training documents that change little between neighbours, then learn to tell them (STH).

    The graph joins every document with its nearest by cosine, both ways. The eigenvectors of its Laplacian with the
    smallest eigenvalues, cut at their medians, are the training documents' own codes; the constant one is left out, and
    so are those that only tell a few documents, joined to no others, from the rest. A linear SVM for each bit is all
    that remains: training documents are encoded by it like all others.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code. A bit for which the graph has no eigenvector is always 0.
    n_neighbours : int, default=25
        Neighbours of each document in the graph.
    C : float, default=1.0
        The SVMs' penalty.
    max_rows : int, default=20000
        The graph is made of so many documents at most, a random choice of them: all pairs are compared.
    random_state : int, RandomState instance or None, default=None
        Chooses the documents, and starts eigenvectors and SVMs.

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
        self.weights_ = np.zeros((rows.shape[1], self.n_bits), dtype=np.float32)
        self.offsets_ = np.ones(self.n_bits, dtype=np.float32)  # 0 is below
        vectors = without_noise(smooth_vectors(neighbour_graph(rows, self.n_neighbours), self.n_bits, generator))
        targets = vectors > np.median(vectors, axis=0)
        seed = generator.randint(2**31 - 1)
        for bit, target in enumerate(targets.T):
            if target.any() and not target.all():
                svm = LinearSVC(C=self.C, random_state=seed).fit(rows, target)
                self.weights_[:, bit], self.offsets_[bit] = svm.coef_[0], -svm.intercept_[0]


def neighbour_graph(rows: Any, n_neighbours: int) -> Any:
    """Cosines of neighbours (documents, documents), symmetric: joined if either is among the other's nearest."""
    count = rows.shape[0]
    k = min(n_neighbours, count - 1)
    found = nearest_by_cosine(rows, rows, k + 1)
    left = np.repeat(np.arange(count), k + 1)
    right = found.ravel()
    left, right = left[left != right], right[left != right]
    cosines = np.concatenate(
        [
            np.asarray(rows[left[part]].multiply(rows[right[part]]).sum(axis=1)).ravel()
            for part in np.array_split(np.arange(len(left)), max(1, len(left) // BLOCK))
        ]
    )
    graph = sparse.csr_array((cosines, (left, right)), shape=(count, count))
    graph.eliminate_zeros()  # documents that share no word are no neighbours
    return sparse.csr_array(graph.maximum(graph.T))


def smooth_vectors(graph: Any, count: int, generator: np.random.RandomState) -> NDArray[np.float64]:
    """Vectors v with L v = lambda D v (documents, at most count), by rising lambda, trivial ones left out.

    L = D - W is the graph's Laplacian, D its degrees; D^(1/2) v are the eigenvectors of the normalised one. Trivial
    ones are known. They are taken out of the graph, whose largest eigenvalues then are those wanted.
    """
    size = graph.shape[0]
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    roots = np.sqrt(np.where(degrees > 0, degrees, 1))
    normal = sparse.csr_array(sparse.diags_array(1 / roots) @ graph @ sparse.diags_array(1 / roots))
    trivial = trivial_eigenvectors(graph, roots, np.ones(size))
    wanted = min(count, size - trivial.shape[1])
    if wanted < 1:
        return np.zeros((size, 0))

    def apply(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(normal @ vector - DEFLATION * (trivial @ (trivial.T @ vector)))

    if size <= max(3 * wanted, FEW):
        values, vectors = np.linalg.eigh(normal.toarray() - DEFLATION * (trivial @ trivial.T).toarray())
        return np.asarray(vectors[:, np.argsort(-values, kind="stable")[:wanted]] / roots[:, None])
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    start = generator.standard_normal(size)
    try:
        values, vectors = eigsh(operator, wanted, which="LA", v0=start, ncv=4 * wanted + 20, tol=TOLERANCE)
    except ArpackNoConvergence as error:
        values, vectors = error.eigenvalues, error.eigenvectors
        warnings.warn(
            f"only {len(values)} of {wanted} eigenvectors of the neighbours' graph were found; the bits of the others"
            " are always 0. More neighbours, or fewer bits, may help.",
            MissingEigenvectorsWarning,
            stacklevel=4,
        )
    return np.asarray(vectors[:, np.argsort(-values, kind="stable")] / roots[:, None])
