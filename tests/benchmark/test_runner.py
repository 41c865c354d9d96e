"""Suites and their runner: no run is repeated, failures are stored, and a killed runner resumes where it stopped."""

from __future__ import annotations

import dataclasses
import io
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import io as scipy_io
from scipy import sparse
from typer.testing import CliRunner

from fewbits.benchmark.results import Result, load_failures, load_results
from fewbits.benchmark.runner import Step, _environment, run_all
from fewbits.benchmark.spec import SUITES, Spec, load_suite
from fewbits.cli import app
from fewbits.cli.benchmark import track_runs
from fewbits.data.datasets import GENERALISATION_SOURCES, SOURCES
from fewbits.errors import DataError, MissingFileError, ParameterError
from fewbits.hashers.registry import METHODS
from helpers.corpora import topic_rows

LENGTHS = (8, 16, 32, 64, 128)
BLOCK = "methods=['itq']\ndatasets=['ng20']\nbits=[8]\nseeds=[0]"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Write a data set that loads in a moment."""
    content: dict[str, Any] = {}
    for seed, (name, count) in enumerate({"train": 200, "cv": 20, "test": 40}.items()):
        rows, classes = topic_rows(count, seed)
        content |= {name: sparse.csr_matrix(rows), f"gnd_{name}": sparse.csr_matrix(np.eye(3)[classes])}
    scipy_io.savemat(tmp_path / "tiny.mat", content)
    return tmp_path / "tiny.mat"


def write_suite(path: Path, *blocks: str) -> Path:
    path.write_text('title = "a test"\n' + "\n".join(f"[[runs]]\n{block}" for block in blocks))
    return path


@pytest.mark.parametrize("name", SUITES)
def test_a_built_in_suite_names_existing_methods_and_data_sets(name: str) -> None:
    suite = load_suite(name)
    assert suite.title
    assert {spec.method for spec in suite.specs} <= set(METHODS)
    assert {spec.dataset for spec in suite.specs} <= {*SOURCES, *GENERALISATION_SOURCES}


def test_the_quick_suite_needs_no_archive_and_the_paper_suite_has_every_method_set_and_length() -> None:
    assert {spec.dataset for spec in load_suite("quick").specs} == {"docstrings"}
    seeds = Counter((s.method, s.dataset, s.bits) for s in load_suite("paper").specs if not s.parameters)
    once = ("nash-n", "nash-dn")  # which the paper's tables do not have
    assert seeds == {
        (m, d, bits): 1 if m in once else 3 for m in METHODS for d in ("reuters", "ng20", "tmc") for bits in LENGTHS
    }


def test_a_grid_expands_to_all_combinations_with_the_fixed_parameters(tmp_path: Path) -> None:
    block = 'methods = ["itq"]\ndatasets = ["ng20"]\nbits = [8, 16]\nseeds = [0]\nparameters = {max_rows = 9}\n'
    suite = load_suite(write_suite(tmp_path / "own.toml", block + "grid = {n_iterations = [1, 2]}"))
    assert [(spec.bits, spec.parameters) for spec in suite.specs] == [
        (bits, {"max_rows": 9, "n_iterations": n}) for bits in (8, 16) for n in (1, 2)
    ]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("title = ", DataError, "is not valid TOML"),
        ("", DataError, "contains no runs"),
        ("[[runs]]\nmethods = ['itq']", DataError, r"a \[\[runs\]\] block is not valid"),
        ("[[runs]]\nmethods=['x']\ndatasets=['ng20']\nbits=[8]\nseeds=[0]", ParameterError, "unknown method"),
        ("[[runs]]\nmethods=['itq']\ndatasets=['x']\nbits=[8]\nseeds=[0]", ParameterError, "unknown data set"),
        ("[[runs]]\nmethods=['itq']\ndatasets=['ng20']\nbits=[0]\nseeds=[0]", ParameterError, "code length"),
        (
            "[[runs]]\nmethods=['itq']\ndatasets=['ng20']\nbits=[8]\nseeds=[0]\nparameters={x=1}",
            ParameterError,
            "has no such parameter",
        ),
        (f"[[runs]]\n{BLOCK}\ngrid={{n_iterations=5}}", DataError, r"block is not valid .* grid = {'n_iterations': 5}"),
        (f"[[runs]]\n{BLOCK}\nparameters=5", DataError, r"a \[\[runs\]\] block is not valid"),
        ("runs = 3", DataError, r"runs is not a list of blocks \(allowed: one \[\[runs\]\] or more; got: 3"),
        (f"[runs]\n{BLOCK}", DataError, "runs is not a list of blocks"),
        (f"[[runs]]\n{BLOCK}".replace("[0]", "[-1]"), ParameterError, "a seed is out of range"),
        (f"[[runs]]\n{BLOCK}".replace("[0]", "[0.5]"), ParameterError, "a seed is out of range"),
        ("title = 'caf\udce9'", DataError, "is not valid TOML"),
    ],
)
def test_an_invalid_suite_is_refused_before_any_run(
    tmp_path: Path, content: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "own.toml").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(error, match=message):
        load_suite(tmp_path / "own.toml")


def test_an_unknown_suite_and_a_missing_data_set_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"unknown suite \(allowed: quick, paper"):
        load_suite("slow")
    with pytest.raises(MissingFileError, match=r"slow.toml does not exist"):
        load_suite("slow.toml")
    with pytest.raises(MissingFileError, match=r"nowhere.mat does not exist\."):
        list(run_all([Spec("lsh", str(tmp_path / "nowhere.mat"), 8, 0)]))


@pytest.mark.xdist_group("runner")
def test_a_failed_run_is_stored_and_repeated_only_with_retry(tiny: Path, tmp_path: Path) -> None:
    store = tmp_path / "results"
    where = f'datasets = ["{tiny}"]\nbits = [8]\nseeds = [0]\n'
    suite = write_suite(
        tmp_path / "own.toml",
        f'methods = ["lsh", "itq"]\n{where}',
        f'methods = ["bernoulli-vae"]\n{where}parameters = {{epochs = 0}}',
    )

    def run(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["bench", "run", str(suite), "--results", str(store), *options])
        return done.exit_code, done.stderr

    code, said = run("--jobs", "2")
    assert code == 1
    assert "0 runs already finished, 3 to do" in said
    assert "bernoulli-vae tiny.mat 8 bits seed 0: failed: ParameterError: epochs is out of range" in said
    assert [result.method for result in load_results(store)] == ["itq", "lsh"]
    [failure] = load_failures(store)
    assert (failure.method, failure.metrics) == ("bernoulli-vae", {})
    assert "allowed: 1 or more; got: 0" in str(failure.error)
    finished = [step.finished_before for step in run_all(load_suite(suite).specs, store)]
    assert finished == [3]
    code, said = run()
    assert code == 1
    assert "3 runs already finished (1 failed), 0 to do" in said
    assert "1 run failed; repeat with --retry" in said
    options = f"--method bernoulli-vae --dataset {tiny} --bits 8 --set epochs=0 --save --missing --results {store}"
    assert CliRunner().invoke(app, ["evaluate", *options.split()]).exit_code == 1
    assert "2 runs already finished, 1 to do" in run("--retry")[1]


@pytest.mark.xdist_group("runner")
@pytest.mark.parametrize("content", ["", "{", "[1]", '{"format_version": 1}', '{"format_version": 0}'])
def test_a_run_with_an_unreadable_result_is_repeated(tiny: Path, tmp_path: Path, content: str) -> None:
    spec, store = Spec("lsh", str(tiny), 8, 0), tmp_path / "results"
    [_, first] = run_all([spec], store)
    assert first.result is not None
    (store / first.result.file_name).write_text(content)
    [start, again] = run_all([spec], store)
    assert (start.finished_before, start.total) == (0, 1)
    assert again.result is not None
    assert [result.metrics for result in load_results(store)] == [first.result.metrics]


@pytest.mark.xdist_group("runner")
def test_metrics_are_recomputed_from_stored_codes(tiny: Path, tmp_path: Path) -> None:
    store = tmp_path / "results"
    [_, step] = run_all([Spec("itq", str(tiny), 8, 0)], store)
    assert step.result is not None
    dataclasses.replace(step.result, metrics={"precision_at_100": 0.5}).save(store)
    done = CliRunner().invoke(app, ["bench", "measure", "--dataset", str(tiny), "--results", str(store)])
    assert done.stdout.strip() == step.result.file_name
    assert "Recomputed 1 result; 1 changed." in done.stderr
    assert "skipped" not in done.stderr
    assert list(load_results(store)) == [step.result]


@pytest.mark.xdist_group("runner")
def test_results_that_cannot_be_reevaluated_are_counted_by_reason(tiny: Path, tmp_path: Path) -> None:
    store = tmp_path / "results"
    steps = run_all([Spec("lsh", str(tiny), 8, seed) for seed in (0, 1, 2)], store)
    elsewhere, lost, _ = (step.result for step in steps if step.result)

    def codes(result: Result) -> Path:
        return store / "codes" / result.file_name.replace(".json", ".safetensors")

    codes(lost).unlink()
    (store / elsewhere.file_name).unlink()
    moved = dataclasses.replace(elsewhere, data_fingerprint="other")
    moved.save(store)
    codes(elsewhere).rename(codes(moved))
    said = CliRunner().invoke(app, ["bench", "measure", "--dataset", str(tiny), "--results", str(store)]).stderr
    assert "Recomputed 1 result; 0 changed." in said
    assert "1 skipped: without stored codes" in said
    assert "1 skipped: on data that is not available" in said


@pytest.mark.xdist_group("runner")
def test_a_run_whose_process_is_killed_fails_and_the_next_run_succeeds(tiny: Path, tmp_path: Path) -> None:
    endless = Spec("bernoulli-vae", str(tiny), 8, 0, parameters={"epochs": 10**6})
    steps = run_all([endless, Spec("lsh", str(tiny), 8, 0)], tmp_path)
    next(steps)

    def kill() -> None:
        for process in multiprocessing.active_children():
            process.kill()

    threading.Timer(2, kill).start()
    died, well = (step.result for step in steps)
    assert died is not None
    assert well is not None
    assert "the worker process died" in str(died.error)
    assert well.error is None
    assert [result.method for result in load_failures(tmp_path)] == ["bernoulli-vae"]


def test_the_time_left_is_shown_however_far_apart_the_runs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr("fewbits.cli.benchmark.err", terminal)
    well = Result("lsh", "toy", 8, 0, "test", {}, {"precision_at_100": 0.5}, {"fit": 600.0}, 1.0, {}, "f")
    for left, shown in ((None, "-:--:-- left"), (7200.0, "2:00:00 left"), (100_000.0, "1 day, 3:46:40 left")):
        for _ in track_runs([Step(0, 3, 0, 0, None), Step(1, 3, 0, 0, left, well)]):
            pass
        assert shown in terminal.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.xdist_group("runner")
def test_the_time_left_decreases_and_is_known_from_the_start_if_there_are_results(tiny: Path, tmp_path: Path) -> None:
    specs = [Spec("lsh", str(tiny), 8, seed) for seed in range(4)]
    assert [step.seconds_left is None for step in run_all(specs[:2], tmp_path)] == [True, False, False]
    left = [step.seconds_left for step in run_all(specs, tmp_path)]
    assert left[0] is not None
    assert left[0] > 0
    assert left[-1] == 0


@pytest.mark.xdist_group("runner")
def test_only_the_runs_of_a_data_set_that_disappears_fail(tiny: Path, tmp_path: Path) -> None:
    lost = tmp_path / "lost.mat"
    shutil.copy(tiny, lost)
    steps = run_all([Spec("lsh", str(lost), 8, 0), Spec("lsh", str(tiny), 8, 0)], tmp_path / "results")
    next(steps)  # both data sets are loaded
    lost.unlink()
    failed, well = (step.result for step in steps)
    assert failed is not None
    assert well is not None
    assert "lost.mat does not exist" in str(failed.error)
    assert well.error is None
    assert [result.dataset for result in load_failures(tmp_path / "results")] == ["lost.mat"]


@pytest.mark.xdist_group("runner")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up as Linux shows them")
def test_a_runner_interrupted_during_a_run_exits_at_once_with_its_workers(tiny: Path, tmp_path: Path) -> None:
    where = f'datasets = ["{tiny}"]\nbits = [8]\nseeds = [0]\n'
    suite = write_suite(
        tmp_path / "own.toml",
        f'methods = ["lsh"]\n{where}',
        f'methods = ["bernoulli-vae"]\n{where}parameters = {{epochs = 1000000}}',
    )
    store = tmp_path / "results"
    runner = subprocess.Popen(
        runner_command(suite, store),
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a job in the background has none
    )
    try:
        wait_until(lambda: list(store.glob("lsh*.json")))
        workers = children_of(runner.pid)
        assert workers
        os.kill(runner.pid, signal.SIGINT)
        assert runner.wait(timeout=20) != 0
        wait_until(lambda: not any(is_alive(worker) for worker in workers))
    finally:
        runner.kill()
    assert list(load_failures(store)) == []


def runner_command(suite: Path | str, store: Path) -> list[str]:
    return [sys.executable, "-m", "fewbits", "bench", "run", str(suite), "--jobs", "2", "--results", str(store)]


def children_of(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(holds: Any) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def contents(store: Path) -> dict[str, Any]:
    """Return the contents of results and stored codes, without seconds and memory, which vary between runs."""
    found: dict[str, Any] = {path.name: path.read_bytes() for path in (store / "codes").glob("[!.]*")}
    for path in store.glob("[!.]*.json"):
        result = json.loads(path.read_text())
        del result["seconds"], result["peak_memory_mb"]
        found[path.name] = result
    return found


@pytest.mark.slow
@pytest.mark.xdist_group("runner")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up as Linux shows them")
def test_a_runner_killed_at_random_moments_ends_with_the_results_of_an_uninterrupted_one(
    tiny: Path, tmp_path: Path
) -> None:
    """`make durability` does the same with the quick suite."""
    suite = os.environ.get("FEWBITS_SUITE") or write_suite(
        tmp_path / "own.toml",
        f'methods = ["lsh", "itq", "ssh"]\ndatasets = ["{tiny}"]\nbits = [8, 16]\nseeds = [0, 1]',
        f'methods = ["bernoulli-vae", "pairwise"]\ndatasets = ["{tiny}"]\nbits = [8]\nseeds = [0, 1]\n'
        "parameters = {epochs = 3}",
    )
    subprocess.run(runner_command(suite, tmp_path / "whole"), check=True, stderr=subprocess.DEVNULL)
    store = tmp_path / "killed"
    count = len(load_suite(suite).specs)
    generator = random.Random(0)

    def finished() -> int:
        return len(list(store.glob("[!.]*.json")))

    for at_least in (generator.randint(0, count // 4), generator.randint(count // 3, count * 2 // 3)):
        runner = subprocess.Popen(runner_command(suite, store), stderr=subprocess.DEVNULL)
        wait_until(lambda wanted=at_least: finished() >= wanted)
        time.sleep(generator.random() / 2)
        workers = children_of(runner.pid)
        os.kill(runner.pid, signal.SIGKILL)
        assert runner.wait() == -signal.SIGKILL, "it was done before it could be killed"
        wait_until(lambda ended=workers: not any(is_alive(worker) for worker in ended))
    before = finished()
    done = subprocess.run(runner_command(suite, store), check=True, capture_output=True, text=True)
    assert f"{before} runs already finished, {count - before} to do" in done.stderr
    assert len(contents(tmp_path / "whole")) == 2 * count  # each with its codes
    assert contents(store) == contents(tmp_path / "whole")


def test_a_successful_result_is_written_without_the_key_error(tmp_path: Path) -> None:
    result = Result("lsh", "toy", 8, 0, "test", {}, {"precision_at_100": 0.5}, {}, 1.0, {}, "f")
    assert "error" not in json.loads(result.save(tmp_path).read_text())
    assert list(load_results(tmp_path)) == [result]


def test_an_error_in_a_block_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWBITS_SET", "before")
    monkeypatch.delenv("FEWBITS_UNSET", raising=False)

    def fail() -> None:
        with _environment({"FEWBITS_SET": "inside", "FEWBITS_UNSET": "inside"}):
            assert (os.environ["FEWBITS_SET"], os.environ["FEWBITS_UNSET"]) == ("inside", "inside")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert os.environ["FEWBITS_SET"] == "before"
    assert "FEWBITS_UNSET" not in os.environ
