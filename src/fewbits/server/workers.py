"""Threads that do the work, so that the event loop only listens and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from fewbits.index.flat import scan_with_one_thread
from fewbits.server.metrics import Metrics
from fewbits.server.problems import ServiceError
from fewbits.server.settings import Settings

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
