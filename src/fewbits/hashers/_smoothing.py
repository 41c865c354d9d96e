"""A smoothed latent space: linear maps of the words that move documents towards their neighbors.

Neighbors in this space share a topic more often than those in the latent semantic space, and its rotated principal
directions are a good start for a linear encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from fewbits.features.neighbors import nearest_to_each
from fewbits.hashers.base import Layer
from fewbits.hashers.itq import fit_rotation

OWN_SHARE = 0.1  # of a document's own place in its target; the rest is the mean of its neighbors
RIDGE = 5.0  # penalty of the regression from words to targets
RIDGE_STEPS = 10  # of conjugate gradients; to stop early is part of the regularisation
ROTATION_STEPS = 50
ROTATION_STEPS_LONG = 5  # for codes longer than the space has dimensions, where a step is slow
LOGIT_SPREAD = 3.0  # standard deviation of the first logits at 8 bits; it decreases with the root of the length
MINIMUM_SPREAD = 1e-6  # of places along the directions: below it there are only rounding errors
BLOCK_ROWS = 10_000
AGREEMENT_DEPTH, AGREEMENT_SAMPLE = 100, 1000
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Smoothing:
    """Settings that go with a smoothed latent space, chosen for small and for larger corpora."""

    rounds: int
    dimensions: int
    steps: int
    rate: float
    rate_by_length: bool  # whether the learning rate decreases with the root of the length
    decoded_words: int
    earlier_starts: int  # of short codes, in versions that started from rotations of the smoothed space only

    def learning_rate(self, n_bits: int) -> float:
        """Return Adam's learning rate for a linear encoder."""
        return self.rate / n_bits**0.5 if self.rate_by_length else self.rate


# More rounds help larger corpora and blur the fine classes of small ones.
SMALL = Smoothing(
    rounds=1, dimensions=512, steps=600, rate=0.01, rate_by_length=False, decoded_words=3000, earlier_starts=1
)
LARGE = Smoothing(
    rounds=3, dimensions=256, steps=900, rate=0.12, rate_by_length=True, decoded_words=10_000, earlier_starts=3
)


@dataclass(frozen=True)
class SmoothedSpace:
    """A linear map of the words, and the neighbors by cosine in its image."""

    weights: Floats  # (words, dimensions)
    neighbors: NDArray[np.int64]  # (documents, neighbors)
    latent_weights: Floats  # (words, dimensions): the map into the latent semantic space, before any smoothing


