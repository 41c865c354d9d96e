"""The documentation is up to date, and its examples work."""

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

from fewbits.hashers import registry
from fewbits.hashers.registry import Method, make_hasher, read_hasher, write_hasher

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture
def word_bits(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install the example of docs/adding-a-method.md as a module and register it."""
    file, line = re.findall(r"```python\n(.*?)```", (DOCS / "adding-a-method.md").read_text(), re.DOTALL)
    module = ModuleType("fewbits.hashers.word_bits")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(file, module.__dict__)
    method: Method = eval(line, {**vars(registry), **vars(module)})
    monkeypatch.setitem(registry.METHODS, method.name, method)
    monkeypatch.setitem(registry.HASHERS, method.hasher.__name__, method.hasher)
    return method.hasher


def test_the_example_method_passes_the_estimator_checks(word_bits: Any) -> None:
    check_estimator(word_bits())


def test_the_example_method_is_made_by_name_and_saved_and_loaded(word_bits: Any, tmp_path: Path) -> None:
    rows = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    hasher = make_hasher("word-bits", 2).fit(rows)
    assert hasher.transform(rows).tolist() == [[1, 1], [0, 1], [1, 0], [0, 0]]  # the columns of words 0 and 2
    write_hasher(hasher, tmp_path)
    assert np.array_equal(read_hasher(tmp_path).transform(rows), hasher.transform(rows))


def test_commands_page_matches_the_help_texts() -> None:
    rendered = subprocess.run(
        [sys.executable, ROOT / "tools" / "render_commands.py"], capture_output=True, text=True, check=True
    )
    assert (DOCS / "commands.md").read_text() == rendered.stdout, "outdated: run make commands"


def test_commands_page_has_a_section_per_command() -> None:
    help_text = subprocess.run([sys.executable, "-m", "fewbits", "--help"], capture_output=True, text=True, check=True)
    names = re.findall(r"^  ([a-z]+)  ", help_text.stdout.split("Commands:")[1], re.MULTILINE)
    assert {"fit", "search", "bench"} <= set(names)
    headings = re.findall(r"^## fewbits (.+)$", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert set(names) == {heading for heading in headings if " " not in heading}


def test_every_page_is_reachable_from_the_readme() -> None:
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
