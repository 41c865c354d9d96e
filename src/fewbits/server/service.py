"""What the routes share: an engine with the threads that search it."""

from __future__ import annotations

from collections.abc import Sequence

from fewbits.search import SearchEngine
from fewbits.server.corpus_map import Maps
from fewbits.server.errors import ServiceError
from fewbits.server.settings import Settings
from fewbits.server.telemetry import Metrics
from fewbits.server.words import KnownWords
from fewbits.server.workers import Batches, SearchResponse, Workers


class Service:
    """An engine, ready once it has been looked through."""

    def __init__(self, engine: SearchEngine, name: str, settings: Settings, maps: Maps) -> None:
        self.engine = engine
        self.name = name
        self.settings = settings
        self.metrics = Metrics()
        self.workers = Workers(settings, self.metrics)
        self.batches = Batches(engine, self.workers, settings, self.metrics)
        self.maps = maps
        self.words = KnownWords(engine)
        self.is_ready = False

    def warm_up(self) -> None:
        """Read the codes and name the bits, so that the first request does not wait for it."""
        self.metrics.documents.set(self.engine.count())
        self.engine.warm_up()
        self.is_ready = True

    @property
    def takes_text(self) -> bool:
        """Whether queries are texts."""
        return hasattr(self.engine.features, "vocabulary_")

    def within(self, query: str, radius: int, labels: list[str], where: list[str]) -> SearchResponse:
        """All documents within a radius, the nearest of them where they are too many."""
        hits = self.engine.within(query, radius, labels=labels, where=where)
        hits = hits[: self.settings.hits]
        return SearchResponse(self.engine.n_bits, hits, self.words.known(query), self.words.unknown(query))

    def check_text(self, *texts: str) -> None:
        """Refuse texts that are too long."""
        longest = max(map(len, texts), default=0)
        if longest > self.settings.text_length:
            allowed = f"{self.settings.text_length} characters"
            raise ServiceError(413, "a text is too long", allowed=allowed, got=longest, next="Shorten it.")

    def check_hits(self, *counts: int | None) -> None:
        """Refuse to look for too many hits."""
        most = max(count or 0 for count in counts)
        if most > self.settings.hits:
            allowed = f"1 to {self.settings.hits}"
            raise ServiceError(422, "too many hits", allowed=allowed, got=most, next="Ask for fewer.")

    def check_shortlist(self, shortlist: int | None) -> None:
        """Refuse to look at the words of too many documents."""
        allowed = 10 * self.settings.hits
        if shortlist is not None and shortlist > allowed:
            raise ServiceError(422, "the shortlist is too long", allowed=f"1 to {allowed}", got=shortlist)

    def check_number(self, things: Sequence[object]) -> None:
        """Refuse too many documents in one request."""
        if len(things) > self.settings.documents:
            allowed = f"{self.settings.documents} in one request"
            raise ServiceError(413, "too many documents", allowed=allowed, got=len(things), next="Send them in parts.")
