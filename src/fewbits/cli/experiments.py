"""Commands that measure: data sets, runs, hyperparameters, and the experiments beside the benchmark."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from fewbits.benchmark.evaluate import ASYMMETRIC, describe
from fewbits.benchmark.experiments import (
    EstimatorComparison,
    Experiment,
    KnownItemSearch,
    NestedComparison,
    SearchQuality,
    ServiceLoad,
    SupervisionComparison,
    TrainingTime,
)
from fewbits.benchmark.experiments.judged import LAYOUT, read_collection
from fewbits.benchmark.experiments.known_items import TRAINING_SIZE, split_titles
from fewbits.benchmark.experiments.nested import COMPARED as NESTED
from fewbits.benchmark.runner import run_all
from fewbits.benchmark.spec import Spec
from fewbits.benchmark.tune import tune as search_weights
from fewbits.cli.benchmark import bench, track_runs
from fewbits.cli.options import AsJson, Jobs, ResultsFolder, renamed
from fewbits.cli.output import err, print_json, print_status, print_table, track_progress
from fewbits.data.datasets import load_dataset
from fewbits.errors import MissingFileError, ParameterError
from fewbits.hashers.registry import METHODS, WITHOUT_LABELS

BENCHMARK_SETS = ["ng20", "reuters", "tmc", "arxiv"]
Part = Annotated[str, typer.Option(help="Part that supplies the queries: test or validation.")]


def data(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAMES", help="Data sets or .mat files. [default: all benchmark sets]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the size, vocabulary, labels and chance level of data sets.

    Example: fewbits data ng20 reuters
    """
    rows = []
    for name in track_progress(names or BENCHMARK_SETS, "Loading"):
        try:
            rows.append(describe(load_dataset(name, progress=err.is_terminal)))
        except MissingFileError as error:
            if names:
                raise
            print_status(f"{name}: {error}")  # without names, show those that are available
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        titles = ["chance level" if name == "random_floor" else name for name in rows[0]]
        print_table(titles, [[_cell(value) for value in row.values()] for row in rows])


