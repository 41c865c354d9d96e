"""The search engine: features, hasher, index and documents together."""

from fewbits.search.engine import Hit, SearchEngine

__all__ = ["Hit", "SearchEngine"]
