"""Run the service: socket, server process and limits on connections."""

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
from fewbits.server.schemas import Settings
from fewbits.server.telemetry import log_as_json

BACKLOG = 2048
SWITCH_INTERVAL_S = 0.0005
SHUTDOWN_TIMEOUT_S = 10


def serve(
    folder: Path,
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    log_level: str = "info",
    use_umap: bool = True,
    on_start: Callable[[str], None] = print,
) -> None:
    """Serve an engine's folder until SIGINT or SIGTERM; ``on_start`` is called with the address."""
    engine = SearchEngine.load(folder, verify=False)
    app = create_app(engine, settings, name=folder.resolve().name, folder=folder, use_umap=use_umap)
    listener = listen(host, port)
    raise_file_limit()
    log_as_json(log_level)
    # The event loop waits this long for a search thread to release the interpreter lock. Python's default of 5 ms would
    # be added several times per request.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # uvicorn completes the running requests, then raises the signal again; the exit status should be 0.
    signal.signal(signal.SIGTERM, lambda *_: None)
    url_host = f"[{host}]" if ":" in host else host
    on_start(f"http://{url_host}:{listener.getsockname()[1]}/")
    with suppress(KeyboardInterrupt):
        make_server(app, settings).run(sockets=[listener])


def make_server(app: FastAPI, settings: Settings) -> uvicorn.Server:
    """Return a server for an application, with the limits on connections."""
    config = uvicorn.Config(
        app,
        http=timeout_http_protocol(settings.head_seconds, settings.connections),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=max(1, int(settings.head_seconds)),
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        hint = "Choose another --port or --host."
        raise ParameterError(f"cannot listen on {host}:{port}", got=error, hint=hint) from error


def raise_file_limit() -> None:
    """Raise the limit on open files to the maximum, as each connection needs one."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


def timeout_http_protocol(seconds: float, connections: int) -> type[HttpToolsProtocol]:
    """Return a protocol that closes slow and surplus connections.

    uvicorn has no timeout for the first request of a connection, for the rest of an incomplete head, and for a client
    that stops reading its response.
    """

    class TimeoutHttpProtocol(HttpToolsProtocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > connections:
                transport.close()
            else:
                self._start_timer()

        def on_message_begin(self) -> None:
            self._start_timer()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._cancel_timer()
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch_send_buffer(self.transport.get_write_buffer_size())

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_timer()
            super().connection_lost(exc)

        def _start_timer(self) -> None:
            self._cancel_timer()
            self._timer = self.loop.call_later(seconds, self._close)

        def _cancel_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _watch_send_buffer(self, size: int) -> None:
            if size:
                self.loop.call_later(seconds, self._abort_if_stalled, size)

        def _abort_if_stalled(self, previous_size: int) -> None:
            size = self.transport.get_write_buffer_size()
            if size and size >= previous_size:
                self.transport.abort()
            else:
                self._watch_send_buffer(size)

        def _close(self) -> None:
            transport: Any = self.transport
            if not transport.is_closing():
                transport.close()

    return TimeoutHttpProtocol
