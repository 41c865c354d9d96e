"""The search engine: a model with its documents, searched, changed, explained."""

from fewbits.search.drift import Drift
from fewbits.search.engine import ALIKE, LEARN_FROM, DuplicateGroup, SearchEngine
from fewbits.search.explain import BitExamples, BitMeaning, DecidingWord, ExplainedBit, Explanation
from fewbits.search.snapshot import EncodedDocuments, Hit
from fewbits.search.store.filters import Condition

__all__ = [
    "ALIKE",
    "LEARN_FROM",
    "BitExamples",
    "BitMeaning",
    "Condition",
    "DecidingWord",
    "Drift",
    "DuplicateGroup",
    "EncodedDocuments",
    "ExplainedBit",
    "Explanation",
    "Hit",
    "SearchEngine",
]
