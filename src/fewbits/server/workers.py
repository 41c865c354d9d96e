"""Threads that do the work, so that the event loop only listens and answers."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from fewbits.index.flat import scan_with_one_thread
from fewbits.search import Hit, SearchEngine
from fewbits.server.errors import ServiceError
from fewbits.server.settings import Settings
from fewbits.server.telemetry import Metrics
from fewbits.server.words import KnownWords

Result = TypeVar("Result")


class Workers:
    """A few threads and a queue of bounded length before them.

    A thread cannot be stopped: work whose asker went away counts until it is done, so that slow work fills the queue
    and new work is refused, instead of piling up.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(settings.workers, "fewbits-worker", initializer=scan_with_one_thread)
        self._count = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do a piece of work in a thread."""
        self.enter()
        loop = asyncio.get_running_loop()
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: _tell(loop, self.leave))
        return await self.in_time(asyncio.wrap_future(future))

    def enter(self) -> None:
        """Count a request in, or refuse it."""
        if self._count >= self._settings.workers + self._settings.waiting:
            self._metrics.refused.inc()
            raise ServiceError(
                503, "too many requests wait", allowed=self._settings.waiting, next="Try again in a second."
            )
        self._count += 1
        self._metrics.waiting.set(self._count)

    def leave(self) -> None:
        """Count a request out."""
        self._count -= 1
        self._metrics.waiting.set(self._count)

    async def in_time(self, answer: asyncio.Future[Result]) -> Result:
        """Wait for an answer, but not for ever."""
        try:
            return await asyncio.wait_for(answer, self._settings.request_seconds)
        except asyncio.TimeoutError:
            seconds = f"{self._settings.request_seconds:g} s"
            raise ServiceError(
                503, "the answer took too long", allowed=seconds, next="Ask for less at a time."
            ) from None

    def submit(self, work: Callable[[], None]) -> None:
        """Start work that was counted in before and answers by itself."""
        self._pool.submit(work)

    def stop(self) -> None:
        """Take no more work; what has begun goes on to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _tell(loop: asyncio.AbstractEventLoop, done: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended, and nobody counts any more
        loop.call_soon_threadsafe(done)


LARGEST = 32  # queries in one call: more would make the first of them wait for the last


@dataclass(frozen=True)
class SearchParams:
    """How a text is searched for; only texts with the same wish go together."""

    k: int | None = None
    labels: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    rescore: str | None = None
    shortlist: int | None = None


@dataclass(frozen=True)
class SearchResponse:
    """Hits of a query, with the length of their codes and the words of the query, those that the engine knows apart."""

    bits: int
    hits: list[Hit]
    words: list[str]
    unknown_words: list[str]


Asked = tuple[str, "asyncio.Future[SearchResponse]"]


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
        self._collected: defaultdict[SearchParams, deque[Asked]] = defaultdict(deque)

    async def search(self, query: str, wish: SearchParams) -> SearchResponse:
        """The hits of one query."""
        self._workers.enter()
        answer: asyncio.Future[SearchResponse] = asyncio.get_running_loop().create_future()
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

    def _work(self, wish: SearchParams, batch: list[Asked], loop: asyncio.AbstractEventLoop) -> None:
        """In a worker's thread."""
        self._metrics.batch.observe(len(batch))
        found: list[SearchResponse | Exception]
        try:
            found = self._found([query for query, _ in batch], wish)
        except Exception as error:
            found = [error] * len(batch)
        loop.call_soon_threadsafe(self._answer, batch, found)

    def _found(self, queries: list[str], wish: SearchParams) -> list[SearchResponse | Exception]:
        answers = self._engine.search_many(
            queries, wish.k, labels=wish.labels, where=wish.where, rescore=wish.rescore, shortlist=wish.shortlist
        )
        bits, words = self._engine.n_bits, self._words
        return [
            answer
            if isinstance(answer, Exception)
            else SearchResponse(bits, answer, words.known(query), words.unknown(query))
            for query, answer in zip(queries, answers, strict=True)
        ]

    def _answer(self, batch: list[Asked], found: list[SearchResponse | Exception]) -> None:
        self._free += 1
        for (_, answer), result in zip(batch, found, strict=True):
            if answer.done():
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)
        self._start()
