"""Linear support vector machines, one per bit or class, and their blend with a linear encoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.svm import LinearSVC

from fewbits.hashers._linalg import as_int32_csr

SMOOTHING = 0.1  # added to each word's weight where the bit is 1, and where it is 0
Weights = NDArray[np.float32]  # (features, bits)
Biases = NDArray[np.float32]  # (bits,)


def fit_svms(
    X: Any, targets: Iterable[NDArray[np.bool_]], *, seed: int, C: float = 1.0, weights: Weights | None = None
) -> Iterator[tuple[int, LinearSVC, Any]]:
    """Fit one linear SVM per target; yield the target's number, the SVM and the rows that it was fitted to.

    Constant targets are left out. With ``weights`` (features, targets), each SVM gets its own weighting of the
    features.
    """
    X = as_int32_csr(X)
    for number, target in enumerate(targets):
        if target.all() or not target.any():
            continue
        rows = X
        if weights is not None:
            weighted = X.data * weights[X.indices, number]
            rows = sparse.csr_array((weighted, X.indices, X.indptr), shape=X.shape)
        yield number, LinearSVC(C=C, random_state=seed).fit(rows, target), rows


def blend_with_svms(
    weights: Weights, bias: Biases, X: Any, labels: Any, shares: NDArray[np.float64], seed: int
) -> tuple[Weights, Biases]:
    """Blend a linear encoder's logits with the margins of per-bit NB-SVMs; ``shares`` are the SVMs' part of each bit.

    An SVM is fitted to the bit's majority value among documents with the same labels: where a document's bit differs
    from it, the bit is wrong more often than not. Features are weighted by the naive Bayes log-count ratio of that bit,
    so that a few informative words count more than many uninformative ones (S. Wang, C. Manning. Baselines and bigrams:
    simple, good sentiment and topic classification. ACL 2012). SVMs alone lose what distinguishes documents of one
    label and are no better than the encoder, but the two make different mistakes.

    ``labels`` are a table (documents, labels); every document has at least one.
    """
    some = np.flatnonzero(shares)
    logits = np.asarray(as_int32_csr(X) @ weights[:, some]) + bias[some]  # (documents, bits)
    votes = np.asarray(labels.T @ np.where(logits >= 0, 1.0, -1.0))  # (labels, bits)
    votes /= np.maximum(np.asarray(labels.sum(axis=0)).reshape(-1, 1), 1)
    targets = np.asarray(labels @ votes) >= 0  # (documents, bits)
    ratios = _log_count_ratios(X, targets)
    blended, blended_bias = weights.copy(), bias.copy()
    for place, svm, rows in fit_svms(X, targets.T, seed=seed, weights=ratios):
        bit, share = some[place], float(shares[some[place]])
        scale = np.abs(logits[:, place]).mean() / np.abs(svm.decision_function(rows)).mean()
        blended[:, bit] = (1 - share) * weights[:, bit] + share * scale * ratios[:, place] * svm.coef_[0]
        blended_bias[bit] = (1 - share) * bias[bit] + share * scale * svm.intercept_[0]
    return blended, blended_bias


def _log_count_ratios(X: Any, targets: NDArray[np.bool_]) -> Weights:
    """Compute the naive Bayes log-count ratio of each word for each bit: (features, bits)."""
    ones = np.asarray(X.T @ targets.astype(np.float32)) + SMOOTHING
    zeros = np.asarray(X.T @ (~targets).astype(np.float32)) + SMOOTHING
    ratios: Weights = np.log(ones / ones.sum(axis=0)) - np.log(zeros / zeros.sum(axis=0))
    return ratios
