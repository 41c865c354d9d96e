"""Queries that arrive at the same time are answered together: one scan of the codes serves them all."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass

from fewbits.search import Hit, SearchEngine
from fewbits.server.metrics import Metrics
from fewbits.server.settings import Settings
from fewbits.server.words import KnownWords
from fewbits.server.workers import Workers

LARGEST = 32  # queries in one call: more would make the first of them wait for the last


@dataclass(frozen=True)
class Wish:
    """How a text is searched for; only texts with the same wish go together."""

    k: int | None = None
    labels: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    rescore: str | None = None
    shortlist: int | None = None


@dataclass(frozen=True)
class Found:
    """Hits of a query, with the length of their codes and the words of the query, those that the engine knows apart."""

    bits: int
    hits: list[Hit]
    words: list[str]
    unknown_words: list[str]


Asked = tuple[str, "asyncio.Future[Found]"]


class Batches:
    """Collects queries while all workers are busy; a worker that becomes free takes what has collected.

    Nobody waits for a batch to fill: a query that comes alone is answered alone.
    """

    def __init__(self, engine: SearchEngine, workers: Workers, settings: Settings, metrics: Metrics) -> None:
        self._engine = engine
        self._workers = workers
        self._metrics = metrics
        self._words = KnownWords(engine)
        self._free = settings.workers
        self._collected: defaultdict[Wish, deque[Asked]] = defaultdict(deque)

    async def search(self, query: str, wish: Wish) -> Found:
        """The hits of one query."""
        self._workers.enter()
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: self._workers.leave())
        self._collected[wish].append((query, answer))
        self._start()
        return await self._workers.in_time(answer)

    def _start(self) -> None:
        while self._free and self._collected:
            wish = next(iter(self._collected))  # that which has waited longest
            collected = self._collected.pop(wish)
            # Rescoring looks at each query by itself: nothing is won by doing several in one call.
            most = LARGEST if wish.rescore == "none" else 1
            batch = [collected.popleft() for _ in range(min(most, len(collected)))]
            if collected:
                self._collected[wish] = collected  # behind the others
            batch = [(query, answer) for query, answer in batch if not answer.done()]  # some gave up
            if batch:
                self._free -= 1
                loop = asyncio.get_running_loop()
                self._workers.submit(lambda wish=wish, batch=batch, loop=loop: self._work(wish, batch, loop))  # type: ignore[misc]

    def _work(self, wish: Wish, batch: list[Asked], loop: asyncio.AbstractEventLoop) -> None:
        """In a worker's thread."""
        self._metrics.batch.observe(len(batch))
        found: list[Found | Exception]
        try:
            found = self._found([query for query, _ in batch], wish)
        except Exception as error:
            found = [error] * len(batch)
        loop.call_soon_threadsafe(self._answer, batch, found)

    def _found(self, queries: list[str], wish: Wish) -> list[Found | Exception]:
        answers = self._engine.search_many(
            queries, wish.k, labels=wish.labels, where=wish.where, rescore=wish.rescore, shortlist=wish.shortlist
        )
        bits, words = self._engine.n_bits, self._words
        return [
            answer if isinstance(answer, Exception) else Found(bits, answer, words.known(query), words.unknown(query))
            for query, answer in zip(queries, answers, strict=True)
        ]

    def _answer(self, batch: list[Asked], found: list[Found | Exception]) -> None:
        self._free += 1
        for (_, answer), result in zip(batch, found, strict=True):
            if answer.done():
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)
        self._start()
