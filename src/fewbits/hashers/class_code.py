"""The predicted class as the code: what labels give without any hashing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state

from fewbits.codes import Bits
from fewbits.data.labels import known_labels
from fewbits.errors import ParameterError
from fewbits.hashers.base import Hasher, as_int32_csr, rowwise_matmul


class ClassCode(Hasher):
    """Encode a document as the class that a linear SVM predicts: the floor under every supervised method.

    Documents of one predicted class have one code, whatever else they are about, so it retrieves a class and nothing
    finer. Each class has a random codeword; codewords differ. A document with several labels is taught as each of
    them against all others, and gets the one with the largest margin.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code: enough that all classes get codewords of their own.
    C : float, default=1.0
        The SVM's penalty.
    random_state : int, RandomState instance or None, default=None
        Starts the SVM and draws the codewords.

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
        labels = known_labels(y, X.shape[0])
        generator = check_random_state(self.random_state)
        labelled = np.flatnonzero(np.diff(labels.indptr))
        rows, columns = as_int32_csr(X[labelled]), labels[labelled].tocsc()
        classes = columns.shape[1]
        if self.n_bits < 63 and classes > 2**self.n_bits:
            raise ParameterError(
                "too few bits for a codeword of each class",
                allowed=f"{(classes - 1).bit_length()} or more",
                got=self.n_bits,
            )
        seed = generator.randint(2**31 - 1)
        self.weights_ = np.zeros((X.shape[1], classes), dtype=np.float32)
        self.offsets_ = np.full(classes, np.inf, dtype=np.float32)  # a class that nobody has is never predicted
        for number in range(classes):
            target = columns[:, [number]].toarray().ravel() > 0
            if target.all() or not target.any():
                self.offsets_[number] = -1 if target.all() else np.inf
                continue
            svm = LinearSVC(C=self.C, random_state=seed).fit(rows, target)
            self.weights_[:, number], self.offsets_[number] = svm.coef_[0], -svm.intercept_[0]
        self.codewords_ = _different_codewords(classes, self.n_bits, generator)

    def _encode(self, X: Any) -> Bits:
        margins = rowwise_matmul(X, self.weights_) - self.offsets_  # (rows, classes)
        return self.codewords_[margins.argmax(axis=1)]


def _different_codewords(count: int, n_bits: int, generator: np.random.RandomState) -> NDArray[np.uint8]:
    if n_bits <= 16:  # few enough to choose among all
        numbers = generator.permutation(2**n_bits)[:count]
        return ((numbers[:, None] >> np.arange(n_bits)) & 1).astype(np.uint8)
    words = np.zeros((0, n_bits), dtype=np.uint8)
    while len(words) < count:  # a second draw is hardly ever needed
        drawn = generator.randint(0, 2, (count, n_bits)).astype(np.uint8)
        words = generator.permutation(np.unique(np.concatenate([words, drawn]), axis=0))
    return words[:count]
