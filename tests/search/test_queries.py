from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewbits import Condition, Document, FlatIndex, SearchEngine
from fewbits.codes import pack, unpack
from fewbits.errors import DataError, ParameterError
from fewbits.index.fast_scan import MIN_FAST_SCAN, SCANS_PER_BUILD
from helpers.engines import document_of


@pytest.fixture
def dated(documents: list[Document]) -> SearchEngine:
    """Return an engine of documents of 2000 to 2009, in part with the year as text, as in a CSV file, and with tags."""
    described = [
        Document(
            d.id,
            d.text,
            d.labels,
            {"year": 2000 + n % 10 if n % 2 else str(2000 + n % 10), "tags": ["all", f"tag{n % 3}"], "deep": {"x": 1}},
        )
        for n, d in enumerate(documents)
    ]
    return SearchEngine.from_documents(described, n_bits=20, method="itq")


COMMON_WORDS = [first + second for first in "bdfgk" for second in ("alo", "eri", "imu", "osa")]


@pytest.fixture(scope="module")
def many() -> SearchEngine:
    """Return an engine of documents that nearly all share a word with any query."""
    generator = np.random.default_rng(4)
    texts = (" ".join(generator.choice(COMMON_WORDS, generator.integers(4, 15))) for _ in range(900))
    return SearchEngine.from_texts(texts, n_bits=16, method="itq")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["year>=2005"], lambda year, n: year >= 2005),
        (["year < 2002"], lambda year, n: year < 2002),
        (["year=2003"], lambda year, n: year == 2003),
        (["year!=2003"], lambda year, n: year != 2003),
        (["year>2003", "year<=2006"], lambda year, n: 2003 < year <= 2006),
        (["tags=tag1"], lambda year, n: n % 3 == 1),
        (["tags=tag1", "year>=2005"], lambda year, n: n % 3 == 1 and year >= 2005),
        (["tags>=tag1"], lambda year, n: n % 3 >= 1),
        (["nothing=1"], lambda year, n: False),
        (["deep=1"], lambda year, n: False),
    ],
)
def test_conditions_select_documents_by_metadata(dated: SearchEngine, where: list[str], expected: Any) -> None:
    passing = {f"{['cooking', 'sailing', 'astronomy'][n % 3]}-{n}" for n in range(60) if expected(2000 + n % 10, n)}
    for rerank in ("none", "bits", "words"):
        assert {hit.id for hit in dated.search("boat soup stars", k=60, where=where, rerank=rerank)} == passing
    assert {hit.id for hit in dated.search("boat soup stars", k=60, where=where, rank="words")} <= passing
    assert {hit.id for hit in dated.within("boat soup stars", 20, where=where)} == passing
    found = dated.similar("cooking-0", k=59, where=where)
    assert {hit.id for hit in found} == passing - {"cooking-0"}


