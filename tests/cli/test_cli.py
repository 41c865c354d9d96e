from __future__ import annotations

import json
import re
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


def test_own_documents_go_from_file_to_hits_in_two_commands(run: Run, corpus_file: Path) -> None:
    fitted = run(
        "fit", str(corpus_file), "--text", "body", "--id", "key", "--label", "topic", "-o", "engine", "--bits", "20"
    )
    assert fitted.code == 0
    assert "Learnt 20 bits (3 bytes) for each of 60 documents" in fitted.out
    assert fitted.err == ""
    found = run("search", "engine", "simmer onions and garlic", "-k", "3")
    assert found.code == 0
    assert found.out.startswith("simmer onions and garlic\n")
    assert found.out.count("cooking-") == 3


def test_hits_as_json_are_one_object_a_query(run: Run, saved: Path, engine: SearchEngine) -> None:
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
        }
        for hit in expected
    ]


def test_a_radius_finds_all_within_it(run: Run, saved: Path, engine: SearchEngine) -> None:
    [answer] = run("search", str(saved), "boat", "--radius", "6", "--json").lines
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in engine.within("boat", 6)]


def test_similar_takes_ids_that_are_texts_or_numbers(
    run: Run, saved: Path, engine: SearchEngine, tmp_path: Path
) -> None:
    [answer] = run("similar", str(saved), "sailing-1", "-k", "3", "--json").lines
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in engine.similar("sailing-1", 3)]
    SearchEngine.from_texts(["red apples", "green pears", "red plums"], n_bits=8).save(tmp_path / "numbers")
    [answer] = run("similar", str(tmp_path / "numbers"), "2", "--json").lines
    assert {hit["id"] for hit in answer["hits"]} == {0, 1}


