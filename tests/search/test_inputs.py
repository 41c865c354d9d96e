"""What engines say about input that is not texts or documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fewbits import Document, SearchEngine
from fewbits.errors import DataError

TEXTS = ["red apples", "green pears", "blue plums"]


@pytest.mark.parametrize(
    ("text", "got"), [(None, "None"), (float("nan"), "nan"), (np.float64("nan"), "nan"), (5, "5"), (b"x", "b'x'")]
)
def test_a_text_that_is_none_nan_or_a_number_is_an_error_that_names_it(text: Any, got: str) -> None:
    message = rf"text 1 is not a text \(allowed: a string, which may be empty; got: .*{got}.*\). Leave it out"
    with pytest.raises(DataError, match=message):
        SearchEngine.from_texts(["red apples", text, "blue plums"], n_bits=8, method="itq")
    with pytest.raises(DataError, match=r"the text of 'x' is not a text \(allowed: a string; got: "):
        Document("x", text)


def test_an_empty_text_is_stored_without_a_code() -> None:
    engine = SearchEngine.from_texts([*TEXTS, ""], n_bits=8, method="itq")
    assert engine.info()["documents_without_known_words"] == 1
    assert engine.add([Document(9, "")]) == 1


@pytest.mark.parametrize("change", ["add", "update"])
@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (["text"], r"item 0 is not a document \(allowed: fewbits.Document\(id, text\).*got: 'text'\)"),
        ([Document(7, "a b"), None], r"item 1 is not a document .*got: None"),
        ("text", r"documents must be a list or stream of documents \(got: str\). Pass \[Document\(id, text\)\]"),
        (Document(7, "a"), r"documents must be a list or stream of documents \(got: Document\)"),
    ],
)
def test_a_change_by_something_else_than_documents_is_an_error_and_changes_nothing(
    change: str, documents: Any, message: str
) -> None:
    engine = SearchEngine.from_texts(TEXTS, n_bits=8, method="itq")
    with pytest.raises(DataError, match=message):
        getattr(engine, change)(documents)
    assert [document.text for document in engine.documents()] == TEXTS


def test_texts_with_metadata_can_be_filtered() -> None:
    metadata = [{"year": 2019}, None, {"year": 2021}]
    engine = SearchEngine.from_texts(TEXTS, metadata=metadata, n_bits=8, method="itq")
    assert [hit.id for hit in engine.search("plums", where=["year>=2020"])] == [2]
    assert [document.metadata for document in engine.documents()] == [{"year": 2019}, {}, {"year": 2021}]
    with pytest.raises(DataError, match=r"texts, metadata differ in number \(got: one of them ends after 2\)"):
        SearchEngine.from_texts(TEXTS, metadata=metadata[:2], n_bits=8, method="itq")
    with pytest.raises(DataError, match=r"metadata must be a list \(got: {'year': 2019}\)"):
        SearchEngine.from_texts(TEXTS, metadata=metadata[0], n_bits=8, method="itq")  # type: ignore[arg-type]


def test_an_id_that_is_given_twice_is_an_error_that_names_both_texts() -> None:
    with pytest.raises(DataError, match=r"the id 'a' is given twice, to the texts 0 and 2. Ids must be unique"):
        SearchEngine.from_texts(TEXTS, ids=["a", "b", "a"], n_bits=8, method="itq")


def test_more_hits_than_documents_returns_all_documents() -> None:
    engine = SearchEngine.from_texts(TEXTS, n_bits=8, method="itq")
    assert len(engine.search("red green blue", k=100)) == 3
    assert len(engine.similar(0, k=100)) == 2


def test_labels_given_as_one_string_are_an_error() -> None:
    with pytest.raises(
        DataError, match=r"the labels of 'x' are one string \(allowed: a tuple of strings; got: sport\)"
    ):
        Document("x", "text", "sport")  # type: ignore[arg-type]


def test_encoding_texts_without_a_known_word_warns_with_their_number() -> None:
    engine = SearchEngine.from_texts(TEXTS, n_bits=8, method="itq")
    with pytest.warns(UserWarning, match="2 of 3 texts have no known word; their codes say nothing about them"):
        assert engine.encode(["xyzzy", "red apples", ""]).shape == (3, 1)
