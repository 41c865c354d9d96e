"""Changes of an engine: documents are added, updated and removed; the model stays the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fewbits import Document, SearchEngine
from fewbits.errors import DataError, UnknownIdError
from helpers.corpora import tiny_documents

TEXTS = st.sampled_from(["boat mast harbour", "garlic soup", "stars and planets", "wind", "xyzzy", ""])
NUMBERS = st.lists(st.integers(0, 15), max_size=6, unique=True)


class EngineAgainstDictionary(RuleBasedStateMachine):
    """Any sequence of changes, through two engines on one folder, leaves what a dictionary would hold."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()

    @initialize()
    def start(self) -> None:
        folder = Path(self.place.name) / "engine"
        SearchEngine.from_documents(tiny_documents(30), n_bits=12, method="itq").save(folder)
        self.writer, self.reader = SearchEngine.load(folder), SearchEngine.load(folder)
        self.model = {document.id: document for document in tiny_documents(30)}
        self.changed: set[Any] = set()

    def make(self, numbers: list[int], text: str) -> list[Document]:
        return [Document(f"d{n}", f"{text} {n}", ("even",) if n % 2 == 0 else (), {"n": n}) for n in numbers]

    @rule(numbers=NUMBERS, text=TEXTS)
    def add(self, numbers: list[int], text: str) -> None:
        documents = self.make(numbers, text)
        if any(document.id in self.model for document in documents):
            with pytest.raises(DataError, match="exists already"):
                self.writer.add(documents)
        else:
            assert self.writer.add(documents) == len(documents)
            self.model |= {document.id: document for document in documents}
            self.changed |= {document.id for document in documents}

    @rule(numbers=NUMBERS, text=TEXTS)
    def update(self, numbers: list[int], text: str) -> None:
        documents = self.make(numbers, text)
        if any(document.id not in self.model for document in documents):
            with pytest.raises(UnknownIdError, match="no document has the id"):
                self.writer.update(documents)
        else:
            self.writer.update(documents)
            self.model |= {document.id: document for document in documents}  # an existing id keeps its position

    @rule(numbers=NUMBERS)
    def remove(self, numbers: list[int]) -> None:
        ids = [f"d{n}" for n in numbers]
        if any(id not in self.model for id in ids):
            with pytest.raises(UnknownIdError, match="no document has the id"):
                self.writer.remove(ids)
        else:
            self.writer.remove(ids)
            for id in ids:
                del self.model[id]
                self.changed.discard(id)

    @invariant()
    def both_engines_equal_the_dictionary(self) -> None:
        labelled = {id for id, document in self.model.items() if "even" in document.labels}
        even = {id for id in labelled if self.is_known(self.model[id])}
        for engine in (self.writer, self.reader):
            assert list(engine.documents()) == list(self.model.values())
            assert len(engine) == sum(map(self.is_known, self.model.values()))
            assert {hit.id for hit in engine.search("boat soup stars wind", k=1, labels=["even"])} <= even
            with engine.snapshot() as snapshot:
                assert snapshot.words is not None
                assert snapshot.words.version == snapshot.version
                assert len(snapshot.words) == len(self.model)
            by_words = engine.search("xyzzy garlic boat", k=len(self.model), rank="words")
            assert {hit.id for hit in by_words} == {id for id, d in self.model.items() if self.has_one(d.text)}
            found = engine.within("boat soup stars wind", 12, labels=["even"])
            assert {hit.id for hit in found} == even
            assert engine.info()["drift"]["new_documents"] == len(self.changed)

    def is_known(self, document: Document) -> bool:
        return bool(document.text.strip(" 0123456789")) and "xyzzy" not in document.text

    def has_one(self, text: str) -> bool:
        return bool({"xyzzy", "garlic", "boat", "boats"} & set(text.split()))

    @rule()
    def save_and_load_again(self) -> None:
        folder = Path(self.place.name) / "engine"
        self.writer.save(folder)
        self.writer = SearchEngine.load(folder)

    def teardown(self) -> None:
        self.place.cleanup()


TestEngineAgainstDictionary = EngineAgainstDictionary.TestCase
TestEngineAgainstDictionary.settings = settings(max_examples=8, stateful_step_count=12)


