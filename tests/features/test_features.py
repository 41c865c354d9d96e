from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from fewbits import ITQ, Dataset, Embeddings, SearchEngine, TextVectorizer, nearest_by_cosine
from fewbits.codes import pack
from fewbits.errors import DataError, EmptyDocumentsWarning, MissingFileError, ParameterError
from fewbits.features.embeddings import load_embeddings
from fewbits.features.neighbors import nearest_to_each, neighbors_by_pairs

WORD_PATTERN = r"\b[a-z][a-z]+\b"  # the protocol's
# Letters whose lower case or word character rules are special, beside plain ones and separators
CHARACTERS = st.sampled_from("abcXYZ aa  ..,-_'09éÉßªº×÷µİıſK’“—…中文字αΩъ\u0301\n\t\x85\xa0\u2028🙂")
TEXTS = st.lists(st.text(CHARACTERS, max_size=40), min_size=1, max_size=8)


def reference(**options: object) -> TfidfVectorizer:
    return TfidfVectorizer(**{"token_pattern": WORD_PATTERN, "stop_words": "english", "sublinear_tf": True, **options})


def assert_equal(ours: sparse.csr_array, theirs: sparse.csr_matrix) -> None:
    assert ours.shape == theirs.shape
    assert abs(ours - theirs).max() < 1e-6
    assert ours.nnz == theirs.nnz


@settings(max_examples=300)
@given(TEXTS, TEXTS)
def test_rows_of_any_texts_equal_those_of_scikit_learn(texts: list[str], others: list[str]) -> None:
    texts = [*texts, "plain words"]
    ours, theirs = TextVectorizer(), reference()
    assert_equal(ours.fit_transform(texts), theirs.fit_transform(texts))
    assert ours.vocabulary_ == theirs.get_feature_names_out().tolist()
    assert_equal(ours.transform(others), theirs.transform(others))


@given(TEXTS, TEXTS, st.sampled_from([None, r"\w\w+"]))
def test_the_row_of_one_text_is_to_the_bit_that_of_many(texts: list[str], others: list[str], pattern: str) -> None:
    vectorizer = TextVectorizer(token_pattern=pattern).fit([*texts, "plain words"])
    for text, row in zip(others, vectorizer.transform(others), strict=True):
        one = vectorizer.row(text)
        assert (one.shape, one.dtype, one.nnz) == ((1, vectorizer.n_features), np.float32, row.nnz)
        assert one.toarray()[0].tobytes() == row.toarray().tobytes()


@given(TEXTS)
def test_rows_with_a_token_pattern_equal_those_of_scikit_learn(texts: list[str]) -> None:
    texts = [*texts, "слова und wörter"]
    ours = TextVectorizer(token_pattern=r"\w\w+", stop_words=None)
    theirs = reference(token_pattern=r"\w\w+", stop_words=None)
    assert_equal(ours.fit_transform(texts), theirs.fit_transform(texts))
    assert ours.vocabulary_ == sorted(theirs.get_feature_names_out().tolist())


@pytest.mark.xdist_group("archives")
@pytest.mark.parametrize(("name", "size"), [("ng20", 7_164), ("reuters", 10_000)])
def test_features_of_a_benchmark_set_equal_those_of_scikit_learn(
    benchmark_set: Callable[[str], Dataset], name: str, size: int
) -> None:
    dataset = benchmark_set(name)
    theirs = reference(vocabulary=dataset.vocabulary).fit(dataset.train.texts)
    assert len(dataset.vocabulary) == size
    assert_equal(dataset.train.features, theirs.transform(dataset.train.texts))
    assert_equal(dataset.test.features, theirs.transform(dataset.test.texts))


