"""Unknown words of a query, and what may have been meant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewbits import Document, SearchEngine
from fewbits.errors import DataError
from fewbits.search import Suggestion, suggest
from fewbits.search.spelling import edit_distance
from helpers.awkward import TEXTS


@pytest.fixture(scope="module")
def engine() -> SearchEngine:
    return SearchEngine.from_texts(TEXTS.values(), ids=TEXTS, n_bits=8, method="itq", language="english")


def ask(engine: SearchEngine, query: str) -> Suggestion:
    with engine.snapshot() as snapshot:
        return suggest(snapshot, query)


@pytest.mark.parametrize(
    ("query", "unknown", "corrected"),
    [
        ("hearth atack", ("hearth", "atack"), "heart attack"),
        ("symptms of a haert attack", ("symptms", "haert"), "symptoms of a heart attack"),
        ("Hearth ATACK", ("Hearth", "ATACK"), "Heart ATTACK"),
        ('"neural netwrk" -atack', ("netwrk",), '"neural network" -atack'),
        ("heartattack", ("heartattack",), "heart attack"),
        ("neu ral graph", ("neu", "ral"), "neural graph"),
        ("os.path.jion", ("jion",), "os.path.join"),
        ("масква столца", ("масква", "столца"), "москва столица"),
        ("المدرية", ("المدرية",), "المدرسة"),
        ("münchn", ("münchn",), "münchen"),
        ("gréve génerle", ("génerle",), "gréve générale"),
        ("iphne 15", ("iphne",), "iphone 15"),
        ("runing shoes", ("runing",), "running shoes"),  # as written, not its stem
        ("RTX-4091", ("RTX-4091",), None),  # another number is another thing
        ("part 8J0-035-500-X", ("8J0-035-500-X",), None),
        ("龘龘", ("龘龘",), None),
        ("xqzzt camera", ("xqzzt",), None),
        ("heart attack the", (), None),
        ("rtx4090 greve RÉVIEW", (), None),
        ("", (), None),
    ],
)
def test_unknown_words_are_named_and_corrected_by_words_of_the_documents(
    engine: SearchEngine, query: str, unknown: tuple[str, ...], corrected: str | None
) -> None:
    assert ask(engine, query) == Suggestion(unknown, corrected)
    if corrected is not None:
        assert ask(engine, corrected) == Suggestion()


def test_words_that_stand_beside_each_other_are_preferred_then_frequent_ones() -> None:
    texts = ["health care", "public health", "health of bees", "mental health"] * 5 + ["heart attack", "stack of paper"]
    engine = SearchEngine.from_texts(texts, n_bits=8, method="itq")
    assert ask(engine, "hearth").corrected == "health"
    assert ask(engine, "hearth atack").corrected == "heart attack"
    assert ask(engine, "atack of paper").corrected == "stack of paper"


def test_a_rare_word_beside_which_others_never_stand_may_be_misspelt() -> None:
    texts = ["the heart attack of a patient"] * 200 + ["a hearth of stone", "the attack"]
    engine = SearchEngine.from_texts(texts, n_bits=8, method="itq")
    assert ask(engine, "hearth attack") == Suggestion((), "heart attack")
    assert ask(engine, "hearth stone") == Suggestion()
    assert ask(engine, "hearth") == Suggestion()


def test_suggestions_follow_changes_of_the_documents(engine: SearchEngine) -> None:
    changing = SearchEngine.from_texts(["red apples", "green pears", "red plums"], n_bits=8, method="itq")
    assert ask(changing, "quinces") == Suggestion(("quinces",))
    changing.add([Document(3, "yellow quinces")])
    assert ask(changing, "quinzes") == Suggestion(("quinzes",), "quinces")
    changing.remove([3])
    assert ask(changing, "quinzes") == Suggestion(("quinzes",))


def test_a_query_without_a_known_word_is_an_error_that_names_the_correction(engine: SearchEngine) -> None:
    with pytest.raises(DataError, match=r"the query has no known word .* Did you mean 'heart attack'\?"):
        engine.search("hearth atack")


def test_a_long_query_is_not_corrected_but_its_unknown_words_are_named(engine: SearchEngine) -> None:
    query = " ".join(f"word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(300))
    found = ask(engine, query)
    assert len(found.unknown) == 50
    assert found.corrected is None
    assert ask(engine, "camera " * 20_000) == Suggestion()


@settings(max_examples=60)
@given(st.text(alphabet="abcд", max_size=6), st.text(alphabet="abcд", max_size=6))
def test_the_edit_distance_is_symmetric_and_bounded(first: str, second: str) -> None:
    distance = edit_distance(first, second)
    assert distance == edit_distance(second, first)
    assert abs(len(first) - len(second)) <= distance <= max(len(first), len(second))
    assert (distance == 0) == (first == second)


@settings(max_examples=40)
@given(query=st.text(max_size=40))
def test_any_query_gets_a_suggestion_or_none(engine: SearchEngine, query: str) -> None:
    assert ask(engine, query).corrected != query
