"""States of an engine: caches, changes during a snapshot, and failed copies."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fewbits import Document, SearchEngine
from fewbits.errors import ParameterError
from fewbits.index import make_index
from fewbits.search import ModelInfo
from fewbits.search.store.reader import Reader
from fewbits.search.store.writer import Writer, create_database, record_change


def test_the_public_surface_of_the_engine_stays_small() -> None:
    assert len([name for name in dir(SearchEngine) if not name.startswith("_")]) <= 25


def test_bits_without_loadings_follow_the_documents(documents: list[Document], tmp_path: Path) -> None:
    SearchEngine.from_documents(documents, n_bits=16, method="sph").save(tmp_path / "engine")
    engine = SearchEngine.load(tmp_path / "engine")
    before = engine.bits()
    engine.add([Document(f"new-{number}", "garlic galaxies wind mast") for number in range(200)])
    after = engine.bits()
    assert after != before
    assert after == SearchEngine.load(tmp_path / "engine").bits()


def test_a_snapshot_answers_from_its_own_state_while_the_engine_changes(engine: SearchEngine) -> None:
    with engine.snapshot() as snapshot:
        engine.remove(["cooking-0"])
        assert snapshot.count() == len(list(snapshot.documents())) == 60
        assert snapshot.document("cooking-0").labels == ("cooking",)
    with engine.snapshot() as snapshot:
        assert snapshot.count() == 59


def test_old_keywords_still_work(engine: SearchEngine) -> None:
    for rerank in ("none", "bits", "words"):
        assert engine.search("boat", 5, rescore=rerank) == engine.search("boat", 5, rerank=rerank)
        assert engine.similar("sailing-1", 5, rescore=rerank) == engine.similar("sailing-1", 5, rerank=rerank)
        assert engine.search_many(["boat"], 5, rescore=rerank) == [engine.search("boat", 5, rerank=rerank)]
    assert engine.duplicates(9, alike=0.5) == engine.duplicates(9, min_similarity=0.5)


def test_the_copy_of_a_database_is_closed_when_the_block_fails(tmp_path: Path) -> None:
    database = create_database()
    with pytest.raises(RuntimeError, match="no luck"), database.copied_to(tmp_path / "copy.sqlite") as copy:
        raise RuntimeError("no luck")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        copy.execute("SELECT 1")


def test_only_a_recorded_change_gets_a_version() -> None:
    database = create_database()
    with database.reading() as connection:
        assert Reader(connection).version() == Writer(connection).version() == 0
    with record_change(database) as writer:
        writer.insert([Document("a", "boat")], are_new=True)
    with database.reading() as connection:
        assert Reader(connection).version() == 1


def test_model_info_of_an_earlier_version_can_be_read() -> None:
    content = {"method": "itq", "documents_learnt_from": 7, "bit_balance": [0.5], "created": "then", "fewbits": "0.1"}
    info = ModelInfo.from_json({**content, "features": "text"})
    assert info.documents_when_learnt == 7
    assert info == ModelInfo.from_json(info.as_json())


def test_an_unknown_kind_of_index_is_refused_with_the_known_ones() -> None:
    assert make_index("flat", 8).n_bits == 8
    with pytest.raises(ParameterError, match=r"the kind of index is unknown \(allowed: flat; got: 'tree'\)"):
        make_index("tree", 8)
