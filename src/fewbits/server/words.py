"""Words of queries."""

from __future__ import annotations

import re

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from fewbits.search import SearchEngine
from fewbits.search.encoder import nonzero_rows

WORD = re.compile(r"[^\W_]+")
WHOLE_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")  # "don't" is one to whoever wrote it
MOST = 50  # unknown words that are looked for in a query, which may be a book


class KnownWords:
    """Tells which words of a text an engine knows."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine
        self._held: tuple[object, frozenset[str]] = (None, frozenset())

    def known(self, text: str) -> list[str]:
        """The words of a text that the engine knows, each once."""
        vocabulary = self._vocabulary()
        return [word for word in dict.fromkeys(WORD.findall(text.lower())) if word in vocabulary]

    def unknown(self, text: str) -> list[str]:
        """The words of a text that say nothing to the engine, each once; words such as "the" are not meant to."""
        vocabulary = self._vocabulary()
        doubtful = [
            word
            for word in dict.fromkeys(WHOLE_WORD.findall(text.lower()))
            if word not in vocabulary and not _is_common(word)
        ][:MOST]
        if not doubtful:
            return []
        # The engine may part a word in its own way, "boat's" for one: only it can tell.
        is_known = nonzero_rows(self._engine.features.transform(doubtful))
        return [word for word, known in zip(doubtful, is_known.tolist(), strict=True) if not known]

    def _vocabulary(self) -> frozenset[str]:
        features = self._engine.features
        held, words = self._held
        if held is not features:  # learnt anew since
            words = frozenset(features.vocabulary_)
            self._held = features, words
        return words


def _is_common(word: str) -> bool:
    return all(len(part) == 1 or part in ENGLISH_STOP_WORDS for part in WORD.findall(word))
