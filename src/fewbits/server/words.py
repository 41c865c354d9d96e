"""Words of queries."""

from __future__ import annotations

import re

from fewbits.search import SearchEngine

WORD = re.compile(r"[^\W_]+")


class KnownWords:
    """Tells which words of a text an engine knows."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine
        self._held: tuple[object, frozenset[str]] = (None, frozenset())

    def known(self, text: str) -> list[str]:
        """The words of a text that the engine knows, each once."""
        features = self._engine.features
        held, words = self._held
        if held is not features:  # learnt anew since
            words = frozenset(features.vocabulary_)
            self._held = features, words
        return [word for word in dict.fromkeys(WORD.findall(text.lower())) if word in words]
