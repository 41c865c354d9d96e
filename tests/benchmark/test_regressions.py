"""Comparison of results with earlier ones: the exit code is 1 if anything is worse."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fewbits.benchmark.results import Result
from fewbits.benchmark.spec import Spec
from fewbits.cli import app


def save(
    folder: Path, *precisions: float, method: str = "lsh", fingerprint: str = "f", error: str | None = None, **own: int
) -> Path:
    for seed, precision in enumerate(precisions):
        spec = Spec(method, "ng20", 32, seed, parameters=own)
        metrics = {} if error else {"precision_at_100": precision, "random_floor": 0.05}
        where = (method, "ng20", 32, seed, "test", spec.all_parameters)
        Result(*where, metrics, {}, 1.0, {}, fingerprint, error).save(folder)
    return folder


def compare(now: Path, before: str, *options: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["bench", "compare", "--results", str(now), "--against", before, *options])
    return done.exit_code, done.stdout, done.stderr


def test_our_figures_are_printed_beside_the_published_ones_in_all_tables_of_the_paper(tmp_path: Path) -> None:
    store = save(tmp_path, 0.1, 0.2)
    code, printed, messages = compare(store, str(store))
    assert code == 0
    assert "0.150 ± 0.071 (0.067)" in printed
    for title in (
        "β, the weight of the pair loss",
        "λ, the weight of the KL term",
        "nearest words",
        "A large collection",
    ):
        assert title in printed
    assert "(0.828)" in printed  # published, where we have no run yet
    assert "No result is worse" in messages


def test_a_cell_that_decreased_by_more_than_the_tolerance_is_named_and_the_exit_code_is_1(tmp_path: Path) -> None:
    before, now = save(tmp_path / "before", 0.5, 0.6), save(tmp_path / "now", 0.45, 0.6)
    code, _, messages = compare(now, str(before))
    assert code == 1
    assert "Worse: lsh ng20 32 bits: 0.5500 before, 0.5250 now" in messages
    assert compare(now, str(before), "--tolerance", "0.03")[0] == 0
    assert compare(before, str(now))[0] == 0


def test_runs_without_a_counterpart_are_counted_by_reason(tmp_path: Path) -> None:
    before, now = save(tmp_path / "before", 0.5, 0.5), save(tmp_path / "now", 0.5)
    save(before, 0.9, method="itq", fingerprint="other")
    save(now, 0.1, method="itq")
    save(before, 0.9, method="itq", n_iterations=3)
    code, _, messages = compare(now, str(before))
    assert code == 0
    assert "1 runs compared, 3 without a counterpart" in messages
    for reason in ("1 not run", "1 on different data", "1 with different parameters"):
        assert reason in messages


def test_a_run_that_succeeded_before_and_fails_now_is_worse(tmp_path: Path) -> None:
    before, now = save(tmp_path / "before", 0.5), save(tmp_path / "now", 0.0, error="MemoryError: too much")
    code, _, messages = compare(now, str(before))
    assert code == 1
    assert "Worse: lsh ng20 32 bits: 0.5000 before, failed now: MemoryError: too much" in messages
    assert "1 runs compared, 0 without a counterpart" in messages


def test_it_is_an_error_if_no_run_can_be_compared(tmp_path: Path) -> None:
    before = save(save(tmp_path / "before", 0.9, fingerprint="other"), 0.9, method="itq")
    done = CliRunner().invoke(
        app, ["bench", "compare", "--results", str(save(tmp_path / "now", 0.1)), "--against", str(before)]
    )
    assert done.exit_code == 1
    assert "no result can be compared" in str(done.exception)
    assert "0 runs compared, 2 without a counterpart" in done.stderr
    assert "No result is worse" not in done.stderr


def test_results_are_compared_with_a_git_revision(tmp_path: Path) -> None:
    store = save(tmp_path / "results", 0.5)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "results"]):
        subprocess.run([*git, *command], check=True)
    assert compare(store, "HEAD")[0] == 0
    save(store, 0.4)
    assert compare(store, "HEAD")[0] == 1


def test_a_baseline_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "compare", "--results", str(save(tmp_path, 0.5)), "--against", "nowhere"])
    assert done.exit_code == 1
    assert "no results to compare" in str(done.exception)


@pytest.mark.parametrize("name", ["run", "measure", "compare", "report", "figures", "own"])
def test_every_command_of_the_bench_has_help_with_an_example(name: str) -> None:
    assert f"Example: fewbits bench {name}" in CliRunner().invoke(app, ["bench", name, "--help"]).output
