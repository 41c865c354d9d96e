"""Engines saved by an earlier version give the same answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fewbits import SearchEngine

from .corpus import HERE
from .questions import query_engine, run_command

GOLDEN: dict[str, Any] = json.loads((HERE / "answers.json").read_text())
COMMANDS = GOLDEN.pop("commands")
CASES = [
    pytest.param(name, case, id=f"{name}-{number}-{case['question']}")
    for name, cases in GOLDEN.items()
    for number, case in enumerate(cases)
]
CHANGES = ("change",)


def assert_same(now: Any, golden: Any, where: str = "answer") -> None:
    """Compare JSON values; floats may differ in the sixth digit, and objects may have new keys."""
    if isinstance(golden, dict):
        assert isinstance(now, dict), where
        assert golden.keys() <= now.keys(), where
        for key, value in golden.items():
            assert_same(now[key], value, f"{where}.{key}")
    elif isinstance(golden, list):
        assert isinstance(now, list), where
        assert len(now) == len(golden), where
        for number, (one, other) in enumerate(zip(now, golden, strict=True)):
            assert_same(one, other, f"{where}[{number}]")
    elif isinstance(golden, float):
        assert now == pytest.approx(golden, abs=1e-5), where
    else:
        assert type(now) is type(golden), where
        assert now == golden, where


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SearchEngine]:
    """Load a copy of each engine, which no test changes."""
    folder = tmp_path_factory.mktemp("engines")
    return {name: SearchEngine.load(shutil.copytree(HERE / name, folder / name)) for name in GOLDEN}


@pytest.mark.parametrize(("name", "case"), CASES)
def test_an_engine_saved_earlier_gives_the_same_answers(
    name: str, case: dict[str, Any], read_only: dict[str, SearchEngine], tmp_path: Path
) -> None:
    engine = read_only[name]
    if case["question"] in CHANGES:
        engine = SearchEngine.load(shutil.copytree(HERE / name, tmp_path / name))
    assert_same(query_engine(engine, case["question"], case["arguments"]), case["answer"])


@pytest.mark.parametrize("name", GOLDEN)
def test_an_engine_saved_again_gives_the_same_answers(
    name: str, read_only: dict[str, SearchEngine], tmp_path: Path
) -> None:
    read_only[name].save(tmp_path / "saved")
    engine = SearchEngine.load(tmp_path / "saved")
    for number, case in enumerate(GOLDEN[name]):
        if case["question"] not in CHANGES:
            answer = query_engine(engine, case["question"], case["arguments"])
            assert_same(answer, case["answer"], f"answer {number}")


@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: " ".join(case["arguments"]))
def test_commands_print_the_same_lines(case: dict[str, Any], tmp_path: Path) -> None:
    lines = run_command(case["arguments"], shutil.copytree(HERE / "engine", tmp_path / "engine"))
    assert_same(json.loads(json.dumps(lines)), case["lines"])
