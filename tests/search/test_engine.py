from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbits import Document, SearchEngine, TextVectorizer
from fewbits.codes import hamming
from fewbits.errors import BrokenFolderError, DataError, MissingFileError, ParameterError, UnknownIdError
from helpers.engines import count_of


def every_file(folder: Path) -> list[Path]:
    """Return all files with content; those at which writers wait for each other are empty."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", ".turn"))


def test_similar_texts_are_found(engine: SearchEngine) -> None:
    for topic, query in {"cooking": "simmer onions and garlic soup", "sailing": "wind pushes the boat mast"}.items():
        for rerank in ("none", "bits", "words"):
            hits = engine.search(query, k=5, rerank=rerank)
            assert [hit.labels for hit in hits] == [(topic,)] * 5
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_hits_have_the_text_and_labels_of_their_documents(engine: SearchEngine, documents: list[Document]) -> None:
    by_id = {document.id: document for document in documents}
    for hit in engine.search("distant galaxies and stars"):
        assert (hit.text, hit.labels) == (by_id[hit.id].text, by_id[hit.id].labels)


def test_k_defaults_to_ten_or_to_the_number_of_documents(engine: SearchEngine) -> None:
    assert len(engine.search("stars")) == 10
    small = SearchEngine.from_texts(["red apples", "green pears", "blue plums"], n_bits=8)
    assert len(small.search("apples")) == 3
    assert len(small.similar(0)) == 2


def test_similar_leaves_the_document_itself_out_also_among_equal_codes() -> None:
    texts = ["same words here"] * 6 + ["other things there"] * 6
    engine = SearchEngine.from_texts(texts, n_bits=8)
    assert [hit.id for hit in engine.similar(4, k=3)] == [0, 1, 2]
    assert [hit.id for hit in engine.similar(1, k=5)] == [0, 2, 3, 4, 5]


def test_search_among_some_ids_and_within_a_radius(engine: SearchEngine) -> None:
    among = ["cooking-0", "sailing-1", "astronomy-2"]
    assert {hit.id for hit in engine.search("galaxies stars", k=3, among=among)} == set(among)
    near = engine.within("galaxies stars planets light", radius=4)
    assert near
    assert all(hit.distance <= 4 for hit in near)
    assert engine.search("galaxies stars planets light", k=len(near), rerank="none") == near


def test_an_engine_saved_and_loaded_gives_the_same_hits(engine: SearchEngine, tmp_path: Path) -> None:
    engine.save(tmp_path / "engine")
    for verify in (True, False):
        again = SearchEngine.load(tmp_path / "engine", verify=verify)
        for query in ("onions", "boat and harbour", "telescope"):
            assert again.search(query) == engine.search(query)
        assert again.info() == engine.info()
        assert np.array_equal(again.encode(["boat"]), engine.encode(["boat"]))


def test_a_folder_holds_json_arrays_and_sqlite_and_no_pickle(engine: SearchEngine, tmp_path: Path) -> None:
    engine.save(tmp_path / "engine")
    files = every_file(tmp_path / "engine")
    suffixes = {path.suffix for path in files if path.parent.name != "lexical"}
    assert suffixes == {".json", ".safetensors", ".sqlite", ".version"}
    assert not {path.suffix for path in files} & {".pkl", ".pickle", ".joblib"}


def test_documents_added_later_are_found_and_saved_without_retraining(engine: SearchEngine, tmp_path: Path) -> None:
    before = engine.encode(["boat"])
    engine.add([Document("new", "garlic onions pepper soup simmer kitchen", ("cooking",))])
    assert "new" in [hit.id for hit in engine.search("garlic onions pepper soup simmer kitchen", k=5)]
    assert np.array_equal(engine.encode(["boat"]), before)
    engine.save(tmp_path / "engine")
    SearchEngine.load(tmp_path / "engine").add([Document("newer", "stars", ())])
    assert len(SearchEngine.load(tmp_path / "engine")) == 62


def test_when_one_document_cannot_be_added_none_is(engine: SearchEngine) -> None:
    with pytest.raises(DataError, match="the id 'cooking-0' exists already"):
        engine.add([Document("fresh", "boat"), Document("cooking-0", "again")])
    assert len(engine) == count_of(engine) == 60
    engine.add([Document("fresh", "boat")])
    assert len(engine) == count_of(engine) == 61


def test_integer_ids_and_one_or_several_labels_are_stored(tmp_path: Path) -> None:
    engine = SearchEngine.from_texts(["red apples", "green pears"], ids=[70, 7], labels=["a", ["a", "b"]], n_bits=9)
    engine.save(tmp_path / "engine")
    hits = {hit.id: hit.labels for hit in SearchEngine.load(tmp_path / "engine").search("apples")}
    assert hits == {70: ("a",), 7: ("a", "b")}


def test_embeddings_can_be_used_instead_of_texts(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((3, 16))
    rows = np.repeat(centres, 20, axis=0) + 0.1 * generator.standard_normal((60, 16))
    documents = [Document(f"d{n}", f"text {n}", (str(n // 20),)) for n in range(60)]
    engine = SearchEngine.from_embeddings(rows, documents=documents, n_bits=12)
    engine.save(tmp_path / "engine")
    again = SearchEngine.load(tmp_path / "engine")
    assert {hit.labels for hit in again.search(centres[1] * 5, k=10)} == {("1",)}  # length does not count
    assert all(hit.id in range(20) for hit in SearchEngine.from_embeddings(rows).similar(0, k=3))  # of one centre
    assert again.search("text 7", k=1)[0].id == "d7"  # by its words
    with pytest.raises(DataError, match="the query is of another kind"):
        SearchEngine.from_embeddings(rows).search("text")
    with pytest.raises(DataError, match="embeddings and documents differ in number"):
        SearchEngine.from_embeddings(rows, documents=documents[:5])


def test_equal_inputs_and_seed_give_equal_codes(documents: list[Document]) -> None:
    first, second = (SearchEngine.from_documents(documents, n_bits=32, random_state=5) for _ in range(2))
    ids = [document.id for document in documents]
    assert np.array_equal(first.codes(ids), second.codes(ids))


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ([], {}, DataError, r"there are no documents to learn from \(allowed: one or more; got: 0\)"),
        (["", "", " \n"], {}, DataError, "the documents contain no words"),
        (["word"], {"n_bits": 0}, ParameterError, r"n_bits, the code length, is out of range.*got: 0"),
        (["word"], {"method": "magic"}, ParameterError, "unknown method"),
        (["word", "other"], {"ids": ["a", "a"]}, DataError, "the id 'a' is given twice"),
        (["word", "other"], {"ids": ["a"]}, DataError, "texts, ids differ in number"),
        (["word", "other"], {"ids": ["a", 1]}, DataError, "all strings or all integers"),
    ],
)
def test_a_corpus_that_cannot_be_fitted_is_refused(
    texts: list[str], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        SearchEngine.from_texts(texts, **options)


def test_bad_queries_are_refused_with_the_reason(engine: SearchEngine) -> None:
    with pytest.raises(ParameterError, match=r"k, the number of hits, is out of range .allowed: 1 or more; got: 0"):
        engine.search("boat", k=0)
    with pytest.raises(UnknownIdError, match="no document has the id 'nobody'"):
        engine.similar("nobody")
    with pytest.raises(DataError, match=r"the query has no known word.*got: 'xyzzy'.*other or more words"):
        engine.search("xyzzy")
    with pytest.raises(MissingFileError, match="nowhere is not a saved fewbits engine"):
        SearchEngine.load("nowhere")


def test_more_hits_than_documents_returns_all_that_can_be_found(engine: SearchEngine) -> None:
    assert len(engine.search("boat", k=1_000, rank="codes")) == len(engine)
    assert len(engine.similar("cooking-0", k=1_000)) == len(engine) - 1
    assert len(engine.search("boat", k=1_000, among=["cooking-0", "sailing-1"])) == 2


@pytest.mark.parametrize("damage", ["truncated", "altered", "removed"])
def test_damage_to_any_file_of_a_saved_engine_is_detected_when_loading(
    engine: SearchEngine, tmp_path: Path, damage: str
) -> None:
    engine.save(tmp_path / "whole")
    files = [path for path in every_file(tmp_path / "whole") if path.parent.name != "lexical"]  # which is derived
    names = [path.relative_to(tmp_path / "whole") for path in files]
    assert len(names) >= 7
    for name in names:
        shutil.copytree(tmp_path / "whole", tmp_path / "damaged")
        path = tmp_path / "damaged" / name
        content = path.read_bytes()
        if damage == "truncated":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "altered":
            # a database has unused bytes: alter a word of a document
            middle = content.index(b"telescope") if path.suffix == ".sqlite" else len(content) // 2
            path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        else:
            path.unlink()
        with pytest.raises(
            (BrokenFolderError, MissingFileError),
            match=r"\.json|is not a saved|\.npy|\.sqlite|\.version|\.safetensors|another kind|newer",
        ):
            SearchEngine.load(tmp_path / "damaged")
        shutil.rmtree(tmp_path / "damaged")


def test_an_engine_of_a_newer_format_is_refused_with_a_hint(engine: SearchEngine, tmp_path: Path) -> None:
    engine.save(tmp_path / "engine")
    path = tmp_path / "engine" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    with pytest.raises(
        BrokenFolderError, match=r"newer format \(allowed: fewbits engine up to version 3; got: 99\). Update"
    ):
        SearchEngine.load(tmp_path / "engine")


@pytest.mark.slow
def test_a_kill_while_saving_leaves_the_state_before_or_after(tmp_path: Path) -> None:
    script = """
