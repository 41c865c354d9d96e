"""What the documentation shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from fewbits.cli.reference import render_reference
from fewbits.hashers import registry
from fewbits.hashers.registry import Method, make_hasher, read_hasher, write_hasher

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture
def word_bits(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example of docs/adding-a-method.md, put where it says: in a module, and in the registry."""
    file, line = re.findall(r"```python\n(.*?)```", (DOCS / "adding-a-method.md").read_text(), re.DOTALL)
    module = ModuleType("fewbits.hashers.word_bits")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(file, module.__dict__)
    method: Method = eval(line, {**vars(registry), **vars(module)})
    monkeypatch.setitem(registry.METHODS, method.name, method)
    monkeypatch.setitem(registry.HASHERS, method.hasher.__name__, method.hasher)
    return method.hasher


def test_the_example_of_adding_a_method_keeps_the_contract(word_bits: Any) -> None:
    check_estimator(word_bits())


def test_the_example_of_adding_a_method_is_found_by_its_name_and_written_and_read(
    word_bits: Any, tmp_path: Path
) -> None:
    rows = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    hasher = make_hasher("word-bits", 2).fit(rows)
    assert hasher.transform(rows).tolist() == [[1, 1], [0, 1], [1, 0], [0, 0]]  # the first and the third word
    write_hasher(hasher, tmp_path)
    assert np.array_equal(read_hasher(tmp_path).transform(rows), hasher.transform(rows))


def test_the_page_of_commands_is_what_their_help_says() -> None:
    page = (DOCS / "commands.md").read_text()
    assert page == render_reference(), "make it again: python -m fewbits.cli.reference > docs/commands.md"


def test_the_page_of_commands_has_every_command() -> None:
    helped = subprocess.run([sys.executable, "-m", "fewbits", "--help"], capture_output=True, text=True, check=True)
    names = re.findall(r"^  ([a-z]+)  ", helped.stdout.split("Commands:")[1], re.MULTILINE)
    assert {"fit", "search", "bench"} <= set(names)
    headings = re.findall(r"^## fewbits (.+)$", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert set(names) == {heading for heading in headings if " " not in heading}


def test_every_page_of_the_docs_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [DOCS.parent / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text())
        found = [(page.parent / link).resolve() for link in links]
        assert all(target.is_file() for target in found), [target for target in found if not target.is_file()]
        waiting += found
    assert {page for page in DOCS.glob("*.md") if page.resolve() not in reached} == set()
