"""Connections that say nothing, or do not read what they asked for, are closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def patient_for(seconds: float, connections: int) -> type[HttpToolsProtocol]:
    """A protocol that closes a connection whose request's head is not there in time, and those that are too many.

    uvicorn waits for ever for the first request of a connection, for the rest of a head that has begun, and for a
    client that stops reading its answer.
    """

    class Patient(HttpToolsProtocol):
        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > connections:
                transport.close()
            else:
                self._wait()

        def on_message_begin(self) -> None:
            self._wait()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._stop_waiting()
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._see_that_it_is_read(self.transport.get_write_buffer_size())

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._stop_waiting()
            self._waiting = self.loop.call_later(seconds, self._close)

        def _stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _see_that_it_is_read(self, left: int) -> None:
            if left:
                self.loop.call_later(seconds, self._look_again, left)

        def _look_again(self, left: int) -> None:
            now = self.transport.get_write_buffer_size()
            if now and now >= left:
                self.transport.abort()
            else:
                self._see_that_it_is_read(now)

        def _close(self) -> None:
            transport: Any = self.transport
            if not transport.is_closing():
                transport.close()

    return Patient