def test_labels_and_conditions_are_combined(dated: SearchEngine) -> None:
    hits = dated.search("boat", k=60, labels=["sailing", "cooking"], where=[Condition("year", ">=", 2005)])
    assert {hit.labels[0] for hit in hits} == {"sailing", "cooking"}
    assert all(int(hit.metadata["year"]) >= 2005 for hit in hits)
    assert dated.search("boat", labels=["nobody"]) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": ["year"]}, r"the condition cannot be parsed \(allowed: FIELD, one of >= <= .*; got: 'year'\)"),
        ({"where": "year=1"}, "conditions must be a list"),
        (
            {"where": ["year>=abc"]},
            r"the field 'year' has only numbers, .* \(allowed: a number, such as 'year>=2020'; got: 'abc'\)",
        ),
        ({"where": ["year>>2"]}, r"the condition has two operators, > and > \(allowed: one of .*; got: 'year>>2'\)"),
        ({"where": ["year==2000"]}, r"the condition has two operators, = and ="),
        ({"where": ["year=>2000"]}, r"the condition has two operators, = and >"),
        ({"labels": "sailing"}, "labels must be a list"),
        ({"rank": "magic"}, r"rank is unknown \(allowed: hybrid, words, codes; got: 'magic'\)"),
        ({"rank": "codes", "rerank": "none"}, "give rank, not rerank"),
        ({"weight": -1}, "weight is out of range"),
        ({"rerank": "magic"}, r"rerank is unknown \(allowed: none, bits, words; got: 'magic'\)"),
        ({"shortlist": 0}, "shortlist is out of range"),
        ({"bit_weights": {20: 1}}, r"a bit in bit_weights is out of range \(allowed: 0 to 19; got: 20\)"),
        ({"bit_weights": {"3": 1}}, r"a bit in bit_weights is out of range \(allowed: 0 to 19; got: '3'\)"),
        ({"bit_weights": {3: -1}}, r"the weight of bit 3 is out of range \(allowed: 0 to 100; got: -1\)"),
        ({"bit_weights": {3: float("nan")}}, r"the weight of bit 3 is out of range \(allowed: 0 to 100; got: nan\)"),
        ({"bit_weights": dict.fromkeys(range(20), 0)}, "all bits have the weight 0"),
        ({"sort": "-"}, "sort is not a field"),
    ],
)
def test_bad_options_of_a_query_are_refused(dated: SearchEngine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        dated.search("boat", **options)


@pytest.mark.parametrize("weight", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("query", ["boat", "garlic and onions in the harbour", "distant stars", "telescope xyzzy"])
def test_the_hybrid_score_is_the_weighted_sum_of_both_parts(
    engine: SearchEngine, documents: list[Document], query: str, weight: float
) -> None:
    words = {hit.id: hit for hit in engine.search(query, k=60, rank="words")}
    codes = {hit.id: hit for hit in engine.search(query, k=60, rank="codes")}
    expected = {
        document.id: (
            (words[document.id].score if document.id in words else 0.0) + weight * codes[document.id].score
        ) / (1 + weight)
        for document in documents
    }  # fmt: skip
    hits = engine.search(query, k=60, weight=weight)
    assert [hit.score for hit in hits] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-3)
    assert [hit.score for hit in hits] == pytest.approx([expected[hit.id] for hit in hits], abs=1e-3)
    for hit in hits:
        assert hit.lexical is not None
        assert hit.semantic is not None
        assert hit.score == pytest.approx((hit.lexical + weight * hit.semantic) / (1 + weight), abs=1e-3)
        assert hit.distance == codes[hit.id].distance


@pytest.mark.parametrize("weight", [0.1, 0.5, 2.0])
def test_candidates_of_one_side_have_both_parts_of_the_score(many: SearchEngine, weight: float) -> None:
    generator = np.random.default_rng(5)
    count = 0
    for _ in range(30):
        query = " ".join(generator.choice(COMMON_WORDS, 5, replace=False))
        exact = {hit.id: hit for hit in many.search(query, len(many), weight=weight)}
        by_words = {hit.id for hit in many.search(query, 100, rank="words")}
        by_codes = {hit.id for hit in many.search(query, 100, rerank="none")}
        best = sorted((exact[id].score for id in by_words | by_codes), reverse=True)[:10]
        hits = many.search(query, weight=weight)
        assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-4)
        for hit in hits:
            assert (hit.lexical, hit.semantic) == pytest.approx(
                (exact[hit.id].lexical, exact[hit.id].semantic), abs=1e-4
            )
        count += sum(hit.id not in by_words for hit in hits)
    assert count > 0 or weight < 1  # hits that the words alone would not find among the first hundred


