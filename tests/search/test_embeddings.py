"""Engines of embeddings with texts, an encoder, and embeddings that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fewbits import Document, SearchEngine
from fewbits.errors import DataError, ParameterError

TOPICS = {"sea": ["boat", "mast", "harbour"], "soup": ["garlic", "onion", "pepper"], "sky": ["star", "moon", "orbit"]}
PROTOTYPES = dict(zip(TOPICS, np.random.default_rng(3).normal(size=(3, 24)), strict=True))


def encode(texts: list[str]) -> NDArray[np.float64]:
    """Embed texts: the sum of the prototypes of the topics of their words, and a little of the text itself."""
    rows = []
    for text in texts:
        own = np.random.default_rng(sum(map(ord, text))).normal(size=24)
        known = [PROTOTYPES[topic] for word in text.split() for topic, words in TOPICS.items() if word in words]
        rows.append(np.sum(known, axis=0) + 0.3 * own if known else np.zeros(24))
    return np.array(rows)


TEXTS = [
    f"{first} {second} number{n}x" for words in TOPICS.values() for n, first in enumerate(words) for second in words
]
IDS = [f"id{number}" for number in range(len(TEXTS))]


def make(**options: Any) -> SearchEngine:
    return SearchEngine.from_embeddings(encode(TEXTS), ids=IDS, texts=TEXTS, n_bits=16, random_state=0, **options)


def test_words_of_texts_are_searched_without_an_encoder(tmp_path: Path) -> None:
    make(metadata=[{"n": number} for number in range(len(TEXTS))], labels=["a"] * len(TEXTS)).save(tmp_path / "e")
    engine = SearchEngine.load(tmp_path / "e")
    hits = engine.search("garlic pepper", k=3)
    assert [set(hit.text.split()) >= {"garlic", "pepper"} for hit in hits[:2]] == [True, True]
    assert hits[0].labels == ("a",)
    assert engine.search("garlic pepper", where=["n<0"]) == []
    assert engine.search(encode(["garlic"])[0], k=9)[0].id in IDS[9:18]
    with pytest.raises(DataError, match="no known word"):
        engine.search("xyzzy")


def test_an_encoder_answers_texts_with_words_that_no_document_has(tmp_path: Path) -> None:
    make().save(tmp_path / "e")
    engine = SearchEngine.load(
        tmp_path / "e", encoder=lambda texts: encode([text.replace("vessel", "boat") for text in texts])
    )
    assert {hit.id for hit in engine.search("vessel", k=9)} == set(IDS[:9])
    assert {hit.id for hit in engine.search("vessel", k=9, rank="codes")} == set(IDS[:9])
    [answer, unknown] = engine.search_many(["vessel", "nothing known"], k=2)
    assert isinstance(answer, list)
    assert isinstance(unknown, DataError)
    hybrid = engine.search("boat number0x", k=1)[0]
    assert hybrid.lexical is not None
    assert hybrid.semantic is not None
    assert {"boat", "number0x"} <= set(hybrid.text.split())


def test_an_encoder_answers_texts_where_documents_have_none() -> None:
    engine = SearchEngine.from_embeddings(encode(TEXTS), ids=IDS, n_bits=16, random_state=0, encoder=encode)
    assert {hit.id for hit in engine.search("moon", k=9)} == set(IDS[18:])
    with pytest.raises(ParameterError, match="rank is unknown"):
        engine.search("moon", rank="hybrid")


def test_hits_are_ordered_by_the_embeddings_that_are_kept(tmp_path: Path) -> None:
    make(keep_embeddings=True).save(tmp_path / "e")
    engine = SearchEngine.load(tmp_path / "e", encoder=encode)
    table = encode(TEXTS)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    query = encode(["mast garlic"])[0]
    cosines = table @ (query / np.linalg.norm(query))
    hits = engine.search(query, k=5)
    assert [hit.id for hit in hits] == [IDS[row] for row in np.argsort(-cosines)[:5]]
    assert [hit.score for hit in hits] == pytest.approx(np.sort(cosines)[::-1][:5], abs=2e-3)
    by_bits = engine.search(query, k=5, rerank="none")
    assert [hit.distance for hit in by_bits] == sorted(hit.distance for hit in by_bits)
    found = engine.similar("id4", k=26)
    assert [hit.score for hit in found] == pytest.approx(sorted(np.delete(table @ table[4], 4))[::-1], abs=2e-3)
    engine.add([Document("new", "mast garlic", ())], embeddings=query[None])
    assert SearchEngine.load(tmp_path / "e").search(query, k=1)[0].id == "new"
    engine.update([Document("new", "other", ())], embeddings=-query[None])
    assert SearchEngine.load(tmp_path / "e").search(query, k=1)[0].id != "new"
    engine.remove(["new"])
    assert "new" not in SearchEngine.load(tmp_path / "e")


def test_near_duplicates_of_embedded_documents_with_texts_are_found_by_words() -> None:
    engine = make()
    engine.add([Document("copy", TEXTS[0].upper())], embeddings=encode([TEXTS[0]]))
    [group] = engine.duplicates(min_similarity=0.99)
    assert (group.representative, group.others) == ("id0", ("copy",))
    assert group.matches[0].reason == "only case, spaces or punctuation differ"
    found = engine.is_duplicate(TEXTS[5] + "!")
    assert found is not None
    assert found.of == "id5"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": IDS[:-1]}, "ids differ in number"),
        ({"texts": TEXTS[:-1], "ids": None}, "embeddings and documents differ in number"),
        ({"texts": [None, *TEXTS[1:]]}, "text 0 is not a text"),
        ({"documents": [Document(1, "a")]}, "give documents or their parts"),
    ],
)
def test_parts_of_documents_that_do_not_fit_are_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        SearchEngine.from_embeddings(encode(TEXTS), **{"ids": IDS, "texts": TEXTS, "n_bits": 16, **options})


def test_an_encoder_that_returns_something_else_is_an_error(tmp_path: Path) -> None:
    make().save(tmp_path / "e")
    for encoder, message in (
        (lambda texts: np.ones((len(texts) + 1, 24)), "the encoder returned a wrong number of embeddings"),
        (lambda texts: np.ones((len(texts), 7)), "embeddings differ in dimension"),
        (lambda texts: ["a"] * len(texts), "embeddings must be numbers"),
    ):
        with pytest.raises(DataError, match=message):
            SearchEngine.load(tmp_path / "e", encoder=encoder).search("boat")
    engine = SearchEngine.from_embeddings(encode(TEXTS), n_bits=16)
    with pytest.raises(DataError, match=r"the query is of another kind .*Give from_embeddings texts or an encoder"):
        engine.search("boat")
