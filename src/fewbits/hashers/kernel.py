"""Supervised hashing with kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.utils import check_random_state

from fewbits.checks import check_whole_number
from fewbits.codes import Bits
from fewbits.hashers.base import Hasher, row_by_row, sample_rows
from fewbits.hashers.distances import squared_distances
from fewbits.hashers.similarity import labelled_sample, similarity_signs

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

    learnt = ("anchors", "bandwidth", "weights", "offsets", "objective")
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
        signs = similarity_signs(labels)
        self.weights_, self.objective_ = _learn_bits(kernel - mean, signs, self.n_bits, self.n_steps)
        self.offsets_ = (mean @ self.weights_).astype(np.float32)

    def _kernel(self, X: Any) -> NDArray[np.float32]:
        return np.exp(squared_distances(X, self.anchors_) / (-2 * self.bandwidth_))

    def _encode(self, X: Any) -> Bits:
        return (row_by_row(self._kernel(X), self.weights_) >= self.offsets_).astype(np.uint8)


def _learn_bits(
    kernel: NDArray[np.float32], signs: NDArray[np.float32], n_bits: int, n_steps: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Weights (anchors, bits), and how much of the similarity the bits explain, bit by bit."""
    rest = n_bits * signs  # R: what is still to be explained (labelled, labelled)
    wanted = float((rest.astype(np.float64) ** 2).sum())
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
        weights[:, bit] = _climb(kernel, rest, start.astype(np.float32), n_steps)
        h = _signs(kernel @ weights[:, bit])
        rest -= np.outer(h, h)
        explained[bit] = 1 - float((rest.astype(np.float64) ** 2).sum()) / wanted
    return weights, explained


def _climb(
    kernel: NDArray[np.float32], rest: NDArray[np.float32], start: NDArray[np.float32], n_steps: int
) -> NDArray[np.float32]:
    """Raise b' R b, b = tanh(Ka / 2) the smooth signs, by Nesterov's steps with backtracking."""

    def value_and_gradient(a: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
        b = np.tanh(kernel @ a / 2)
        product = rest @ b
        return float(b @ product), kernel.T @ (product * (1 - b * b))

    point, ahead, size, momentum = start, start, 1.0, 1.0
    last, _ = value_and_gradient(start)
    for _ in range(n_steps):
        value, gradient = value_and_gradient(ahead)
        steepness = float(gradient @ gradient)
        if not steepness:
            break
        size *= 2
        while True:
            tried = ahead + size * gradient
            reached, _ = value_and_gradient(tried)
            if reached >= value + size * steepness / 2 or size < 1e-20:
                break
            size /= 2
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = tried + np.float32((momentum - 1) / following) * (tried - point)
        point, momentum = tried, following
        if abs(reached - last) <= ENOUGH * abs(last):
            break
        last = reached
    signs = _signs(kernel @ point), _signs(kernel @ start)
    better = float(signs[0] @ rest @ signs[0]) >= float(signs[1] @ rest @ signs[1])
    return point if better else start


def _signs(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(values >= 0, 1, -1).astype(np.float32)
