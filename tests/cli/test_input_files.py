"""What commands say about files with damaged, missing and empty records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.test_cli import Output, Run, command, run, saved
from fewbits import SearchEngine

__all__ = ["run", "saved"]  # fixtures


def lines_of(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_fit_skips_damaged_records_on_request_and_reports_them_at_the_end(run: Run, tmp_path: Path) -> None:
    good = [json.dumps({"text": f"red apples and pears {name}"}) for name in ("one", "two", "three")]
    source = lines_of(tmp_path / "a.jsonl", good[0], "{broken", good[1], '{"text": 5}', '{"text": null}', good[2])
    options = ("-o", "engine", "--method", "itq", "--bits", "8")
    stopped = run("fit", source, *options)
    assert (stopped.code, stopped.out) == (1, "")
    assert "a.jsonl, line 2 is not JSON" in stopped.err
    assert not (tmp_path / "engine").exists()
    skipped = run("fit", source, *options, "--on-error", "skip")
    assert skipped.code == 0
    assert f"1 record has no value in the field 'text', which counts as empty: {source}, line 5." in skipped.err
    assert "2 records were skipped:\n" in skipped.err
    assert f"{source}, line 2 is not JSON" in skipped.err
    assert f"{source}, line 4: field 'text' is not a text" in skipped.err
    assert len(list(SearchEngine.load(tmp_path / "engine").documents())) == 4
    assert run("fit", source, *options, "--on-error", "ask").err.startswith("Error: on_error is unknown")


def test_add_reads_arrays_other_delimiters_and_html(run: Run, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"id": "j1", "text": "boat"}, {"id": "j2", "text": "mast"}]))
    assert run("add", str(saved), "a.json", "--id", "id").out.startswith("Added 2 documents")
    lines_of(tmp_path / "b.csv", "id;text", 'c1;"<p>boat &amp; harbour</p>"')
    assert run("add", str(saved), "b.csv", "--id", "id", "--delimiter", ";", "--strip-html").code == 0
    [*_, last] = SearchEngine.load(saved).documents()
    assert (last.id, last.text) == ("c1", "boat & harbour")


def test_a_duplicate_id_in_a_file_names_both_lines_and_adds_nothing(run: Run, saved: Path, tmp_path: Path) -> None:
    records = ['{"id": "n1", "text": "boat"}', '{"id": "n2", "text": "boat"}', '{"id": "n1", "text": "mast"}']
    source = lines_of(tmp_path / "a.jsonl", *records)
    done = run("add", str(saved), source, "--id", "id")
    assert (done.code, done.out) == (1, "")
    assert f"{source}, line 1 and line 3: the id 'n1' is given twice" in done.err
    assert SearchEngine.load(saved).info()["documents"] == 60


def test_one_bad_query_of_a_file_does_not_stop_the_others(run: Run, saved: Path, tmp_path: Path) -> None:
    queries = ['{"text": "boat"}', '{"text": "xyzzy"}', "{broken", '{"text": null}', '{"text": "onions"}']
    source = lines_of(tmp_path / "q.jsonl", *queries)
    done = run("search", str(saved), "--source", source, "-k", "1", "--json")
    assert done.code == 1
    assert [(answer["id"], answer["query"]) for answer in done.lines] == [(0, "boat"), (4, "onions")]
    assert "the query has no known word (allowed: one word or more of the vocabulary; got: 'xyzzy')" in done.err
    assert f"{source}, line 3 is not JSON" in done.err


def check_unknown(done: Output, got: str) -> None:
    assert done.code == 1
    assert f"Error: the text has no known word (allowed: one word or more of the vocabulary; got: {got})" in done.err


def test_encode_of_a_text_without_a_known_word_says_so(run: Run, saved: Path, tmp_path: Path) -> None:
    done = run("encode", str(saved), "xyzzy")
    assert done.out == ""
    check_unknown(done, "'xyzzy'")
    source = lines_of(tmp_path / "t.jsonl", '{"text": "boat"}', '{"text": "xyzzy"}', '{"text": "onions"}')
    done = run("encode", str(saved), "--source", source)
    first, second, third = done.out.splitlines()
    assert second == "1\t"
    assert first.startswith("0\t")
    assert third.startswith("2\t")
    check_unknown(done, "'xyzzy'")
    assert [line["code"] is None for line in run("encode", str(saved), "--source", source, "--json").lines] == [
        False,
        True,
        False,
    ]


@pytest.mark.slow
def test_encode_keeps_the_lines_of_standard_input_aligned(saved: Path) -> None:
    done = command("encode", str(saved), "-", stdin="boat\nxyzzy\nonions\n")
    assert [bool(line) for line in done.out.split("\n")] == [True, False, True, False]
    check_unknown(done, "'xyzzy'")
