"""Commands of the benchmark: suites of runs, and what is made of their results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from fewbits.benchmark.compare import compare, load_baseline
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
from fewbits.benchmark.report.comparison import render_comparison
from fewbits.benchmark.results import Result, Store, load_failures, load_results
from fewbits.benchmark.runner import Step, run_all
from fewbits.benchmark.spec import load_suite
from fewbits.cli.options import AsJson, Encoding, IdField, MaxFeatures, TextFields, TokenPattern
from fewbits.cli.output import err, out, print_json, print_table, watch
from fewbits.data import read_documents
from fewbits.data.datasets import load_dataset
from fewbits.data.io import read_pairs
from fewbits.errors import DataError, ParameterError
from fewbits.features import TextVectorizer

bench = typer.Typer(
    help="Suites of runs, their tables and figures, and a bench for your own corpus.", rich_markup_mode=None
)
Folder = Annotated[Path, typer.Option("--results", help="Folder of the result files.")]
Jobs = Annotated[int, typer.Option(help="Runs side by side; with more than one, each has one thread.")]


@bench.command("run")
def bench_run(
    suite: Annotated[str, typer.Argument(help="quick, paper, scale, ablation, estimators, or a .toml file.")],
    jobs: Jobs = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Do runs that failed again.")] = False,
    results: Folder = Path("results"),
) -> None:
    """Do all runs of a suite that have no result yet; stopped or killed, it goes on where it was.

    Example: fewbits bench run quick --jobs 2
    """
    chosen = load_suite(suite)
    failures = 0
    for step in watch_runs(run_all(chosen.specs, results, jobs=jobs, retry=retry)):
        failures += step.failed_before if step.result is None else step.result.error is not None
    if failures:
        err.print(f"{failures} failed; do them again with --retry", markup=False, soft_wrap=True)
        raise typer.Exit(1)


@bench.command("measure")
def bench_measure(
    dataset: Annotated[list[str] | None, typer.Option(help="A .mat file that results are of, or several.")] = None,
    results: Folder = Path("results"),
) -> None:
    """Compute the metrics of all runs whose codes were kept again, without learning.

    Example: fewbits bench measure
    """
    measured = list(reevaluate(results, dataset or [], progress=err.is_terminal))
    changed = [one.result.file_name for one in measured if one.changed]
    for name in changed:
        print(name)
    err.print(f"{len(measured)} results measured again, {len(changed)} have changed", markup=False, soft_wrap=True)
    for reason, count in count_skipped(results, measured).items():
        if count:
            err.print(f"{count} left out: {reason}", markup=False, soft_wrap=True)


@bench.command("compare")
def bench_compare(
    results: Folder = Path("results"),
    against: Annotated[
        str, typer.Option(help="Results of before: a folder, or a git revision that has them.")
    ] = "HEAD",
    tolerance: Annotated[float, typer.Option(help="How much a precision may fall.", min=0.0)] = 0.01,
) -> None:
    """Print our figures beside the published ones, and end with 1 where one is worse than it was before, or fails now.

    Example: fewbits bench compare --against results --results new-results
    """
    found = list(load_results(results))
    before = load_baseline(against, results)  # before anything is printed
    failures = list(load_failures(results))
    print(render_comparison(Store(found, failures), LatentSpace.load(results)), end="")
    comparison = compare([*found, *failures], before, tolerance)
    err.print(f"beside {against}: {comparison}", markup=False, soft_wrap=True)
    if not comparison.compared:
        raise DataError(
            f"nothing could be compared with {against}",
            allowed="runs of the same method, length, seed and parameters, on the same documents",
            hint="Do its runs again, or name other results: --against",
        )
    for cell in comparison.worse:
        err.print(f"worse: {cell}", markup=False, soft_wrap=True)
    if comparison.worse:
        raise typer.Exit(1)
    err.print(f"nothing is worse by more than {tolerance}", markup=False, soft_wrap=True)


@bench.command("report")
def bench_report(
    results: Folder = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the pages.")] = Path("docs"),
) -> None:
    """Write all tables as Markdown, and the report with its pictures as one HTML file.

    Example: fewbits bench report --output docs
    """
    for path in write_report(results, output):
        err.print(f"wrote {path}", markup=False, soft_wrap=True)


@bench.command("figures")
def bench_figures(
    method: Annotated[
        list[str] | None, typer.Option(help=f"Neural method, or several. [default: {', '.join(SHOWN_METHODS)}]")
    ] = None,
    dataset: Annotated[str, typer.Option(help="Data set.")] = DATASET,
    bits: Annotated[int, typer.Option("--bits", help="Code length.")] = BITS,
    results: Folder = Path("results"),
) -> None:
    """Train models and save what pictures of them need: latent codes in the plane, and nearest words.

    Example: fewbits bench figures --method nash
    """
    loaded = load_dataset(dataset, progress=err.is_terminal)
    chosen = method or list(SHOWN_METHODS)
    for figure in watch(LatentSpace(loaded, chosen, bits).measure(), "Training", total=len(chosen)):
        err.print(f"saved {LatentSpace.save(figure, results)}", markup=False, soft_wrap=True)


@bench.command("own")
def bench_own(
    source: Annotated[str, typer.Argument(help="JSON Lines, CSV, TSV, Parquet, or a folder of .txt files.")],
    text: TextFields = None,
    id: IdField = None,
    label: Annotated[str | None, typer.Option(help="Field of the label or labels.")] = None,
    label_separator: Annotated[str | None, typer.Option(help="What separates labels inside the field.")] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="Instead of labels: a file of pairs, fields left, right (ids) and same.")
    ] = None,
    encoding: Encoding = "utf-8",
    max_features: MaxFeatures = 20_000,
    token_pattern: TokenPattern = None,
    method: Annotated[
        list[str] | None, typer.Option(help=f"Method, or several. [default: {', '.join(COMPARED)}]")
    ] = None,
    bits: Annotated[list[int] | None, typer.Option("--bits", help="Code length, or several.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on your own corpus, and say which to take, how many bits, and what it costs.

    Example: fewbits bench own news.jsonl --text title --text body --label topic
    """
    methods, lengths = method or list(COMPARED), bits or list(LENGTHS)
    if pairs is not None and label is not None:
        raise ParameterError("labels and pairs are two ways to judge codes", allowed="--label or --pairs", got="both")
    check_candidates(methods, lengths, with_pairs=pairs is not None)
    documents = read_documents(
        source, text=text or "text", id=id, label=label, label_separator=label_separator, encoding=encoding
    )
    read = watch(documents, "Reading documents")
    vectorizer = TextVectorizer(max_features=max_features, token_pattern=token_pattern)
    if pairs is None:
        corpus = corpus_with_labels(read, vectorizer)
    else:
        corpus = corpus_with_pairs(read, list(read_pairs(pairs)), vectorizer)
    count = len(set(lengths)) * len(set(methods))
    candidates = list(watch(bench_corpus(corpus, methods, lengths), "Comparing", total=count))
    advice = recommend(candidates, corpus)
    if as_json:
        return print_json({"candidates": candidates, "recommendation": advice})
    header = ["method", "bits", corpus.measure, "s to learn", "bytes a document", "ms a query"]
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
    out.print(f"\n{advice}", markup=False, soft_wrap=True)
    return None


