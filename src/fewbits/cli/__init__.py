"""The command line: each command parses its arguments, calls one function and prints the result."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fewbits import __version__
from fewbits.cli import benchmark, duplicates, engine, experiments, export, search
from fewbits.cli.output import print_error
from fewbits.errors import FewbitsError

SUMMARY = "Learn short binary codes for texts, and search them by Hamming distance."

app = typer.Typer(
    name="fewbits",
    help=SUMMARY,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
for command in (
    search.demo,
    engine.fit,
    engine.truncate,
    engine.add,
    engine.update,
    engine.remove,
    search.search,
    search.similar,
    search.bits,
    duplicates.duplicates,
    export.encode,
    engine.serve,
    engine.info,
    export.card,
    export.export,
    experiments.data,
    experiments.evaluate,
    experiments.tune,
    experiments.methods,
):
    app.command()(command)
app.add_typer(engine.index, name="index")
app.add_typer(benchmark.bench, name="bench")


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(__version__)
        raise typer.Exit


@app.callback(help=SUMMARY)
def _handle_global_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Handle the options of the program itself."""


def main() -> None:
    """Run the command line: exit code 0 on success, 1 on an error, 2 on a usage error."""
    try:
        app(prog_name="fewbits")
    except (FewbitsError, OSError) as error:  # OSError: for example a full disk, or a folder without write permission
        print_error(error)
        sys.exit(1)
