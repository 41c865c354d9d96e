"""The command duplicates: on files and engines, between files, and what it writes."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cli.test_cli import Run, run
from fewbits import SearchEngine

__all__ = ["run"]

RECORDS: list[dict[str, Any]] = [
    {"key": "a", "text": "The quick brown fox jumps over the lazy dog near the bank", "url": "u1", "rank": 5},
    {"key": "b", "text": "the quick brown fox jumps over the lazy dog, near the bank!", "url": "u2"},
    {"key": "c", "text": "The quick brown fox jumps over the lazy cat near the bank", "url": None},
    {"key": "d", "text": "Lot 12 rose to 30 dollars in the market of Berlin", "tags": ["x", "y"]},
    {"key": "e", "text": "Lot 12 rose to 31 dollars in the market of Berlin"},
    {"key": "f", "text": ""},
    {"key": "g", "text": ""},
]


def write(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def read(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.fixture
def source(tmp_path: Path) -> str:
    return write(tmp_path / "in.jsonl", RECORDS)


def test_a_file_is_grouped_without_an_engine_and_keeps_all_fields(run: Run, source: str) -> None:
    done = run("duplicates", source, "--id", "key", "--output", "unique.jsonl")
    assert done.code == 0
    group, copy, other = done.out.splitlines()
    assert group.split("\t") == ["a", "b", "c"]
    assert copy == "  b (like a): 1.00  only case, spaces or punctuation differ"
    assert other.startswith("  c (like a): 0.8")
    assert other.endswith("  words differ; - dog + cat")
    assert done.err.splitlines() == [
        "1 group with 2 duplicates: 1 only case, spaces or punctuation differ, 1 words differ.",
        "2 documents without text were not compared.",
        "Wrote 5 documents to unique.jsonl, omitting 2 duplicates.",
    ]
    assert read("unique.jsonl") == [record for record in RECORDS if record["key"] not in ("b", "c")]


def test_numbers_count_as_words_or_not_at_all_if_asked(run: Run, source: str) -> None:
    by_word = run("duplicates", source, "--id", "key", "--numbers", "word", "--json").lines
    assert [group["representative"] for group in by_word] == ["a", "d"]
    ignored = run("duplicates", source, "--id", "key", "--numbers", "ignore", "--json").lines
    assert [(group["representative"], group["others"]) for group in ignored] == [("a", ["b", "c"]), ("d", ["e"])]
    [match] = ignored[1]["matches"]
    assert (match["id"], match["of"], match["reason"]) == ("e", "d", "numbers differ")
    assert match["changes"] == [{"removed": "30", "added": "31"}]


def test_csv_and_compressed_files_and_skipped_records_keep_their_places(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "in.csv").open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter=";")
        writer.writerows([["text", "url"], *([record["text"], record.get("url", "")] for record in RECORDS)])
    done = run("duplicates", "in.csv", "--delimiter", ";", "--output", "unique.jsonl")
    assert done.out.splitlines()[0] == "0\t1\t2"
    assert [record["text"] for record in read("unique.jsonl")] == [RECORDS[row]["text"] for row in (0, 3, 4, 5, 6)]
    lines = [json.dumps(record) for record in RECORDS]
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress("\n".join([lines[0], "{broken", *lines[1:]]).encode()))
    done = run("duplicates", "in.jsonl.gz", "--on-error", "skip", "--output", "unique.jsonl")
    assert done.out.splitlines()[0] == "0\t2\t3"
    assert done.err.count("1 record was skipped:") == 1
    assert read("unique.jsonl") == [RECORDS[row] for row in (0, 3, 4, 5, 6)]


def test_a_folder_of_texts_is_compared(run: Run, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for record in RECORDS[:4]:
        (tmp_path / "texts" / f"{record['key']}.txt").write_text(record["text"])
    done = run("duplicates", "texts", "--output", "unique.jsonl")
    assert done.out.splitlines()[0] == "a.txt\tb.txt\tc.txt"
    assert [record["id"] for record in read("unique.jsonl")] == ["a.txt", "d.txt"]


def test_texts_of_one_file_are_compared_with_another(run: Run, source: str, tmp_path: Path) -> None:
    later = [
        {"key": "x", "text": "A quick brown fox jumps over the lazy dog near the bank", "n": 1},
        {"key": "y", "text": "A quick brown fox jumps over the lazy dog near the bank", "n": 2},
        {"key": "z", "text": "Lot 12 rose to 32 dollars in the market of Berlin", "n": 3},
    ]
    done = run(
        "duplicates",
        write(tmp_path / "new.jsonl", later),
        "--id",
        "key",
        "--against",
        source,
        "--output",
        "new-only.jsonl",
    )
    found = [line.split("\t")[:2] for line in done.out.splitlines()]
    assert [id for id, _ in found] == ["x", "y"]
    assert {of for _, of in found} <= {"a", "b"}
    assert "2 documents of" in done.err
    assert read("new-only.jsonl") == later[2:]


def test_more_documents_of_a_group_stay_if_asked(run: Run, source: str) -> None:
    done = run("duplicates", source, "--id", "key", "--keep", "2", "--prefer", "newest", "--output", "kept.jsonl")
    assert done.out.splitlines()[0].split("\t") == ["c", "b", "a"]
    assert "  b (like c, stays): " in done.out
    assert [record["key"] for record in read("kept.jsonl")] == ["b", "c", "d", "e", "f", "g"]


def test_pairs_in_a_file_are_used_again_unless_the_source_has_changed(run: Run, source: str) -> None:
    first = run("duplicates", source, "--id", "key", "--pairs", "found.pairs")
    assert "Using" not in first.err
    again = run("duplicates", source, "--id", "key", "--pairs", "found.pairs", "--min-similarity", "0.95")
    assert "Using the pairs in found.pairs." in again.err
    assert again.out.splitlines()[0].split("\t") == ["a", "b"]
    less = run("duplicates", source, "--id", "key", "--pairs", "found.pairs", "--min-similarity", "0.6")
    assert "Using" not in less.err
    write(Path(source), RECORDS[:1])
    assert run("duplicates", source, "--id", "key", "--pairs", "found.pairs").out == ""


def test_an_engine_is_compared_by_words_unless_a_radius_is_given(run: Run, tmp_path: Path) -> None:
    texts = [record["text"] for record in RECORDS[:5]]
    ids = [record["key"] for record in RECORDS[:5]]
    SearchEngine.from_texts(texts, ids=ids, n_bits=8, method="itq").save(tmp_path / "engine")
    done = run("duplicates", "engine", "--output", "unique.jsonl")
    assert done.out.splitlines()[0].split("\t") == ["a", "b", "c"]
    assert [record["id"] for record in read("unique.jsonl")] == ["a", "d", "e"]
    by_codes = run("duplicates", "engine", "--radius", "8", "--min-similarity", "0")
    assert by_codes.out.splitlines() == ["a\tb\tc\td\te"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("in.jsonl", "--radius", "3"), "in.jsonl has no codes (allowed: --radius with an engine folder"),
        (("-",), "standard input can be read only once (allowed: a file"),
        (("missing.jsonl",), "missing.jsonl does not exist"),
        (("in.jsonl", "--min-similarity", "0.1"), "min_similarity, a cosine, is out of range (allowed: 0.5 to 1"),
        (("in.jsonl", "--numbers", "odd"), "numbers is unknown (allowed: same, word, ignore; got: 'odd')"),
        (("in.jsonl", "--prefer", "best"), "prefer is unknown (allowed: first, longest, newest; got: 'best')"),
        (("in.jsonl", "--text", "body"), "has no field 'body'"),
        (("engine", "--against", "in.jsonl"), "an engine is not compared with a file"),
    ],
)
def test_what_cannot_be_compared_is_an_error(
    run: Run, source: str, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    SearchEngine.from_texts(["cats purr", "dogs bark"], n_bits=2, method="lsh").save(tmp_path / "engine")
    done = run("duplicates", *arguments)
    assert (done.code, done.out) == (1, "")
    assert message in done.err.replace("\n", " ")
