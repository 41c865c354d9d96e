"""Full-text search: awkward queries, and the index after changes, kills and damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fewbits import Document
from fewbits.errors import ParameterError
from fewbits.search.languages import guess_language
from fewbits.search.lexical import LexicalSnapshot
from fewbits.search.lexical_index import LexicalIndex
from fewbits.search.store.filters import Allowed
from fewbits.search.store.reader import Database, Reader
from fewbits.search.store.writer import create_database, record_change
from fewbits.search.words import parse, plain
from helpers.awkward import QUERIES, TEXTS


def database_of(texts: dict[int, str]) -> Database:
    database = create_database()
    with record_change(database) as writer:
        writer.insert([Document(id, text) for id, text in texts.items()], are_new=False)
    return database


def brought_up(database: Database, folder: Path | None = None, language: str | None = "english") -> LexicalIndex:
    index = LexicalIndex(folder, language)
    with database.reading() as connection:
        index.catch_up(Reader(connection))
    return index


def state(index: LexicalIndex, database: Database) -> LexicalSnapshot:
    with database.reading() as connection:
        found = index.at(Reader(connection).version())
    assert found is not None
    return found


@pytest.fixture(scope="module")
def awkward() -> LexicalSnapshot:
    database = database_of(TEXTS)
    return state(brought_up(database), database)


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_an_awkward_query_finds_its_document_first(awkward: LexicalSnapshot, query: str, expected: int) -> None:
    assert awkward.search(parse(query), 5).positions.tolist()[:1] == [expected]


def test_only_allowed_documents_are_found(awkward: LexicalSnapshot) -> None:
    assert awkward.search(parse("review camera"), 5, Allowed.of([3, 11])).positions.tolist() == [11]
    assert not len(awkward.search(parse("review camera"), 5, Allowed.of([])).positions)


def test_a_word_repeated_in_the_query_counts_twice(awkward: LexicalSnapshot) -> None:
    once, twice = (awkward.search(plain(text), 1).scores[0] for text in ("camera", "camera camera"))
    assert twice == pytest.approx(2 * once)


def test_words_that_no_document_has_cannot_be_answered(awkward: LexicalSnapshot) -> None:
    assert [awkward.has_word(word) for word in ("hearth", "atack", "the", "heart")] == [False, False, True, True]
    assert not awkward.can_answer(parse("hearth atack"))
    assert awkward.can_answer(parse("hearth attack"))


@pytest.mark.parametrize(
    "query", ["", " ", '""', "-", "*", "-only", ":", "a:b:c", '"', "((", "\x00", "🙂", "+", "OR NOT"]
)
def test_any_query_gets_an_answer(awkward: LexicalSnapshot, query: str) -> None:
    assert len(awkward.search(parse(query), 3).positions) <= 3


def test_a_query_of_100_000_characters_is_searched_by_its_rarest_words(awkward: LexicalSnapshot) -> None:
    query = "the camera of 2020 " * 5_000 + "zyzzyva"
    assert 31 in awkward.search(parse(query), 5).positions.tolist()


def test_a_filter_is_read_only_if_the_field_exists() -> None:
    assert parse("cats year:2020 http://x.org", ["year"]).filters == (("year", "2020"),)
    assert parse("cats year:2020", []).words == ("cats", "year:2020")


def test_a_long_query_is_text_without_operators() -> None:
    prose = 'I look for articles about text formatting systems, "what you see is what you get" - or scribe and -bravo'
    assert parse(prose) == plain(prose)
    title = '"a title of many words that somebody has copied with quotes around it to find exactly this document"'
    assert len(parse(title).phrases) == 1


def test_an_open_quote_ends_with_the_query() -> None:
    assert parse('an "open quote').phrases == ("open quote",)
    assert parse('an "open quote').notes


def test_many_allowed_documents_are_filtered_after_the_search() -> None:
    database = database_of({number: f"boat {number}" for number in range(1, 6_001)})
    snapshot = state(brought_up(database), database)
    allowed = Allowed.of(np.arange(2, 6_000))
    assert snapshot.search(plain("boat"), 3, allowed).positions.tolist() == [2, 3, 4]
    assert len(snapshot.search(plain("boat"), 6_000, allowed).positions) == len(allowed)


@pytest.mark.parametrize("count", [1, 100, 400, 450, 1_000, 1_100, 5_000])
def test_a_filter_gives_the_same_documents_within_the_query_and_after_it(count: int) -> None:
    generator = np.random.default_rng(count)
    texts = {number: " ".join(generator.choice(["boat", "mast", "wind"], 1 + number % 7)) for number in range(1, 6_001)}
    database = database_of(texts)
    snapshot = state(brought_up(database), database)
    allowed = Allowed.of(np.sort(generator.choice(6_000, count, replace=False) + 1))
    for query in ("boat", "mast wind"):
        everything = snapshot.search(plain(query), len(texts))
        passing = allowed.contains(everything.positions)
        found = snapshot.search(plain(query), 20, allowed)
        assert found.scores.tolist() == pytest.approx(everything.scores[passing][:20].tolist(), rel=1e-5)
        assert allowed.contains(found.positions).all()


def test_a_change_is_one_state_and_an_older_state_stays(tmp_path: Path) -> None:
    database = database_of({1: "alpha", 2: "beta"})
    index = brought_up(database, tmp_path / "lexical")
    before = state(index, database)
    with record_change(database) as writer:
        writer.remove([1])
        writer.insert([Document(3, "gamma")], are_new=True)
        index.stage(writer)
        assert index.at(writer.version()) is None
    index.commit(2)
    after = state(LexicalIndex(tmp_path / "lexical"), database)
    assert (before.version, len(before), after.version, len(after)) == (1, 2, 2, 2)
    assert before.search(plain("alpha"), 5).positions.tolist() == [1]
    assert not len(after.search(plain("alpha"), 5).positions)
    assert after.search(plain("gamma"), 5).positions.tolist() == [3]


def test_an_index_that_lags_or_is_ahead_becomes_that_of_the_documents(tmp_path: Path) -> None:
    database = database_of({1: "alpha", 2: "beta"})
    index = brought_up(database, tmp_path / "lexical")
    index.close()
    for turn in range(3):
        with record_change(database) as writer:
            writer.insert([Document(10 + turn, f"turn{turn}")], are_new=True)
    with database.reading() as connection:
        assert index.at(Reader(connection).version()) is None
    caught_up = state(brought_up(database, tmp_path / "lexical"), database)
    assert len(caught_up) == 5
    older = database_of({1: "older"})
    assert len(state(brought_up(older, tmp_path / "lexical"), older)) == 1


@pytest.mark.parametrize("suffix", ["meta.json", "lexical.json", "*.idx", "*.term", "*.fast", "*.store"])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_damaged_index_is_built_again(tmp_path: Path, suffix: str, is_deleted: bool) -> None:
    database = database_of(TEXTS)
    brought_up(database, tmp_path / "lexical")
    for path in (tmp_path / "lexical").glob(suffix):
        if is_deleted:
            path.unlink()
        else:
            os.truncate(path, path.stat().st_size // 2)
    assert LexicalIndex(tmp_path / "lexical").latest_version() == -1
    rebuilt = state(brought_up(database, tmp_path / "lexical"), database)
    assert len(rebuilt) == len(TEXTS)
    assert rebuilt.search(parse("zyzzyva"), 1).positions.tolist() == [31]


def test_an_index_of_a_newer_format_is_built_again(tmp_path: Path) -> None:
    database = database_of(TEXTS)
    brought_up(database, tmp_path / "lexical")
    (tmp_path / "lexical" / "lexical.json").write_text('{"format": 99, "language": "english"}')
    assert len(state(brought_up(database, tmp_path / "lexical"), database)) == len(TEXTS)


def test_verification_finds_words_that_are_not_those_of_the_documents() -> None:
    database, other = database_of({1: "alpha", 2: "beta"}), database_of({1: "alpha", 2: "gamma"})
    index = brought_up(database)
    with database.reading() as connection, other.reading() as connection_to_other:
        assert index.verify(Reader(connection)) is None
        assert index.verify(Reader(connection_to_other)) == "1 of 2 documents differ"


def test_the_language_is_guessed_only_where_it_is_clear() -> None:
    assert guess_language(["the cat sat on the mat and it was happy with the dog"]) == "english"
    assert guess_language(["le chat est sur la table et il est content avec le chien"]) == "french"
    assert guess_language(["и он не был в том доме, но это было так"]) == "russian"
    assert guess_language(["Η κυβέρνηση αποφάσισε τη Δευτέρα ότι οι φόροι δεν θα αυξηθούν."]) == "greek"
    assert guess_language(["قررت الحكومة يوم الاثنين عدم زيادة الضرائب هذا العام."]) == "arabic"
    assert guess_language(["دولت روز دوشنبه تصمیم گرفت که مالیات‌ها را امسال افزایش ندهد."]) is None  # Persian
    assert guess_language(["政府周一决定今年不提高税收。"]) is None
    assert guess_language(["cats purr softly", "RTX-4090"]) is None
    assert guess_language([]) is None
    with pytest.raises(ParameterError, match=r"the language is unknown \(allowed: arabic, .* none; got: 'klingon'\)"):
        LexicalIndex(None, "klingon")


WRITER = """
import sys
from pathlib import Path
from fewbits import Document
from fewbits.search.lexical_index import LexicalIndex
from fewbits.search.store.reader import Reader
from fewbits.search.store.writer import create_database, record_change
database, index = create_database(), LexicalIndex(Path(sys.argv[1]), "english")
for version in range(1, 10**6):
    with record_change(database) as writer:
        writer.insert([Document(version, f"state {version}")], are_new=True)
        if version > 1:
            writer.remove([version - 1])
    with database.reading() as connection:
        index.catch_up(Reader(connection))
    print(version, flush=True)
"""


@pytest.mark.slow
def test_a_kill_leaves_a_whole_state_that_was_committed(tmp_path: Path) -> None:
    for kills in range(5):
        folder = tmp_path / str(kills)
        with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            versions = [int(writer.stdout.readline()) for _ in range(2 + kills)]
            os.kill(writer.pid, signal.SIGKILL)
            versions += [int(line) for line in writer.stdout]
        index = LexicalIndex(folder)
        version = index.latest_version()
        assert version in (versions[-1], versions[-1] + 1)
        snapshot = index.at(version)
        assert snapshot is not None
        assert len(snapshot) == 1
        assert snapshot.search(plain(f"{version}"), 5).positions.tolist() == [version]
