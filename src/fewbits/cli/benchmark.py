"""Commands of the benchmark: run suites, compare results, write the report, compare methods on your own corpus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from fewbits.benchmark.evaluate import count_skipped, reevaluate
from fewbits.benchmark.experiments import LatentSpace
from fewbits.benchmark.experiments.latent import BITS, DATASET, SHOWN_METHODS
from fewbits.benchmark.own import (
    COMPARED,
    LENGTHS,
    bench_corpus,
    check_candidates,
    corpus_with_labels,
    corpus_with_pairs,
    recommend,
)
from fewbits.benchmark.report import write_report
from fewbits.benchmark.report.asymmetric import SUITE as ASYMMETRIC
from fewbits.benchmark.report.asymmetric import has_confidence, render_asymmetric_tables
from fewbits.benchmark.report.comparison import render_comparison
from fewbits.benchmark.report.generalisation import SUITE as GENERALISATION
from fewbits.benchmark.report.generalisation import render_tables
from fewbits.benchmark.results import Result, Store, compare, load_baseline, load_failures, load_results
from fewbits.benchmark.runner import Step, run_all
from fewbits.benchmark.spec import load_suite
from fewbits.cli.options import (
    AsJson,
    FieldOptions,
    Jobs,
    MaxFeatures,
    ResultsFolder,
    TokenPattern,
    expand_options,
)
from fewbits.cli.output import err, plural, print_json, print_status, print_table, print_text, track_progress
from fewbits.data import read_documents
from fewbits.data.datasets import load_dataset
from fewbits.data.io import read_pairs
from fewbits.errors import DataError, ParameterError
from fewbits.features import TextVectorizer
from fewbits.search.languages import named_pattern

bench = typer.Typer(
    help="Run benchmark suites, render their results, and compare methods on your own corpus.", rich_markup_mode=None
)


@bench.command("run")
def bench_run(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="quick, paper, scale, ablation, estimators, generalisation, asymmetric, or a .toml file.",
        ),
    ],
    jobs: Jobs = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Repeat runs that failed.")] = False,
    results: ResultsFolder = Path("results"),
) -> None:
    """Run all configurations of a suite that have no result yet; an interrupted run resumes.

    Example: fewbits bench run quick --jobs 2
    """
    failures = 0
    for step in track_runs(run_all(load_suite(suite).specs, results, jobs=jobs, retry=retry)):
        failures += step.failed_before if step.result is None else step.result.error is not None
    if suite == GENERALISATION:
        print(render_tables(Store(load_results(results), load_failures(results))))
    _exit_if_failed(failures, "; repeat with --retry")


@bench.command("asymmetric")
def bench_asymmetric(
    dataset: Annotated[
        list[str] | None, typer.Option(help="Data set; repeatable. [default: all that have results]")
    ] = None,
    run: Annotated[bool, typer.Option(help="Make the runs of the suite asymmetric that have no such result.")] = True,
    jobs: Jobs = 1,
    results: ResultsFolder = Path("results"),
) -> None:
    """Print the precision by distance, by the query's confidence, and with real values on both sides.

    The figures are read from the result files; those that are missing are made first. Every method is shown whose
    results have them: fewbits evaluate --save adds them to a result.

    Example: fewbits bench asymmetric --dataset ng20
    """
    failures = 0
    if run:
        specs = [spec for spec in load_suite(ASYMMETRIC).specs if not dataset or spec.dataset in dataset]
        stored = load_results(results) if results.is_dir() else ()
        measured = {result.key for result in stored if has_confidence(result)}
        todo = [spec for spec in specs if spec.key not in measured]
        for step in track_runs(run_all(todo, results, jobs=jobs, again=True)) if todo else ():
            failures += step.result is not None and step.result.error is not None
    print(render_asymmetric_tables(Store(load_results(results), load_failures(results)), dataset or ()))
    _exit_if_failed(failures)


def _exit_if_failed(failures: int, advice: str = "") -> None:
    if failures:
        print_status(f"{plural(failures, 'run')} failed{advice}.")
        raise typer.Exit(1)


@bench.command("measure")
def bench_measure(
    dataset: Annotated[
        list[str] | None, typer.Option(help=".mat file on which some of the results were computed; repeatable.")
    ] = None,
    results: ResultsFolder = Path("results"),
) -> None:
    """Recompute the metrics of all runs with stored codes, without training.

    Example: fewbits bench measure
    """
    reevaluated = list(reevaluate(results, dataset or [], progress=err.is_terminal))
    changed = [one.result.file_name for one in reevaluated if one.changed]
    for name in changed:
        print(name)
    print_status(f"Recomputed {plural(len(reevaluated), 'result')}; {len(changed):,} changed.")
    for reason, count in count_skipped(results, reevaluated).items():
        if count:
            print_status(f"{count:,} skipped: {reason}")


@bench.command("compare")
def bench_compare(
    results: ResultsFolder = Path("results"),
    against: Annotated[
        str, typer.Option(help="Baseline: a folder of results, or a git revision that contains them.")
    ] = "HEAD",
    tolerance: Annotated[float, typer.Option(help="Largest accepted drop in precision.", min=0.0)] = 0.01,
) -> None:
    """Compare results with published figures and with a baseline.

    Exits with 1 if a result is worse than in the baseline, or a run that succeeded there fails now.

    Example: fewbits bench compare --against results --results new-results
    """
    current = list(load_results(results))
    baseline = load_baseline(against, results)  # may fail: load it before printing
    failures = list(load_failures(results))
    print(render_comparison(Store(current, failures), LatentSpace.load(results)), end="")
    comparison = compare([*current, *failures], baseline, tolerance)
    print_status(f"Compared with {against}: {comparison}")
    if not comparison.compared:
        raise DataError(
            f"no result can be compared with {against}",
            allowed="runs of the same method, length, seed and parameters, on the same documents",
            hint="Repeat its runs, or choose another baseline with --against.",
        )
    for cell in comparison.worse:
        print_status(f"Worse: {cell}")
    if comparison.worse:
        raise typer.Exit(1)
    print_status(f"No result is worse by more than {tolerance}.")


@bench.command("report")
def bench_report(
    results: ResultsFolder = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pages.")] = Path("docs"),
) -> None:
    """Write all tables as Markdown pages, and the report with figures as one HTML file.

    Example: fewbits bench report --output docs
    """
    for path in write_report(results, output):
        print_status(f"Wrote {path}.")


@bench.command("figures")
def bench_figures(
    method: Annotated[
        list[str] | None, typer.Option(help=f"Neural method; repeatable. [default: {', '.join(SHOWN_METHODS)}]")
    ] = None,
    dataset: Annotated[str, typer.Option(help="Data set.")] = DATASET,
    bits: Annotated[int, typer.Option("--bits", help="Code length in bits.")] = BITS,
    results: ResultsFolder = Path("results"),
) -> None:
    """Train models and save data for figures: a 2-D projection of the codes, and nearest words.

    Example: fewbits bench figures --method nash
    """
    loaded = load_dataset(dataset, progress=err.is_terminal)
    chosen = method or list(SHOWN_METHODS)
    for figure in track_progress(LatentSpace(loaded, chosen, bits).measure(), "Training", total=len(chosen)):
        print_status(f"Saved {LatentSpace.save(figure, results)}")


@bench.command("own")
@expand_options
def bench_own(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="JSON Lines, CSV, TSV, Parquet, or a folder of .txt files.")
    ],
    fields: FieldOptions,
    pairs: Annotated[
        Path | None,
        typer.Option(help="File of labelled pairs with the fields left, right (ids) and same, instead of labels."),
    ] = None,
    max_features: MaxFeatures = 20_000,
    token_pattern: TokenPattern = None,
    method: Annotated[
        list[str] | None, typer.Option(help=f"Method; repeatable. [default: {', '.join(COMPARED)}]")
    ] = None,
    bits: Annotated[list[int] | None, typer.Option("--bits", help="Code length in bits; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods and code lengths on your own corpus, and recommend one.

    Example: fewbits bench own news.jsonl --text title --text body --label topic
    """
    methods, lengths = method or list(COMPARED), bits or list(LENGTHS)
    if pairs is not None and fields.label is not None:
        raise ParameterError("codes are evaluated by labels or by pairs", allowed="--label or --pairs", got="both")
    check_candidates(methods, lengths, with_pairs=pairs is not None)
    documents = read_documents(
        source,
        text=fields.text or "text",
        id=fields.id,
        label=fields.label,
        label_separator=fields.label_separator,
        **fields.reading(),
    )
    stream = track_progress(documents, "Reading documents")
    vectorizer = TextVectorizer(max_features=max_features, token_pattern=named_pattern(token_pattern))
    if pairs is None:
        corpus = corpus_with_labels(stream, vectorizer)
    else:
        corpus = corpus_with_pairs(stream, list(read_pairs(pairs)), vectorizer)
    count = len(set(lengths)) * len(set(methods))
    candidates = list(track_progress(bench_corpus(corpus, methods, lengths), "Comparing", total=count))
    advice = recommend(candidates, corpus)
    if as_json:
        return print_json({"candidates": candidates, "recommendation": advice})
    header = ["method", "bits", corpus.measure, "training seconds", "bytes per document", "ms per query"]
    rows = [
        [
            one.method,
            str(one.bits),
            f"{one.quality:.3f}",
            f"{one.seconds_learning:.1f}",
            str(one.bytes_per_document),
            f"{one.milliseconds_per_query:.2f}",
        ]
        for one in candidates
    ]
    print_table(header, rows)
    print_text(f"\n{advice}")
    return None