def smoothed_space(X: Any, n_neighbors: int, dimensions: int, rounds: int, seed: int) -> SmoothedSpace:
    """Smooth the latent space of the rows: one ridge regression per round, from words to the mean of the neighbors."""
    dimensions = max(1, min(dimensions, X.shape[0] // 2, X.shape[1] - 1))
    decomposition = TruncatedSVD(dimensions, random_state=seed)
    latent = _unit_rows(decomposition.fit_transform(X))
    latent_weights = np.ascontiguousarray(decomposition.components_.T, dtype=np.float32)
    neighbors = nearest_to_each(latent, n_neighbors)
    weights = np.zeros((X.shape[1], dimensions), dtype=np.float32)
    for _ in range(rounds):
        targets = _neighborhood_means(latent, neighbors)
        weights = _ridge(X, targets - targets.mean(axis=0))
        latent = _unit_rows(X @ weights)
        neighbors = nearest_to_each(latent, n_neighbors)
    return SmoothedSpace(weights, neighbors, latent_weights)


def _unit_rows(rows: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(normalize(rows), dtype=np.float32)


def _neighborhood_means(latent: Floats, neighbors: NDArray[np.int64]) -> Floats:
    """Mix each row with the mean of its neighbors' rows, a block of rows at a time."""
    count, k = neighbors.shape
    targets = np.empty_like(latent)
    for start in range(0, count, BLOCK_ROWS):
        block = neighbors[start : start + BLOCK_ROWS]
        shares = np.full(block.size, (1 - OWN_SHARE) / k, dtype=np.float32)
        ends = np.arange(0, block.size + 1, k)
        mixing = sparse.csr_array((shares, block.ravel(), ends), shape=(len(block), count))
        targets[start : start + BLOCK_ROWS] = OWN_SHARE * latent[start : start + BLOCK_ROWS] + mixing @ latent
    return _unit_rows(targets)


def _ridge(X: Any, targets: Floats) -> Floats:
    """Return weights W (words, columns) that make |X W - targets|^2 + RIDGE |W|^2 small.

    Conjugate gradients on the dual problem, all columns at once.
    """
    dual, residual = np.zeros_like(targets), targets.copy()
    step, size = residual.copy(), (residual * residual).sum(axis=0)
    for _ in range(RIDGE_STEPS):
        image = X @ (X.T @ step) + RIDGE * step
        length = size / np.maximum((step * image).sum(axis=0), 1e-30)
        dual += length * step
        residual -= length * image
        before, size = size, (residual * residual).sum(axis=0)
        step = residual + size / np.maximum(before, 1e-30) * step
    return np.asarray(X.T @ dual, dtype=np.float32)


def rotated_start(X: Any, weights: Floats, n_bits: int, seed: int) -> Layer | None:
    """Return weights and bias of a linear encoder: principal directions of X @ weights, rotated as in ITQ.

    None if all documents have the same projection: there is no direction to rotate.
    """
    return nested_start(X, weights, (0, n_bits), seed)


def nested_start(X: Any, weights: Floats, lengths: Sequence[int], seed: int) -> Layer | None:
    """Return weights and bias of the bits from the first length to the last, rotated from each length to the next.

    So the principal directions of a prefix are those that a code of its length starts from.
    """
    places = X @ weights
    mean = places.mean(axis=0)
    centred = places - mean
    _, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    directions = directions[:, ::-1]
    parts = []
    for start, end in pairwise(lengths):
        rotated = _rotated(centred, directions[:, start:end], end - start, seed)
        if rotated is None and start:  # there are no more directions in which documents differ
            rotated = _rotated(centred, directions[:, : end - start], end - start, seed + end)
        if rotated is None:
            return None
        projection, spread = rotated
        scale = LOGIT_SPREAD * (8 / end) ** 0.5 / spread
        parts.append((weights @ projection * scale, -scale * (mean @ projection)))
    tables, biases = zip(*parts, strict=True)
    return np.hstack(tables).astype(np.float32), np.concatenate(biases).astype(np.float32)


def _rotated(
    centred: Floats, directions: NDArray[np.float64], n_bits: int, seed: int
) -> tuple[NDArray[np.float64], np.float64] | None:
    """Rotate directions (dimensions, up to n_bits); return the projection (dimensions, n_bits) and its spread."""
    if not directions.size:
        return None
    steps = ROTATION_STEPS if n_bits <= len(directions) else ROTATION_STEPS_LONG
    projection = directions @ fit_rotation(centred @ directions, n_bits, steps, np.random.RandomState(seed))
    spread = (centred @ projection).std()
    return (projection, spread) if np.isfinite(spread) and spread > MINIMUM_SPREAD else None


def agreement(places: Floats, codes: NDArray[np.bool_], seed: int) -> float:
    """Return the mean cosine in a space (documents, dimensions) of a document and those nearest by code.

    It is computed for a sample of the documents. Equal distances are in random order.
    """
    generator = np.random.default_rng(seed)
    count = len(codes)
    depth = max(1, min(AGREEMENT_DEPTH, count // 10))
    signs, places = 2 * codes.astype(np.float32) - 1, _unit_rows(places)
    means = []
    for row in generator.permutation(count)[:AGREEMENT_SAMPLE]:
        similarity = signs @ signs[row] + generator.random(count, dtype=np.float32)  # adds less than one bit
        similarity[row] = -np.inf
        nearest = np.argpartition(-similarity, depth)[:depth]
        means.append(float((places[nearest] @ places[row]).mean()))
    return float(np.mean(means))
