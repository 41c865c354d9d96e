"""Semantic hashing using tags and topic modelling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.linear_model import Ridge
from sklearn.utils import check_random_state

from fewbits.data.labels import check_labels, label_patterns
from fewbits.hashers._linalg import sample_rows
from fewbits.hashers.base import LinearHasher
from fewbits.validation import check_whole_number


class TagTopicHashing(LinearHasher):
    """Fit codes to a document's topics and tags, as a linear function of its words (SHTTM).

    The topics theta are a document's shares of ``n_bits`` topics by latent Dirichlet allocation, minus their means. The
    codes Y and the tags' factors U are found by alternating closed-form steps that minimise
    sum C (T - U'Y)^2 + tag_ridge |U|^2 + topic_weight |Y - theta|^2, where T are the labels and the confidence C is 1
    for a tag that is present and ``absent`` for one that is not. A ridge regression then maps words to codes, and its
    outputs are thresholded at their training medians: training documents are encoded by it like all others. Documents
    without a label contribute their topics only.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code, and number of topics.
    topic_weight : float, default=0.003
        Weight gamma of the topics beside the tags.
    tag_ridge : float, default=100.0
        Weight alpha that keeps the tags' factors small, so that tags dominate the topics in the codes: with more bits
        than tags, the topics decide only what the tags leave open.
    absent : float, default=0.1
        Confidence in the absence of a tag.
    word_ridge : float, default=3.0
        Ridge penalty of the map from words to codes.
    document_scale : float, default=10.0
        Factor by which rows are multiplied to stand in for counts: rows of length 1 are too short for topics.
    n_turns : int, default=10
        Iterations of factors and codes.
    topic_passes : int, default=5
        Passes of the topic model over its documents.
    max_rows : int, default=20000
        Largest number of documents to fit the topic model to, a random sample.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample, the topics and the factors.

    Attributes
    ----------
    topics_ : array of shape (n_bits, features)
        Share of each word in each topic.

    References
    ----------
    Q. Wang, D. Zhang, L. Si. Semantic hashing using tags and topic modeling. SIGIR 2013.
    """

    fitted_arrays = (*LinearHasher.fitted_arrays, "topics")
    needs_labels = needs_positive = True
    topics_: NDArray[np.float32]

    def __init__(
        self,
        n_bits: int = 64,
        *,
        topic_weight: float = 0.003,
        tag_ridge: float = 100.0,
        absent: float = 0.1,
        word_ridge: float = 3.0,
        document_scale: float = 10.0,
        n_turns: int = 10,
        topic_passes: int = 5,
        max_rows: int = 20_000,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.topic_weight = topic_weight
        self.tag_ridge = tag_ridge
        self.absent = absent
        self.word_ridge = word_ridge
        self.document_scale = document_scale
        self.n_turns = n_turns
        self.topic_passes = topic_passes
        self.max_rows = max_rows

    def _fit(self, X: Any, y: Any) -> None:
        check_whole_number("n_turns", self.n_turns, 1)
        check_whole_number("topic_passes", self.topic_passes, 1)
        labels = check_labels(y, X.shape[0])
        rows = sparse.csr_array(X)
        generator = check_random_state(self.random_state)
        topics, theta = self._topics(rows, generator)
        codes = self._codes(theta, labels, generator)
        ridge = Ridge(alpha=self.word_ridge, solver="sparse_cg", tol=1e-4).fit(rows, codes - codes.mean(axis=0))
        self.weights_ = np.ascontiguousarray(np.reshape(ridge.coef_, (self.n_bits, -1)).T, dtype=np.float32)
        self.offsets_ = np.median(rows.astype(np.float32) @ self.weights_, axis=0).astype(np.float32)
        self.topics_ = topics

    def _topics(self, rows: Any, generator: np.random.RandomState) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return the topics (bits, features), and the documents' shares of them (documents, bits) minus their means."""
        counts = rows * rows.dtype.type(self.document_scale)
        model = LatentDirichletAllocation(
            self.n_bits,
            learning_method="online",
            max_iter=self.topic_passes,
            batch_size=512,
            random_state=generator,
        ).fit(sample_rows(counts, self.max_rows, generator))
        topics = (model.components_ / model.components_.sum(axis=1, keepdims=True)).astype(np.float32)
        shares = model.transform(counts)
        return topics, np.asarray(shares - shares.mean(axis=0))

    def _codes(self, theta: NDArray[np.float64], labels: Any, generator: np.random.RandomState) -> NDArray[np.float64]:
        """Return the relaxed codes Y (documents, bits) of the training documents."""
        distinct, pattern_of = label_patterns(labels)  # documents with the same tags share one linear system
        patterns = distinct.toarray() > 0  # (patterns, tags)
        codes = theta + 0.01 * generator.standard_normal(theta.shape)
        unlabelled = np.asarray(~patterns.any(axis=1))
        for _ in range(self.n_turns):
            factors = self._factors(codes, patterns, pattern_of, unlabelled)  # U: (bits, tags)
            for number, tags in enumerate(patterns):
                of_pattern = pattern_of == number
                confidence = np.zeros(len(tags)) if unlabelled[number] else np.where(tags, 1.0, self.absent)
                left = (factors * confidence) @ factors.T + self.topic_weight * np.eye(len(factors))
                right = factors @ (confidence * tags) + self.topic_weight * theta[of_pattern]  # (documents, bits)
                codes[of_pattern] = np.linalg.solve(left, right.T).T
        return codes

    def _factors(
        self,
        codes: NDArray[np.float64],
        patterns: NDArray[np.bool_],
        pattern_of: NDArray[np.int64],
        unlabelled: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return the tags' factors U (bits, tags) for given codes."""
        sums = np.stack([codes[pattern_of == number].sum(axis=0) for number in range(len(patterns))])
        labelled = codes[~unlabelled[pattern_of]]
        absent = self.absent * labelled.T @ labelled
        factors = np.empty((codes.shape[1], patterns.shape[1]))
        for tag in range(patterns.shape[1]):
            tagged = codes[patterns[pattern_of, tag]]
            left = absent + (1 - self.absent) * tagged.T @ tagged + self.tag_ridge * np.eye(codes.shape[1])
            factors[:, tag] = np.linalg.solve(left, sums[patterns[:, tag]].sum(axis=0))
        return factors
