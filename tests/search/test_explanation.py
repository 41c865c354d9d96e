from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fewbits import Document, SearchEngine
from fewbits.codes import unpack
from fewbits.errors import ParameterError
from helpers.engines import document_of


@pytest.fixture(scope="module")
def methods(documents: list[Document]) -> dict[str, SearchEngine]:
    """Return engines with words of bits from a decoder, weights or documents, and one with a hidden layer."""
    return {
        method: SearchEngine.from_documents(documents, n_bits=16, method=method)
        for method in ("bernoulli-vae", "itq", "sph", "pairwise")
    }


def test_a_linear_bit_is_named_by_the_words_with_its_largest_weights(engine: SearchEngine) -> None:
    weights = engine.hasher.bit_loadings()
    assert weights is not None
    vocabulary = list(engine.features.vocabulary_)
    for meaning in engine.bits():
        assert len(meaning.raises) == len(meaning.lowers) == 5
        column = weights[:, meaning.bit] - weights[:, meaning.bit].mean()
        assert all(column[vocabulary.index(word)] > 0 for word in meaning.raises)
        assert all(column[vocabulary.index(word)] < 0 for word in meaning.lowers)


@pytest.mark.parametrize("method", ["bernoulli-vae", "itq", "sph", "pairwise"])
def test_documents_with_a_bit_have_more_of_the_words_it_raises(
    methods: dict[str, SearchEngine], documents: list[Document], method: str
) -> None:
    engine = methods[method]
    bits = unpack(engine.codes([document.id for document in documents]), 16)
    words = [set(document.text.split()) for document in documents]
    right = total = 0
    for meaning in engine.bits():
        ones = bits[:, meaning.bit] == 1
        for word, is_raised in [(w, True) for w in meaning.raises] + [(w, False) for w in meaning.lowers]:
            has_word = np.array([word in document for document in words])
            if ones.any() and not ones.all():
                right += (has_word[ones].mean() > has_word[~ones].mean()) == is_raised
                total += 1
    assert total > 50
    assert right / total > 0.8


@pytest.mark.parametrize("block", [1, 10, 1 << 22])
def test_the_words_that_decide_a_linear_bit_are_weight_times_value(
    engine: SearchEngine, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewbits.search.explain.BLOCK_VALUES", block)
    query, id = "boat and harbour wind", "sailing-1"
    weights = engine.hasher.bit_loadings()
    assert weights is not None
    vocabulary = list(engine.features.vocabulary_)
    explanation = engine.explain(query, id)
    for text, side in ((query, "query_words"), (document_of(engine, id).text, "hit_words")):
        row = sparse.csr_array(engine.features.transform([text])).toarray()[0]
        for bit in explanation.bits:
            for word in getattr(bit, side):
                place = vocabulary.index(word.word)
                assert word.weight == pytest.approx(row[place] * weights[place, bit.bit], abs=2e-4)


@pytest.mark.parametrize("method", ["bernoulli-vae", "itq", "sph", "pairwise"])
def test_an_explanation_counts_the_bits_that_differ_and_names_words_of_the_texts(
    methods: dict[str, SearchEngine], method: str
) -> None:
    engine = methods[method]
    query = "wind pushes the boat past the harbour"
    for hit in engine.search(query, k=5):
        explanation = engine.explain(query, hit.id)
        assert explanation.distance == hit.distance == len(explanation.differing)
        both: Any = engine.features.transform([query, hit.text])
        assert explanation.cosine == pytest.approx((both[[0]] @ both[[1]].T).sum(), abs=1e-3)
        assert len(explanation.agreeing) + len(explanation.differing) == 16
        assert {word.word for word in explanation.shared_words} <= set(query.split()) & set(hit.text.split())
        for bit in explanation.bits:
            assert {word.word for word in bit.query_words} <= set(query.split())
            assert {word.word for word in bit.hit_words} <= set(hit.text.split())
            assert all((word.weight > 0) == bool(bit.query) for word in bit.query_words)
            assert all((word.weight > 0) == bool(bit.hit) for word in bit.hit_words)


def test_two_documents_of_the_engine_are_compared_by_their_ids(engine: SearchEngine) -> None:
    explanation = engine.explain(None, "cooking-0", similar_to="sailing-1")
    code, other = unpack(engine.codes(["sailing-1", "cooking-0"]), 20)
    assert [bit.query for bit in explanation.bits] == code.tolist()
    assert [bit.hit for bit in explanation.bits] == other.tolist()
    assert engine.explain(None, "sailing-1", similar_to="sailing-1").cosine == pytest.approx(1, abs=1e-3)


def test_codes_and_margins_agree_for_every_method(methods: dict[str, SearchEngine], documents: list[Document]) -> None:
    for engine in methods.values():
        rows = engine.features.transform([document.text for document in documents])
        assert np.array_equal(engine.hasher.margins(rows) >= 0, engine.hasher.transform(rows) == 1)
        assert (engine.hasher.bit_confidence(rows) >= 0).all()


@pytest.mark.parametrize("arguments", [{}, {"query": "boat", "similar_to": "sailing-1"}])
def test_a_hit_is_explained_for_one_query(engine: SearchEngine, arguments: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match="a hit is explained for one query"):
        engine.explain(arguments.get("query"), "sailing-2", similar_to=arguments.get("similar_to"))
