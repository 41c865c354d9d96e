"""The search engine: a model with its documents, searched, changed and explained."""

from fewbits.search.drift import Drift
from fewbits.search.duplicates import DuplicateGroup, NearDuplicate, without_duplicates
from fewbits.search.encoder import EncodedDocuments, ModelInfo
from fewbits.search.engine import SearchEngine, rebuild_lexical_index
from fewbits.search.explain import BitExamples, BitMeaning, DecidingWord, ExplainedBit, Explanation
from fewbits.search.fitting import LEARN_FROM
from fewbits.search.near_duplicates import MIN_SIMILARITY, DuplicateOptions, find_pairs
from fewbits.search.rerank import Hit
from fewbits.search.snapshot import Snapshot
from fewbits.search.spelling import Suggestion, suggest
from fewbits.search.state import check_engine_folder
from fewbits.search.store.filters import Condition
from fewbits.search.text_differences import Change

__all__ = [
    "LEARN_FROM",
    "MIN_SIMILARITY",
    "BitExamples",
    "BitMeaning",
    "Change",
    "Condition",
    "DecidingWord",
    "Drift",
    "DuplicateGroup",
    "DuplicateOptions",
    "EncodedDocuments",
    "ExplainedBit",
    "Explanation",
    "Hit",
    "ModelInfo",
    "NearDuplicate",
    "SearchEngine",
    "Snapshot",
    "Suggestion",
    "check_engine_folder",
    "find_pairs",
    "rebuild_lexical_index",
    "suggest",
    "without_duplicates",
]
