"""Commands of the benchmark: data, evaluate, results."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from fewbits.benchmark.describe import describe
from fewbits.benchmark.results import load_results
from fewbits.benchmark.run import evaluate as run
from fewbits.benchmark.tables import render
from fewbits.cli.options import AsJson
from fewbits.cli.output import err, print_json, print_table, watch
from fewbits.datasets import load_dataset
from fewbits.errors import MissingFileError
from fewbits.hashers.registry import find_method

PROTOCOL_SETS = ["ng20", "reuters", "tmc", "arxiv"]
Folder = Annotated[Path, typer.Option("--results", help="Folder of the result files.")]


def data(
    names: Annotated[
        list[str] | None, typer.Argument(help="Data sets or .mat files. [default: the benchmark sets]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Load data sets and tell their sizes, vocabulary, labels and random floor.

    Example: fewbits data ng20 reuters
    """
    rows = []
    for name in watch(names or PROTOCOL_SETS, "Loading"):
        try:
            rows.append(describe(load_dataset(name, progress=err.is_terminal)))
        except MissingFileError as error:
            if names:
                raise
            err.print(f"{name}: {error}", markup=False, soft_wrap=True)  # asked for whatever is here
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_table(
            [name.replace("_", " ") for name in rows[0]], [[_cell(value) for value in row.values()] for row in rows]
        )


def evaluate(
    method: Annotated[list[str], typer.Option(help="Method, or several.")],
    dataset: Annotated[list[str], typer.Option(help="Data set, or several.")],
    bits: Annotated[list[int], typer.Option("--bits", "--n-bits", help="Code length, or several.")],
    seed: Annotated[
        list[int] | None, typer.Option("--seed", "--random-state", help="Seed, or several. [default: 0]")
    ] = None,
    part: Annotated[str, typer.Option(help="Which part the queries are: test or validation.")] = "test",
    save: Annotated[bool, typer.Option("--save", help="Write one JSON file a run.")] = False,
    results: Folder = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Measure methods on data sets: learn on the training part, query with the test part.

    Example: fewbits evaluate --method itq --dataset reuters --bits 32 --seed 0 --save
    """
    for name in method:
        find_method(name)  # before any long work
    rows = []
    for name in dataset:
        loaded = load_dataset(name, progress=err.is_terminal)
        runs = list(product(method, bits, seed or [0]))
        for one_method, length, one_seed in watch(runs, f"Evaluating on {name}"):
            result = run(one_method, loaded, length, one_seed, part=part)
            if save:
                err.print(f"saved {result.save(results)}", markup=False, soft_wrap=True)
            if as_json:
                print_json(result)
            metrics = result.metrics
            figures = [metrics["precision_at_100"], metrics["neighbour_recall"], metrics["random_floor"]]
            rows.append([one_method, name, str(length), str(one_seed), *(f"{figure:.4f}" for figure in figures)])
    if not as_json:
        print_table(["method", "dataset", "bits", "seed", "precision at 100", "neighbour recall", "random floor"], rows)


def results(folder: Folder = Path("results")) -> None:
    """Print the tables of all results as Markdown.

    Example: fewbits results > docs/results.md
    """
    print(render(load_results(folder)), end="")


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
