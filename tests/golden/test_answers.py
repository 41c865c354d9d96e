"""Saved engines of an earlier state are read, searched and changed as they were then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fewbits import SearchEngine

from .corpus import HERE
from .questions import ask, run_command

GOLDEN: dict[str, Any] = json.loads((HERE / "answers.json").read_text())
COMMANDS = GOLDEN.pop("commands")
CASES = [
    pytest.param(name, case, id=f"{name}-{number}-{case['question']}")
    for name, cases in GOLDEN.items()
    for number, case in enumerate(cases)
]
CHANGES = ("change",)


def assert_same(now: Any, golden: Any, where: str = "answer") -> None:
    """Compare what JSON can hold; floats may differ in the sixth digit, and tables may have more entries by now."""
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
    """Engines that are only asked, one copy of each folder."""
    folder = tmp_path_factory.mktemp("engines")
    return {name: SearchEngine.load(shutil.copytree(HERE / name, folder / name)) for name in GOLDEN}


@pytest.mark.parametrize(("name", "case"), CASES)
def test_an_engine_of_an_earlier_state_answers_as_it_did(
    name: str, case: dict[str, Any], read_only: dict[str, SearchEngine], tmp_path: Path
) -> None:
    engine = read_only[name]
    if case["question"] in CHANGES:
        engine = SearchEngine.load(shutil.copytree(HERE / name, tmp_path / name))
    assert_same(ask(engine, case["question"], case["arguments"]), case["answer"])


@pytest.mark.parametrize("name", GOLDEN)
def test_an_engine_saved_anew_and_loaded_answers_as_it_did(
    name: str, read_only: dict[str, SearchEngine], tmp_path: Path
) -> None:
    read_only[name].save(tmp_path / "saved")
    engine = SearchEngine.load(tmp_path / "saved")
    for number, case in enumerate(GOLDEN[name]):
        if case["question"] not in CHANGES:
            answer = ask(engine, case["question"], case["arguments"])
            assert_same(answer, case["answer"], f"answer {number}")


@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: " ".join(case["arguments"]))
def test_commands_print_what_they_printed(case: dict[str, Any], tmp_path: Path) -> None:
    lines = run_command(case["arguments"], shutil.copytree(HERE / "engine", tmp_path / "engine"))
    assert_same(json.loads(json.dumps(lines)), case["lines"])