class TimeLeft(ProgressColumn):
    """Estimated time left; runs are too few and too different for the mean speed that rich shows."""

    def render(self, task: Task) -> Text:
        """Return hours, minutes and seconds, or dashes without an estimate."""
        ends = task.fields.get("ends")
        if ends is None:
            return Text("-:--:-- left")
        return Text(f"{timedelta(seconds=max(0, round(ends - time.monotonic())))} left")


def track_runs(steps: Iterable[Step]) -> Iterator[Step]:
    """Print one line per finished run, and on a terminal a progress bar with the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as bar:
        task = bar.add_task("Loading data sets", total=None)
        for step in steps:
            ends = None if step.seconds_left is None else time.monotonic() + step.seconds_left
            bar.update(task, completed=step.done, total=step.total, description="Running", ends=ends)
            if step.result is None:
                failed = f" ({step.failed_before} failed)" if step.failed_before else ""
                print_status(f"{step.finished_before} runs already finished{failed}, {step.total} to do")
            else:
                print_status(f"[{step.done}/{step.total}] {_summary(step.result)}")
            yield step


def _summary(result: Result) -> str:
    cell = f"{result.method} {result.dataset} {result.bits} bits seed {result.seed}"
    if result.error:
        return f"{cell}: failed: {result.error}"
    return f"{cell}: precision at 100 {result.metrics['precision_at_100']:.4f}, fit in {result.seconds['fit']:.1f} s"
