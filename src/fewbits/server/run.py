"""Run the service: socket, server process and limits on connections."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import uvicorn
from fastapi import FastAPI

from fewbits.errors import ParameterError
from fewbits.search import SearchEngine
from fewbits.server.app import create_app
from fewbits.server.connections import Connection, Connections
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
    server = make_server(app, settings)

    def stop(*_: object) -> None:
        server.should_exit = True

    # These handlers stop a server that has not started yet. Afterwards uvicorn has its own: it completes the running
    # requests, then raises the signal again; the exit status should be 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    url_host = f"[{host}]" if ":" in host else host
    on_start(f"http://{url_host}:{listener.getsockname()[1]}/")
    server.run(sockets=[listener])


def make_server(app: FastAPI, settings: Settings) -> uvicorn.Server:
    """Return a server for an application, with the limits on connections."""
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(Connection, Connections(settings))),
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
