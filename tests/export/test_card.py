"""The model card states the facts of an engine and what was not measured."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from fewbits import Document, SearchEngine, __version__
from fewbits.codes import Bits, unpack
from fewbits.export import render_card
from fewbits.metrics import precision_at_k
from helpers.corpora import TOPICS


def value_of(card: str, fact: str) -> str:
    [value] = re.findall(rf"^\| {re.escape(fact)} \| (.*) \|$", card, re.MULTILINE)
    return str(value)


def later_documents(count: int) -> Iterator[Document]:
    """Generate documents of the same three topics with random words."""
    rng = random.Random(0)
    for number in range(count):
        topic = rng.choice(list(TOPICS))
        yield Document(f"later-{number}", " ".join(rng.sample(TOPICS[topic].split(), 14)), (topic,))


def test_card_states_the_facts_of_the_engine(engine: SearchEngine) -> None:
    engine.remove(["cooking-0", "cooking-3"])
    card = render_card(engine, "kitchen")
    facts = engine.info()
    assert card.startswith("# Model card: kitchen\n")
    assert "20 bits (3 bytes)" in card
    assert value_of(card, "documents") == "58"
    assert value_of(card, "training documents") == "60"
    assert value_of(card, "cooking") == "18"
    assert value_of(card, "labels") == "3"
    assert value_of(card, "method") == "itq"
    assert value_of(card, "estimator") == "ITQ"
    assert value_of(card, "n_bits") == "20"
    assert value_of(card, "trained") == facts["created"]
    assert value_of(card, "fewbits (training)") == __version__
    assert facts["drift"]["advice"] in card


def test_quality_is_not_measured_on_training_documents(engine: SearchEngine) -> None:
    card = render_card(engine, "kitchen")
    assert "Not measured" in card
    assert "fewbits bench own" in card
    assert "Precision at 10" not in card


def test_updated_documents_and_copies_are_not_used_as_queries(engine: SearchEngine, documents: list[Document]) -> None:
    engine.update(documents)
    engine.add(Document(f"copy-{number}", documents[number % 60].text, ("cooking",)) for number in range(150))
    assert "Not measured" in render_card(engine, "kitchen")


def test_quality_is_measured_on_labelled_documents_added_after_training(
    engine: SearchEngine, documents: list[Document]
) -> None:
    queries = list(later_documents(150))
    copies = [Document(f"copy of {document.id}", document.text, document.labels) for document in documents]
    assert len({document.text for document in queries} - {document.text for document in documents}) == 150
    engine.add([*queries, *copies])

    def bits(documents: list[Document]) -> Bits:
        return unpack(engine.codes([document.id for document in documents]), 20)

    expected = precision_at_k(
        bits(queries),
        [document.labels[0] for document in queries],
        bits(documents),
        [document.labels[0] for document in documents],
        k=10,
    )
    card = render_card(engine, "kitchen")
    assert f"Precision at 10 by codes alone: {expected:.3f} (chance level: 0.333)" in card
    assert "The queries are 150 labelled documents" in card


@pytest.mark.parametrize("label", ["a | b", "<script>alert(1)</script>", "two\nlines", "`code`"])
def test_labels_are_escaped_in_the_card(label: str) -> None:
    documents = [Document(0, "red apples", (label,)), Document(1, "green pears", ("fruit",))]
    card = render_card(SearchEngine.from_documents(documents, n_bits=8, method="lsh"), "odd")
    [row] = [
        line for line in card.splitlines() if line.startswith("| ") and line.endswith(" | 1 |") and "fruit" not in line
    ]
    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    assert "<script>" not in card


def test_card_of_an_embedding_engine_describes_embeddings() -> None:
    card = render_card(SearchEngine.from_embeddings([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], n_bits=8), "vectors")
    assert value_of(card, "dimensions of an embedding") == "2"
    assert "vocabulary" not in card
