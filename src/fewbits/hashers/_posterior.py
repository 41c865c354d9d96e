"""The class posterior beside an encoder: class probabilities from linear SVMs, times a codeword per class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.hashers._svm import fit_svms
from fewbits.hashers.base import Layer, Posterior, softmax

MAX_CLASSES = 200  # with more, one SVM per class and fold would take longer than training
MANY_LABELS = 1.5  # per document
SCALES = (0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16)  # of the scores before the softmax
FOLDS = 3
MAX_CALIBRATION_ROWS = 20_000
ENUMERABLE_BITS = 12  # up to this many bits, all codewords are compared
MINIMUM_SURENESS = 0.5  # size of a codeword's value in a bit that was flipped to make it distinct
SHORT_CODE = 8  # bits
SHORT_CODE_SHARPNESS = 4.0
TINY = 1e-9
Floats = NDArray[np.float32]


def posterior_weight(given: float | None, n_bits: int, labels: Any, *, is_linear: bool) -> float:
    """Return the weight of the codewords relative to the encoder's logits; ``labels`` are those of labelled rows.

    Whatever is given, it is 0 if there are too few or too many classes. By default a short code needs the classes more,
    and there is no posterior beside hidden layers, or if many documents have several labels.
    """
    if not 2 <= np.count_nonzero(np.asarray(labels.sum(axis=0))) <= MAX_CLASSES:
        return 0.0
    if given is not None:
        return given
    return max(4 * (8 / n_bits) ** 2, 0.2) if is_linear and not has_many_labels(labels) else 0.0


def has_many_labels(labels: Any) -> bool:
    """Return whether many labelled rows have several labels, and so no single class."""
    return bool(labels.nnz >= MANY_LABELS * labels.shape[0])


def fit_posterior(
    X: Any,
    labels: Any,
    logits: Floats,
    weights: NDArray[np.float64],
    seed: int,
    shortest: int,
    sharpness: float | None = None,
) -> Posterior:
    """Fit class probabilities to labelled rows, and codewords to the encoder's logits (rows, bits).

    A class's codeword is the mean sign of its documents' bits: a bit on which they disagree is near 0 and stays the
    encoder's own, so that neighbors inside a class stay apart. Logits must have a mean size of 1. ``weights`` are those
    of the bits; codewords are distinct in their first ``shortest`` bits.
    """
    counts = np.asarray(labels.sum(axis=0)).ravel()
    labels, counts = labels[:, np.flatnonzero(counts)], counts[counts > 0]
    table, bias = _class_svms(X, labels, seed)
    if sharpness is None:  # in a short code, a mixture of codewords is often that of yet another class
        sharpness = SHORT_CODE_SHARPNESS if logits.shape[1] <= SHORT_CODE else 1.0
    scale = np.float32(sharpness) * _calibrated_scale(X, labels, seed)
    codewords = np.asarray(labels.T @ np.where(logits >= 0, 1.0, -1.0)) / counts[:, None]  # (classes, bits)
    if (np.diff(labels.indptr) == 1).all():  # documents with several labels are between codewords
        codewords[:, :shortest] = distinct_codewords(codewords[:, :shortest], counts)
    return Posterior(scale * table, scale * bias, (weights * codewords).astype(np.float32))


def _class_svms(X: Any, labels: Any, seed: int) -> Layer:
    """Fit one linear SVM per class against the rest; return weights (features, classes) and biases."""
    weights = np.zeros((X.shape[1], labels.shape[1]), dtype=np.float32)
    bias = np.full(labels.shape[1], -1, dtype=np.float32)
    columns = labels.tocsc()
    targets = (columns[:, [number]].toarray().ravel() > 0 for number in range(labels.shape[1]))
    for number, svm, _ in fit_svms(X, targets, seed=seed):
        weights[:, number], bias[number] = svm.coef_[0], svm.intercept_[0]
    return weights, bias


def _calibrated_scale(X: Any, labels: Any, seed: int) -> np.float32:
    """Return the scale of the scores with the best likelihood of the labels of documents left out of the SVMs."""
    generator = np.random.default_rng(seed)
    if X.shape[0] > MAX_CALIBRATION_ROWS:
        chosen = np.sort(generator.choice(X.shape[0], MAX_CALIBRATION_ROWS, replace=False))
        X, labels = X[chosen], labels[chosen]
    fold = generator.integers(0, FOLDS, X.shape[0])
    scores = np.zeros(labels.shape, dtype=np.float32)
    for number in range(FOLDS):
        weights, bias = _class_svms(X[fold != number], labels[fold != number], seed)
        scores[fold == number] = X[fold == number] @ weights + bias
    shares = labels.toarray() / np.maximum(labels.sum(axis=1).reshape(-1, 1), 1)

    def loss(scale: float) -> float:
        return -float((shares * np.log(softmax(np.float32(scale) * scores) + TINY)).sum())

    return np.float32(min(SCALES, key=loss))


def distinct_codewords(codewords: NDArray[np.float64], counts: NDArray[Any]) -> NDArray[np.float64]:
    """Change codewords (classes, bits) in [-1, 1] until their signs are distinct, as far as possible.

    The largest class keeps its signs. A later one takes the free signs that change the least confident bits; with many
    bits it flips its least sure bit that makes it distinct.
    """
    n_bits = codewords.shape[1]
    all_signs = None
    if n_bits <= ENUMERABLE_BITS:
        all_signs = ((np.arange(2**n_bits)[:, None] >> np.arange(n_bits)) & 1) * 2 - 1
    changed = codewords.copy()
    used: set[bytes] = set()
    for number in np.argsort(-counts, kind="stable"):
        own, sureness = np.where(codewords[number] >= 0, 1, -1), np.abs(codewords[number])
        signs = _free_signs(own, sureness, used, all_signs)
        used.add(signs.tobytes())
        flipped = signs != own
        changed[number, flipped] = signs[flipped] * np.maximum(sureness[flipped], MINIMUM_SURENESS)
    return changed


def _free_signs(
    own: NDArray[np.int64], sureness: NDArray[np.float64], used: set[bytes], all_signs: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Return the class's own signs if they are free, else the nearest free ones; its own if there are none."""
    if own.tobytes() not in used:
        return own
    if all_signs is not None:
        costs = (all_signs != own) @ sureness
        order = (all_signs[place] for place in np.argsort(costs, kind="stable"))
    else:
        order = (np.where(np.arange(len(own)) == bit, -own, own) for bit in np.argsort(sureness, kind="stable"))
    return next((signs for signs in order if signs.tobytes() not in used), own)
