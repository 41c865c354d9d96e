from __future__ import annotations

import subprocess
import sys

import pytest

from fewbits import Document, read_docstrings

pytestmark = pytest.mark.xdist_group("docstrings")  # the corpus is read once


@pytest.fixture(scope="module")
def corpus() -> dict[object, Document]:
    return {document.id: document for document in read_docstrings()}


def test_the_default_corpus_has_about_ten_thousand_documents(corpus: dict[object, Document]) -> None:
    assert 7_000 < len(corpus) < 20_000


def test_documents_are_labelled_by_package_and_module(corpus: dict[object, Document]) -> None:
    assert corpus["json.dumps"].labels == ("python", "json")
    assert corpus["numpy.linalg._linalg.norm"].labels == ("numpy", "numpy.linalg")
    assert {"python", "numpy", "scipy", "sklearn"} <= {document.labels[0] for document in corpus.values()}


def test_the_text_of_a_document_is_the_docstring(corpus: dict[object, Document]) -> None:
    import json

    assert json.dumps.__doc__ is not None
    assert corpus["json.dumps"].text.split() == json.dumps.__doc__.split()


def test_texts_are_unique_and_none_is_from_a_test(corpus: dict[object, Document]) -> None:
    assert len({document.text for document in corpus.values()}) == len(corpus)
    assert not [id for id in corpus if {"test", "tests"} & set(str(id).split(".")[:-1])]


def test_reading_the_corpus_imports_none_of_its_modules() -> None:
    script = """
import subprocess
import sys
from fewbits import read_docstrings
before = set(sys.modules)
assert sum(1 for _ in read_docstrings()) > 1000
print(sorted(set(sys.modules) - before))
"""
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert not [name for name in ("turtle", "tkinter", "scipy.signal", "rich.console") if f"'{name}'" in output], output
