"""Input that takes long if it is parsed carelessly: conditions, queries and texts."""

from __future__ import annotations

import contextlib
import re
import time
import unicodedata
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewbits import Condition, Document, SearchEngine
from fewbits.errors import DataError, ParameterError, UnknownIdError
from fewbits.features import TextVectorizer
from fewbits.search.store.filters import MAX_CONDITION, OPERATORS, strictest
from fewbits.search.words import parse, possible_fields, split, word_spans

LENGTH = 50_000  # characters: half of what the service takes, as a quadratic function would take ten seconds
CPU_SECONDS = 1.0
RUNS = [
    " ", "a", "_", "-", '"', '""', '" ', "a:", "a:b ", "a*", "-a ", "_-", "a_", "a-", "a.b_", "++", "#", "\u0300",
    "a\u0300\u0316", "\u0300\u0316", "\u0301\u0327\u0323", "\u1161\u11a8", "\ufdfa", "\u0e01\u0e48", "京", "\u064b",
    "\u0344", "'", "a'", "\u2019b", "\ud7a3", "İ", "ß", "\U0001f1e6", "\x00", "\u3000", "<", "<>=!",
    "\U0001d165\U0001d16d",
]  # fmt: skip


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize("run", RUNS)
def test_a_text_of_one_repeated_run_is_split_and_parsed_within_a_second(run: str) -> None:
    long, short = (run * LENGTH)[:LENGTH], (run * LENGTH)[:1_900]  # a text, and a query with operators
    vectorizer = TextVectorizer().fit(["boats on a lake"])
    for text, functions in (
        (long, [split, vectorizer.unknown_words, vectorizer.known_words]),
        (short, [parse, possible_fields, word_spans]),
        (f"a{short}!", [parse, possible_fields, word_spans]),
        (f'"{short}', [parse, possible_fields, word_spans]),
    ):
        for function in functions:
            assert cpu_seconds(lambda: function(text)) < CPU_SECONDS, function.__name__  # type: ignore[operator]  # noqa: B023


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200) | st.text("a\u0300\u0316\u1100\u1161 \u3099か", max_size=200))
def test_texts_with_words_of_ordinary_length_are_normalized_as_a_whole(text: str) -> None:
    words = [word[:100] for word in text.split()]
    whole = unicodedata.normalize("NFKC", " ".join(words * 4))
    assert split(" ".join(words * 4)).words.split() == split(whole).words.split()


@pytest.mark.parametrize("text", [" " * 1_500, " " * LENGTH, "x" + " " * LENGTH, "x" * LENGTH, "<" * LENGTH, "!" * 999])
def test_a_long_condition_is_parsed_or_refused_at_once(text: str) -> None:
    def parse_condition() -> None:
        with pytest.raises(ParameterError, match=r"the condition cannot be parsed|a condition is too long"):
            Condition.parse(text)

    seconds = cpu_seconds(parse_condition) if text[0] != "<" or len(text) > MAX_CONDITION else 0
    assert seconds < 0.1


FORMER = re.compile(r"\s*(?P<field>\S|\S.*?\S)\s*(?P<operator>>=|<=|!=|=|>|<)\s*(?P<value>.*?)\s*", re.DOTALL)
OPERATOR = re.compile(r">=|<=|!=|[=<>]")


@given(st.text(' \t\na1"=<>!', max_size=12))
def test_a_condition_has_the_parts_that_a_regular_expression_finds(text: str) -> None:
    match = FORMER.fullmatch(text)
    if match is None:
        with pytest.raises(ParameterError, match=r"the condition cannot be parsed"):
            Condition.parse(text)
        return
    if OPERATOR.match(match["value"]):
        with pytest.raises(ParameterError, match=r"the condition has two operators"):
            Condition.parse(text)
        return
    condition = Condition.parse(text)
    assert (condition.field, condition.operator) == (match["field"], match["operator"])
    assert condition.value == Condition.parse(f"x={match['value']}").value


@given(st.sampled_from(OPERATORS), st.text(min_size=1, max_size=20), st.integers() | st.floats() | st.text(max_size=20))
def test_a_condition_has_a_field_an_operator_and_a_value_that_can_be_stored(
    operator: str, field: str, value: object
) -> None:
    if any(sign in field for sign in "<>=!") or not field.strip() or OPERATOR.match(str(value).strip()):
        return
    condition = Condition.parse(f" {field}{operator} {value} ")
    assert condition.field == field.strip()
    assert condition.operator == operator or str(value).startswith("=")
    if isinstance(condition.value, (int, float)):
        assert abs(condition.value) < 2**63 or isinstance(condition.value, float)
        assert condition.value - condition.value == 0  # neither infinite nor NaN


