"""Tiny corpora with known topics."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fewbits import Document

TOPICS = {
    "cooking": "boil simmer the soup with onions garlic pepper salt and fresh herbs from the kitchen garden",
    "sailing": "the boat sails past the harbour while wind and waves push the mast and the crew pulls ropes",
    "astronomy": "a telescope shows distant galaxies stars and planets whose light crossed dark empty space",
}


def tiny_documents(count: int = 60) -> list[Document]:
    """Return short documents about three topics, each with a different choice of the topic's words."""
    documents = []
    for number in range(count):
        topic = list(TOPICS)[number % len(TOPICS)]
        words = TOPICS[topic].split()
        chosen = [words[(number * 7 + step * 3) % len(words)] for step in range(8)]
        documents.append(Document(f"{topic}-{number}", " ".join(chosen), (topic,)))
    return documents


def topic_rows(count: int = 300, seed: int = 0) -> tuple[Any, Any]:
    """Return rows about three topics, with words of each topic and common ones, and the topic of each row."""
    generator = np.random.default_rng(seed)
    classes = np.arange(count) % 3
    own = np.repeat(np.eye(3), 20, axis=1)[classes] * (generator.random((count, 60)) < 0.25)
    common = generator.random((count, 40)) < 0.1
    rows = np.hstack([own, common]) + np.eye(1, 100, 99)  # every document has a word
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return sparse.csr_array(rows.astype(np.float32)), classes
