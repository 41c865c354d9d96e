"""Supervised hashing with kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from sklearn.utils import check_random_state

from fewbits.codes import Bits
from fewbits.data.labels import labelled_sample, similarity_signs
from fewbits.hashers._linalg import squared_distances
from fewbits.hashers.base import Hasher, rowwise_matmul, sample_rows
from fewbits.validation import check_whole_number

RIDGE = 1e-6  # of the right-hand matrix, relative to its mean diagonal
MANY_ROWS = 20_000  # enough for the training mean of the kernel
ENOUGH = 1e-7  # relative gain of a step at which a bit is finished


class KernelSupervisedHashing(Hasher):
    """Learn bits, one after the other, whose products tell which documents share a label (KSH).

    Rows become their Gaussian kernels with some anchors, centred on the training mean; the mean squared distance to the
    anchors is the bandwidth. With signs h of the labelled sample and S its similarity (1 or -1), the wanted sum of
    h h' is n_bits S. Each bit takes the direction that explains most of what is left of it: an eigenvector first, then
    accelerated gradient steps on the same objective with smooth signs, kept if they are better.

    Compares all pairs of the sample, so it learns from ``n_labelled`` documents however many there are.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    n_anchors : int, default=300
        Training documents that the kernel compares with.
    n_labelled : int, default=2000
        Labelled documents to learn from, a random choice.
    n_steps : int, default=500
        Gradient steps for a bit at most.
    random_state : int, RandomState instance or None, default=None
        Chooses anchors and labelled documents.

    Attributes
    ----------
    objective_ : array of shape (n_bits,)
        Share of the wanted similarity that the bits so far explain, 1 - |rest|^2 / |n_bits S|^2.

    References
    ----------
    W. Liu, J. Wang, R. Ji, Y. Jiang, S. Chang. Supervised hashing with kernels. CVPR 2012.
    """

    fitted_arrays = ("anchors", "bandwidth", "weights", "offsets", "objective")
    needs_labels = True
    anchors_: NDArray[np.float32]  # (anchors, features)
    bandwidth_: NDArray[np.float32]  # (1,)
    weights_: NDArray[np.float32]  # (anchors, bits)
    offsets_: NDArray[np.float32]  # (bits,)
    objective_: NDArray[np.float64]

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_anchors: int = 300,
        n_labelled: int = 2000,
        n_steps: int = 500,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.n_anchors = n_anchors
        self.n_labelled = n_labelled
        self.n_steps = n_steps

    def _fit(self, X: Any, y: Any) -> None:
        check_whole_number("n_anchors", self.n_anchors, 1)
        check_whole_number("n_steps", self.n_steps, 0)
        generator = check_random_state(self.random_state)
        chosen, labels = labelled_sample(y, X.shape[0], self.n_labelled, generator)
        anchors = X[np.sort(generator.permutation(X.shape[0])[: self.n_anchors])]
        self.anchors_ = np.asarray(anchors.toarray() if hasattr(anchors, "toarray") else anchors, dtype=np.float32)
        everyone = sample_rows(X, MANY_ROWS, generator)
        self.bandwidth_ = squared_distances(everyone, self.anchors_).mean(keepdims=True).reshape(1) + np.float32(1e-12)
        kernel = self._kernel(X[chosen])  # (labelled, anchors)
        mean = self._kernel(everyone).mean(axis=0)
        self.weights_, self.objective_ = _learn_bits(
            kernel - mean, _Residual(labels, self.n_bits), self.n_bits, self.n_steps
        )
        self.offsets_ = (mean @ self.weights_).astype(np.float32)

    def _kernel(self, X: Any) -> NDArray[np.float32]:
        return np.exp(squared_distances(X, self.anchors_) / (-2 * self.bandwidth_))

    def _encode(self, X: Any) -> Bits:
        return (rowwise_matmul(self._kernel(X), self.weights_) >= self.offsets_).astype(np.uint8)


class _Residual:
    """R, what the bits so far leave of the wanted similarity, as products of thin matrices.

    Documents with the same labels have the same similarities: a product with R takes a time that grows with the number
    of documents, where R itself grows with its square.
    """

    def __init__(self, labels: Any, n_bits: int) -> None:
        kinds, kind_of = np.unique(labels.toarray(), axis=0, return_inverse=True)
        count = len(kind_of)
        self._members = sparse.csr_array((np.ones(count, np.float32), (np.arange(count), kind_of.ravel())))
        self._similarity = n_bits * similarity_signs(sparse.csr_array(kinds))  # (kinds, kinds)
        self._bits = np.zeros((count, 0), dtype=np.float32)  # signs h of each, side by side
        self.square = self.wanted = float(n_bits * count) ** 2  # |R|^2, now and at the start

    def __matmul__(self, b: NDArray[np.float32]) -> NDArray[np.float32]:
        similar: NDArray[np.float32] = self._members @ (self._similarity @ (self._members.T @ b))
        return similar - self._bits @ (self._bits.T @ b)

    def take(self, h: NDArray[np.float32]) -> None:
        """Take away what a bit explains: |R - hh'|^2 = |R|^2 - 2 h'Rh + |h|^4."""
        self.square += float(len(h)) ** 2 - 2 * float(h.astype(np.float64) @ (self @ h))
        self._bits = np.column_stack([self._bits, h])


def _learn_bits(
    kernel: NDArray[np.float32], rest: _Residual, n_bits: int, n_steps: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Weights (anchors, bits), and how much of the similarity the bits explain, bit by bit."""
    exact = kernel.astype(np.float64)  # the smallest eigenvalues of the right-hand matrix are lost in 32 bits
    right = exact.T @ exact
    right += RIDGE * max(float(np.trace(right)) / len(right), 1e-12) * np.eye(len(right))
    weights = np.zeros((kernel.shape[1], n_bits), dtype=np.float32)
    explained = np.zeros(n_bits)
    last = len(right) - 1
    for bit in range(n_bits):
        left = kernel.T @ (rest @ kernel)
        _, vectors = eigh((left + left.T).astype(np.float64) / 2, right, subset_by_index=[last, last])
        start = vectors[:, 0] * np.sqrt(len(kernel))
        weights[:, bit] = _nesterov_ascent(kernel, rest, start.astype(np.float32), n_steps)
        rest.take(_signs(kernel @ weights[:, bit]))
        explained[bit] = 1 - rest.square / rest.wanted
    return weights, explained


