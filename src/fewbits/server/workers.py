"""Search threads with a bounded queue, and batching of concurrent queries."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from fewbits.index.flat import scan_with_one_thread
from fewbits.server.answers import Answers
from fewbits.server.errors import ServiceError
from fewbits.server.schemas import ResponseOptions, SearchParams, SearchResponse, Settings
from fewbits.server.telemetry import Metrics

Result = TypeVar("Result")
PendingQuery = tuple[str, ResponseOptions, "asyncio.Future[SearchResponse]"]
MAX_BATCH = 32  # queries per call; in a larger batch the first query would wait too long for the last


class Workers:
    """Thread pool with a bounded queue.

    Threads cannot be cancelled, so a request that timed out counts until its work ends. Slow work then fills the queue
    and new requests are rejected instead of piling up.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(settings.workers, "fewbits-worker", initializer=scan_with_one_thread)
        self._count = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run a function in a thread and return its result."""
        self.admit()
        loop = asyncio.get_running_loop()
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: _call_in_loop(loop, self.release))
        return await self.wait_for(asyncio.wrap_future(future))

    def admit(self) -> None:
        """Count a request, or reject it if the queue is full."""
        if self._count >= self._settings.workers + self._settings.waiting:
            self._metrics.refused.inc()
            raise ServiceError(
                503, "too many requests are waiting", allowed=self._settings.waiting, next="Try again in a second."
            )
        self._count += 1
        self._metrics.waiting.set(self._count)

    def release(self) -> None:
        """Stop counting a request."""
        self._count -= 1
        self._metrics.waiting.set(self._count)

    async def wait_for(self, future: asyncio.Future[Result]) -> Result:
        """Wait for a result, at most as long as a request may take."""
        try:
            return await asyncio.wait_for(future, self._settings.request_seconds)
        except asyncio.TimeoutError:
            seconds = f"{self._settings.request_seconds:g} s"
            raise ServiceError(
                503, "the request timed out", allowed=seconds, next="Send smaller requests, or try again."
            ) from None

    def submit(self, work: Callable[[], None]) -> None:
        """Run a function in a thread; the caller has counted its requests and delivers the results."""
        self._pool.submit(work)

    def stop(self) -> None:
        """Accept no more work; running work is completed."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _call_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed at shutdown
        loop.call_soon_threadsafe(callback)


class QueryBatcher:
    """Collect queries while all workers are busy; the next free worker searches them in one call.

    A query that arrives while a worker is free is searched at once: no query waits for a batch to fill.
    """

    def __init__(self, answers: Answers, workers: Workers, settings: Settings, metrics: Metrics) -> None:
        self._answers = answers
        self._workers = workers
        self._metrics = metrics
        self._free = settings.workers
        self._pending: defaultdict[SearchParams, deque[PendingQuery]] = defaultdict(deque)

    async def search(self, query: str, params: SearchParams, options: ResponseOptions) -> SearchResponse:
        """Return the hits of a query."""
        self._workers.admit()
        future: asyncio.Future[SearchResponse] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: self._workers.release())
        self._pending[params].append((query, options, future))
        self._start()
        return await self._workers.wait_for(future)

    def _start(self) -> None:
        """Start as many batches as workers are free."""
        while self._free and self._pending:
            params = next(iter(self._pending))  # waiting longest
            queries = self._pending.pop(params)
            # Other rankings process each query separately, so a batch would save nothing.
            size = MAX_BATCH if params.rerank == "none" else 1
            batch = [queries.popleft() for _ in range(min(size, len(queries)))]
            if queries:
                self._pending[params] = queries  # at the end of the queue
            batch = [one for one in batch if not one[2].done()]  # drop those that timed out
            if batch:
                self._free -= 1
                loop = asyncio.get_running_loop()
                self._workers.submit(lambda params=params, batch=batch, loop=loop: self._run(params, batch, loop))  # type: ignore[misc]

    def _run(self, params: SearchParams, batch: list[PendingQuery], loop: asyncio.AbstractEventLoop) -> None:
        """Search a batch in a worker thread and hand the results to the event loop."""
        self._metrics.batch.observe(len(batch))
        results: list[SearchResponse | Exception]
        try:
            queries, options = [query for query, _, _ in batch], [wanted for _, wanted, _ in batch]
            results = self._answers.search_many(queries, params, options)
        except Exception as error:
            results = [error] * len(batch)
        loop.call_soon_threadsafe(self._deliver, batch, results)

    def _deliver(self, batch: list[PendingQuery], results: list[SearchResponse | Exception]) -> None:
        """Resolve the futures of a batch and start the next one."""
        self._free += 1
        for (_, _, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
        self._start()