@pytest.mark.parametrize("weights", [{0: 0.0, 7: 5.0}, dict.fromkeys(range(1, 20), 0)])
def test_weights_of_the_user_multiply_those_of_the_bits(
    engine: SearchEngine, documents: list[Document], weights: dict[int, float]
) -> None:
    factors = np.array([weights.get(bit, 1.0) for bit in range(20)])
    bits = unpack(engine.codes([document.id for document in documents]), 20)
    query = "boat and distant stars"
    with engine.snapshot() as snapshot:
        encoded = snapshot.model.encode_query(query)
        by_id = snapshot.model.encode_query(documents[4].text)
    own = documents[4].id
    for found, code, confidence in (
        (engine.search(query, 60, rank="codes", bit_weights=weights), encoded.codes, encoded.confidence[0]),
        (engine.similar(own, 59, bit_weights=weights), engine.codes([own]), by_id.confidence[0]),
        (engine.similar(own, 59, rerank="none", bit_weights=weights), engine.codes([own]), np.ones(20)),
    ):
        importance = factors * confidence
        shares = (bits == unpack(code, 20)) @ importance / importance.sum()
        expected = {d.id: share for d, share in zip(documents, shares.tolist(), strict=True)}
        assert {hit.id: hit.score for hit in found} == pytest.approx(
            {hit.id: expected[hit.id] for hit in found}, abs=1e-3
        )
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        for hit in engine.search(query, 60, bit_weights=weights) if code is encoded.codes else []:
            assert hit.semantic == pytest.approx(expected[hit.id], abs=1e-3)


def test_best_hits_are_ordered_by_a_field(dated: SearchEngine) -> None:
    best = [hit.id for hit in dated.search("boat", 60)]
    for sort, descending in (("year", False), ("-year", True)):
        hits = dated.search("boat", 60, sort=sort)
        years = [int(hit.metadata["year"]) for hit in hits]
        assert years == sorted(years, reverse=descending)
        expected = sorted(hits, key=lambda hit: best.index(hit.id))
        expected.sort(key=lambda hit: int(hit.metadata["year"]), reverse=descending)
        assert hits == expected  # equal years stay in the order by score
        assert dated.search("boat", 7, sort=sort) == hits[:7]
    assert [hit.id for hit in dated.search("boat", 60, sort="nothing")] == best
    assert [hit.metadata["year"] for hit in dated.similar("sailing-1", 2, sort="-year")] == [2009, 2009]


def test_one_side_answers_where_the_other_cannot() -> None:
    texts = ["red apple", "green apple tree", "red car wheel", "8J0-035-500-F"]
    engine = SearchEngine.from_texts(texts, n_bits=8, method="itq")
    assert [hit.id for hit in engine.search("8J0-035-500-F")] == [3]
    assert engine.search("8J0-035-500-F")[0].semantic == 0
    for rank in ("hybrid", "words"):
        with pytest.raises(DataError, match="the query has no known word"):
            engine.search("xyzzy", rank=rank)
    with pytest.raises(DataError, match="the query has no known word"):
        engine.search("8J0-035-500-F", rank="codes")
    [found, unknown] = engine.search_many(["8J0-035-500-F", "xyzzy"])
    assert isinstance(found, list)
    assert isinstance(unknown, DataError)


def test_phrases_excluded_words_prefixes_and_fields_hold_for_both_sides(dated: SearchEngine) -> None:
    everything = {hit.id: hit.text for hit in dated.search("boat harbour", k=60)}
    without = {hit.id for hit in dated.search("boat harbour -mast", k=60)}
    assert without == {id for id, text in everything.items() if "mast" not in text.split()}
    phrase = " ".join(next(iter(everything.values())).split()[:2])
    assert {hit.id for hit in dated.search(f'"{phrase}"', k=60)} == {
        id for id, text in everything.items() if phrase in text
    }
    assert {hit.metadata["year"] for hit in dated.search("boat year:2003", k=60)} == {2003}
    by_prefix, by_word = (dated.search(query, k=20, rank="words") for query in ("garl*", "garlic"))
    assert {hit.id for hit in by_prefix} == {hit.id for hit in by_word}


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), n_bits=st.integers(1, 140), count=st.integers(1, 80), some=st.booleans())
def test_weighted_search_equals_brute_force(seed: int, n_bits: int, count: int, some: bool) -> None:
    generator = np.random.default_rng(seed)
    bits = generator.integers(0, 2, (count, n_bits), dtype=np.uint8)
    query = generator.integers(0, 2, n_bits, dtype=np.uint8)
    weights = generator.integers(0, 9, n_bits).astype(np.float32)  # whole numbers: sums are exact, ties abound
    among = np.flatnonzero(generator.integers(0, 2, count)) if some else None
    index = FlatIndex(n_bits)
    index.add(np.arange(count), pack(bits))
    k = int(generator.integers(1, count + 1))
    answer = index.search_weighted(pack([query]), weights, k, among=among)
    costs = ((bits != query) * weights).sum(axis=1)
    rows = np.arange(count) if among is None else among
    expected = rows[np.argsort(costs[rows], kind="stable")][:k]
    assert answer.ids.tolist() == expected.tolist()
    assert answer.costs is not None
    assert answer.costs.tolist() == costs[expected].tolist()
    assert answer.distances.tolist() == (bits[expected] != query).sum(axis=1).tolist()


