"""Responses of the routes, compared with the results of the engine."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fastapi.testclient import TestClient

from fewbits import Document, SearchEngine
from fewbits.search.store.reader import Reader
from fewbits.server.app import create_app
from fewbits.server.errors import JsonResponse
from fewbits.server.schemas import Settings
from helpers.corpora import tiny_documents
from helpers.service import AUTHORIZED, TOKEN, error_of, serving


def test_search_returns_the_hits_of_the_engine(client: TestClient, shared_engine: SearchEngine) -> None:
    for rerank in (None, "none", "bits", "words"):
        request = {"query": "the boat and xyzzy", "k": 4, "rerank": rerank, "fields": ["text"]}
        answer = client.post("/v1/search", json=request).json()
        expected = shared_engine.search("the boat and xyzzy", 4, rerank=rerank)
        found = [{name: hit[name] for name in vars(expected[0])} for hit in answer["hits"]]
        assert found == [{**vars(hit), "labels": list(hit.labels)} for hit in expected]
        assert (answer["bits"], answer["words"], answer["unknown_words"]) == (20, ["boat"], ["xyzzy"])


def test_rescore_is_still_accepted_for_rerank(client: TestClient) -> None:
    for value in ("none", "bits", "words"):
        old = client.post("/v1/search", json={"query": "boat", "rescore": value}).json()
        assert old == client.post("/v1/search", json={"query": "boat", "rerank": value}).json()
        assert client.post("/v1/similar", json={"id": "sailing-1", "rescore": value}).status_code == 200
    both = client.post("/v1/search", json={"query": "boat", "rerank": "bits", "rescore": "bits"})
    assert both.status_code == 422
    assert error_of(both)["what"] == "give rerank, not rescore"


def test_info_counts_documents_now_and_at_training(writable: TestClient) -> None:
    document = {"id": "new", "text": "a boat"}
    writable.post("/v1/add", json={"documents": [document]}, headers=AUTHORIZED)
    info = writable.get("/v1/info").json()
    assert (info["documents"], info["documents_learnt_from"], info["most_hits"]) == (61, 60, 1000)


def test_unknown_words_are_those_outside_the_vocabulary(client: TestClient) -> None:
    query = "The boat's sails, what's xyzzy? Xyzzy, a naïve 2021 o'foo x"
    answer = client.post("/v1/search", json={"query": query, "k": 1}).json()
    assert set(answer["unknown_words"]) >= {"xyzzy", "2021", "o'foo"}
    assert not {"the", "boat's", "what's", "a", "x"} & set(answer["unknown_words"])


def test_part_of_an_unknown_word_is_not_reported_as_known(client: TestClient) -> None:
    answer = client.post("/v1/search", json={"query": "house_xyzzy", "k": 1})
    assert error_of(answer)["got"] == repr("house_xyzzy")
    answer = client.post("/v1/search", json={"query": "house_boat stars", "k": 1}).json()
    assert (answer["words"], answer["unknown_words"]) == (["stars"], ["house_boat"])


def test_filters_and_radius_are_passed_to_the_engine(client: TestClient, shared_engine: SearchEngine) -> None:
    answer = client.post("/v1/search", json={"query": "boat", "k": 5, "labels": ["cooking"]}).json()
    assert [hit["labels"] for hit in answer["hits"]] == [["cooking"]] * 5
    near = client.post("/v1/search", json={"query": "boat", "radius": 6}).json()["hits"]
    assert [hit["id"] for hit in near] == [hit.id for hit in shared_engine.within("boat", 6)]


def test_other_routes_return_the_results_of_the_engine(client: TestClient, shared_engine: SearchEngine) -> None:
    similar = client.post("/v1/similar", json={"id": "sailing-1", "k": 3}).json()["hits"]
    assert [hit["id"] for hit in similar] == [hit.id for hit in shared_engine.similar("sailing-1", 3)]
    why = client.post("/v1/explain", json={"query": "boat", "hit": "sailing-1"}).json()
    assert why["distance"] == shared_engine.explain("boat", "sailing-1").distance
    assert len(why["bits"]) == 20
    assert client.post("/v1/explain", json={"id": "sailing-4", "hit": "sailing-1"}).json()["shared_words"]
    codes = client.post("/v1/encode", json={"texts": ["boat", "stars"]}).json()["codes"]
    assert codes == [row.tobytes().hex() for row in shared_engine.encode(["boat", "stars"])]
    assert [bit["bit"] for bit in client.get("/v1/bits").json()["bits"]] == list(range(20))
    described = client.get("/v1/bits/7", params={"k": 2}).json()
    assert described["ones"] + described["zeros"] == 60
    assert len(described["examples_of_one"]) == len(described["examples_of_zero"]) == 2
    assert client.get("/v1/document", params={"id": "sailing-1"}).json()["labels"] == ["sailing"]


def test_examples_of_a_bit_have_its_value(client: TestClient, shared_engine: SearchEngine) -> None:
    for bit in (0, 9, 19):
        examples = client.get(f"/v1/bits/{bit}", params={"k": 5}).json()
        for value, side in ((1, "examples_of_one"), (0, "examples_of_zero")):
            codes = shared_engine.codes([document["id"] for document in examples[side]])
            assert {int(row[bit // 8] >> (7 - bit % 8) & 1) for row in codes} == {value}


def test_integer_ids_can_be_given_as_strings() -> None:
    engine = SearchEngine.from_texts(["red apples", "green pears", "red plums"], n_bits=8, method="itq")
    with serving(create_app(engine, use_umap=False)) as client:
        assert client.get("/v1/document", params={"id": "2"}).json()["text"] == "red plums"
        assert {hit["id"] for hit in client.post("/v1/similar", json={"id": "2"}).json()["hits"]} == {0, 1}
        missing = error_of(client.get("/v1/document", params={"id": "9" * 30}))
        assert missing["what"].startswith("no document has the id")


def test_documents_are_added_updated_and_removed_with_the_token(writable: TestClient) -> None:
    document = {"id": "new", "text": "garlic boat telescope", "labels": ["odd"], "metadata": {"year": 2024}}
    added = writable.post("/v1/add", json={"documents": [document]}, headers=AUTHORIZED)
    assert added.json() == {"changed": 1, "documents": 61}
    response = writable.post(
        "/v1/search", json={"query": "garlic boat telescope", "k": 1, "where": ["year>=2024"]}
    ).json()
    assert [hit["id"] for hit in response["hits"]] == ["new"]
    again = writable.post("/v1/add", json={"documents": [document]}, headers=AUTHORIZED)
    assert error_of(again)["what"] == "the id 'new' exists already"
    changed = {"documents": [{**document, "text": "soup"}]}
    assert writable.post("/v1/update", json=changed, headers=AUTHORIZED).json()["changed"] == 1
    assert writable.get("/v1/document", params={"id": "new"}).json()["text"] == "soup"
    assert writable.post("/v1/remove", json={"ids": ["new"]}, headers=AUTHORIZED).json()["documents"] == 60
    assert writable.get("/v1/document", params={"id": "new"}).status_code == 404


@pytest.mark.parametrize(
    "header", ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Basic {TOKEN}", "Bearer \xff"]
)
def test_changes_without_the_right_token_are_rejected(writable: TestClient, header: str) -> None:
    for path in ("/v1/add", "/v1/update", "/v1/remove"):
        response = writable.post(path, json={"ids": ["sailing-1"]}, headers={"authorization": header.encode("latin-1")})
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in response.text
    assert writable.get("/v1/info").json()["documents"] == 60
    assert TOKEN not in repr(Settings(token=TOKEN))


def test_empty_engine_is_served_without_server_errors(writable: TestClient) -> None:
    ids = [document.id for document in tiny_documents()]
    assert writable.post("/v1/remove", json={"ids": ids}, headers=AUTHORIZED).json()["documents"] == 0
    for path in ("/v1/bits", "/v1/bits/1", "/v1/map", "/v1/info", "/v1/document?id=x", "/readyz"):
        assert writable.get(path).status_code < 500, path
    for rerank in ("none", "bits", "words"):
        answer = writable.post("/v1/search", json={"query": "boat", "rerank": rerank})
        assert answer.status_code < 500
    again = {"documents": [{"id": "a", "text": "boat"}]}
    assert writable.post("/v1/add", json=again, headers=AUTHORIZED).status_code == 200
    assert [hit["id"] for hit in writable.post("/v1/search", json={"query": "boat"}).json()["hits"]] == ["a"]


def test_embedding_engine_without_texts_is_searched_by_documents_only() -> None:
    engine = SearchEngine.from_embeddings(np.random.default_rng(0).standard_normal((30, 8)), n_bits=12)
    with serving(create_app(engine, use_umap=False)) as client:
        info = client.get("/v1/info").json()
        assert (info["takes_text"], info["searches_text"]) == (False, False)
        assert len(client.post("/v1/similar", json={"id": 1, "k": 3}).json()["hits"]) == 3
        for path, body in (
            ("/v1/search", {"query": "text"}),
            ("/v1/encode", {"texts": ["text"]}),
            ("/v1/explain", {"query": "text", "hit": 1}),
            ("/v1/explain", {"id": 2, "hit": 1}),
        ):
            assert client.post(path, json=body).status_code == 422
        assert error_of(client.get("/v1/bits"))["what"] == "the bits of embeddings have no words"
        assert client.get("/v1/bits/1").status_code == 422


def test_embedding_engine_with_texts_is_searched_and_explained_by_words() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 8))
    documents = [Document(f"d{number}", f"text {number} red" if number < 3 else "blue") for number in range(30)]
    engine = SearchEngine.from_embeddings(rows, documents=documents, n_bits=12)
    with serving(create_app(engine, use_umap=False)) as client:
        info = client.get("/v1/info").json()
        assert (info["takes_text"], info["searches_text"]) == (False, True)
        answer = client.post("/v1/search", json={"query": "red text", "facets": True}).json()
        assert {hit["id"] for hit in answer["hits"]} == {"d0", "d1", "d2"}
        assert answer["total"] == 3
        assert {answer["hits"][0]["snippet"][start:end] for start, end in answer["hits"][0]["snippet_marks"]} == {
            "red",
            "text",
        }
        why = client.post("/v1/explain", json={"query": "red text", "hit": "d1"}).json()
        assert {word["word"] for word in why["words"]} == {"red", "text"}
        assert client.post("/v1/explain", json={"id": "d2", "hit": "d1"}).status_code == 422
        assert client.get("/v1/examples").status_code == 200


def test_hits_have_a_snippet_and_the_parts_of_the_score_but_no_text_unless_it_is_asked_for(client: TestClient) -> None:
    answer = client.post("/v1/search", json={"query": "boat harbour", "k": 3}).json()
    weight = client.get("/v1/info").json()["weight"]
    for hit in answer["hits"]:
        assert hit["text"] is None
        assert {hit["snippet"][start:end] for start, end in hit["snippet_marks"]} <= {"boat", "harbour"}
        assert hit["snippet_marks"]
        assert hit["score"] == pytest.approx((hit["lexical"] + weight * hit["semantic"]) / (1 + weight), abs=2e-4)
    full = client.post("/v1/search", json={"query": "boat harbour", "k": 3, "fields": ["text"]}).json()
    assert [hit["text"] for hit in full["hits"]] == [
        client.get("/v1/document", params={"id": hit["id"]}).json()["text"] for hit in answer["hits"]
    ]
    assert error_of(client.post("/v1/search", json={"query": "boat", "fields": ["code"]}))["what"]


def test_response_of_long_documents_is_short() -> None:
    documents = [Document(number, f"boat {number} " + "long text " * 5_000) for number in range(100)]
    with serving(create_app(SearchEngine.from_documents(documents, n_bits=8, method="itq"), use_umap=False)) as client:
        for path, body in (("search", {"query": "boat"}), ("similar", {"id": 1})):
            answer = client.post(f"/v1/{path}", json={**body, "k": 100})
            assert len(answer.content) < 100 * 1_000
            whole = client.post(f"/v1/{path}", json={**body, "k": 100, "fields": ["text"]})
            assert len(whole.content) > 4_000_000


def test_total_counts_all_matches_that_pass_the_filters(client: TestClient) -> None:
    containing = sum("boat" in one.text.split() for one in tiny_documents())
    for rank in ("hybrid", "words"):
        assert client.post("/v1/search", json={"query": "boat", "k": 1, "rank": rank}).json()["total"] == containing
    cooking = {"query": "boat soup", "k": 1, "labels": ["cooking"]}
    soups = sum("soup" in one.text.split() and "cooking" in one.labels for one in tiny_documents())
    assert client.post("/v1/search", json=cooking).json()["total"] == soups
    assert client.post("/v1/search", json={**cooking, "rank": "codes"}).json()["total"] == 20
    assert client.post("/v1/similar", json={"id": "sailing-1", "k": 1}).json()["total"] == 59
    assert client.post("/v1/similar", json={"id": "sailing-1", "k": 1, "labels": ["cooking"]}).json()["total"] == 20
    within = client.post("/v1/search", json={"query": "boat", "radius": 20}).json()
    assert (within["total"], len(within["hits"])) == (60, 40)


def test_facets_are_counted_on_request(client: TestClient) -> None:
    assert client.post("/v1/search", json={"query": "boat soup"}).json()["facets"] == []
    [labels] = client.post("/v1/search", json={"query": "boat soup", "facets": True}).json()["facets"]
    for value in labels["values"]:
        chosen = {"query": "boat soup", "labels": [value["value"]], "k": 1}
        assert client.post("/v1/search", json=chosen).json()["total"] == value["count"]
    [labels] = client.post("/v1/similar", json={"id": "sailing-1", "facets": True}).json()["facets"]
    assert sum(value["count"] for value in labels["values"]) == 60


def test_bits_are_weighted_and_hits_sorted_as_the_engine_does(
    client: TestClient, writable: TestClient, shared_engine: SearchEngine
) -> None:
    request = {"query": "boat harbour", "k": 10, "bit_weights": {"3": 0, "7": 20}}
    for path, ids in (
        ("search", [hit.id for hit in shared_engine.search("boat harbour", 10, bit_weights={3: 0, 7: 20})]),
        ("similar", [hit.id for hit in shared_engine.similar("sailing-1", 10, bit_weights={3: 0, 7: 20})]),
    ):
        sent = (
            request if path == "search" else {"id": "sailing-1", **{k: v for k, v in request.items() if k != "query"}}
        )
        assert [hit["id"] for hit in client.post(f"/v1/{path}", json=sent).json()["hits"]] == ids
    assert error_of(client.post("/v1/search", json={"query": "boat", "bit_weights": {"99": 1}}))["allowed"] == "0 to 19"
    documents = [{"id": f"n{year}", "text": "boat harbour", "metadata": {"year": year}} for year in (3, 9, 5)]
    writable.post("/v1/add", json={"documents": documents}, headers=AUTHORIZED)
    for sort, expected in (("year", ["n3", "n5", "n9"]), ("-year", ["n9", "n5", "n3"])):
        answer = writable.post("/v1/search", json={"query": "boat harbour", "k": 3, "sort": sort}).json()
        assert [hit["id"] for hit in answer["hits"]] == expected


def test_misspelt_words_are_named_with_a_corrected_query(client: TestClient) -> None:
    assert client.get("/v1/suggest", params={"query": "teleskope and boat"}).json() == {
        "unknown_words": ["teleskope"],
        "suggestion": "telescope and boat",
    }
    assert client.get("/v1/suggest", params={"query": "boat"}).json() == {"unknown_words": [], "suggestion": None}
    assert client.get("/v1/suggest", params={"query": "x" * 501}).status_code == 413


def test_an_unbalanced_quote_is_noted(client: TestClient) -> None:
    answer = client.post("/v1/search", json={"query": 'boat "harbour'}).json()
    assert answer["notes"] == ["A quote is not closed; the phrase ends with the query."]


def test_an_explanation_says_what_words_and_codes_saw(client: TestClient) -> None:
    why = client.post("/v1/explain", json={"query": "boat harbour onions", "hit": "sailing-1"}).json()
    text = client.get("/v1/document", params={"id": "sailing-1"}).json()["text"]
    assert sum(word["weight"] for word in why["words"]) == pytest.approx(1, abs=1e-3)
    assert {word["word"] for word in why["words"]} == {"boat", "harbour"} & set(text.split())
    moving = [word["word"] for word in why["towards"] + why["away"]]
    assert len(moving) == len(set(moving)) > 0
    assert set(moving) <= set(text.split())
    similar = client.post("/v1/explain", json={"id": "sailing-1", "hit": "sailing-4"}).json()
    assert similar["words"] == []
    assert similar["towards"][0]["weight"] > 0


def test_a_hit_that_words_alone_found_is_explained_by_words(writable: TestClient) -> None:
    document = {"documents": [{"id": "новый", "text": "корабль RTX-4090"}]}
    writable.post("/v1/add", json=document, headers=AUTHORIZED)
    why = writable.post("/v1/explain", json={"query": "корабль", "hit": "новый"}).json()
    assert (why["distance"], why["bits"], why["towards"]) == (20, [], [])
    assert why["words"] == [{"word": "корабль", "weight": 1.0}]
    unknown = writable.post("/v1/explain", json={"query": "qwxzy", "hit": "новый"})
    assert error_of(unknown)["what"] == "the query has no known word"


def test_a_search_by_radius_reads_no_more_documents_than_it_returns(
    shared_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    stored = Reader.stored

    def count(self: Reader, positions: list[int]) -> object:
        read.append(len(positions))
        return stored(self, positions)

    monkeypatch.setattr(Reader, "stored", count)
    with serving(create_app(shared_engine, Settings(hits=5), use_umap=False)) as client:
        read.clear()
        answer = client.post("/v1/search", json={"query": "boat", "radius": 20}).json()
    assert (answer["total"], len(answer["hits"])) == (60, 5)
    assert read == [5]


def test_labels_and_fields_that_no_document_has_are_named(client: TestClient) -> None:
    answer = client.post("/v1/search", json={"query": "boat", "labels": ["salling"], "where": ["yaer>=2000"]}).json()
    assert answer["hits"] == []
    assert answer["notes"] == [
        "No document has the label 'salling' (existing: astronomy, cooking, sailing).",
        "No document has the metadata 'yaer' (none has any).",
    ]
    answer = client.post("/v1/search", json={"query": "boat", "sort": "-yaer"}).json()
    assert answer["notes"] == ["Hits are not sorted: no document has the metadata 'yaer'."]
    assert len(answer["hits"]) == 10


def test_ids_that_javascript_would_round_are_sent_as_texts_and_taken_back() -> None:
    numbers = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
    engine = SearchEngine.from_documents(
        [Document(n, "boat wind", (), {"n": n}) for n in numbers], n_bits=8, method="lsh"
    )
    with serving(create_app(engine, use_umap=False)) as client:
        hits = client.post("/v1/search", json={"query": "boat", "k": 5}).json()["hits"]
        assert {hit["id"] for hit in hits} == {numbers[0], *map(str, numbers[1:])}
        assert sorted(hit["metadata"]["n"] for hit in hits) == sorted(numbers)
        assert set(client.get("/v1/map").json()["ids"]) == {numbers[0], *map(str, numbers[1:])}
        for hit in hits:
            similar = client.post("/v1/similar", json={"id": hit["id"], "k": 5}).json()["hits"]
            assert len(similar) == 4
            assert hit["id"] not in {one["id"] for one in similar}
            assert client.get("/v1/document", params={"id": hit["id"]}).json()["id"] == hit["id"]
            explained = client.post("/v1/explain", json={"query": "boat", "hit": hit["id"]})
            assert explained.json()["id"] == hit["id"]


def test_integers_beyond_64_bits_are_refused_and_those_of_earlier_releases_sent_as_texts(writable: TestClient) -> None:
    for number in (2**64, 2**63):
        document = {"id": "n", "text": "boat", "metadata": {"n": number}}
        answer = writable.post("/v1/add", json={"documents": [document]}, headers=AUTHORIZED)
        assert answer.status_code == 422
        assert "cannot be stored" in error_of(answer)["what"]
    old = JsonResponse(Document("old", "boat", (), {"n": 2**64, "m": [{"a": -(2**70)}], "fine": 2**63 - 1}))
    assert json.loads(bytes(old.body))["metadata"] == {"n": str(2**64), "m": [{"a": str(-(2**70))}], "fine": 2**63 - 1}