def test_a_reader_that_missed_more_changes_than_are_recorded_reads_everything(
    engine: SearchEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewbits.search.store.writer.MAX_CHANGES", 5)
    engine.save(tmp_path / "engine")
    writer, reader = (SearchEngine.load(tmp_path / "engine") for _ in range(2))
    assert len(reader) == 60
    writer.remove(["cooking-0", "sailing-1"])
    writer.add([Document(f"new-{n}", "boat mast") for n in range(9)])
    writer.update([Document("new-3", "garlic soup")])
    assert len(reader) == 67
    assert [hit.id for hit in reader.search("garlic soup", k=1)] == ["new-3"]
    assert "cooking-0" not in reader


def test_new_documents_of_the_same_kind_need_no_retraining(engine: SearchEngine) -> None:
    assert engine.info()["drift"]["advice"] == "No documents have been added or updated since training."
    engine.add([Document("one", "boat")])
    assert "Too few new documents" in engine.info()["drift"]["advice"]
    engine.add([Document(f"new {d.id}", d.text) for d in tiny_documents(60)[15:59]])
    drift = engine.info()["drift"]
    assert (drift["new_documents"], drift["retrain"]) == (45, False)
    assert drift["unknown_words_new"] == 0
    assert "retraining is not needed" in drift["advice"]


def test_new_words_and_new_topics_are_a_reason_to_retrain(engine: SearchEngine) -> None:
    engine.add(
        [Document(f"law-{n}", f"the court heard a plaintiff and dismissed the garlic appeal {n}") for n in range(40)]
    )
    drift = engine.info()["drift"]
    assert drift["retrain"] is True
    assert "of the words of new documents are unknown, compared with 0% in training" in drift["advice"]
    assert drift["unknown_words_new"] == pytest.approx(
        5 / 6, abs=1e-4
    )  # court, heard, plaintiff, dismissed, appeal; not garlic
    assert drift["bit_shift"] > drift["bit_shift_by_chance"]
    assert "share of ones per bit has changed" in drift["advice"]


def test_metadata_that_is_not_json_is_refused() -> None:
    for metadata in ({"when": object()}, {"x": float("nan")}, {1: 2}):
        with pytest.raises(DataError, match="the metadata of 'a'"):
            Document("a", "text", (), metadata)  # type: ignore[arg-type]


def test_a_single_text_is_refused_as_a_list_of_ids(engine: SearchEngine) -> None:
    with pytest.raises(DataError, match=r"ids must be a list \(got: 'boat'\)"):
        engine.remove("boat")


def test_an_engine_of_an_older_format_is_refused_with_a_hint(engine: SearchEngine, tmp_path: Path) -> None:
    import json

    from fewbits.errors import BrokenFolderError
    from fewbits.storage import _checksum

    engine.save(tmp_path / "engine")
    path = tmp_path / "engine" / "manifest.json"
    manifest = {**json.loads(path.read_text()), "version": 1}
    del manifest["checksum"]
    path.write_text(json.dumps({**manifest, "checksum": _checksum(manifest)}))
    with pytest.raises(BrokenFolderError, match=r"has an older format .*got: 1\). Create it again from its documents"):
        SearchEngine.load(tmp_path / "engine")


def test_an_update_that_names_an_id_twice_far_apart_changes_nothing() -> None:
    documents = tiny_documents(5_000)  # more than are encoded and stored at one time
    engine = SearchEngine.from_documents(documents, n_bits=16, method="lsh")
    again = [Document(document.id, "wind and waves") for document in [*documents, documents[0]]]
    with pytest.raises(DataError, match=f"the id '{documents[0].id}' is given twice"):
        engine.update(again)
    assert next(engine.documents()) == documents[0]


def test_a_search_goes_by_the_present_words_of_fitted_updated_and_added_documents(tmp_path: Path) -> None:
    documents = tiny_documents(30)
    in_memory = SearchEngine.from_documents(documents, n_bits=12, method="itq")
    in_memory.save(tmp_path / "engine")
    engine = SearchEngine.load(tmp_path / "engine")
    for changing in (in_memory, engine):
        changing.update([Document(documents[0].id, "garlic soup"), Document(documents[7].id, "wind and stars")])
        changing.add([Document("fresh", "garlic and boat")])
        changing.remove([documents[3].id])
    engine.save(tmp_path / "again")
    again = SearchEngine.load(tmp_path / "again")
    for query in ("garlic soup", "boat", "stars"):
        expected = in_memory.search(query, k=30)
        assert len({hit.score for hit in expected}) >= 3
        for other in (engine, again):  # BM25 counts removed documents until their segment is merged
            hits = other.search(query, k=30)
            assert {hit.id: hit.text for hit in hits} == {hit.id: hit.text for hit in expected}
            assert hits[0].id == expected[0].id
            scores = {hit.id: hit.score for hit in hits}
            assert [scores[hit.id] for hit in expected] == pytest.approx([hit.score for hit in expected], abs=0.1)
    assert engine.search("garlic soup")[0].id == documents[0].id
