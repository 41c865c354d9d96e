"""The measures of the source tree, and their limits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from measure import begins_with_verb, measure, trace_search

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fewbits"


def test_the_tool_prints_measures_and_traces_as_json() -> None:
    command = [sys.executable, str(ROOT / "tools" / "measure.py"), "--trace", "--json"]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert printed["files"] == len(list(PACKAGE.rglob("*.py")))
    assert set(printed["traces"]) == {"search, itq", "search, bernoulli-vae", "PairwiseHasher.fit"}
    assert "fewbits.search.engine" in printed["traces"]["search, itq"]["modules"]


def test_modules_and_docstrings_of_the_package_are_within_the_limits() -> None:
    measures = measure(PACKAGE)
    assert measures.longest_module_lines <= 350
    assert measures.longest_function_lines <= 60
    assert measures.docstrings_that_begin_with_a_verb >= 0.75
    assert measures.most_public_methods <= 25


@pytest.mark.parametrize("method", ["itq", "bernoulli-vae"])
def test_a_search_runs_through_at_most_12_modules(method: str) -> None:
    modules = trace_search(method).modules
    assert len(modules) <= 12, modules


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Return the codes.", True),
        ("Returns the codes.", True),
        ("Safely close the file.", True),
        ("Set the parameters.", True),
        ("Set of ids.", False),
        ("Number of bits.", False),
        ("The codes of all documents.", False),
        ("How the codes were computed.", False),
    ],
)
def test_a_docstring_begins_with_a_verb_in_the_imperative_or_third_person(docstring: str, expected: bool) -> None:
    assert begins_with_verb(docstring) is expected
