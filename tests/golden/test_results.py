"""Runs on the benchmark sets give the same figures, in files of the same names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fewbits import Dataset
from fewbits.hashers.registry import METHODS

from .codes import one_thread_environment
from .corpus import HERE

GOLDEN: dict[str, Any] = json.loads((HERE / "results.json").read_text())
QUICK = ("lsh", "itq", "class-code", "sph", "ssh")  # seconds each; FEWBITS_GOLDEN=all runs all, which takes an hour
RUNS = {
    key: (method, dataset)
    for key, (method, _, dataset) in ((key, key.rpartition("-")) for key in GOLDEN)
    if method in QUICK or os.environ.get("FEWBITS_GOLDEN") == "all"
}


def test_every_golden_run_is_of_an_existing_method() -> None:
    assert {key.rpartition("-")[0] for key in GOLDEN} <= METHODS.keys()
    assert {f"{method}-{dataset}" for method in QUICK for dataset in ("ng20", "tmc")} <= RUNS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("key", RUNS)
def test_a_run_gives_the_same_figures(key: str, benchmark_set: Callable[[str], Dataset], tmp_path: Path) -> None:
    method, dataset = RUNS[key]
    benchmark_set(dataset)  # skips the test if the archive is missing
    run = ["evaluate", "--method", method, "--dataset", dataset, "--bits", "32", "--seed", "0"]
    subprocess.run(
        [sys.executable, "-m", "fewbits", *run, "--save", "--results", str(tmp_path / "results")],
        env=one_thread_environment(),
        check=True,
    )
    [written] = (tmp_path / "results").glob("*.json")
    assert written.name == GOLDEN[key]["file"]
    content = json.loads(written.read_text())
    assert content["metrics"] == pytest.approx(GOLDEN[key]["metrics"], abs=1e-6)
    assert content["parameters"] == GOLDEN[key]["parameters"]
