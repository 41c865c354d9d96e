"""The command that serves an engine over HTTP, with a page to search it."""

from __future__ import annotations

from typing import Annotated

import typer

from fewbits.cli.options import Engine
from fewbits.cli.output import out
from fewbits.errors import MissingExtraError


def serve(
    engine: Engine,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is every one of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0 takes a free one.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FEWBITS_TOKEN",
            show_envvar=False,
            help="Who has it may add, update and remove; better given as FEWBITS_TOKEN. Without it: read-only.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Threads that search.", min=1, max=256)] = 2,
    waiting: Annotated[int, typer.Option(help="Requests that may wait for a thread.", min=0)] = 256,
    umap: Annotated[bool, typer.Option(help="Draw the map with UMAP where it is installed.")] = True,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve an engine over HTTP, with a page to search it. Stops on Ctrl+C or SIGTERM.

    Example: fewbits serve fewbits-demo --port 8000
    """
    try:
        from fewbits.server.run import serve as run
        from fewbits.server.schemas import Settings
    except ImportError as error:
        raise MissingExtraError("serving", extra="serve") from error
    if token is not None and (not token.isascii() or not token.isprintable() or len(token) < 8 or " " in token):
        raise typer.BadParameter("a token has 8 characters or more, printable ASCII without spaces")
    if log_level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter("the log level is debug, info, warning or error")

    def say(address: str) -> None:
        change = "read and change" if token else "read-only"
        out.print(f"Serving {engine} at {address} ({change}). Ctrl+C stops it.", markup=False, soft_wrap=True)

    run(
        engine,
        Settings(token=token, workers=workers, waiting=waiting),
        host=host,
        port=port,
        log_level=log_level,
        use_umap=umap,
        on_start=say,
    )
