"""Awkward queries: other scripts, numbers, codes, plurals, one word, unknown words, and the hit that must be found."""

from __future__ import annotations

import pytest

from fewbits import SearchEngine
from fewbits.errors import DataError
from fewbits.search.languages import LANGUAGES
from helpers.awkward import OTHER_QUERIES, OTHER_TEXTS, QUERIES, TEXTS

MIXED = [  # known and unknown words, repetitions, and operators
    ("zyzzyva xqzzt", 31), ("qwrtpsd marathon", 13), ("vitamin  \t b12\n", 29), ("camera camera iphone 15", 10),
    ("CAMERA -14 iphone", 10), ("-zyzzyva marathon", 13), ('"running shoes"', 13), ('"shoes running" marathon', 13),
    ("memor*", 14), ("study of mouse memories", 14), ("deficiencies", 29), ("symptom treatments", 12), ("r&d", 17),
    ("8J0 035 500 F", 7), ("rtx_3080", 6), ("au lait", 25),
]  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> SearchEngine:
    return SearchEngine.from_texts(TEXTS.values(), ids=TEXTS, n_bits=8, method="itq", language="english")


@pytest.mark.parametrize("rank", ["hybrid", "words"])
@pytest.mark.parametrize(("query", "expected"), QUERIES + MIXED)
def test_an_awkward_query_finds_its_document_first(engine: SearchEngine, query: str, expected: int, rank: str) -> None:
    assert engine.search(query, 5, rank=rank)[0].id == expected


@pytest.mark.parametrize("language", [*LANGUAGES, "none"])
def test_an_engine_in_any_language_that_is_allowed_finds_its_texts(language: str) -> None:
    texts = ["Η Ακρόπολη των Αθηνών", "كتب الطالب الدرس", "neural networks", "தமிழ்நாடு மாநிலம்", "kırmızı elma"]
    engine = SearchEngine.from_texts(texts, n_bits=8, method="itq", language=language)
    for number, query in enumerate(["Ακρόπολη", "الدرس", "networks", "மாநிலம்", "elma"]):
        assert engine.search(query, 1, rank="words")[0].id == number


@pytest.mark.parametrize(
    ("texts", "queries"),
    [
        (["Η Ακρόπολη των Αθηνών", "Οι φόροι αυξήθηκαν", "Τα παιδιά παίζουν"], ["ακροπολης", "φορος", "παιδια"]),
        (["كتب الطالب الدرس في المدرسة", "الطقس جميل اليوم", "الضرائب في العام"], ["طالب", "طقس", "ضرائب"]),
    ],
)
def test_inflected_words_of_a_guessed_language_are_found(texts: list[str], queries: list[str]) -> None:
    engine = SearchEngine.from_texts(texts, n_bits=8, method="itq")
    assert [engine.search(query, 1)[0].id for query in queries] == [0, 1, 2]


@pytest.fixture(scope="module")
def other_engine() -> SearchEngine:
    return SearchEngine.from_texts(OTHER_TEXTS.values(), ids=list(OTHER_TEXTS), n_bits=16, method="itq")


@pytest.mark.parametrize("rank", ["hybrid", "words"])
@pytest.mark.parametrize(("query", "expected"), OTHER_QUERIES)
def test_a_query_in_another_spelling_or_script_finds_its_document_first(
    other_engine: SearchEngine, query: str, expected: str, rank: str
) -> None:
    assert other_engine.search(query, 5, rank=rank)[0].id == expected


@pytest.mark.parametrize(
    ("texts", "query", "expected"),
    [
        (["机器学习是人工智能的分支", "北京的天气晴朗", "我爱吃北京烤鸭", "人工智能研究机器学习"], "学习机器", {0, 3}),
        (["кошки спят на диване", "собаки и кошки играют", "акции упали в цене", "цене акции"], "акции в цене", {2, 3}),
        (["दिल्ली में बारिश", "मुंबई में बारिश", "चाय की दुकान", "चाय और दुकान"], "चाय दुकान", {2, 3}),
        (["12 345", "12 345 67", "quarterly report été", "quarterly report déjà vu"], "report quarterly", {2, 3}),
    ],
)
def test_codes_see_the_words_of_other_scripts(texts: list[str], query: str, expected: set[int]) -> None:
    engine = SearchEngine.from_texts(texts, n_bits=8, method="itq")
    assert {hit.id for hit in engine.search(query, 2, rank="codes")} == expected


@pytest.mark.parametrize("query", ["xqzzt", "взxq", "🙂", "龘龘"])
def test_a_query_that_no_document_has_a_word_of_is_an_error_with_advice(engine: SearchEngine, query: str) -> None:
    with pytest.raises(DataError, match=r"the query has no known word .* Use other or more words"):
        engine.search(query)


@pytest.mark.parametrize(
    ("language", "query", "expected"),
    [
        ("russian", "площади Москве", "Москва — столица России, ёлка на площадь"),
        ("french", "paralyser grèves", "La grève générale a paralysé les transports"),
        ("german", "Straßen Größen", "Größe und Straße in München"),
    ],
)
def test_inflected_words_are_found_in_the_language_of_the_engine(language: str, query: str, expected: str) -> None:
    texts = [expected, "2020 2021", "RTX-4090 graphics card", "heart attack"]
    engine = SearchEngine.from_texts(texts, n_bits=8, method="itq", language=language)
    assert engine.search(query, 1, rank="words")[0].text == expected