def _nesterov_ascent(
    kernel: NDArray[np.float32], rest: _Residual, start: NDArray[np.float32], n_steps: int
) -> NDArray[np.float32]:
    """Raise b' R b, b = tanh(Ka / 2) the smooth signs, by Nesterov's steps with backtracking."""

    def value(a: NDArray[np.float32]) -> tuple[float, NDArray[np.float32], NDArray[np.float32]]:
        b = np.tanh(kernel @ a / 2)
        product = rest @ b
        return float(b @ product), b, product

    point, ahead, size, momentum = start, start, 1.0, 1.0
    last, _, _ = value(start)
    for _ in range(n_steps):
        here, b, product = value(ahead)
        gradient = kernel.T @ (product * (1 - b * b))
        steepness = float(gradient @ gradient)
        if not steepness:
            break
        size *= 2
        while True:
            tried = ahead + size * gradient
            reached, _, _ = value(tried)
            if reached >= here + size * steepness / 2 or size < 1e-20:
                break
            size /= 2
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = tried + np.float32((momentum - 1) / following) * (tried - point)
        point, momentum = tried, following
        if abs(reached - last) <= ENOUGH * abs(last):
            break
        last = reached
    climbed, began = _signs(kernel @ point), _signs(kernel @ start)
    return point if float(climbed @ (rest @ climbed)) >= float(began @ (rest @ began)) else start


def _signs(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(values >= 0, 1, -1).astype(np.float32)
