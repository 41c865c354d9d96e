"""The predicted class as the code: a baseline that uses labels without any hashing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fewbits.codes import Bits
from fewbits.data.labels import check_labels
from fewbits.errors import ParameterError
from fewbits.hashers._svm import fit_svms
from fewbits.hashers.base import Hasher, rowwise_matmul

TIE = np.finfo(np.float32).tiny  # margin's size where two classes tie and the bit is 0
UNANIMOUS = 1.0  # margin's size where all classes have the same bit


class ClassCode(Hasher):
    """Encode a document as the class predicted by a linear SVM: the baseline of every supervised method.

    Documents with the same predicted class have the same code, so it retrieves a class and nothing finer. Each class
    has its own random codeword. For each class an SVM separates the documents that have the label from the others;
    a document gets the codeword of the class with the largest score.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code, enough for each class to have its own codeword.
    C : float, default=1.0
        Regularization parameter of the SVM.
    random_state : int, RandomState instance or None, default=None
        Seed of the SVM and of the codewords.

    References
    ----------
    C. Cortes, V. Vapnik. Support-vector networks. Machine Learning 1995.
    """

    fitted_arrays = ("weights", "offsets", "codewords")
    needs_labels = True
    weights_: NDArray[np.float32]  # (features, classes)
    offsets_: NDArray[np.float32]  # (classes,)
    codewords_: NDArray[np.uint8]  # (classes, bits)

    def __init__(self, n_bits: int = 64, *, C: float = 1.0, random_state: Any = None) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.C = C

    def _fit(self, X: Any, y: Any) -> None:
        labels = check_labels(y, X.shape[0])
        generator = check_random_state(self.random_state)
        labelled = np.flatnonzero(np.diff(labels.indptr))
        rows, columns = X[labelled], labels[labelled].tocsc()
        classes = columns.shape[1]
        if self.n_bits < 63 and classes > 2**self.n_bits:
            raise ParameterError(
                "too few bits for a codeword of each class",
                allowed=f"{(classes - 1).bit_length()} or more",
                got=self.n_bits,
            )
        seed = generator.randint(2**31 - 1)
        weights = np.zeros((X.shape[1], classes), dtype=np.float32)
        counts = np.asarray(columns.sum(axis=0)).ravel()
        offsets = np.where(counts == len(labelled), -1, np.inf).astype(np.float32)  # an empty class is never predicted
        targets = (columns[:, [number]].toarray().ravel() > 0 for number in range(classes))
        for number, svm, _ in fit_svms(rows, targets, seed=seed, C=self.C):
            weights[:, number], offsets[number] = svm.coef_[0], -svm.intercept_[0]
        self.weights_, self.offsets_ = weights, offsets
        self.codewords_ = _distinct_codewords(classes, self.n_bits, generator)

    def _scores(self, X: Any) -> NDArray[np.float32]:
        return rowwise_matmul(X, self.weights_) - self.offsets_  # (rows, classes)

    def _encode(self, X: Any) -> Bits:
        return self.codewords_[self._scores(X).argmax(axis=1)]

    def _margins(self, X: Any) -> NDArray[np.float32]:
        """Compute the gap between the best scores among classes with a 1 and among classes with a 0 in each bit."""
        scores = self._scores(X)
        is_one = self.codewords_[scores.argmax(axis=1)] > 0  # (rows, bits)
        margins = np.where(is_one, np.float32(UNANIMOUS), np.float32(-UNANIMOUS))
        predictable = np.isfinite(self.offsets_)
        for bit, column in enumerate(self.codewords_.T):
            ones, zeros = predictable & (column == 1), predictable & (column == 0)
            if ones.any() and zeros.any():
                margins[:, bit] = scores[:, ones].max(axis=1) - scores[:, zeros].max(axis=1)
        return np.where((margins == 0) & ~is_one, -TIE, margins)


def _distinct_codewords(count: int, n_bits: int, generator: np.random.RandomState) -> NDArray[np.uint8]:
    if n_bits <= 16:  # few enough to enumerate
        numbers = generator.permutation(2**n_bits)[:count]
        return ((numbers[:, None] >> np.arange(n_bits)) & 1).astype(np.uint8)
    words = np.zeros((0, n_bits), dtype=np.uint8)
    while len(words) < count:  # a second draw is rarely needed
        drawn = generator.randint(0, 2, (count, n_bits)).astype(np.uint8)
        words = generator.permutation(np.unique(np.concatenate([words, drawn]), axis=0))
    return words[:count]
