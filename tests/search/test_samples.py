"""Batches of queries, label counts, samples and ids, as the service uses them."""

from __future__ import annotations

import numpy as np
import pytest

from fewbits import Document, SearchEngine
from fewbits.errors import DataError, ParameterError


@pytest.mark.parametrize("rerank", ["none", "bits", "words"])
def test_many_texts_at_once_get_the_hits_of_each_alone(engine: SearchEngine, rerank: str) -> None:
    queries = ["boat", "xyzzy", "garlic onions", "stars", "", "boat"]
    answers = engine.search_many(queries, 4, rerank=rerank, labels=["sailing", "cooking"])
    for query, answer in zip(queries, answers, strict=True):
        if query in ("xyzzy", ""):
            with pytest.raises(DataError) as alone:
                engine.search(query)
            assert str(answer) == str(alone.value)
        else:
            assert answer == engine.search(query, 4, rerank=rerank, labels=["sailing", "cooking"])
    assert engine.search_many([], 4) == []


def test_an_invalid_option_fails_for_all_queries(engine: SearchEngine) -> None:
    with pytest.raises(ParameterError, match="k, the number of hits"):
        engine.search_many(["boat", "stars"], 0)


def test_labels_are_counted_the_most_frequent_first(engine: SearchEngine) -> None:
    engine.add([Document("new", "boat", ("sailing", "odd"))])
    with engine.snapshot() as snapshot:
        labels = snapshot.labels()
    assert list(labels.items()) == [("sailing", 21), ("astronomy", 20), ("cooking", 20), ("odd", 1)]


def test_a_sample_runs_from_the_first_document_to_the_last_with_its_codes(engine: SearchEngine) -> None:
    with engine.snapshot() as snapshot:
        documents, codes = snapshot.sample(7)
        everything, _ = snapshot.sample(1000)
    assert [documents[0].id, documents[-1].id] == ["cooking-0", "astronomy-59"]
    assert len(documents) == 7
    assert np.array_equal(codes, engine.codes([document.id for document in documents]))
    assert len(everything) == 60


def test_examples_of_a_bit_have_its_value_and_both_values_are_counted(engine: SearchEngine) -> None:
    with engine.snapshot() as snapshot:
        found = snapshot.bit_examples(3, k=4)
    assert found.meaning == engine.bits()[3]
    assert found.ones + found.zeros == 60
    values = {
        value: engine.codes([document.id for document in side])[:, 0] >> 4 & 1
        for value, side in ((1, found.examples_of_one), (0, found.examples_of_zero))
    }
    assert all((bits == value).all() and len(bits) == 4 for value, bits in values.items())
    with engine.snapshot() as snapshot, pytest.raises(ParameterError, match="bit is out of range"):
        snapshot.bit_examples(20)


def test_ids_are_parsed_in_the_type_of_the_engine(engine: SearchEngine) -> None:
    numbers = SearchEngine.from_texts(["red apples", "green pears"], n_bits=8, method="itq")
    with numbers.snapshot() as snapshot:
        assert [snapshot.parse_id(text) for text in ("7", "-7", "x")] == [7, -7, "x"]
    with engine.snapshot() as snapshot:
        assert snapshot.parse_id("7") == "7"