def test_every_bit_of_a_query_has_a_weight() -> None:
    index = FlatIndex(4)
    index.add([1], pack([[0, 0, 1, 1]]))
    with pytest.raises(DataError, match=r"bit_weights must have one weight per bit \(allowed: 4; got: 3\)"):
        index.search_weighted(pack([[0, 0, 1, 1]]), [1, 1, 1], 1)


def test_embeddings_are_reranked_by_bits_and_have_no_words() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 8))
    engine = SearchEngine.from_embeddings(rows, n_bits=16)
    assert engine.search(rows[3], k=1, rerank="bits")[0].id == 3
    with pytest.raises(ParameterError, match=r"rerank is unknown \(allowed: none, bits; got: 'words'\)"):
        engine.search(rows[3], rerank="words")
    with pytest.raises(DataError, match="the bits of embeddings have no words"):
        engine.bits()
    with pytest.raises(ParameterError, match="embeddings are not stored"):
        engine.similar(3, rerank="bits")


def test_similar_documents_are_ordered_by_the_confidence_in_the_bits_of_the_query(engine: SearchEngine) -> None:
    hits = engine.similar("sailing-1", k=59)
    expected = engine.search(document_of(engine, "sailing-1").text, k=60, rank="codes")
    assert hits == [hit for hit in expected if hit.id != "sailing-1"]
    assert hits == engine.similar("sailing-1", k=59, rank="codes")
    assert [hit.distance for hit in hits] != sorted(hit.distance for hit in hits)


def test_similar_documents_are_ordered_by_distance_on_request(engine: SearchEngine) -> None:
    hits = engine.similar("sailing-1", k=20, rerank="none")
    assert [hit.distance for hit in hits] == sorted(hit.distance for hit in hits)
    assert [hit.score for hit in hits] == pytest.approx([1 - hit.distance / engine.n_bits for hit in hits], abs=1e-4)


def test_similar_documents_may_be_ordered_by_their_words(engine: SearchEngine) -> None:
    hits = engine.similar("sailing-1", k=5, rerank="words")
    assert "sailing-1" not in {hit.id for hit in hits}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits == engine.similar("sailing-1", k=5, rank="hybrid")
    expected = engine.search(document_of(engine, "sailing-1").text, k=6)
    assert [hit for hit in expected if hit.id != "sailing-1"][:5] == hits


@pytest.mark.parametrize("n_bits", [20, 64, 128])
def test_repeated_weighted_search_of_many_codes_stays_exact(n_bits: int) -> None:
    generator = np.random.default_rng(n_bits)
    bits = generator.integers(0, 2, (MIN_FAST_SCAN, n_bits), dtype=np.uint8)
    index = FlatIndex(n_bits)
    index.add(np.arange(len(bits)), pack(bits))
    for turn in range(SCANS_PER_BUILD + 20):
        query = generator.integers(0, 2, (1, n_bits), dtype=np.uint8)
        weights = (generator.random(n_bits) ** (turn % 7)).astype(np.float32)  # from equal weights to a few large ones
        answer = index.search_weighted(pack(query), weights, 30)
        costs = ((bits != query) * weights.astype(np.float64)).sum(axis=1)
        assert answer.costs is not None
        assert np.allclose(answer.costs, np.sort(costs)[:30], atol=1e-4)
        assert np.allclose(costs[answer.ids], answer.costs, atol=1e-4)
        assert (answer.distances == (bits[answer.ids] != query).sum(axis=1)).all()
    index.remove([0])
    index.add([0], pack(query))
    assert index.search_weighted(pack(query), np.ones(n_bits), 1).ids.tolist() == [0]
