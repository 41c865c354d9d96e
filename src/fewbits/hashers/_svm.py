"""Linear support vector machines, one a bit, that have their share in a linear encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.svm import LinearSVC

from fewbits.hashers.base import as_int32_csr

SMOOTHING = 0.1  # of a word's weight on either side of a bit
Weights = NDArray[np.float32]  # (features, bits)
Biases = NDArray[np.float32]  # (bits,)


def blend_with_svms(
    weights: Weights, bias: Biases, X: Any, labels: Any, share: float, seed: int
) -> tuple[Weights, Biases]:
    """A linear encoder whose logits are, to a share, margins of machines that agree with it about the labels.

    A machine is taught what its bit says of most documents with the same labels: where the bit says something else of a
    document, it is wrong more often than not. It sees every word weighed by naive Bayes' log ratio for that bit, so
    that few words of which much is known count more than many of which little is (S. Wang, C. Manning. Baselines and
    bigrams: simple, good sentiment and topic classification. ACL 2012). Machines alone forget what tells documents of
    one label apart, and are no better than the encoder; but the two make different mistakes.

    ``labels`` are a table (documents, labels) in which every document has one or more.
    """
    X = as_int32_csr(X)
    logits = np.asarray(X @ weights) + bias  # (documents, bits)
    said = np.asarray(labels.T @ np.where(logits >= 0, 1.0, -1.0))  # (labels, bits)
    said /= np.maximum(np.asarray(labels.sum(axis=0)).reshape(-1, 1), 1)
    wanted = np.asarray(labels @ said) >= 0  # (documents, bits)
    ratios = _log_ratios(X, wanted)
    blended, shifted = weights.copy(), bias.copy()
    for bit in range(weights.shape[1]):
        if wanted[:, bit].all() or not wanted[:, bit].any():
            continue  # nothing to tell apart
        ratio = ratios[:, bit]
        weighed = sparse.csr_array((X.data * ratio[X.indices], X.indices, X.indptr), shape=X.shape)
        machine = LinearSVC(random_state=seed).fit(weighed, wanted[:, bit])
        scale = np.abs(logits[:, bit]).mean() / np.abs(machine.decision_function(weighed)).mean()
        blended[:, bit] = (1 - share) * weights[:, bit] + share * scale * ratio * machine.coef_[0]
        shifted[bit] = (1 - share) * bias[bit] + share * scale * machine.intercept_[0]
    return blended, shifted


def _log_ratios(X: Any, wanted: NDArray[np.bool_]) -> Weights:
    """How much more of the words where a bit is 1 is each word than where it is 0: (features, bits), in logarithms."""
    ones = np.asarray(X.T @ wanted.astype(np.float32)) + SMOOTHING
    zeros = np.asarray(X.T @ (~wanted).astype(np.float32)) + SMOOTHING
    ratios: Weights = np.log(ones / ones.sum(axis=0)) - np.log(zeros / zeros.sum(axis=0))
    return ratios
