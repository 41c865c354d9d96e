"""Names of regions and example queries: derived from the documents, and each example finds some."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from fewbits import Document, SearchEngine
from fewbits.server.app import create_app
from helpers.corpora import TOPICS, tiny_documents
from helpers.library import documents_in_many_scripts
from helpers.service import serving


def overview_of(documents: list[Document]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    engine = SearchEngine.from_documents(documents, n_bits=16, method="itq")
    with serving(create_app(engine, use_umap=False)) as client:
        examples = client.get("/v1/examples").json()["examples"]
        for example in examples:
            answer = client.post("/v1/search", json={"query": example["query"]}).json()
            assert answer["total"] == example["total"] > 0, example
            assert answer["hits"]
        return client.get("/v1/map").json(), examples


def test_regions_are_named_by_words_of_their_topic(client: TestClient) -> None:
    described = client.get("/v1/map").json()
    regions = described["regions"]
    assert len(regions) == 2  # of 60 documents
    assert sum(region["documents"] for region in regions) == 60
    words = [word for region in regions for word in region["words"]]
    assert len(set(words)) == len(words) > 2
    assert set(words) <= {word for text in TOPICS.values() for word in text.split()}
    points = set(zip(described["x"], described["y"], strict=True))
    assert all((region["x"], region["y"]) in points for region in regions)


def test_points_have_the_value_of_each_field() -> None:
    documents = [
        Document(one.id, one.text, one.labels, {"kind": "ab"[number % 2], "size": number})
        for number, one in enumerate(tiny_documents())
    ]
    described, _ = overview_of(documents)
    fields = {field["field"]: field for field in described["fields"]}
    assert set(fields) == {None, "kind", "size"}
    for field in fields.values():
        assert len(field["index"]) == 60
    by_id = {one.id: one for one in documents}
    for id, place in zip(described["ids"], fields["kind"]["index"], strict=True):
        assert fields["kind"]["values"][place] == by_id[id].metadata["kind"]
    assert fields["size"]["kind"] == "ranges"
    assert fields["size"]["index"] == sorted(fields["size"]["index"])


@pytest.mark.parametrize("scripts", [False, True])
def test_examples_of_each_kind_find_documents(scripts: bool) -> None:
    documents = documents_in_many_scripts() if scripts else tiny_documents()
    _, examples = overview_of(
        [Document(one.id, one.text, one.labels, {"part": "ab"[n % 2]}) for n, one in enumerate(documents)]
    )
    kinds = [example["kind"] for example in examples]
    assert set(kinds) >= {"topic", "filter"}
    assert len(kinds) == len({example["query"] for example in examples})
    assert kinds.count("topic") <= 4
    texts = " ".join(one.text.lower() for one in documents)
    topics = [example["query"] for example in examples if example["kind"] == "topic"]
    assert all(word in texts for query in topics for word in query.lower().split())


def test_embeddings_have_neither_regions_nor_examples() -> None:
    engine = SearchEngine.from_embeddings([[float(n % 7), float(n % 5)] for n in range(60)], n_bits=8)
    with serving(create_app(engine, use_umap=False)) as client:
        assert client.get("/v1/map").json()["regions"] == []
        assert client.get("/v1/examples").json() == {"examples": []}
