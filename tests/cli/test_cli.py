from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fewbits import Document, SearchEngine, cli
from fewbits.codes import to_hex
from helpers.engines import document_of


class Output(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Output]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")  # narrower than any error

    def call(*arguments: str) -> Output:
        monkeypatch.setattr(sys, "argv", ["fewbits", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capfd.readouterr()
        return Output(int(ended.value.code or 0), out, err)

    return call


@pytest.fixture
def saved(engine: SearchEngine, tmp_path: Path) -> Path:
    engine.save(tmp_path / "engine")
    return tmp_path / "engine"


@pytest.fixture
def corpus_file(documents: list[Document], tmp_path: Path) -> Path:
    path = tmp_path / "news.jsonl"
    records = [{"key": d.id, "body": d.text, "topic": d.labels[0]} for d in documents]
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def command(*arguments: str, stdin: str = "") -> Output:
    """Run the installed command as a user does."""
    done = subprocess.run(
        [sys.executable, "-m", "fewbits", *arguments], input=stdin, capture_output=True, text=True, check=False
    )
    return Output(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_fit_and_search_find_documents_of_a_file(run: Run, corpus_file: Path) -> None:
    fitted = run(
        "fit", str(corpus_file), "--text", "body", "--id", "key", "--label", "topic", "-o", "engine", "--bits", "20"
    )
    assert fitted.code == 0
    assert fitted.out.startswith("Encoded 60 documents with pairwise in ")
    assert fitted.out.endswith(": 20 bits (3 bytes) per document. Saved in engine.\n")
    assert fitted.err == ""
    answer = run("search", "engine", "simmer onions and garlic", "-k", "3")
    assert answer.code == 0
    assert answer.out.startswith("simmer onions and garlic\n")
    assert answer.out.count("cooking-") == 3


def test_search_with_json_prints_one_object_per_query(run: Run, saved: Path, engine: SearchEngine) -> None:
    [answer] = run("search", str(saved), "boat and harbour", "-k", "4", "--json").lines
    assert answer["query"] == "boat and harbour"
    expected = engine.search("boat and harbour", 4)
    assert answer["hits"] == [
        {
            "id": hit.id,
            "distance": hit.distance,
            "score": hit.score,
            "text": hit.text,
            "labels": list(hit.labels),
            "metadata": {},
            "lexical": hit.lexical,
            "semantic": hit.semantic,
        }
        for hit in expected
    ]


def test_several_words_without_quotes_are_one_query(run: Run, saved: Path) -> None:
    assert run("search", str(saved), "boat", "and", "harbour").out == run("search", str(saved), "boat and harbour").out
    assert run("encode", str(saved), "boat", "harbour").out == run("encode", str(saved), "boat harbour").out


def test_unknown_words_are_named_and_a_correction_is_suggested(run: Run, saved: Path) -> None:
    found = run("search", str(saved), "boat", "wnid", "xyzzy", "-k", "1")
    assert found.code == 0
    assert found.err == "No document has 'wnid', 'xyzzy'.\nDid you mean: boat wind xyzzy\n"
    [answer] = run("search", str(saved), "boat wnid", "-k", "1", "--json").lines
    assert (answer["unknown_words"], answer["suggestion"]) == (["wnid"], "boat wind")
    refused = run("search", str(saved), "wnid")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.endswith("Did you mean 'wind'?\n")


def test_search_with_radius_returns_all_documents_within_it(run: Run, saved: Path, engine: SearchEngine) -> None:
    [answer] = run("search", str(saved), "boat", "--radius", "6", "--json").lines
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in engine.within("boat", 6)]


def test_similar_accepts_string_and_integer_ids(run: Run, saved: Path, engine: SearchEngine, tmp_path: Path) -> None:
    [answer] = run("similar", str(saved), "sailing-1", "-k", "3", "--json").lines
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in engine.similar("sailing-1", 3)]
    SearchEngine.from_texts(["red apples", "green pears", "red plums"], n_bits=8).save(tmp_path / "numbers")
    [answer] = run("similar", str(tmp_path / "numbers"), "2", "--json").lines
    assert {hit["id"] for hit in answer["hits"]} == {0, 1}


def test_encode_prints_codes_in_each_format_and_of_each_document_of_a_file(
    run: Run, saved: Path, engine: SearchEngine, corpus_file: Path, documents: list[Document]
) -> None:
    [code] = to_hex(engine.encode(["boat"]), 20)
    bits = bin(int(code, 16) >> 4)[2:].zfill(20)
    assert run("encode", str(saved), "boat").out == f"{code}\n"
    assert run("encode", str(saved), "boat", "--format", "bits").out == f"{bits}\n"
    assert run("encode", str(saved), "boat", "--format", "integer").out == f"{int(bits, 2)}\n"
    lines = run("encode", str(saved), "--source", str(corpus_file), "--text", "body", "--id", "key").out.splitlines()
    expected = to_hex(engine.encode(d.text for d in documents), 20)
    assert lines == [f"{d.id}\t{code}" for d, code in zip(documents, expected, strict=True)]


def test_info_describes_the_engine(run: Run, saved: Path) -> None:
    [facts] = run("info", str(saved), "--json").lines
    assert (facts["documents"], facts["bits"], facts["bytes_per_document"], facts["method"]) == (60, 20, 3, "itq")
    assert "All checksums are correct." in run("info", str(saved)).out


def test_a_quote_that_is_not_closed_is_noted(run: Run, saved: Path) -> None:
    answer = run("search", str(saved), '"boat', "-k", "1")
    assert answer.code == 0
    assert answer.err == "A quote is not closed; the phrase ends with the query.\n"
    [record] = run("search", str(saved), '"boat', "-k", "1", "--json").lines
    assert record["notes"] == ["A quote is not closed; the phrase ends with the query."]


def test_a_query_of_100_000_characters_is_answered_or_refused_in_few_words(run: Run, saved: Path) -> None:
    answer = run("search", str(saved), "boat " * 20_000, "-k", "1")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("boat boat boat")
    assert len(answer.out) < 1_000
    refused = run("search", str(saved), "x" * 100_000)
    assert refused.code == 1
    assert "the query has no known word" in refused.err
    assert len(refused.err) < 300


def test_a_language_that_is_not_there_is_an_error_before_anything_is_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("red apples\n")
    refused = run("fit", "texts.txt", "-o", "engine", "--language", "klingon")
    assert refused.code == 1
    assert "the language is unknown (allowed: arabic, danish," in refused.err
    assert "none; got: 'klingon')" in refused.err
    assert not (tmp_path / "engine").exists()


@pytest.mark.parametrize("settings", ['{"format": 1, "language": "english"}', '{"format": 99}', "[]", "", None])
def test_a_lexical_index_of_another_version_is_built_again_with_the_same_answers(
    run: Run, saved: Path, settings: str | None
) -> None:
    before = run("search", str(saved), "boat and harbour", "--json").out
    [path] = saved.glob("*/lexical/lexical.json")
    if settings is None:
        shutil.rmtree(path.parent)
    else:
        path.write_text(settings)
    assert run("search", str(saved), "boat and harbour", "--json").out == before
    assert run("info", str(saved)).code == 0


def test_fit_says_what_codes_do_not_see_and_what_to_do(run: Run, tmp_path: Path) -> None:
    texts = ["red apples 2023", "green apples 2024", "8J0-035-500-F 2025", "grapes of 1999"]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    fitted = run("fit", "texts.jsonl", "-o", "engine", "--bits", "8", "--method", "itq")
    assert fitted.code == 0
    assert "Codes do not see 58.3% of the words, and no word of 1 of 4 documents." in fitted.err
    assert "--max-features, or with --token-pattern unicode" in fitted.err
    assert run("search", "engine", "2025", "--json").lines[0]["hits"][0]["id"] == 2
    again = run("fit", "texts.jsonl", "-o", "engine", "--bits", "8", "--method", "itq", "--token-pattern", "unicode")
    assert (again.code, again.err) == (0, "")
    [facts] = run("info", "engine", "--json").lines
    assert (facts["unseen_words"], facts["documents_without_known_words"]) == (0.0, 0)


def test_fit_with_embeddings_replaces_word_features(run: Run, corpus_file: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((60, 8)))
    options = ("--text", "body", "--id", "key", "--embeddings", str(tmp_path / "rows.npy"), "-o", "engine", "--json")
    [facts] = run("fit", str(corpus_file), *options).lines
    assert (facts["features"], facts["n_features"]) == ("embeddings", 8)
    assert run("similar", "engine", "sailing-1", "-k", "2").code == 0


def test_a_dash_reads_documents_queries_and_ids_from_standard_input(tmp_path: Path, saved: Path) -> None:
    records = "\n".join(json.dumps({"text": text}) for text in ("red apples", "green pears", "blue plums"))
    fitted = command("fit", "-", "--output", str(tmp_path / "own"), "--bits", "8", stdin=records)
    assert (fitted.code, fitted.err) == (0, "")
    searched = command("search", str(saved), "-", "-k", "1", "--json", stdin="boat harbour\n\nonions garlic\n")
    assert [answer["query"] for answer in searched.lines] == ["boat harbour", "onions garlic"]
    similar = command("similar", str(saved), "-", "-k", "1", "--json", stdin="sailing-1\ncooking-0\n")
    assert len(similar.lines) == 2


def test_a_failing_query_among_many_is_reported_and_the_others_are_answered(saved: Path) -> None:
    searched = command("search", str(saved), "-", "-k", "1", "--json", stdin="boat\nxyzzy\nonions\n")
    assert searched.code == 1
    assert [answer["query"] for answer in searched.lines] == ["boat", "onions"]
    assert searched.err.startswith("Error: ")
    assert "'xyzzy'" in searched.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "nowhere", "boat"), "Error: nowhere is not a saved fewbits engine"),
        (("search", "ENGINE", "boat", "-k", "0"), "allowed: 1 or more"),
        (("search", "ENGINE", "xyzzy"), "'xyzzy'"),
        (("similar", "ENGINE", "nobody"), "no document has the id 'nobody'"),
        (("similar", "ENGINE", "7"), "no document has the id '7'"),
        (("fit", "CORPUS", "--text", "body", "-o", "FULL"), "contains other files"),
        (("fit", "CORPUS", "--text", "body", "-o", "/proc/x"), "/proc/x"),
        (("fit", "CORPUS", "--text", "body", "-o", "x", "--token-pattern", "("), "not a valid regular expression"),
        (("fit", "nowhere.jsonl", "-o", "x"), "nowhere.jsonl does not exist"),
        (("fit", "CORPUS", "-o", "x"), "line 1 has no field 'text'"),
        (("fit", "CORPUS", "--text", "body", "-o", "x", "--bits", "0"), "n_bits, the code length"),
        (("fit", "CORPUS", "--text", "body", "-o", "x", "--method", "magic"), "unknown method"),
        (("evaluate", "--method", "magic", "--dataset", "ng20", "--bits", "8"), "unknown method"),
        (("evaluate", "--method", "lsh", "--dataset", "x", "--bits", "8"), "unknown data set"),
        (("data", "x"), "unknown data set"),
        (("bench", "report"), "results"),
        (("bench", "run", "slow"), "'slow'"),
    ],
)
def test_an_error_exits_with_1_and_one_line_on_standard_error(
    run: Run, saved: Path, corpus_file: Path, arguments: tuple[str, ...], message: str
) -> None:
    places = {"ENGINE": str(saved), "CORPUS": str(corpus_file), "FULL": str(corpus_file.parent)}
    done = run(*(places.get(argument, argument) for argument in arguments))
    assert done.code == 1
    assert message in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""
    assert "Traceback" not in done.err
    assert not Path("x").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("search",),
        ("search", "engine", "q", "--k", "many"),
        ("search", "engine", "q", "-k", "1", "--radius", "1"),
        ("encode", "engine"),
        ("conquer",),
        ("fit", "a.jsonl"),
    ],
)
def test_a_usage_error_exits_with_2(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert "Usage: fewbits" in done.err


@pytest.mark.parametrize(
    "name",
    [
        *("demo", "fit", "add", "update", "remove", "search", "similar", "bits", "duplicates", "encode", "info"),
        *("data", "evaluate", "tune"),
    ],
)
def test_every_command_has_help_with_an_example(run: Run, name: str) -> None:
    done = run(name, "--help")
    assert done.code == 0
    assert f"Example: fewbits {name}" in done.out


def test_evaluate_prints_and_saves_one_result_per_run(run: Run, tmp_path: Path) -> None:
    done = run("evaluate", "--method", "lsh", "--dataset", "docstrings", "--bits", "8", "--bits", "16", "--save")
    assert done.code == 0
    assert len(list((tmp_path / "results").glob("lsh-docstrings-*bits-seed0-*.json"))) == 2
    assert {"by confidence", "by distance"} <= set(re.split(r"\s{2,}", done.out.splitlines()[0]))
    assert run("bench", "report", "--output", ".").code == 0
    table = (tmp_path / "results.md").read_text()
    assert "## docstrings" in table
    assert "| Precision at 100 | 8 bits | 16 bits |" in table


def test_data_without_archives_names_the_missing_files_and_their_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEWBITS_DATA", str(tmp_path / "none"))
    monkeypatch.setattr("fewbits.data.datasets.base.DOWNLOAD_ATTEMPTS", 1)
    done = run("data")
    assert done.code == 0
    for archive in ("20news-bydate.tar.gz", "reuters21578.tar.gz", "tmc2007-500.zip", "arxiv-abstracts-140k.jsonl.gz"):
        assert archive in done.err
    assert str(tmp_path / "none") in done.err.replace("\n", "")
    assert run("data", "tmc").code == 1


@pytest.mark.slow
def test_demo_trains_measures_saves_and_suggests_commands(run: Run, tmp_path: Path) -> None:
    done = run("demo")
    assert done.code == 0
    assert "docstrings of this Python with 64 bits (8 bytes) each" in done.out
    rows = {
        line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line.startswith(("package", "module"))
    }
    assert set(rows) == {"package", "module"}
    for floor, without_labels, with_labels in rows.values():
        assert float(with_labels) > float(without_labels) > 2 * float(floor)
    assert "fewbits search fewbits-demo" in done.out
    assert SearchEngine.load(tmp_path / "fewbits-demo").info()["drift"]["retrain"] is False
    assert run("similar", "fewbits-demo", "json.dumps").code == 0


def test_version_option_prints_the_version(run: Run) -> None:
    import fewbits

    assert run("--version").out.strip() == fewbits.__version__


def write_jsonl(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(map(json.dumps, records)))
    return str(path)


def test_add_update_and_remove_change_the_engine(run: Run, saved: Path, tmp_path: Path) -> None:
    records = [{"id": f"new-{n}", "text": f"boat mast {n}", "year": 2000 + n} for n in range(5)]
    source = write_jsonl(tmp_path / "new.jsonl", records)
    assert run("add", str(saved), source, "--id", "id", "--metadata", "year").out == (
        "Added 5 documents; the engine now has 65.\n"
    )
    [answer] = run("search", str(saved), "boat", "--where", "year>=2003", "--json").lines
    assert [hit["id"] for hit in answer["hits"]] == ["new-3", "new-4"]
    changed = write_jsonl(tmp_path / "changed.jsonl", [{"id": "new-4", "text": "garlic soup", "year": 2004}])
    [facts] = run("update", str(saved), changed, "--id", "id", "--metadata", "year", "--json").lines
    assert facts == {"updated": 1, "documents": 65}
    [answer] = run("search", str(saved), "garlic", "--where", "year>=2003", "-k", "1", "--json").lines
    assert answer["hits"][0]["text"] == "garlic soup"
    assert run("remove", str(saved), "new-1", "new-2").out == "Removed 2 documents; the engine now has 63.\n"
    assert SearchEngine.load(saved).info()["drift"]["new_documents"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "ENGINE", "NEW", "--id", "id"), "the id 'cooking-0' exists already"),
        (("update", "ENGINE", "NEW", "--id", "id"), "no document has the id 'new'"),
        (("remove", "ENGINE", "cooking-0", "nobody"), "no document has the id 'nobody'"),
        (("remove", "ENGINE", "cooking-0", "cooking-0"), "the id 'cooking-0' is given twice"),
        (("search", "ENGINE", "boat", "--where", "year"), "got: 'year'"),
        (("search", "ENGINE", "boat", "--where", "year>>2"), "the condition has two operators, > and >"),
        (("search", "ENGINE", "boat", "--rank", "magic"), "'magic'"),
        (("duplicates", "ENGINE", "--radius", "21"), "radius"),
    ],
)
def test_a_failing_command_leaves_the_engine_unchanged(
    run: Run, saved: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    records = [{"id": "new", "text": "boat"}, {"id": "cooking-0", "text": "soup"}]
    places = {"ENGINE": str(saved), "NEW": write_jsonl(tmp_path / "new.jsonl", records)}
    before = list(SearchEngine.load(saved).documents())
    done = run(*(places.get(argument, argument) for argument in arguments))
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert list(SearchEngine.load(saved).documents()) == before


def test_remove_accepts_integer_ids(run: Run, tmp_path: Path) -> None:
    SearchEngine.from_texts(["red apples", "green pears", "red plums"], n_bits=8, method="itq").save(tmp_path / "e")
    assert run("remove", "e", "1").code == 0
    assert [document.id for document in SearchEngine.load(tmp_path / "e").documents()] == [0, 2]


def test_search_with_source_answers_each_document_of_a_file(
    run: Run, saved: Path, corpus_file: Path, documents: list[Document], tmp_path: Path
) -> None:
    options = ("--source", str(corpus_file), "--text", "body", "--id", "key", "-k", "2", "--json")
    answers = run("search", str(saved), *options).lines
    assert [answer["id"] for answer in answers] == [document.id for document in documents]
    assert [answer["query"] for answer in answers] == [document.text for document in documents]
    assert all(answer["hits"][0]["score"] > 0.9 for answer in answers)
    (tmp_path / "letter.txt").write_text("the wind pushes\nour boat")
    [answer] = run("search", str(saved), "--source", str(tmp_path / "letter.txt"), "--label", "sailing", "--json").lines
    assert {hit["labels"][0] for hit in answer["hits"]} == {"sailing"}
    assert run("search", str(saved)).code == 2


def test_explain_shows_the_bits_and_words_behind_a_hit(run: Run, saved: Path, engine: SearchEngine) -> None:
    shown = run("search", str(saved), "boat and harbour", "-k", "1", "--explain").out
    assert "shared words (cosine" in shown
    assert "matching bits:" in shown
    assert "deciding words  query:" in shown
    [answer] = run("search", str(saved), "boat and harbour", "-k", "2", "--explain", "--json").lines
    assert [reason["id"] for reason in answer["explanations"]] == [hit["id"] for hit in answer["hits"]]
    assert len(answer["explanations"][0]["bits"]) == 20
    [answer] = run("similar", str(saved), "sailing-1", "-k", "1", "--explain", "--json").lines
    assert answer["explanations"][0]["distance"] == answer["hits"][0]["distance"]


def test_bits_prints_the_words_of_each_bit(run: Run, saved: Path, engine: SearchEngine) -> None:
    lines = run("bits", str(saved)).out.splitlines()
    assert len(lines) == 20
    for line, meaning in zip(lines, engine.bits(), strict=True):
        assert line == f"bit {meaning.bit:>3}  (1: {' '.join(meaning.raises)}; 0: {' '.join(meaning.lowers)})"
    assert [meaning["bit"] for meaning in run("bits", str(saved), "--json").lines] == list(range(20))


def test_duplicates_prints_one_group_per_line_and_writes_the_other_documents(
    run: Run, engine: SearchEngine, tmp_path: Path
) -> None:
    engine.add([Document("copy", document_of(engine, "sailing-1").text, ("sailing",), {"year": 2020})])
    engine.save(tmp_path / "engine")
    done = run("duplicates", "engine", "--radius", "0", "--output", "unique.jsonl")
    groups = [line.split("\t") for line in done.out.splitlines()]
    assert any({"sailing-1", "copy"} <= set(group) for group in groups)
    unique = [json.loads(line) for line in Path("unique.jsonl").read_text().splitlines()]
    left_out = {id for group in groups for id in group[1:]}
    assert {record["id"] for record in unique} == {document.id for document in engine.documents()} - left_out
    assert f"Wrote {len(unique)} documents to unique.jsonl, omitting {len(left_out)} duplicate" in done.err
    again = run("fit", "unique.jsonl", "--id", "id", "--label", "labels", "-o", "again", "--method", "itq", "--json")
    assert again.lines[0]["documents"] == len(unique)
    assert run("duplicates", "engine", "--radius", "0", "--json").lines[0]["representative"] == groups[0][0]


def test_info_reports_drift_and_whether_to_retrain(run: Run, saved: Path) -> None:
    assert "No documents have been added or updated since training." in run("info", str(saved)).out
    engine = SearchEngine.load(saved)
    engine.add([Document(f"law-{n}", "the garlic court dismissed another plaintiff") for n in range(40)])
    assert "Retraining is recommended (fewbits fit)" in run("info", str(saved)).out


def test_card_prints_or_writes_a_card_named_after_the_folder(run: Run, saved: Path, tmp_path: Path) -> None:
    printed = run("card", str(saved))
    assert printed.out.startswith("# Model card: engine\n")
    written = run("card", str(saved), "--output", "CARD.md")
    assert (written.out, written.err) == ("", "Wrote CARD.md.\n")
    assert (tmp_path / "CARD.md").read_text() == printed.out


def test_export_writes_each_requested_format(run: Run, saved: Path, tmp_path: Path) -> None:
    files = ("--onnx", "e.onnx", "--npy", "c.npy", "--parquet", "c.parquet", "--faiss", "c.faiss")
    done = run("export", str(saved), *files)
    assert (done.code, done.out) == (0, "")
    assert "Wrote e.onnx: 0 of 1,200 bits of 60 documents differ.\n" in done.err
    assert "Wrote c.faiss: 60 codes of 20 bits.\n" in done.err
    assert np.load(tmp_path / "c.npy").shape == (60, 3)
    assert all((tmp_path / name).stat().st_size for name in ("e.onnx", "c.parquet", "c.faiss"))


def test_export_without_a_format_is_a_usage_error(run: Run, saved: Path) -> None:
    done = run("export", str(saved))
    assert done.code == 2
    assert "--onnx" in done.err


def test_export_of_a_method_without_onnx_form_is_an_error_and_leaves_no_file(
    run: Run, documents: list[Document], tmp_path: Path
) -> None:
    SearchEngine.from_documents(documents, n_bits=8, method="sph").save(tmp_path / "spectral")
    done = run("export", "spectral", "--onnx", "e.onnx")
    assert done.code == 1
    assert done.err.startswith("Error: SpectralHashing")
    assert not (tmp_path / "e.onnx").exists()


@pytest.fixture
def library(run: Run, tmp_path: Path) -> Path:
    """Save an engine of records with titles, topics and years."""
    records = [
        {"key": f"b{n}", "title": f"Boats {n}", "body": "boat harbour mast wind", "topic": "sea", "year": 2000 + n}
        for n in range(12)
    ]
    records += [
        {"key": f"s{n}", "title": f"Soups {n}", "body": "garlic onion soup salt", "topic": "food", "year": 2000 + n}
        for n in range(12)
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    fields = ["--text", "title", "--text", "body", "--id", "key", "--label", "topic", "--metadata", "year"]
    assert run("fit", str(path), *fields, "-o", "library", "--method", "itq", "--bits", "8").code == 0
    return path


def test_add_and_update_default_to_the_fields_given_to_fit(run: Run, library: Path, tmp_path: Path) -> None:
    record = {"key": "new", "title": "Late boats", "body": "wind", "topic": "sea", "year": 2030, "heading": "Soup"}
    (tmp_path / "more.jsonl").write_text(json.dumps(record))
    assert run("add", "library", "more.jsonl").code == 0
    [answer] = run("search", "library", "boats", "--where", "year=2030", "--label", "sea", "--json").lines
    assert [(hit["id"], hit["text"]) for hit in answer["hits"]] == [("new", "Late boats\nwind")]
    assert run("update", "library", "more.jsonl", "--text", "heading").code == 0
    [answer] = run("search", "library", "soup", "--where", "year=2030", "--json").lines
    assert [(hit["id"], hit["text"]) for hit in answer["hits"]] == [("new", "Soup")]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "letter.txt").write_text("boat in the wind")
    assert run("add", "library", "texts").code == 0  # texts alone have no fields


def test_hits_have_a_header_and_show_scores_labels_metadata_and_title(run: Run, library: Path) -> None:
    header, first, title, *_ = run("search", "library", "soup", "-k", "1").out.splitlines()[1:]
    assert header.split() == ["score", "words", "codes", "differ", "document"]
    assert re.fullmatch(r" 0\.\d\d   1\.00   0\.\d\d     \d/8  s\d+  food  year=20\d\d", first)
    assert first.index("1.00") == header.index("words") + 1
    assert re.fullmatch(r" +Soups \d+", title)


def test_search_by_codes_and_similar_show_the_same_numbers(run: Run, library: Path) -> None:
    [record] = [json.loads(line) for line in library.read_text().splitlines() if '"s1"' in line]
    text = f"{record['title']}\n{record['body']}"

    def shown(*arguments: str) -> dict[str, list[str]]:
        lines = run(*arguments).out.splitlines()
        rows = [line.split() for line in lines if re.match(r" \d\.\d\d ", line)]
        return {row[4]: row[:4] for row in rows}

    similar = shown("similar", "library", "s1", "-k", "100")
    assert len(similar) == 23
    searched = shown("search", "library", text, "--rank", "codes", "-k", "100")
    assert {id: numbers for id, numbers in searched.items() if id != "s1"} == similar
    assert {numbers[1] for numbers in similar.values()} == {"-"}
    hybrid = shown("search", "library", text, "-k", "100")
    assert {id: numbers[2:] for id, numbers in hybrid.items() if id != "s1"} == {
        id: numbers[2:] for id, numbers in similar.items()
    }


def test_no_hits_reports_unknown_labels_and_metadata_in_filters(run: Run, library: Path) -> None:
    for arguments, message in (
        (["--where", "yaer>=2000"], "No hits. No document has the metadata 'yaer' (existing: year).\n"),
        (["--label", "see"], "No hits. No document has the label 'see' (existing: food, sea).\n"),
        (["--where", "year>2050"], "No hits.\n"),
    ):
        answer = run("search", "library", "soup", *arguments)
        assert (answer.code, answer.err) == (0, message)
    assert run("similar", "library", "s1", "--label", "see").err.endswith("'see' (existing: food, sea).\n")


def test_duplicates_compares_codes_alone_without_a_minimum_similarity(run: Run, library: Path) -> None:
    done = run("duplicates", "library", "--radius", "8", "--min-similarity", "0", "--output", "unique.jsonl")
    assert done.err.startswith("1 group with 23 duplicates.\n")
    assert len(Path("unique.jsonl").read_text().splitlines()) == 1
    assert run("duplicates", "library", "--radius", "8", "--min-similarity", "1").err.startswith("2 groups")


@pytest.mark.parametrize(
    ("command", "old", "new", "value"),
    [
        (("duplicates", "ENGINE"), "--alike", "--min-similarity", "0.5"),
    ],
)
def test_an_old_option_name_works_and_is_reported_once(
    run: Run, saved: Path, command: tuple[str, ...], old: str, new: str, value: str
) -> None:
    arguments = [str(saved) if word == "ENGINE" else word for word in command]
    current = run(*arguments, new, value)
    deprecated = run(*arguments, old, value)
    assert (deprecated.code, deprecated.out) == (0, current.out)
    assert deprecated.err == f"{old} is deprecated; use {new}.\n{current.err}"
    assert old not in run(command[0], "--help").out
    both = run(*arguments, old, value, new, value)
    assert both.code == 2
    assert "give only" in both.err


@pytest.mark.parametrize("old", ["--rescore", "--rerank"])
@pytest.mark.parametrize("command", [("search", "boat"), ("similar", "sailing-1")])
def test_old_rankings_work_and_the_new_ones_are_named_once(
    run: Run, saved: Path, command: tuple[str, str], old: str
) -> None:
    arguments = [command[0], str(saved), command[1]]
    done = run(*arguments, old, "words")
    assert done.out == run(*arguments, "--rank", "hybrid").out
    assert done.err == f"{old} is deprecated; use --rank hybrid.\n"
    assert run(*arguments, old, "none", "--shortlist", "5").err.splitlines() == [
        f"{old} is deprecated; use --rank codes.",
        "--shortlist is deprecated and has no effect; use --rank and --weight.",
    ]
    assert "give only --rank" in run(*arguments, old, "none", "--rank", "codes").err
    assert old not in run(command[0], "--help").out


def test_the_lexical_index_is_rebuilt_by_a_command(run: Run, saved: Path) -> None:
    before = run("search", str(saved), "boat", "--json").out
    [index] = saved.glob("generation-*/lexical")
    shutil.rmtree(index)
    assert run("index", "rebuild", str(saved)).out == "Indexed the words of 60 documents.\n"
    found = run("search", str(saved), "boat", "--json")
    assert (found.out, found.err) == (before, "")
    shutil.rmtree(index)
    found = run("search", str(saved), "boat", "--json")
    assert found.out == before