@pytest.mark.xdist_group("archives")
@pytest.mark.parametrize("name", ["ng20", "reuters"])
def test_the_vocabulary_of_a_benchmark_set_holds_its_most_frequent_words(
    benchmark_set: Callable[[str], Dataset], name: str
) -> None:
    dataset = benchmark_set(name)
    counter = CountVectorizer(token_pattern=WORD_PATTERN, stop_words="english")
    counts = np.asarray(counter.fit_transform(dataset.train.texts).sum(axis=0)).ravel()
    kept = np.isin(counter.get_feature_names_out(), dataset.vocabulary)
    assert kept.sum() == len(dataset.vocabulary)
    assert counts[kept].min() >= counts[~kept].max()


def test_among_equally_frequent_words_tie_breakers_come_first_and_then_alphabetical_order() -> None:
    texts = ["pear fig apple plum grape grape"]
    assert TextVectorizer(max_features=3).fit(texts).vocabulary_ == ["apple", "fig", "grape"]
    chosen = TextVectorizer(max_features=3, tie_breakers=["plum", "unheard"]).fit(texts)
    assert chosen.vocabulary_ == ["apple", "grape", "plum"]


def test_tie_breakers_keep_their_former_name_as_a_parameter_and_in_saved_folders(tmp_path: Path) -> None:
    texts = ["pear fig apple plum grape grape"]
    former = TextVectorizer(max_features=3, kept_first=["plum"]).fit(texts)
    assert former.vocabulary_ == ["apple", "grape", "plum"]
    former.write(tmp_path)
    settings = json.loads((tmp_path / "vectorizer.json").read_text())["settings"]
    assert settings == {"max_features": 3, "stop_words": "english", "token_pattern": None, "kept_first": ["plum"]}
    assert TextVectorizer.read(tmp_path).tie_breakers == ["plum"]


def test_known_and_unknown_words_follow_the_tokenizer_of_the_vectorizer() -> None:
    vectorizer = TextVectorizer().fit(["a boat on the lake", "boats"])
    query = "The boat's house_boat, don't! What's a lake? LAKE x 2021 naïve o'foo _ boat"
    assert vectorizer.known_words(query) == ["boat", "lake"]
    assert vectorizer.unknown_words(query) == ["house_boat", "don't", "2021", "naïve", "o'foo"]
    assert vectorizer.known_words("") == vectorizer.unknown_words("") == []


def test_known_and_unknown_words_with_a_token_pattern_and_without_stop_words() -> None:
    vectorizer = TextVectorizer(token_pattern=r"\w+", stop_words=None).fit(["слова the house_boat", "x"])
    assert vectorizer.known_words("The Слова, x, boat, house_boat") == ["the", "слова", "x", "house_boat"]
    assert vectorizer.unknown_words("The Слова, y, boat, and of") == ["boat", "and", "of"]


@given(st.text(CHARACTERS, max_size=60))
def test_known_words_are_those_that_transform_counts(text: str) -> None:
    vectorizer = TextVectorizer().fit(["ab abc aa ba xyz", "abx"])
    row = vectorizer.transform([text])
    assert sorted(vectorizer.known_words(text)) == [vectorizer.vocabulary_[column] for column in sorted(row.indices)]


def test_the_choice_among_many_equally_frequent_words_is_alphabetical() -> None:
    words = ["".join(pair) for pair in product("bcdfghklmnpqrstvwxz", repeat=3)]  # thousands, each found once
    assert TextVectorizer(max_features=1000).fit([" ".join(words[::-1])]).vocabulary_ == words[:1000]


def test_a_stream_is_read_once_and_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewbits.features.vectorizer.BATCH", 3)
    texts = [f"common word{'abcdefgh'[n]} common" for n in range(8)]
    assert_equal(TextVectorizer().fit_transform(iter(texts)), reference().fit_transform(texts))
    vectorizer = TextVectorizer().fit(iter(texts))
    assert_equal(vectorizer.transform(iter(texts)), reference().fit(texts).transform(texts))