class TimeLeft(ProgressColumn):
    """The time left as the runs that were done tell: runs lie too far apart, and differ too much, for a mean speed."""

    def render(self, task: Task) -> Text:
        """Hours, minutes and seconds; a dash each as long as nothing is known."""
        ends = task.fields.get("ends")
        if ends is None:
            return Text("-:--:-- left")
        return Text(f"{timedelta(seconds=max(0, round(ends - time.monotonic())))} left")


def watch_runs(steps: Iterable[Step]) -> Iterator[Step]:
    """Show how far the runs are: a bar with the time left on a terminal, else a line for each."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as bar:
        task = bar.add_task("Looking at the data sets", total=None)
        for step in steps:
            ends = None if step.seconds_left is None else time.monotonic() + step.seconds_left
            bar.update(task, completed=step.done, total=step.total, description="Running", ends=ends)
            if step.result is None:
                failed = f" ({step.failed_before} failed)" if step.failed_before else ""
                err.print(f"{step.finished_before} finished before{failed}, {step.total} to do", markup=False)
            else:
                err.print(f"[{step.done}/{step.total}] {_line(step.result)}", markup=False, soft_wrap=True)
            yield step


def _line(result: Result) -> str:
    what = f"{result.method} {result.dataset} {result.bits} bits seed {result.seed}"
    if result.error:
        return f"{what}: failed: {result.error}"
    return f"{what}: {result.metrics['precision_at_100']:.4f} in {result.seconds['fit']:.1f} s"