def test_codes_are_printed_in_every_form_and_for_every_document_of_a_file(
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


def test_info_tells_what_an_engine_is_made_of(run: Run, saved: Path) -> None:
    [facts] = run("info", str(saved), "--json").lines
    assert (facts["documents"], facts["bits"], facts["bytes_per_document"], facts["method"]) == (60, 20, 3, "itq")
    assert "documents" in run("info", str(saved)).out


def test_embeddings_from_a_file_take_the_place_of_words(run: Run, corpus_file: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((60, 8)))
    options = ("--text", "body", "--id", "key", "--embeddings", str(tmp_path / "rows.npy"), "-o", "engine", "--json")
    [facts] = run("fit", str(corpus_file), *options).lines
    assert (facts["features"], facts["n_features"]) == ("embeddings", 8)
    assert run("similar", "engine", "sailing-1", "-k", "2").code == 0


def test_standard_input_gives_documents_queries_and_ids(tmp_path: Path, saved: Path) -> None:
    records = "\n".join(json.dumps({"text": text}) for text in ("red apples", "green pears", "blue plums"))
    fitted = command("fit", "-", "--output", str(tmp_path / "own"), "--bits", "8", stdin=records)
    assert (fitted.code, fitted.err) == (0, "")
    found = command("search", str(saved), "-", "-k", "1", "--json", stdin="boat harbour\n\nonions garlic\n")
    assert [answer["query"] for answer in found.lines] == ["boat harbour", "onions garlic"]
    alike = command("similar", str(saved), "-", "-k", "1", "--json", stdin="sailing-1\ncooking-0\n")
    assert len(alike.lines) == 2


def test_one_bad_query_of_many_is_told_and_the_others_are_answered(saved: Path) -> None:
    found = command("search", str(saved), "-", "-k", "1", "--json", stdin="boat\nxyzzy\nonions\n")
    assert found.code == 1
    assert [answer["query"] for answer in found.lines] == ["boat", "onions"]
    assert "Error: the query has no known word" in found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "nowhere", "boat"), "Error: nowhere is not a saved fewbits engine"),
        (("search", "ENGINE", "boat", "-k", "61"), "allowed: 1 to 60"),
        (("search", "ENGINE", "xyzzy"), "the query says nothing"),
        (("similar", "ENGINE", "nobody"), "no document has the id 'nobody'"),
        (("similar", "ENGINE", "7"), "no document has the id '7'"),
        (("fit", "CORPUS", "--text", "body", "-o", "FULL"), "contains other files"),
        (("fit", "CORPUS", "--text", "body", "-o", "/proc/x"), "/proc/x"),
        (("fit", "CORPUS", "--text", "body", "-o", "x", "--token-pattern", "("), "not a valid regular expression"),
        (("fit", "nowhere.jsonl", "-o", "x"), "nowhere.jsonl does not exist"),
        (("fit", "CORPUS", "-o", "x"), "line 1 has no field 'text'"),
        (("fit", "CORPUS", "--text", "body", "-o", "x", "--bits", "0"), "n_bits, the code length"),
        (("fit", "CORPUS", "--text", "body", "-o", "x", "--method", "magic"), "no such method"),
        (("evaluate", "--method", "magic", "--dataset", "ng20", "--bits", "8"), "no such method"),
        (("evaluate", "--method", "lsh", "--dataset", "x", "--bits", "8"), "unknown data set"),
        (("data", "x"), "unknown data set"),
        (("bench", "report"), "results is not there"),
        (("bench", "run", "slow"), "no such suite"),
    ],
)
def test_a_mistake_in_what_is_given_ends_with_1_and_one_line_on_standard_error(
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
def test_a_wrong_use_of_a_command_ends_with_2(run: Run, arguments: tuple[str, ...]) -> None:
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


def test_evaluate_prints_and_saves_one_result_a_run(run: Run, tmp_path: Path) -> None:
    done = run("evaluate", "--method", "lsh", "--dataset", "docstrings", "--bits", "8", "--bits", "16", "--save")
    assert done.code == 0
    assert len(list((tmp_path / "results").glob("lsh-docstrings-*bits-seed0-*.json"))) == 2
    assert "precision at 100" in done.out
    assert run("bench", "report", "--output", ".").code == 0
    table = (tmp_path / "results.md").read_text()
    assert "## docstrings" in table
    assert "| Precision at 100 | 8 bits | 16 bits |" in table


def test_data_without_archives_says_which_are_missing_and_where_they_go(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEWBITS_DATA", str(tmp_path / "none"))
    monkeypatch.setattr("fewbits.data.datasets.archives.DOWNLOAD_ATTEMPTS", 1)
    done = run("data")
    assert done.code == 0
    for archive in ("20news-bydate.tar.gz", "reuters21578.tar.gz", "tmc2007-500.zip", "arxiv-abstracts-140k.jsonl.gz"):
        assert archive in done.err
    assert str(tmp_path / "none") in done.err.replace("\n", "")
    assert run("data", "tmc").code == 1


def test_the_demonstration_learns_saves_measures_and_says_what_to_type_next(run: Run, tmp_path: Path) -> None:
    done = run("demo")
    assert done.code == 0
    assert "Learnt 64 bits (8 bytes) for each of" in done.out
    rows = {
        line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line.startswith(("package", "module"))
    }
    assert set(rows) == {"package", "module"}
    for floor, without_labels, with_labels in rows.values():
        assert float(with_labels) > float(without_labels) > 2 * float(floor)
    assert "fewbits search fewbits-demo" in done.out
    assert SearchEngine.load(tmp_path / "fewbits-demo").info()["drift"]["retrain"] is False
    assert run("similar", "fewbits-demo", "json.dumps").code == 0


def test_the_version_is_printed(run: Run) -> None:
    import fewbits

    assert run("--version").out.strip() == fewbits.__version__


def write_jsonl(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(map(json.dumps, records)))
    return str(path)


def test_documents_are_added_updated_and_removed_by_commands(run: Run, saved: Path, tmp_path: Path) -> None:
    records = [{"id": f"new-{n}", "text": f"boat mast {n}", "year": 2000 + n} for n in range(5)]
    source = write_jsonl(tmp_path / "new.jsonl", records)
    assert run("add", str(saved), source, "--id", "id", "--metadata", "year").out == (
        "Added 5 documents; there are 65 now.\n"
    )
    [answer] = run("search", str(saved), "boat", "--where", "year>=2003", "--json").lines
    assert [hit["id"] for hit in answer["hits"]] == ["new-3", "new-4"]
    changed = write_jsonl(tmp_path / "changed.jsonl", [{"id": "new-4", "text": "garlic soup", "year": 2004}])
    [facts] = run("update", str(saved), changed, "--id", "id", "--metadata", "year", "--json").lines
    assert facts == {"updated": 1, "documents": 65}
    [answer] = run("search", str(saved), "garlic", "--where", "year>=2003", "-k", "1", "--json").lines
    assert answer["hits"][0]["text"] == "garlic soup"
    assert run("remove", str(saved), "new-1", "new-2").out == "Removed 2 documents; there are 63 now.\n"
    assert SearchEngine.load(saved).info()["drift"]["new_documents"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "ENGINE", "NEW", "--id", "id"), "the id 'cooking-0' exists already"),
        (("update", "ENGINE", "NEW", "--id", "id"), "no document has the id 'new'"),
        (("remove", "ENGINE", "cooking-0", "nobody"), "no document has the id 'nobody'"),
        (("remove", "ENGINE", "cooking-0", "cooking-0"), "the id 'cooking-0' is given twice"),
        (("search", "ENGINE", "boat", "--where", "year"), "this is no condition"),
        (("search", "ENGINE", "boat", "--rescore", "magic"), "rerank is unknown"),
        (("duplicates", "ENGINE", "--radius", "21"), "radius"),
    ],
)
def test_a_change_or_query_that_cannot_be_leaves_everything_as_it_was(
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


def test_numbers_are_removed_where_ids_are_numbers(run: Run, tmp_path: Path) -> None:
    SearchEngine.from_texts(["red apples", "green pears", "red plums"], n_bits=8, method="itq").save(tmp_path / "e")
    assert run("remove", "e", "1").code == 0
    assert [document.id for document in SearchEngine.load(tmp_path / "e").documents()] == [0, 2]


def test_each_document_of_a_file_is_a_query_and_the_answers_are_json_lines(
    run: Run, saved: Path, corpus_file: Path, documents: list[Document], tmp_path: Path
) -> None:
    options = ("--source", str(corpus_file), "--text", "body", "--id", "key", "-k", "2", "--json")
    answers = run("search", str(saved), *options).lines
    assert [answer["id"] for answer in answers] == [document.id for document in documents]
    assert [answer["query"] for answer in answers] == [document.text for document in documents]
    assert all(answer["hits"][0]["score"] == pytest.approx(1, abs=1e-3) for answer in answers)
    (tmp_path / "letter.txt").write_text("the wind pushes\nour boat")
    [answer] = run("search", str(saved), "--source", str(tmp_path / "letter.txt"), "--label", "sailing", "--json").lines
    assert {hit["labels"][0] for hit in answer["hits"]} == {"sailing"}
    assert run("search", str(saved)).code == 2


def test_a_hit_is_explained_by_bits_and_words(run: Run, saved: Path, engine: SearchEngine) -> None:
    shown = run("search", str(saved), "boat and harbour", "-k", "1", "--explain").out
    assert "words in common (cosine" in shown
    assert "bits that agree:" in shown
    assert "decided by  query:" in shown
    [answer] = run("search", str(saved), "boat and harbour", "-k", "2", "--explain", "--json").lines
    assert [reason["id"] for reason in answer["explanations"]] == [hit["id"] for hit in answer["hits"]]
    assert len(answer["explanations"][0]["bits"]) == 20
    [alike] = run("similar", str(saved), "sailing-1", "-k", "1", "--explain", "--json").lines
    assert alike["explanations"][0]["distance"] == alike["hits"][0]["distance"]


def test_bits_are_named_by_their_words(run: Run, saved: Path, engine: SearchEngine) -> None:
    lines = run("bits", str(saved)).out.splitlines()
    assert len(lines) == 20
    for line, meaning in zip(lines, engine.bits(), strict=True):
        assert line.split(maxsplit=1) == [
            str(meaning.bit),
            f"more: {' '.join(meaning.raises)}; less: {' '.join(meaning.lowers)}",
        ]
    assert [meaning["bit"] for meaning in run("bits", str(saved), "--json").lines] == list(range(20))


def test_duplicates_are_printed_a_group_a_line_and_the_rest_is_written(
    run: Run, engine: SearchEngine, tmp_path: Path
) -> None:
    engine.add(
        [
            Document(
                "copy",
                document_of(engine, "sailing-1").text,
                ("sailing",),
                {"year": 2020},
            )
        ]
    )
    engine.save(tmp_path / "engine")
    done = run("duplicates", "engine", "--radius", "0", "--output", "unique.jsonl")
    groups = [line.split("\t") for line in done.out.splitlines()]
    assert any({"sailing-1", "copy"} <= set(group) for group in groups)
    kept = [json.loads(line) for line in Path("unique.jsonl").read_text().splitlines()]
    left_out = {id for group in groups for id in group[1:]}
    assert {record["id"] for record in kept} == {document.id for document in engine.documents()} - left_out
    assert f"{len(left_out)} duplicates left out" in done.err.replace("\n", " ")
    again = run("fit", "unique.jsonl", "--id", "id", "--label", "labels", "-o", "again", "--method", "itq", "--json")
    assert again.lines[0]["documents"] == len(kept)
    assert run("duplicates", "engine", "--radius", "0", "--json").lines[0]["representative"] == groups[0][0]


def test_info_says_whether_learning_anew_is_worth_it(run: Run, saved: Path) -> None:
    assert "No documents were added since the fit." in run("info", str(saved)).out
    engine = SearchEngine.load(saved)
    engine.add([Document(f"law-{n}", "the garlic court dismissed another plaintiff") for n in range(40)])
    assert "Retraining is advised (fewbits fit)" in run("info", str(saved)).out


def test_a_card_is_printed_or_written_and_named_by_the_folder(run: Run, saved: Path, tmp_path: Path) -> None:
    printed = run("card", str(saved))
    assert printed.out.startswith("# Model card: engine\n")
    written = run("card", str(saved), "--output", "CARD.md")
    assert (written.out, written.err) == ("", "Wrote CARD.md.\n")
    assert (tmp_path / "CARD.md").read_text() == printed.out


def test_one_export_writes_every_form_that_is_asked_for(run: Run, saved: Path, tmp_path: Path) -> None:
    files = ("--onnx", "e.onnx", "--npy", "c.npy", "--parquet", "c.parquet", "--faiss", "c.faiss")
    done = run("export", str(saved), *files)
    assert (done.code, done.out) == (0, "")
    assert "Wrote e.onnx: 0 of 1,200 bits of 60 documents differ.\n" in done.err
    assert "Wrote c.faiss: 60 codes of 20 bits.\n" in done.err
    assert np.load(tmp_path / "c.npy").shape == (60, 3)
    assert all((tmp_path / name).stat().st_size for name in ("e.onnx", "c.parquet", "c.faiss"))


def test_an_export_of_nothing_says_what_there_is(run: Run, saved: Path) -> None:
    done = run("export", str(saved))
    assert done.code == 2
    assert "--onnx" in done.err


def test_a_method_without_an_onnx_form_is_an_error_and_leaves_no_file(
    run: Run, documents: list[Document], tmp_path: Path
) -> None:
    SearchEngine.from_documents(documents, n_bits=8, method="sph").save(tmp_path / "spectral")
    done = run("export", "spectral", "--onnx", "e.onnx")
    assert done.code == 1
    assert "SpectralHashing has no form in ONNX" in done.err
    assert not (tmp_path / "e.onnx").exists()


@pytest.fixture
def library(run: Run, tmp_path: Path) -> Path:
    """An engine of records with titles, topics and years."""
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


def test_documents_are_added_and_updated_by_the_fields_the_engine_was_made_with(
    run: Run, library: Path, tmp_path: Path
) -> None:
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


def test_hits_show_their_score_title_labels_and_metadata(run: Run, library: Path) -> None:
    first, title, *_ = run("search", "library", "soup", "-k", "1").out.splitlines()[1:]
    assert re.fullmatch(r"\d/8  0\.\d\d  s\d+  food  year=20\d\d", first)
    assert re.fullmatch(r" +Soups \d+", title)


def test_a_filter_that_leaves_nothing_says_what_may_be_mistyped(run: Run, library: Path) -> None:
    for arguments, told in (
        (["--where", "yaer>=2000"], "No hits. No document has the metadata 'yaer' (there are: year).\n"),
        (["--label", "see"], "No hits. No document has the label 'see' (there are: food, sea).\n"),
        (["--where", "year>2050"], "No hits.\n"),
    ):
        answer = run("search", "library", "soup", *arguments)
        assert (answer.code, answer.err) == (0, told)
    assert run("similar", "library", "s1", "--label", "see").err.endswith("'see' (there are: food, sea).\n")


def test_duplicates_are_counted_and_those_of_like_words_alone_are_left_out(run: Run, library: Path) -> None:
    found = run("duplicates", "library", "--radius", "8", "--alike", "0", "--output", "unique.jsonl")
    assert found.err.startswith("1 group of near-duplicates; 23 documents have another one.")
    assert len(Path("unique.jsonl").read_text().splitlines()) == 1
    assert run("duplicates", "library", "--radius", "8", "--alike", "1.0").err.startswith("2 groups")
