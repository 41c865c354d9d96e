"""tf-idf weights of word counts: sublinear tf, smoothed idf, rows of length 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import normalize


def inverse_document_frequency(counts: Any) -> NDArray[np.float64]:
    """Smoothed idf of every word: ``ln((1 + documents) / (1 + documents with the word)) + 1``."""
    documents_with_word = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.log((1 + counts.shape[0]) / (1 + documents_with_word)) + 1


def weigh(counts: Any, idf: NDArray[np.float64]) -> Any:
    """Turn a CSR table of counts into tf-idf rows of length 1 (float32); a row without words stays zero."""
    weights = (1 + np.log(counts.data)) * idf[counts.indices]
    table = sparse.csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)
    return normalize(table, norm="l2", copy=False).astype(np.float32)
