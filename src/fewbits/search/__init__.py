"""The search engine: a model with its documents, searched, changed, explained."""

from fewbits.search.coded import CodedDocuments
from fewbits.search.drift import Drift
from fewbits.search.engine import ALIKE, LEARN_FROM, DuplicateGroup, SearchEngine
from fewbits.search.examples import BitExamples
from fewbits.search.explanation import BitMeaning, DecidingWord, ExplainedBit, Explanation
from fewbits.search.filters import Condition
from fewbits.search.view import Hit

__all__ = [
    "ALIKE",
    "LEARN_FROM",
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
