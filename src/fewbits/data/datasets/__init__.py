"""Benchmark data sets, split and vectorised by one rule."""

from fewbits.data.datasets.loading import SOURCES, Dataset, Source, Split, find_source, load_dataset

__all__ = ["SOURCES", "Dataset", "Source", "Split", "find_source", "load_dataset"]
