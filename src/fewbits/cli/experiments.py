"""Commands of the benchmark: data, evaluate, results."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from fewbits.benchmark.evaluate import describe
from fewbits.benchmark.experiments import (
    EstimatorComparison,
    Experiment,
    KnownItemSearch,
    ServiceLoad,
    SupervisionComparison,
    TrainingTime,
)
from fewbits.benchmark.experiments.known_items import TRAINING_SIZE, split_titles
from fewbits.benchmark.runner import run_all
from fewbits.benchmark.spec import Spec
from fewbits.benchmark.tune import tune as search_weights
from fewbits.cli.benchmark import Folder, Jobs, bench, watch_runs
from fewbits.cli.options import AsJson
from fewbits.cli.output import err, print_json, print_table, watch
from fewbits.data.datasets import load_dataset
from fewbits.errors import MissingFileError, ParameterError
from fewbits.hashers.registry import METHODS

PROTOCOL_SETS = ["ng20", "reuters", "tmc", "arxiv"]
Part = Annotated[str, typer.Option(help="Which part the queries are: test or validation.")]


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
    part: Part = "test",
    set: Annotated[
        list[str] | None, typer.Option(help="A parameter other than the method's own, NAME=VALUE in JSON, or several.")
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Write one JSON file a run.")] = False,
    missing: Annotated[bool, typer.Option("--missing", help="Run only what has no result file yet.")] = False,
    jobs: Jobs = 1,
    results: Folder = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Measure methods on data sets: learn on the training part, query with the test part.

    Example: fewbits evaluate --method itq --dataset reuters --bits 32 --seed 0 --save
    """
    parameters = dict(_parameter(text) for text in set or [])
    specs = [
        Spec(one_method, name, length, one_seed, part, parameters)
        for name, one_method, length, one_seed in product(dataset, method, bits, seed or [0])
    ]
    rows, failed = [], False
    for step in watch_runs(run_all(specs, results if save else None, jobs=jobs, again=not missing)):
        if (result := step.result) is None:
            failed = step.failed_before > 0
            continue
        if as_json:
            print_json(result)
        if result.error:
            failed = True
            continue
        metrics = result.metrics
        figures = [metrics["precision_at_100"], metrics["neighbour_recall"], metrics["random_floor"]]
        where = [result.method, result.dataset, str(result.bits), str(result.seed)]
        rows.append([*where, *(f"{figure:.4f}" for figure in figures)])
    if not as_json:
        print_table(["method", "dataset", "bits", "seed", "precision at 100", "neighbour recall", "random floor"], rows)
    if failed:
        raise typer.Exit(1)


