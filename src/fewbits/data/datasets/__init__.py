"""Benchmark data sets, all split and vectorized in the same way."""

from fewbits.data.datasets.base import PARTS, Dataset, Part, Source, Split, TermTable, assign_split
from fewbits.data.datasets.generalisation import CORPORA, GENERALISATION_SOURCES, HALVES
from fewbits.data.datasets.loading import SOURCES, find_source, is_source, load_dataset

__all__ = [
    "CORPORA",
    "GENERALISATION_SOURCES",
    "HALVES",
    "PARTS",
    "SOURCES",
    "Dataset",
    "Part",
    "Source",
    "Split",
    "TermTable",
    "assign_split",
    "find_source",
    "is_source",
    "load_dataset",
]