def test_rows_are_sparse_and_a_text_without_known_words_is_a_zero_row() -> None:
    vectorizer = TextVectorizer().fit(["red apples", "green pears"])
    rows = vectorizer.transform(["", "unknown", "pears"])
    assert sparse.issparse(rows)
    assert rows.dtype == np.float32
    assert np.diff(rows.indptr).tolist() == [0, 0, 1]
    assert vectorizer.transform([]).shape == (0, 4)


def test_a_written_vectorizer_reads_back_with_the_same_rows(tmp_path: Path) -> None:
    texts = ["red apples and пёс", "green pears and naïve café"]
    for vectorizer in (TextVectorizer(max_features=3), TextVectorizer(token_pattern=r"\w+", stop_words=None)):
        rows = vectorizer.fit_transform(texts)
        vectorizer.write(tmp_path)
        again = TextVectorizer.read(tmp_path)
        assert again.get_params() == vectorizer.get_params()
        assert np.array_equal(again.transform(texts).toarray(), rows.toarray())


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], r"there are no documents to learn from \(allowed: one or more; got: 0\)"),
        (["", "...", "a 1 the"], r"the documents contain no words.*For texts in other scripts set token_pattern"),
        ("one text", r"expected texts, not a single text.*Pass \[text\]"),
        (["fine", 5], r"document 1 is not a text \(allowed: str; got: int\)"),
    ],
)
def test_fitting_an_unusable_corpus_raises_an_error_with_the_reason(texts: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        TextVectorizer().fit(texts)


def test_invalid_parameters_and_use_before_fit_raise_errors() -> None:
    with pytest.raises(ParameterError, match=r"max_features is out of range \(allowed: 1 or more; got: 0\)"):
        TextVectorizer(max_features=0).fit(["word"])
    with pytest.raises(ParameterError, match=r"stop_words is unknown \(allowed: 'english' or None; got: 'german'\)"):
        TextVectorizer(stop_words="german").fit(["wort"])
    with pytest.raises(ParameterError, match=r"token_pattern is not a valid regular expression \(got: '\(': missing"):
        TextVectorizer(token_pattern="(").fit(["word"])
    with pytest.raises(ParameterError, match=r"token_pattern has several groups"):
        TextVectorizer(token_pattern="(a)(b)").fit(["word"])
    with pytest.raises(NotFittedError):
        TextVectorizer().transform(["word"])


@pytest.mark.xdist_group("archives")
def test_encoding_keeps_pace_with_the_vectorizer_of_scikit_learn(
    benchmark_set: Callable[[str], Dataset],
) -> None:
    dataset = benchmark_set("ng20")
    assert dataset.train.texts is not None
    assert dataset.test.texts is not None
    theirs = reference(max_features=7_164).fit(dataset.train.texts)
    ours = TextVectorizer(max_features=7_164).fit(dataset.train.texts)
    hasher = ITQ(64, random_state=0).fit(dataset.train.features)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(5):
        for name, encode in (
            ("ours", lambda texts: pack(hasher.transform(ours.transform(texts)))),
            ("theirs", theirs.transform),
        ):
            start = time.perf_counter()
            encode(dataset.test.texts)
            seconds[name].append(time.perf_counter() - start)
    ratio = min(seconds["theirs"]) / min(seconds["ours"])
    print(f"text to packed code runs at {ratio:.2f} times the speed of TfidfVectorizer.transform alone")
    strict = "FEWBITS_STRICT" in os.environ  # on an idle machine
    assert ratio >= (0.8 if strict else 0.4)


def test_embeddings_are_scaled_to_unit_length_and_zero_stays_zero() -> None:
    rows = Embeddings().fit_transform([[3, 4], [0, 0]])
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, float("nan")]], "not finite"),
        ([["a", "b"]], "embeddings must be numbers"),
        (np.zeros((2, 2, 2)), "embeddings must be a table"),
        ([[1.0, 2.0, 3.0]], r"differ in dimension from those used in fit \(allowed: 2; got: 3\)"),
    ],
)
def test_invalid_embeddings_raise_an_error(rows: ArrayLike, message: str) -> None:
    fitted = Embeddings().fit(np.eye(2))
    with pytest.raises(DataError, match=message):
        fitted.transform(rows)