VALUES = st.sampled_from([-1, 0, 1.5, 2, "2", "1e1", "", "a", "ab", "b", "é", "10", True, None])
BOUNDS = st.sampled_from(["-1", "0", "1.5", "2", "10", "a", "ab", "zz", "", "é", "1e1"])
CONDITIONS = st.builds(
    lambda field, operator, bound: Condition.parse(f"{field}{operator}{bound}"),
    st.sampled_from("xy"),
    st.sampled_from(OPERATORS),
    BOUNDS,
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from("xy"), VALUES | st.lists(VALUES, max_size=3)), min_size=2, max_size=12),
    st.lists(CONDITIONS, max_size=6),
)
def test_many_conditions_are_met_by_the_documents_that_meet_each(
    metadata: list[dict[str, object]], conditions: list[Condition]
) -> None:
    metadata = [*metadata, {"x": "text", "y": "text"}]  # a field of numbers is not compared with texts
    texts = [f"boat number {number}" for number in range(len(metadata))]
    engine = SearchEngine.from_texts(texts, metadata=metadata, n_bits=8, method="lsh")
    with engine.snapshot() as snapshot:
        each = [set(snapshot.reader.matching([], [condition]).tolist()) for condition in conditions]
        expected = set.intersection(*each) if each else None
        found = snapshot.reader.matching([], conditions).tolist() if each else None
    assert found is None or set(found) == expected


def test_the_strictest_of_many_conditions_is_read_once() -> None:
    conditions = [Condition("year", operator, bound) for operator in (">=", ">", "<", "<=") for bound in range(500)]
    needed = strictest(conditions)
    assert sorted((one.operator, one.value) for one in needed) == [("<", 0), (">", 499)]


def test_explaining_a_long_text_takes_no_more_than_a_few_seconds() -> None:
    generator = np.random.default_rng(0)
    words = ["".join(letters) for letters in product("abcdefghijklmnopq", "abcdefghijk", "abcdefghij", "abcdefghi")]
    texts = [" ".join(generator.choice(words, 100)) for _ in range(2_000)]
    long = " ".join(words)
    engine = SearchEngine.from_texts([*texts, long], n_bits=64, method="itq")
    assert cpu_seconds(lambda: engine.explain(long, 2_000)) < 2
    explained = engine.explain(long, 2_000)
    assert explained.distance == 0
    assert all(bit.query_words for bit in explained.bits)


@pytest.mark.parametrize("value", [2**63, 2**64, -(2**63) - 1, [1, {"a": 2**70}]])
def test_integers_beyond_64_bits_in_metadata_are_refused(engine: SearchEngine, value: object) -> None:
    with pytest.raises(DataError, match=r"the metadata of 'new' cannot be stored \(allowed: integers of 64 bits"):
        engine.add([Document("new", "boat", (), {"n": value})])
    assert "new" not in engine
    assert engine.add([Document("new", "boat", (), {"n": [2**63 - 1, -(2**63), "9" * 30]})]) == 1


def test_too_many_conditions_are_a_clear_error(engine: SearchEngine) -> None:
    for sign in (">=", "!=", "="):
        where = [f"n{number}{sign}{number}" for number in range(501)]
        with pytest.raises(ParameterError, match=r"too many conditions \(allowed: at most 400; got: 501\)"):
            engine.search("boat", where=where)
        assert engine.search("boat", where=where[:400]) == [] or sign == "!="


@pytest.mark.parametrize("id", ["\ud800", "a\udfff", 2**70, -(2**70), 1.5, True, None])
def test_an_id_that_nothing_can_have_is_unknown_or_refused(engine: SearchEngine, id: Any) -> None:
    assert id not in engine
    for use in (engine.similar, lambda id: engine.remove([id]), lambda id: engine.explain("boat", id)):
        with pytest.raises(UnknownIdError):
            use(id)
    with pytest.raises(DataError):
        engine.add([Document(id, "boat")])


@pytest.mark.parametrize("text", ["\ud800", "boat \udc80 wind", "year:\ud800", '"\ud800 boat"'])
def test_lone_surrogates_are_no_words_and_no_values(engine: SearchEngine, text: str) -> None:
    for rank in ("hybrid", "words", "codes"):
        with contextlib.suppress(DataError):
            engine.search(text, rank=rank)
    for field in (f"{text}=1", f"year={text}", f"year>={text}"):
        with pytest.raises(ParameterError, match="a filter is not valid text"):
            engine.search("boat", where=[field])
    assert engine.search("boat", labels=[text]) == []
    for document in (Document("n", text), Document("n", "boat", (text,)), Document("n", "boat", (), {text: 1})):
        with pytest.raises(DataError, match="cannot be stored"):
            engine.add([document])
