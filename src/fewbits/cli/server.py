"""The command that serves an engine over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from fewbits.cli.options import Engine
from fewbits.cli.output import print_text
from fewbits.errors import MissingExtraError


def serve(
    engine: Engine,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 listens on all interfaces.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free port.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FEWBITS_TOKEN",
            show_envvar=False,
            help="Token that permits add, update and remove; preferably set as FEWBITS_TOKEN. [default: read-only]",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of search threads.", min=1, max=256)] = 2,
    waiting: Annotated[int, typer.Option(help="Maximum number of queued requests.", min=0)] = 256,
    umap: Annotated[bool, typer.Option(help="Lay out the map with UMAP if it is installed.")] = True,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve an engine over HTTP with a search page, until Ctrl+C or SIGTERM.

    Example: fewbits serve fewbits-demo --port 8000
    """
    try:
        from fewbits.server.run import serve as run
        from fewbits.server.schemas import Settings
    except ImportError as error:
        raise MissingExtraError("serving", extra="serve") from error
    if token is not None and (not token.isascii() or not token.isprintable() or len(token) < 8 or " " in token):
        raise typer.BadParameter("a token has at least 8 printable ASCII characters and no spaces")
    if log_level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter("the log level must be debug, info, warning or error")

    def print_address(address: str) -> None:
        access = "read and write" if token else "read-only"
        print_text(f"Serving {engine} at {address} ({access}). Press Ctrl+C to stop.")

    run(
        engine,
        Settings(token=token, workers=workers, waiting=waiting),
        host=host,
        port=port,
        log_level=log_level,
        use_umap=umap,
        on_start=print_address,
    )