def evaluate(
    method: Annotated[list[str], typer.Option(help="Method; repeatable.")],
    dataset: Annotated[list[str], typer.Option(help="Data set; repeatable.")],
    bits: Annotated[list[int], typer.Option("--bits", "--n-bits", help="Code length in bits; repeatable.")],
    seed: Annotated[
        list[int] | None, typer.Option("--seed", "--random-state", help="Seed; repeatable. [default: 0]")
    ] = None,
    part: Part = "test",
    set: Annotated[
        list[str] | None,
        typer.Option(help="Parameter of the method, NAME=VALUE with the value in JSON; repeatable."),
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Write one result file per run.")] = False,
    missing: Annotated[bool, typer.Option("--missing", help="Skip runs that have a result file.")] = False,
    jobs: Jobs = 1,
    results: ResultsFolder = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Measure methods on data sets: train on the training part, query with the test part.

    "By confidence" is the precision at 100 of a search, where a differing bit costs the query's confidence in it;
    "by distance" is that of the number of differing bits, as in published tables.

    Example: fewbits evaluate --method itq --dataset reuters --bits 32 --seed 0 --save
    """
    parameters = dict(_parameter(text) for text in set or [])
    specs = [
        Spec(method_name, dataset_name, length, number, part, parameters)
        for dataset_name, method_name, length, number in product(dataset, method, bits, seed or [0])
    ]
    rows, failed = [], False
    for step in track_runs(run_all(specs, results if save else None, jobs=jobs, again=not missing)):
        if (result := step.result) is None:
            failed = step.failed_before > 0
            continue
        if as_json:
            print_json(result)
        if result.error:
            failed = True
            continue
        metrics = result.metrics
        asymmetric = (result.asymmetric or {}).get(ASYMMETRIC)
        values = [asymmetric, metrics["precision_at_100"], metrics["neighbour_recall"], metrics["random_floor"]]
        cell = [result.method, result.dataset, str(result.bits), str(result.seed)]
        rows.append([*cell, *("" if value is None else f"{value:.4f}" for value in values)])
    if not as_json:
        columns = ["by confidence", "by distance", "neighbor recall", "chance level"]
        print_table(["method", "dataset", "bits", "seed", *columns], rows)
    if failed:
        raise typer.Exit(1)


def tune(
    method: Annotated[str, typer.Option(help="Neural method.")],
    dataset: Annotated[str, typer.Option(help="Data set.")],
    bits: Annotated[int, typer.Option("--bits", "--n-bits", help="Code length in bits.")],
    n_trials: Annotated[int, typer.Option(help="Total number of trials, including those in the study.")] = 20,
    study: Annotated[Path | None, typer.Option(help="File that stores the trials; an existing one is resumed.")] = None,
    n_folds: Annotated[
        int | None,
        typer.Option(
            help="Number of folds for cross-validation on the training part. [default: use the validation part]"
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs per trial. [default: those of the method]")] = None,
    seed: Annotated[int, typer.Option("--seed", "--random-state", help="Seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Tune the loss weights of a method on the validation part; the test part is not used.

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
        [str(t.number), str(t.precision), str(t.seconds), *(_short_number(t.parameters.get(name)) for name in names)]
        for t in trials
    ]
    print_table(["trial", "precision at 100", "seconds", *names], rows)


@bench.command("estimators")
def bench_estimators(
    dataset: Annotated[str, typer.Option(help="Data set.")] = "ng20",
    bits: Annotated[list[int] | None, typer.Option("--bits", help="Code length; repeatable. [default: 32]")] = None,
    save: Annotated[bool, typer.Option("--save", help="Write one JSON file per code length.")] = False,
    results: ResultsFolder = Path("results"),
) -> None:
    """Compare the variance, bias and speed of the gradient estimators on a trained model.

    Example: fewbits bench estimators --dataset ng20 --bits 32 --bits 128 --save
    """
    loaded = load_dataset(dataset, progress=err.is_terminal)
    run_experiment(EstimatorComparison(loaded, bits or [32]), results if save else None)


@bench.command("speed")
def bench_speed(
    dataset: Annotated[list[str] | None, typer.Option(help="Data set; repeatable. [default: ng20 and arxiv]")] = None,
    save: Annotated[bool, typer.Option("--save", help="Write JSON files.")] = False,
    results: ResultsFolder = Path("results"),
) -> None:
    """Compare training speed with a textbook implementation, and measure the time to reach a target precision.

    Example: fewbits bench speed --save
    """
    run_experiment(TrainingTime(dataset or ["ng20", "arxiv"]), results if save else None)


@bench.command("supervision")
def bench_supervision(
    dataset: Annotated[str, typer.Option(help="Data set.")] = "ng20",
    bits: Annotated[int, typer.Option("--bits", help="Code length in bits.")] = 32,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="Seed; repeatable. [default: 0, 1 and 2]")] = None,
    part: Part = "test",
    save: Annotated[bool, typer.Option("--save", help="Write a JSON file.")] = False,
    results: ResultsFolder = Path("results"),
) -> None:
    """Measure how much a few labels, or pairs alone, improve codes.

    Example: fewbits bench supervision --dataset ng20 --bits 32 --save
    """
    loaded = load_dataset(dataset, progress=err.is_terminal)
    run_experiment(SupervisionComparison(loaded, bits, seed or [0, 1, 2], part), results if save else None)


@bench.command("nested")
def bench_nested(
    dataset: Annotated[
        list[str] | None, typer.Option(help="Data set; repeatable. [default: ng20, reuters and arxiv]")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Method; repeatable. [default: bernoulli-vae and pairwise]")
    ] = None,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="Seed; repeatable. [default: 0]")] = None,
    part: Part = "test",
    save: Annotated[bool, typer.Option("--save", help="Write one JSON file per method and seed.")] = False,
    results: ResultsFolder = Path("results"),
) -> None:
    """Compare the prefixes of a nested code of 128 bits with separate trainings of their lengths.

    Separate trainings that have a result file are read from it.

    Example: fewbits bench nested --dataset ng20 --dataset reuters --save
    """
    for name in dataset or ["ng20", "reuters", "arxiv"]:
        loaded = load_dataset(name, progress=err.is_terminal)
        experiment = NestedComparison(loaded, method or NESTED, seed or [0], part, results=results)
        run_experiment(experiment, results if save else None)


@bench.command("known-items")
def bench_known_items(
    dataset: Annotated[str, typer.Option(help="Data set whose texts begin with a title.")] = "arxiv",
    bits: Annotated[
        list[int] | None, typer.Option("--bits", help="Code length; repeatable. [default: 64 and 128]")
    ] = None,
    method: Annotated[str, typer.Option(help="Hashing method.")] = "bernoulli-vae",
    learn_from: Annotated[int, typer.Option(help="Number of training documents.")] = TRAINING_SIZE,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for training checkpoints; training resumes from them.")
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Write a JSON file.")] = False,
    results: ResultsFolder = Path("results"),
) -> None:
    """Measure how often, and how fast, each ranking finds a document by its title.

    Example: fewbits bench known-items --dataset arxiv --save
    """
    experiment = KnownItemSearch(
        dataset,
        split_titles(load_dataset(dataset, progress=err.is_terminal)),
        bits or [64, 128],
        method=method,
        training_size=learn_from,
        checkpoint=checkpoint,
        progress=print_status,
    )
    run_experiment(experiment, results if save else None)


@bench.command("search")
def bench_search(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=f"Collection in BEIR's layout: {LAYOUT}.")],
    bits: Annotated[list[int] | None, typer.Option("--bits", help="Code length; repeatable. [default: 64]")] = None,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="Seed; repeatable. [default: 0]")] = None,
    method: Annotated[str, typer.Option(help="Hashing method.")] = WITHOUT_LABELS,
    weight: Annotated[
        float | None, typer.Option(help="Weight of the codes, relative to the words. [default: as in a search]")
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Write one JSON file per code length and seed.")] = False,
    results: ResultsFolder = Path("results"),
) -> None:
    """Measure text search on a collection with relevance judgements, and compare it with BM25 by the package bm25s.

    Example: fewbits bench search cranfield --bits 64 --bits 128 --save
    """
    experiment = SearchQuality(
        read_collection(folder), bits or [64], seed or [0], method, weight, progress=print_status
    )
    run_experiment(experiment, results if save else None)


@bench.command("service")
def bench_service(
    documents: Annotated[int, typer.Option(help="Number of synthetic documents.", min=1000)] = 1_000_000,
    clients: Annotated[int, typer.Option(help="Number of concurrent clients.", min=1)] = 32,
    seconds: Annotated[float, typer.Option(help="Duration of the load.", min=0.1)] = 30.0,
    rerank: Annotated[
        list[str] | None, typer.Option("--rerank", help="Ranking; repeatable. [default: none and words]")
    ] = None,
    rescore: Annotated[list[str] | None, typer.Option("--rescore", hidden=True)] = None,
    engine: Annotated[Path | None, typer.Option(help="Folder of the synthetic engine; created if missing.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Write JSON files.")] = False,
    results: ResultsFolder = Path("results"),
) -> None:
    """Measure the service under load, and compare it with a plain scan of the same codes.

    Example: fewbits bench service --clients 32 --seconds 30 --save
    """
    rankings = renamed("rerank", rerank, "rescore", rescore) or ["none", "words"]
    run_experiment(ServiceLoad(documents, clients, seconds, tuple(rankings), engine), results if save else None)


def methods(as_json: AsJson = False) -> None:
    """List the hashing methods, with the names used by commands and result files.

    Example: fewbits methods --json
    """
    if as_json:
        for method in METHODS.values():
            facts = {"name": method.name, "title": method.title, "setting": method.setting}
            details = {
                "reference": method.reference,
                "hasher": method.hasher.__name__,
                "parameters": dict(method.preset),
            }
            print_json({**facts, **details})
        return
    rows = [[method.name, method.setting, method.title, method.reference] for method in METHODS.values()]
    print_table(["method", "setting", "name in tables", "reference"], rows)


def run_experiment(experiment: Experiment[Any], results: Path | None) -> None:
    """Run an experiment, save its facts if a folder is given, and print them."""
    for facts in track_progress(experiment.measure(), "Measuring"):
        if results is not None:
            print_status(f"Saved {experiment.save(facts, results)}")
        for fact in facts if isinstance(facts, list) else [facts]:
            print_json(fact)


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError("--set expects NAME=VALUE", allowed="for example epochs=5", got=repr(text))
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value  # a string may be given without quotes


def _short_number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