def test_embeddings_are_read_from_npy_files_only(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    assert load_embeddings(tmp_path / "a.npy").shape == (3, 3)
    (tmp_path / "b.npy").write_text("plain")
    with pytest.raises(DataError, match=r"b.npy is not a table of numbers in .npy format"):
        load_embeddings(tmp_path / "b.npy")
    with pytest.raises(MissingFileError, match=r"c.npy does not exist"):
        load_embeddings(tmp_path / "c.npy")


@pytest.mark.parametrize("block", [1, 70, 1 << 25])  # rows of 10: one, seven, and all at a time
def test_nearest_to_each_are_the_nearest_others_for_every_block_size(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewbits.features.neighbors.MAX_DENSE_VALUES", block)
    generator = np.random.default_rng(0)
    rows = generator.random((40, 10)).astype(np.float32) * (generator.random((40, 10)) < 0.6)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    similarities = rows @ rows.T
    np.fill_diagonal(similarities, -np.inf)
    expected = np.argsort(-similarities, axis=1)[:, :5]
    assert np.array_equal(nearest_to_each(rows, 5), expected)
    assert np.array_equal(nearest_to_each(sparse.csr_array(rows), 5), expected)


def test_neighbors_by_pairs_ignore_directions_in_which_similar_pairs_differ() -> None:
    generator = np.random.default_rng(0)
    topics = generator.integers(0, 4, 400)
    topic = np.eye(4)[topics]
    style = 3 * generator.standard_normal((400, 6))  # far larger, and independent of the topic
    rows = np.hstack([topic, style]).astype(np.float32)
    left = generator.integers(0, 400, 200)
    right = np.array([generator.choice(np.flatnonzero(topics == topics[row])) for row in left])

    def purity(similar_pairs: NDArray[np.int64] | None) -> float:
        return float((topics[neighbors_by_pairs(rows, 10, similar_pairs)] == topics[:, None]).mean())

    assert purity(None) < 0.45
    assert purity(np.stack([left, right], axis=1)) > 0.95
    assert purity(np.stack([left, left], axis=1)) == purity(None)  # pairs that do not differ have no effect
    assert purity(np.zeros((0, 2), dtype=np.int64)) == purity(None)


@given(st.integers(1, 12), st.integers(1, 30), st.integers(1, 35), st.integers(0, 2**32 - 1))
def test_nearest_by_cosine_is_the_stable_order_of_all_similarities(q: int, n: int, k: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    queries, database = (generator.integers(0, 3, (rows, 4)).astype(np.float32) for rows in (q, n))  # many ties
    expected = np.argsort(-(queries @ database.T), axis=1, kind="stable")[:, :k]
    assert np.array_equal(nearest_by_cosine(queries, database, k), expected)
    assert np.array_equal(nearest_by_cosine(sparse.csr_array(queries), sparse.csr_array(database), k), expected)


def test_texts_without_a_word_are_named_in_a_warning() -> None:
    with pytest.warns(EmptyDocumentsWarning, match=r"2 of 3 documents are empty and have no word .* \(rows 1, 2\)"):
        TextVectorizer().fit(["boats on a lake", "", "a"])


@pytest.mark.parametrize(("rows", "got"), [(np.zeros((0, 4)), "no embeddings"), (np.zeros((9, 4)), "only zeros")])
def test_embeddings_of_which_nothing_can_be_learned_are_a_clear_error(rows: ArrayLike, got: str) -> None:
    with pytest.raises(DataError, match=f"there is nothing to learn from .*got: {got}"):
        SearchEngine.from_embeddings(rows, n_bits=4)
