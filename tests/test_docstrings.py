from __future__ import annotations

import sys

import pytest

from fewbits import Document, read_docstrings


@pytest.fixture(scope="module")
def corpus() -> dict[object, Document]:
    return {document.id: document for document in read_docstrings()}


def test_the_default_corpus_holds_about_ten_thousand_documents(corpus: dict[object, Document]) -> None:
    assert 7_000 < len(corpus) < 20_000


def test_documents_are_labelled_by_package_and_module(corpus: dict[object, Document]) -> None:
    assert corpus["json.dumps"].labels == ("python", "json")
    assert corpus["numpy.linalg._linalg.norm"].labels == ("numpy", "numpy.linalg")
    assert {"python", "numpy", "scipy", "sklearn"} <= {document.labels[0] for document in corpus.values()}


def test_a_document_is_the_documentation_string_itself(corpus: dict[object, Document]) -> None:
    import json

    assert json.dumps.__doc__ is not None
    assert corpus["json.dumps"].text.split() == json.dumps.__doc__.split()


def test_no_text_is_there_twice_and_none_is_of_a_test(corpus: dict[object, Document]) -> None:
    assert len({document.text for document in corpus.values()}) == len(corpus)
    assert not [id for id in corpus if {"test", "tests"} & set(str(id).split(".")[:-1])]


def test_nothing_is_imported_to_read_it() -> None:
    before = set(sys.modules)
    next(iter(read_docstrings()))
    assert "turtle" not in set(sys.modules) - before