import sys
from fewbits import SearchEngine
engines = [SearchEngine.load(folder) for folder in sys.argv[2:]]
print("loaded", flush=True)
while True:
    for engine in engines:
        engine.save(sys.argv[1])
"""
    expected = {}
    for name, count in (("first", 20), ("second", 300)):
        engine = SearchEngine.from_texts([f"{name}{chr(97 + n % 26)} common {name}" for n in range(count)], n_bits=16)
        engine.save(tmp_path / name)
        expected[count] = [hit.id for hit in engine.search(f"common {name}")]
    engine.save(tmp_path / "engine")
    generator = np.random.default_rng(0)
    seen: set[str] = set()
    for attempt in range(40):
        if attempt >= 12 and len(seen) == 2:  # on a busy machine a save may take longer than the first waits
            break
        arguments = [str(tmp_path / name) for name in ("engine", "first", "second")]
        process = subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "loaded\n"
        time.sleep(generator.uniform(0, 0.6))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        survivor = SearchEngine.load(tmp_path / "engine")
        name = "first" if len(survivor) == 20 else "second"
        assert [hit.id for hit in survivor.search(f"common {name}")] == expected[len(survivor)]
        seen.add(name)
    assert seen == {"first", "second"}


def test_documents_without_a_known_word_are_kept_and_have_no_code() -> None:
    engine = SearchEngine.from_texts(["", "hello world", "other stuff", "..."], n_bits=16)
    assert engine.search("hello")[0].id == 1
    assert {hit.id for hit in engine.search("hello")} == {1, 2}
    assert engine.info()["documents_without_known_words"] == 2
    with pytest.raises(DataError, match="the document 0 has no known word"):
        engine.similar(0)


def test_numpy_integers_are_accepted_as_ids(tmp_path: Path) -> None:
    engine = SearchEngine.from_texts(["red apples", "green pears"], ids=np.array([5, 7]), n_bits=8)
    engine.add([Document(np.int64(9), "red plums apples")])  # type: ignore[arg-type]
    assert {hit.id for hit in engine.search("apples")} == {5, 7, 9}
    assert engine.similar(9, k=np.int64(1))[0].id == 5  # type: ignore[arg-type]


@pytest.mark.parametrize("id", [None, 1.5, True, (1,), 2**63, b"x"])
def test_an_id_that_is_neither_text_nor_integer_is_refused(id: Any) -> None:
    with pytest.raises(DataError, match=r"the id is not valid \(allowed: a string or a 64-bit integer"):
        Document(id, "text")


def test_labels_may_be_missing_numbers_or_several() -> None:
    engine = SearchEngine.from_texts(["red", "green", "blue"], labels=[None, 3, ("a", "b")], n_bits=8)
    assert [document.labels for document in engine.documents()] == [(), ("3",), ("a", "b")]


def test_embeddings_are_added_with_their_documents() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 8))
    engine = SearchEngine.from_embeddings(rows, n_bits=16)
    engine.add([Document(100, "new")], embeddings=rows[:1])
    assert [hit.id for hit in engine.search(rows[0], k=2)] == [0, 100]
    with pytest.raises(DataError, match="created from another kind of input"):
        engine.add([Document(101, "text alone")])
    with pytest.raises(DataError, match="differ in number"):
        engine.add([Document(101, "x"), Document(102, "y")], embeddings=rows[:1])
    assert count_of(engine) == 31


def test_a_vectorizer_given_to_two_engines_is_changed_by_neither() -> None:
    vectorizer = TextVectorizer(max_features=2)
    first = SearchEngine.from_texts(["red apples", "red apples"], vectorizer=vectorizer, n_bits=8)
    SearchEngine.from_texts(["green pears", "green pears"], vectorizer=vectorizer, n_bits=8)
    assert first.search("apples")
    assert not hasattr(vectorizer, "vocabulary_")


def test_altered_arrays_of_any_size_are_refused_by_a_quick_load(
    engine: SearchEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewbits.storage.LARGE", 0)  # every file counts as large
    engine.save(tmp_path / "engine")
    for name in ("hasher.safetensors", "idf.safetensors"):
        path = next((tmp_path / "engine").rglob(name))
        content = path.read_bytes()
        path.write_bytes(b"\xff" * len(content))
        with pytest.raises(BrokenFolderError, match=rf"{name} was altered"):
            SearchEngine.load(tmp_path / "engine", verify=False)
        path.write_bytes(content)


def test_labels_and_embeddings_determine_the_default_method(documents: list[Document]) -> None:
    texts = [document.text for document in documents]
    labels = [document.labels for document in documents]
    vectors = np.random.default_rng(0).normal(size=(20, 8))
    engines = (
        SearchEngine.from_texts(texts, n_bits=8),
        SearchEngine.from_texts(texts, labels=labels, n_bits=8),
        SearchEngine.from_texts(texts, labels=[*labels[:5], *[None] * (len(texts) - 5)], n_bits=8),
        SearchEngine.from_texts(texts, labels=["all"] * len(texts), n_bits=8),
        SearchEngine.from_embeddings(vectors, n_bits=8),
    )
    chosen = [engine.info()["method"] for engine in engines]
    assert chosen == ["bernoulli-vae", "pairwise", "pairwise", "bernoulli-vae", "itq"]
    hits = engines[1].search("a telescope shows galaxies", k=10, rerank="none")
    assert [hit.labels for hit in hits] == [("astronomy",)] * 10


def test_six_documents_are_enough_to_separate_two_topics() -> None:
    texts = {
        "soup": "simmer onions and garlic in a pot of soup with salt and pepper",
        "stew": "a stew of onions, pepper and salt simmers in the pot",
        "bread": "salt, flour and water make bread in a hot oven",
        "yacht": "the yacht sails past the harbour, wind in the mast",
        "ferry": "a ferry leaves the harbour in wind and waves",
        "storm": "wind and waves break the mast of a boat in the storm",
    }
    engine = SearchEngine.from_texts(texts.values(), ids=texts, n_bits=32)
    codes = engine.codes(list(texts))
    distances = hamming(codes, codes)
    same_topic = [distances[a, b] for a in range(6) for b in range(a) if a // 3 == b // 3]
    other_topic = [distances[a, b] for a in range(6) for b in range(a) if a // 3 != b // 3]
    assert max(same_topic) < min(other_topic)


def test_a_large_corpus_is_fitted_on_a_sample_and_searched_completely(documents: list[Document]) -> None:
    engine = SearchEngine.from_documents(documents, n_bits=16, method="itq", learn_from=30)
    info = engine.info()
    assert (info["documents"], info["documents_learnt_from"]) == (60, 30)
    for document in documents:
        assert document.id in [hit.id for hit in engine.search(document.text, k=20)]
    alone = SearchEngine.from_documents(documents, n_bits=16, method="itq", learn_from=None)
    assert alone.info()["documents_learnt_from"] == 60
    assert not np.array_equal(alone.encode(["boat and harbour"]), engine.encode(["boat and harbour"]))


def test_rare_labels_are_included_in_the_sample() -> None:
    topics = {"sea": "boat mast harbour anchor wind", "soup": "garlic onion pepper soup kitchen"}
    texts = [f"{text} number{number}" for number in range(100) for text in topics.values()]
    labels = [name if number < 5 else None for number in range(100) for name in topics]
    engine = SearchEngine.from_texts(texts, labels=labels, n_bits=16, learn_from=20)  # by chance one would be labelled
    assert engine.info()["method"] == "pairwise"
    assert engine.info()["documents_learnt_from"] == 20
    nearest = engine.search("wind", k=50, rerank="none")
    assert all("boat" in hit.text for hit in nearest)


@pytest.mark.parametrize("learn_from", [0, 1, -5, 2.5])
def test_fitting_on_too_few_documents_is_refused(documents: list[Document], learn_from: Any) -> None:
    with pytest.raises(ParameterError, match="learn_from"):
        SearchEngine.from_documents(documents, learn_from=learn_from)
