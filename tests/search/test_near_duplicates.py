"""Near-duplicates by words: compared with brute force, numbers and codes, what differs, and which documents stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from fewbits import Document, SearchEngine
from fewbits.errors import DataError, ParameterError
from fewbits.search import DuplicateOptions, find_pairs
from fewbits.search.near_duplicates import FoundPairs, group_rows
from fewbits.search.text_differences import describe_change, read_numbers, same_numbers
from fewbits.search.word_rows import count_words, normalized_words
from fewbits.search.words import split

CARDS = [
    "The RTX-4090 graphics card with 24 GB of memory is fast",
    "The RTX-3080 graphics card with 24 GB of memory is fast",
    "the RTX 4090 graphics card, with 24 GB of memory, is FAST!",
]


def words_of(text: str) -> list[str]:
    return split(text).words.split()


def expanded(found: FoundPairs) -> set[tuple[int, int]]:
    """Return all pairs, also those of rows with the same words."""
    rows: dict[int, list[int]] = {}
    for row, original in enumerate(found.originals.tolist()):
        rows.setdefault(original, []).append(row)
    near = [*zip(found.pairs.left.tolist(), found.pairs.right.tolist(), strict=True), *((one, one) for one in rows)]
    return {(min(a, b), max(a, b)) for left, right in near for a in rows[left] for b in rows[right] if a != b}


def pairs_by_brute_force(texts: list[str], min_similarity: float) -> set[tuple[int, int]]:
    table = TfidfVectorizer(analyzer=words_of).fit_transform(texts)
    near = np.argwhere((table @ table.T).toarray() >= min_similarity - 1e-5)
    return {(int(left), int(right)) for left, right in near if left < right}


def edited_texts(generator: np.random.Generator, count: int, vocabulary: int) -> list[str]:
    """Make texts of Zipfian words, of which a half are edits of others."""
    names = np.array([f"w{chr(97 + number % 26)}{number}x" for number in range(vocabulary)])
    chances = 1 / np.arange(1, vocabulary + 1)
    texts: list[str] = []
    for number in range(count):
        if number % 2 and texts:
            words = texts[generator.integers(len(texts))].split()
            for _ in range(generator.integers(0, 1 + len(words) // 4)):
                words[generator.integers(len(words))] = names[generator.integers(vocabulary)]
        else:
            words = names[generator.choice(vocabulary, generator.integers(3, 60), p=chances / chances.sum())].tolist()
        texts.append(" ".join(words))
    return texts


@pytest.mark.parametrize(("vocabulary", "count"), [(300, 400), (5_000, 1_500)])
@pytest.mark.parametrize("min_similarity", [0.7, 0.8, 0.9])
def test_pairs_of_edited_texts_are_those_of_brute_force(vocabulary: int, count: int, min_similarity: float) -> None:
    texts = edited_texts(np.random.default_rng(vocabulary), count, vocabulary)
    found = expanded(find_pairs(lambda: texts, min_similarity, "word"))
    expected = pairs_by_brute_force(texts, min_similarity)
    assert len(expected) > 100
    assert found <= expected
    assert len(found & expected) >= 0.98 * len(expected)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(blacklist_categories=["Cs"]) | st.sampled_from(" -./_&+#@:\n\tAb1é京大"), max_size=60))
def test_words_are_those_of_the_lexical_index(text: str) -> None:
    plain = "".join(one if one.isascii() or not one.isdigit() else " " for one in text)
    expected = " ".join(words_of(plain))
    _, hashes, counts = count_words([plain])
    _, expected_hashes, expected_counts = count_words([expected])
    assert (hashes.tolist(), counts.tolist()) == (expected_hashes.tolist(), expected_counts.tolist())
    assert len(hashes) == len(set(words_of(plain)))


def test_words_of_texts_longer_than_a_piece_are_counted_once() -> None:
    long = "alpha beta gamma1 " * 200_000
    _, words, counts = count_words([long, "beta"])
    assert sorted(counts.tolist()) == [1, 65_535, 65_535, 65_535]
    assert len(set(words.tolist())) == 3
    assert len(count_words([long], without_numbers=True)[1]) == 2
    assert normalized_words("Grève 2024") == "grève 2024"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("an RTX-4090", "an RTX-3080"),
        ("it costs $3.50", "it costs $350"),
        ("it costs 3.50", "it costs 50.3"),
        ("part 8J0-035-500-F", "part 8J0-035-500-G"),
        ("version 2.1.3 is out", "version 2.1.4 is out"),
        ("on 2024-01-05", "on 2024-01-06"),
        ("they won 3-2", "they won 2-3"),
        ("at -5 degrees", "at 5 degrees"),
        ("iPhone 15", "iPhone"),
        ("iPhone 15 and 15 cases", "iPhone 15 and 16 cases"),
        ("Lieferung am 3. Mai", "Lieferung am 4. Mai"),
        ("价格３９９９元", "价格2999元"),
    ],
)
def test_texts_that_differ_in_a_number_or_code_are_told_apart(left: str, right: str) -> None:
    assert not same_numbers(left, right)
    assert not same_numbers(right, left)
    padding = " with the same many words around it so that the cosine is large"
    texts = [left + padding, right + padding]
    assert not expanded(find_pairs(lambda: texts, 0.5))
    assert expanded(find_pairs(lambda: texts, 0.5, "ignore")) == {(0, 1)}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("an RTX-4090", "an rtx 4090"),
        ("an RTX-4090", "AN RTX4090!"),
        ("for $1,599", "for $1599."),
        ("on 2024/01/05", "on 2024-01-05"),
        ("价格３９９９元", "价格 3999 元"),
        ("٤٢ cats", "42 cats"),
        ("no number", "none at all"),
    ],
)
def test_another_way_to_write_a_number_or_code_is_no_difference(left: str, right: str) -> None:
    assert same_numbers(left, right)
    assert same_numbers(right, left)


def test_a_long_text_without_spaces_is_searched_for_numbers_in_linear_time() -> None:
    assert read_numbers("a" * 1_000_000 + "7").values == ("7",)
    assert read_numbers("-" * 1_000_000 + " 7-" * 1000).values == ("7",) * 1000


def test_what_differs_is_named() -> None:
    assert describe_change("a b", "a b") == ("identical", ())
    assert describe_change("A  b!", "a b")[0] == "only case, spaces or punctuation differ"
    assert describe_change("one two three", "three one two")[0] == "only the order of the words differs"
    reason, [change] = describe_change("lot 12 costs 30 dollars", "lot 12 costs 31 dollars")
    assert (reason, change.removed, change.added) == ("numbers differ", "30", "31")
    reason, changes = describe_change("the lazy dog sleeps here", "the lazy cat sleeps over here")
    assert reason == "words differ"
    assert [(change.removed, change.added) for change in changes] == [("dog", "cat"), ("", "over")]


def test_groups_name_what_differs_and_numbers_decide_unless_asked() -> None:
    engine = SearchEngine.from_texts([*CARDS, "cats purr", "stocks fell"], n_bits=8, method="itq")
    [group] = engine.duplicates()
    assert (group.representative, group.others, group.left_out) == (0, (2,), (2,))
    assert (group.matches[0].id, group.matches[0].of, group.matches[0].similarity) == (2, 0, 1.0)
    assert "punctuation" in group.matches[0].reason
    [group] = engine.duplicates(numbers="ignore")
    assert (group.representative, group.others) == (0, (1, 2))
    assert group.matches[0].reason == "numbers differ"
    assert [(one.removed, one.added) for one in group.matches[0].changes] == [("RTX-4090", "RTX-3080")]


def chain(length: int = 30, links: int = 4) -> list[str]:
    """Make texts of which each is a near-duplicate of the next, but not of the one after."""
    words = [f"w{chr(97 + number % 26) * (1 + number // 26)}" for number in range(length + 3 * links)]
    return [" ".join(words[3 * link : 3 * link + length]) for link in range(links)]


def test_a_document_is_left_out_only_if_it_is_similar_to_one_that_stays() -> None:
    texts = chain()
    found = find_pairs(lambda: texts, 0.8, "word")
    assert expanded(found) == pairs_by_brute_force(texts, 0.8)
    [group] = group_rows(found, DuplicateOptions())
    near = expanded(found)
    for row in group.left_out:
        assert any((min(row, kept), max(row, kept)) in near for kept in group.kept)
    assert len(group.kept) > 1
    assert {match.row for match in group.matches} == {1, 2, 3}


@pytest.mark.parametrize(("prefer", "kept"), [("first", (0, 1)), ("longest", (2, 0)), ("newest", (3, 2))])
def test_the_preferred_documents_of_a_group_stay(prefer: str, kept: tuple[int, ...]) -> None:
    texts = ["a b c d e f", "a b c d e f", "a b c d e f ...", "A b c d e f", "other words here"]
    lengths = [len(text) for text in texts]
    [group] = group_rows(find_pairs(lambda: texts), DuplicateOptions(keep=2, prefer=prefer), lengths)
    assert group.kept == kept
    assert len(group.left_out) == 2


def test_a_larger_similarity_selects_among_the_pairs_found() -> None:
    texts = edited_texts(np.random.default_rng(7), 600, 2_000)
    all_pairs = find_pairs(lambda: texts, 0.6, "word").pairs
    direct = find_pairs(lambda: texts, 0.85, "word").pairs
    selected = all_pairs.at_least(0.85)
    both = ({*zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)} for pairs in (selected, direct))
    found, expected = both
    assert len(found ^ expected) <= 0.02 * len(expected)


def test_an_engine_finds_pairs_once_and_again_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SearchEngine.from_texts([*CARDS, "cats purr", "stocks fell"], n_bits=8, method="itq").save(tmp_path / "engine")
    expected = SearchEngine.load(tmp_path / "engine").duplicates(min_similarity=0.6)
    calls = []

    def counting(*arguments: object) -> FoundPairs:
        calls.append(arguments)
        return find_pairs(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("fewbits.search.duplicates.find_pairs", counting)
    loaded = SearchEngine.load(tmp_path / "engine")
    assert loaded.duplicates(min_similarity=0.6) == expected
    assert loaded.duplicates(min_similarity=0.95) == expected
    assert not calls
    loaded.add([Document(9, "cats purr!")])
    assert {group.representative for group in loaded.duplicates()} == {0, 3}
    assert len(calls) == 1
    [cache] = (tmp_path / "engine").rglob("duplicates-same.safetensors")
    cache.write_bytes(cache.read_bytes()[:-3] + b"xyz")
    assert {group.representative for group in SearchEngine.load(tmp_path / "engine").duplicates()} == {0, 3}
    assert len(calls) == 2


def test_one_text_is_compared_with_all_documents() -> None:
    engine = SearchEngine.from_texts([*CARDS[:2], "cats purr", "stocks fell"], n_bits=8, method="itq")
    found = engine.is_duplicate("the rtx 3080 graphics card with 24 GB of memory is fast!")
    assert found is not None
    assert (found.id, found.of, found.similarity) == (None, 1, 1.0)
    assert engine.is_duplicate("the rtx 3090 graphics card with 24 GB of memory is fast!") is None
    other = engine.is_duplicate("the rtx 3090 graphics card with 24 GB of memory is fast!", numbers="ignore")
    assert other is not None
    assert other.reason == "numbers differ"
    assert engine.is_duplicate("something else") is None
    assert engine.is_duplicate("") is None
    engine.add([Document(10, "something else!")])
    added = engine.is_duplicate("something else")
    assert added is not None
    assert added.of == 10
    with pytest.raises(DataError, match="not a text"):
        engine.is_duplicate(None)  # type: ignore[arg-type]


def test_texts_without_words_are_duplicates_only_if_they_are_equal() -> None:
    texts = ["", "  ", "!!!", "!!! ", "???", "👍", "👍"]
    found = find_pairs(lambda: texts)
    assert expanded(found) == {(2, 3), (5, 6)}
    assert found.n_empty == 2


def test_many_variants_of_one_text_are_one_group_without_comparing_all() -> None:
    generator = np.random.default_rng(0)
    template = " ".join(f"boiler{chr(97 + number % 26) * (1 + number // 26)}plate" for number in range(260))
    texts = [f"{template} name{generator.integers(10**9):x}q" for _ in range(3_000)]
    found = find_pairs(lambda: texts, 0.7, "word")
    [group] = group_rows(found, DuplicateOptions(min_similarity=0.7))
    assert len(group.matches) == len(texts) - 1
    assert len(found.pairs) < len(texts) * 300


def test_no_texts_and_one_text_have_no_duplicates() -> None:
    for texts in ([], ["one"], ["", ""]):
        assert not len(find_pairs(lambda texts=texts: texts).pairs)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_similarity": 0.3}, r"min_similarity, a cosine, is out of range \(allowed: 0.5 to 1; got: 0.3\)"),
        ({"numbers": "maybe"}, r"numbers is unknown \(allowed: same, word, ignore; got: 'maybe'\)"),
        ({"prefer": "best"}, r"prefer is unknown \(allowed: first, longest, newest; got: 'best'\)"),
        ({"keep": 0}, r"keep, the number of documents of a group that stay, is out of range"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str) -> None:
    engine = SearchEngine.from_texts(CARDS, n_bits=8, method="itq")
    with pytest.raises(ParameterError, match=message):
        engine.duplicates(**options)  # type: ignore[arg-type]
