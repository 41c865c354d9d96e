"""Running the service until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fewbits.errors import ParameterError
from fewbits.search import SearchEngine
from fewbits.server.app import create_app
from fewbits.server.settings import Settings
from fewbits.server.telemetry import log_as_json

BACKLOG = 2048
SWITCH = 0.0005  # seconds
GRACE = 10  # seconds that requests have to end when the service is stopped


def serve(
    folder: Path,
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    log_level: str = "info",
    draws_better_map: bool = True,
    started: Callable[[str], None] = print,
) -> None:
    """Serve an engine's folder; ``started`` is told the address once it is listened at."""
    engine = SearchEngine.load(folder, verify=False)
    app = create_app(engine, settings, name=folder.resolve().name, folder=folder, draws_better_map=draws_better_map)
    listener = listen(host, port)
    allow_many_files()
    log_as_json(log_level)
    # A thread that listens waits so long for one that computes; Python's own 5 ms add up in every request.
    sys.setswitchinterval(SWITCH)
    # uvicorn ends requests first, then raises the signal again: being told to stop is no failure.
    signal.signal(signal.SIGTERM, lambda *_: None)
    shown = f"[{host}]" if ":" in host else host
    started(f"http://{shown}:{listener.getsockname()[1]}/")
    with suppress(KeyboardInterrupt):
        make_server(app, settings).run(sockets=[listener])


def make_server(app: FastAPI, settings: Settings) -> uvicorn.Server:
    """The server of an application, with all limits on connections."""
    config = uvicorn.Config(
        app,
        http=timeout_http_protocol(settings.head_seconds, settings.connections),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=max(1, int(settings.head_seconds)),
        timeout_graceful_shutdown=GRACE,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; port 0 is a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        hint = "Choose another --port or --host."
        raise ParameterError(f"{host}:{port} cannot be listened at", got=error, hint=hint) from error


def allow_many_files() -> None:
    """A connection is an open file, and many systems allow few unless asked."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def timeout_http_protocol(seconds: float, connections: int) -> type[HttpToolsProtocol]:
    """A protocol that closes a connection whose request's head is not there in time, and those that are too many.

    uvicorn waits for ever for the first request of a connection, for the rest of a head that has begun, and for a
    client that stops reading its answer.
    """

    class TimeoutHttpProtocol(HttpToolsProtocol):
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

    return TimeoutHttpProtocol
