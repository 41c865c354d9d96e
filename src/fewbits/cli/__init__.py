"""The command line: every command parses, calls one function, and prints."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fewbits import __version__
from fewbits.cli import benchmark as benching
from fewbits.cli import engine as changing
from fewbits.cli import experiments as measuring
from fewbits.cli import export as exporting
from fewbits.cli import search as searching
from fewbits.cli import server as serving
from fewbits.cli.output import print_error
from fewbits.errors import FewbitsError

app = typer.Typer(
    name="fewbits",
    help="Learn a short binary code for every text; search by counting the bits that differ.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
for command in (
    searching.demo,
    changing.fit,
    changing.add,
    changing.update,
    changing.remove,
    searching.search,
    searching.similar,
    searching.bits,
    searching.duplicates,
    searching.encode,
    serving.serve,
    changing.info,
    exporting.card,
    exporting.export,
    measuring.data,
    measuring.evaluate,
    measuring.tune,
    measuring.methods,
):
    app.command()(command)
app.add_typer(benching.bench, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Learn a short binary code for every text; search by counting the bits that differ."""


def main() -> None:
    """Run the command line: exit code 0 is well, 1 an error in what was given, 2 a wrong use of the command."""
    try:
        app(prog_name="fewbits")
    except (FewbitsError, OSError) as error:  # OSError: a disk that is full, a folder that may not be written
        print_error(error)
        sys.exit(1)
