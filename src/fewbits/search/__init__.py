"""The search engine: a model with its documents, searched, changed, explained."""

from fewbits.search.coded import CodedDocuments
from fewbits.search.drift import Drift
from fewbits.search.engine import DuplicateGroup, Hit, SearchEngine
from fewbits.search.examples import BitExamples
from fewbits.search.explanation import BitMeaning, DecidingWord, ExplainedBit, Explanation
from fewbits.search.filters import Condition

__all__ = [
    "BitExamples",
    "BitMeaning",
    "CodedDocuments",
    "Condition",
    "DecidingWord",
    "Drift",
    "DuplicateGroup",
    "ExplainedBit",
    "Explanation",
    "Hit",
    "SearchEngine",
]
