"""Learn short binary codes for texts, and search them by Hamming distance."""

from importlib.metadata import version

from fewbits.data import Document, read_docstrings, read_documents, write_documents
from fewbits.data.datasets import Dataset, Split, load_dataset
from fewbits.errors import FewbitsError
from fewbits.features import Embeddings, TextVectorizer, nearest_by_cosine
from fewbits.hashers import ITQ, BernoulliVAE, Hasher, PairwiseHasher, RandomHyperplanes
from fewbits.index import FlatIndex, Index, Neighbours
from fewbits.metrics import (
    bit_balance,
    bit_entropy,
    distinct_share,
    mean_average_precision,
    neighbour_recall,
    precision_at_k,
    random_floor,
    recall_within_radius,
    unique_code_ratio,
)
from fewbits.search import BitMeaning, Condition, Drift, DuplicateGroup, Explanation, Hit, SearchEngine

__version__ = version("fewbits")

__all__ = [
    "ITQ",
    "BernoulliVAE",
    "BitMeaning",
    "Condition",
    "Dataset",
    "Document",
    "Drift",
    "DuplicateGroup",
    "Embeddings",
    "Explanation",
    "FewbitsError",
    "FlatIndex",
    "Hasher",
    "Hit",
    "Index",
    "Neighbours",
    "PairwiseHasher",
    "RandomHyperplanes",
    "SearchEngine",
    "Split",
    "TextVectorizer",
    "bit_balance",
    "bit_entropy",
    "distinct_share",
    "load_dataset",
    "mean_average_precision",
    "nearest_by_cosine",
    "neighbour_recall",
    "precision_at_k",
    "random_floor",
    "read_docstrings",
    "read_documents",
    "recall_within_radius",
    "unique_code_ratio",
    "write_documents",
]
