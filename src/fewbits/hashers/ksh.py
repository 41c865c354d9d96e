"""Supervised hashing with kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from sklearn.utils import check_random_state

from fewbits.data.labels import label_patterns, labelled_sample, pair_signs
from fewbits.hashers._linalg import sample_rows, squared_distances
from fewbits.hashers.base import Hasher, rowwise_matmul
from fewbits.validation import check_whole_number

RIDGE = 1e-6  # of the right-hand matrix, relative to its mean diagonal
MEAN_ROWS = 20_000  # sampled to estimate the kernel's mean and bandwidth
TOLERANCE = 1e-7  # relative gain of a step below which a bit has converged


class KernelSupervisedHashing(Hasher):
    """Learn bits one after the other whose inner products match the documents' pairwise similarity (KSH).

    Rows are mapped to their Gaussian kernels with a few anchors, centred on the training mean; the bandwidth is the
    mean squared distance to the anchors. With signs h of the labelled sample and its similarity S (1 or -1), the sum of
    h h' over the bits is fitted to n_bits S. Each bit takes the direction that explains most of the residual: first an
    eigenvector, then accelerated gradient steps on the same objective with smooth signs, kept if they are better.

    All pairs of the sample are compared, so at most ``n_labelled`` documents are used.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    n_anchors : int, default=300
        Number of training documents that serve as anchors.
    n_labelled : int, default=2000
        Largest number of labelled documents to use, a random sample.
    n_steps : int, default=500
        Largest number of gradient steps per bit.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples of anchors and of labelled documents.

    Attributes
    ----------
    objective_ : array of shape (n_bits,)
        Share of the similarity explained by the bits up to each one, 1 - |residual|^2 / |n_bits S|^2.

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
        anchors = np.asarray(anchors.toarray() if sparse.issparse(anchors) else anchors, dtype=np.float32)
        sample = sample_rows(X, MEAN_ROWS, generator)
        bandwidth = squared_distances(sample, anchors).mean(keepdims=True).reshape(1) + np.float32(1e-12)
        mean = gaussian_kernel(sample, anchors, bandwidth).mean(axis=0)
        kernel = gaussian_kernel(X[chosen], anchors, bandwidth) - mean  # (labelled, anchors)
        residual = Residual(labels, self.n_bits)
        self.weights_, self.objective_ = _fit_bits(kernel, residual, self.n_bits, self.n_steps)
        self.offsets_ = (mean @ self.weights_).astype(np.float32)
        self.anchors_, self.bandwidth_ = anchors, bandwidth

    def _margins(self, X: Any) -> NDArray[np.float32]:
        return rowwise_matmul(gaussian_kernel(X, self.anchors_, self.bandwidth_), self.weights_) - self.offsets_


def gaussian_kernel(X: Any, anchors: NDArray[np.float32], bandwidth: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the Gaussian kernel of rows with anchors, (rows, anchors)."""
    return np.exp(squared_distances(X, anchors) / (-2 * bandwidth))


class Residual:
    """The residual R, the similarity not yet explained by the bits so far, as products of thin matrices.

    Documents with the same labels have the same similarities, so a product with R takes time linear in the number of
    documents, while R itself has that number squared.
    """

    def __init__(self, labels: Any, n_bits: int) -> None:
        patterns, pattern_of = label_patterns(labels)
        count = len(pattern_of)
        self._members = sparse.csr_array((np.ones(count, np.float32), (np.arange(count), pattern_of)))
        self._similarity = n_bits * pair_signs(patterns).astype(np.float32)  # (patterns, patterns)
        self._bits = np.zeros((count, 0), dtype=np.float32)  # the signs h of each bit as columns
        self.square = self.initial_square = float(n_bits * count) ** 2  # |R|^2, now and at the start

    def __matmul__(self, b: NDArray[np.float32]) -> NDArray[np.float32]:
        similar: NDArray[np.float32] = self._members @ (self._similarity @ (self._members.T @ b))
        return similar - self._bits @ (self._bits.T @ b)

    def subtract(self, h: NDArray[np.float32]) -> None:
        """Subtract a bit's share: |R - hh'|^2 = |R|^2 - 2 h'Rh + |h|^4."""
        self.square += float(len(h)) ** 2 - 2 * float(h.astype(np.float64) @ (self @ h))
        self._bits = np.column_stack([self._bits, h])


def _fit_bits(
    kernel: NDArray[np.float32], residual: Residual, n_bits: int, n_steps: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return weights (anchors, bits), and the share of the similarity explained up to each bit."""
    exact = kernel.astype(np.float64)  # 32 bits would lose the smallest eigenvalues of the right-hand matrix
    right = exact.T @ exact
    right += RIDGE * max(float(np.trace(right)) / len(right), 1e-12) * np.eye(len(right))
    weights = np.zeros((kernel.shape[1], n_bits), dtype=np.float32)
    explained = np.zeros(n_bits)
    last = len(right) - 1
    for bit in range(n_bits):
        left = kernel.T @ (residual @ kernel)
        _, vectors = eigh((left + left.T).astype(np.float64) / 2, right, subset_by_index=[last, last])
        start = vectors[:, 0] * np.sqrt(len(kernel))
        weights[:, bit] = _nesterov_ascent(kernel, residual, start.astype(np.float32), n_steps)
        residual.subtract(_signs(kernel @ weights[:, bit]))
        explained[bit] = 1 - residual.square / residual.initial_square
    return weights, explained


def _nesterov_ascent(
    kernel: NDArray[np.float32], residual: Residual, start: NDArray[np.float32], n_steps: int
) -> NDArray[np.float32]:
    """Maximise b' R b, b = tanh(Ka / 2) the smooth signs, by Nesterov's accelerated gradient with backtracking."""

    def evaluate(a: NDArray[np.float32]) -> tuple[float, NDArray[np.float32], NDArray[np.float32]]:
        b = np.tanh(kernel @ a / 2)
        product = residual @ b
        return float(b @ product), b, product

    point, ahead, size, momentum = start, start, 1.0, 1.0
    last, _, _ = evaluate(start)
    for _ in range(n_steps):
        value, b, product = evaluate(ahead)
        gradient = kernel.T @ (product * (1 - b * b))
        steepness = float(gradient @ gradient)
        if not steepness:
            break
        size *= 2
        while True:
            candidate = ahead + size * gradient
            reached, _, _ = evaluate(candidate)
            if reached >= value + size * steepness / 2 or size < 1e-20:
                break
            size /= 2
        next_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = candidate + np.float32((momentum - 1) / next_momentum) * (candidate - point)
        point, momentum = candidate, next_momentum
        if abs(reached - last) <= TOLERANCE * abs(last):
            break
        last = reached
    end, begin = _signs(kernel @ point), _signs(kernel @ start)
    return point if float(end @ (residual @ end)) >= float(begin @ (residual @ begin)) else start


def _signs(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(values >= 0, 1, -1).astype(np.float32)
