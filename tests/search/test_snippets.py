"""Snippets: which part of a document is shown, and which of its words are marked."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewbits.search.snippets import SNIPPET_LENGTH, Highlighter
from fewbits.search.words import make_analyzer, parse


def highlighter(query: str, language: str | None = "english") -> Highlighter:
    analyzers = make_analyzer(language), make_analyzer(language, without_function_words=True)
    return Highlighter.of(parse(query), *analyzers)


def marked(query: str, text: str, language: str | None = "english") -> list[str]:
    return [text[start:end] for start, end in highlighter(query, language).spans(text)]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("heart attacks", "He attacked; the HEART of hearts", ["attacked", "HEART", "hearts"]),
        ("the heart", "the heart of the matter", ["heart"]),
        ('"blood pressure"', "Pressures of the blood", ["Pressures", "blood"]),
        ("transf*", "A transformer transfers, transit", ["transformer", "transfers"]),
        ("RTX-4090", "RTX4090, rtx_4090 and an RTX 3080", ["RTX4090", "rtx_4090", "RTX"]),
        ("heart -attack", "a heart attack", ["heart"]),
        ("C++", "C++ and D", ["C++"]),
        ("greve", "Grève à Paris", ["Grève"]),
        ("大学", "北京大学生", ["大学"]),
        ("学生 大学", "北京大学生", ["大学生"]),
        ("", "anything", []),
    ],
)
def test_words_are_marked_by_stem_code_prefix_and_pairs_of_characters(
    query: str, text: str, expected: list[str]
) -> None:
    assert marked(query, text, "french" if query == "greve" else "english") == expected


def test_the_part_with_the_most_different_words_of_the_query_is_shown() -> None:
    filler = "nothing of interest stands here, only filler. " * 20
    text = f"A title\n{filler}one heart. {filler}a heart attack with high blood pressure{filler}"
    snippet = highlighter("heart attack blood").snippet(text)
    assert snippet.title == "A title"
    assert "heart attack with high blood" in snippet.text
    assert snippet.text.startswith("… ")
    assert snippet.text.endswith(" …")
    assert [snippet.text[start:end] for start, end in snippet.marks] == ["heart", "attack", "blood"]


def test_the_beginning_is_shown_where_no_word_of_the_query_occurs() -> None:
    text = "word " * 500
    snippet = highlighter("absent").snippet(text)
    assert text.startswith(snippet.text.removesuffix(" …"))
    assert (snippet.title, snippet.marks) == ("", ())


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=2_000), st.text(alphabet="abc 大学é1-", max_size=20))
def test_snippets_of_any_text_are_short_parts_of_it_with_marks_inside(text: str, query: str) -> None:
    found = highlighter(query, None).snippet(text + " abc 大学")
    shown = found.text.removeprefix("… ").removesuffix(" …")
    assert shown in " ".join((text + " abc 大学").split())
    assert len(shown) <= SNIPPET_LENGTH
    ends = [0, *(place for mark in found.marks for place in mark), len(found.text)]
    assert ends == sorted(ends)


def test_a_long_document_of_matching_words_takes_little_time() -> None:
    words = [f"word{number}" for number in range(2_000)]
    text = " ".join(random.Random(0).choices(words, k=15_000))
    found = highlighter(" ".join(words[:10])).snippet(text)
    assert len(found.marks) > 0
    assert len(found.text) < SNIPPET_LENGTH + 10