def tune(
    method: Annotated[str, typer.Option(help="A neural method.")],
    dataset: Annotated[str, typer.Option(help="Data set.")],
    bits: Annotated[int, typer.Option("--bits", "--n-bits", help="Code length.")],
    n_trials: Annotated[int, typer.Option(help="Trials in all, with those of the study so far.")] = 20,
    study: Annotated[Path | None, typer.Option(help="File to keep the trials in, and to go on from.")] = None,
    n_folds: Annotated[int | None, typer.Option(help="Cross validate on the training part instead.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of a trial. [default: the method's]")] = None,
    seed: Annotated[int, typer.Option("--seed", "--random-state", help="Seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Search a method's weights on the validation part; the test part is never looked at.

    Example: fewbits tune --method pairwise --dataset reuters --bits 32 --n-trials 30 --study reuters.journal
    """
    trials = search_weights(
        method,
        load_dataset(dataset, progress=err.is_terminal),
        bits,
        n_trials=n_trials,
        study=study,
        n_folds=n_folds,
        random_state=seed,
        parameters={} if epochs is None else {"epochs": epochs},
    )
    if as_json:
        for trial in trials:
            print_json(trial)
        return
    names = sorted({name for trial in trials for name in trial.parameters})
    rows = [
        [str(t.number), str(t.precision), str(t.seconds), *(_figure(t.parameters.get(name)) for name in names)]
        for t in trials
    ]
    print_table(["trial", "precision at 100", "seconds", *names], rows)


@bench.command("estimators")
def bench_estimators(
    dataset: Annotated[str, typer.Option(help="Data set.")] = "ng20",
    bits: Annotated[list[int] | None, typer.Option("--bits", help="Code length, or several. [default: 32]")] = None,
    save: Annotated[bool, typer.Option("--save", help="Write one JSON file a length.")] = False,
    results: Folder = Path("results"),
) -> None:
    """Compare variance, bias and speed of the gradient estimators on a trained model.

    Example: fewbits bench estimators --dataset ng20 --bits 32 --bits 128 --save
    """
    loaded = load_dataset(dataset, progress=err.is_terminal)
    _run_experiment(EstimatorComparison(loaded, bits or [32]), results if save else None)


def _run_experiment(experiment: Experiment[Any], results: Path | None) -> None:
    """Measure, save the facts if there is a folder for them, and print them."""
    for facts in watch(experiment.measure(), "Measuring"):
        if results is not None:
            err.print(f"saved {experiment.save(facts, results)}", markup=False, soft_wrap=True)
        for one in facts if isinstance(facts, list) else [facts]:
            print_json(one)


@bench.command("speed")
def bench_speed(
    dataset: Annotated[list[str] | None, typer.Option(help="Data set, or several. [default: ng20 and arxiv]")] = None,
    save: Annotated[bool, typer.Option("--save", help="Write JSON files.")] = False,
    results: Folder = Path("results"),
) -> None:
    """Measure the speed of training beside a textbook implementation, and the time until codes are good on ng20.

    Example: fewbits bench speed --save
    """
    _run_experiment(TrainingTime(dataset or ["ng20", "arxiv"]), results if save else None)


@bench.command("supervision")
def bench_supervision(
    dataset: Annotated[str, typer.Option(help="Data set.")] = "ng20",
    bits: Annotated[int, typer.Option("--bits", help="Code length.")] = 32,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="Seed, or several. [default: 0, 1 and 2]")] = None,
    part: Part = "test",
    save: Annotated[bool, typer.Option("--save", help="Write a JSON file.")] = False,
    results: Folder = Path("results"),
) -> None:
    """Measure what a few labels, or pairs alone, add to codes learnt from texts.

    Example: fewbits bench supervision --dataset ng20 --bits 32 --save
    """
    loaded = load_dataset(dataset, progress=err.is_terminal)
    _run_experiment(SupervisionComparison(loaded, bits, seed or [0, 1, 2], part), results if save else None)


@bench.command("known-items")
def bench_known_items(
    dataset: Annotated[str, typer.Option(help="Data set whose texts begin with a title.")] = "arxiv",
    bits: Annotated[
        list[int] | None, typer.Option("--bits", help="Code length, or several. [default: 64 and 128]")
    ] = None,
    method: Annotated[str, typer.Option(help="Method that learns the codes.")] = "bernoulli-vae",
    learn_from: Annotated[int, typer.Option(help="Documents that the codes are learnt from.")] = TRAINING_SIZE,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder to keep the training in, and to go on from.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Write a JSON file.")] = False,
    results: Folder = Path("results"),
) -> None:
    """Measure how often a document is found by its title, and how fast, for each way to rank.

    Example: fewbits bench known-items --dataset arxiv --save
    """
    experiment = KnownItemSearch(
        dataset,
        split_titles(load_dataset(dataset, progress=err.is_terminal)),
        bits or [64, 128],
        method=method,
        training_size=learn_from,
        checkpoint=checkpoint,
        progress=lambda step: err.print(step, markup=False),
    )
    _run_experiment(experiment, results if save else None)


@bench.command("service")
def bench_service(
    documents: Annotated[int, typer.Option(help="Made-up documents.", min=1000)] = 1_000_000,
    clients: Annotated[int, typer.Option(help="Clients that ask at the same time.", min=1)] = 32,
    seconds: Annotated[float, typer.Option(help="How long they ask.", min=0.1)] = 30.0,
    rescore: Annotated[
        list[str] | None, typer.Option("--rescore", help="Way of rescoring, or several. [default: none and words]")
    ] = None,
    engine: Annotated[
        Path | None, typer.Option(help="Where the made-up engine is, or is kept for the next run.")
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Write JSON files.")] = False,
    results: Folder = Path("results"),
) -> None:
    """Measure the service under load beside the bare scan of the same codes.

    Example: fewbits bench service --clients 32 --seconds 30 --save
    """
    experiment = ServiceLoad(documents, clients, seconds, tuple(rescore or ("none", "words")), engine)
    _run_experiment(experiment, results if save else None)


def methods(as_json: AsJson = False) -> None:
    """List the methods by the names that commands and result files carry.

    Example: fewbits methods --json
    """
    if as_json:
        for method in METHODS.values():
            facts = {"name": method.name, "title": method.title, "setting": method.setting}
            how = {"reference": method.reference, "hasher": method.hasher.__name__, "parameters": dict(method.preset)}
            print_json({**facts, **how})
        return
    rows = [[method.name, method.setting, method.title, method.reference] for method in METHODS.values()]
    print_table(["method", "labels", "in tables", "reference"], rows)


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError("a parameter is given as NAME=VALUE", allowed="for example epochs=5", got=repr(text))
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value  # a word needs no quotes


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
