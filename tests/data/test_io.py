from __future__ import annotations

import gzip
import io
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from fewbits import Document, read_documents
from fewbits.errors import DataError, MissingExtraError, MissingFileError, ParameterError

RECORDS = [
    {"key": "a1", "title": "Héllo", "body": "first text", "topic": "x"},
    {"key": "b2", "title": "World", "body": 'second, "quoted"\nline', "topic": "y"},
]
EXPECTED = [Document("a1", "Héllo\nfirst text", ("x",)), Document("b2", 'World\nsecond, "quoted"\nline', ("y",))]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    import csv

    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path, row_group_size=1)
    elif path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, records[0], delimiter="," if path.suffix == ".csv" else "\t")
            writer.writeheader()
            writer.writerows(records)
    else:
        lines = "\n".join(json.dumps(record) for record in records).encode()
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.jsonl.gz", "a.csv", "a.tsv", "a.parquet"])
def test_every_format_gives_the_same_documents(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, RECORDS)
    assert list(read_documents(path, text=("title", "body"), id="key", label="topic")) == EXPECTED


def test_without_an_id_field_ids_are_positions_from_zero(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", RECORDS)
    assert [document.id for document in read_documents(path, text="body")] == [0, 1]


def test_several_labels_are_a_list_or_separated_text(tmp_path: Path) -> None:
    records = [{"text": "t", "list": ["a", "b"], "words": "a  b", "commas": "a, b,", "number": 3, "none": None}]
    path = write(tmp_path / "a.jsonl", records)

    def labels(label: str, separator: str | None = None) -> tuple[str, ...]:
        return next(read_documents(path, label=label, label_separator=separator)).labels

    assert labels("list") == labels("words", " ") == labels("commas", ",") == ("a", "b")
    assert labels("words") == ("a  b",)
    assert labels("number") == ("3",)
    assert labels("none") == ()


def test_a_folder_yields_one_document_per_text_file_labelled_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "sport").mkdir()
    (tmp_path / "sport" / "one.txt").write_text("ball\ngoal")
    (tmp_path / "two.txt").write_text("plain")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert list(read_documents(tmp_path)) == [
        Document("sport/one.txt", "ball\ngoal", ("sport",)),
        Document("two.txt", "plain", ()),
    ]


def test_standard_input_is_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "a"}\n\n{"text": "b"}\n')))
    assert [document.text for document in read_documents("-")] == ["a", "b"]


def test_a_byte_order_mark_is_not_part_of_the_first_field(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("\ufefftext\nhello\n".encode())
    assert [document.text for document in read_documents(path)] == ["hello"]


def test_an_encoding_other_than_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text\nsmörgås\n".encode("latin-1"))
    assert [document.text for document in read_documents(path, encoding="latin-1")] == ["smörgås"]


def test_documents_before_a_malformed_record_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\nnot json\n')
    stream: Iterator[Document] = read_documents(path)
    assert next(stream).text == "good"
    with pytest.raises(DataError):
        next(stream)


def read_content(tmp_path: Path, name: str, content: bytes, **options: Any) -> list[Document]:
    path = tmp_path / name
    path.write_bytes(content)
    return list(read_documents(path, **options))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            b'{"text": "a"}\n{"text": b}\n',
            r"a.jsonl, line 2 is not JSON \(got: Expecting value at column 10\)",
        ),
        ("a.jsonl", b'{"text": "a"}\n[1]\n', r"line 2 is not a record \(allowed: a JSON object; got: list\)"),
        ("a.jsonl", b'{"body": "a"}\n', r"line 1 has no field 'text' \(allowed: 'body'\). Name the fields"),
        ("a.jsonl", b'{"text": 5}\n', r"line 1: field 'text' is not a text \(allowed: a string; got: 5\)"),
        (
            "a.jsonl",
            b'{"text": "ok"}\n{"text": "caf\xe9"}\n',
            r"a.jsonl, line 2 is not utf-8 \(got: byte 0xe9 at column 14\)",
        ),
        ("a.csv", b"text,x\nfine,1\nonly\n", r"line 3 differs from the header in the number of fields"),
        ("a.csv", b"body\nfine\n", r"line 2 has no field 'text' \(allowed: 'body'\)"),
        ("a.csv", b"text,text\na,b\n", r"line 1 has duplicate field names"),
        ("a.jsonl", b"[" * 100_000, r"line 1 is nested too deeply|line 1 is not JSON"),
        ("a.csv", b'text\n"open\n', r"is not valid CSV"),
        ("a.jsonl.gz", b"plain", r"is not a complete gzip file"),
        ("a.jsonl.gz", gzip.compress(b'{"text": "a"}\n' * 999, mtime=0)[:30], r"is not a complete gzip file"),
        ("a.parquet", b"plain", r"is not a Parquet file"),
    ],
)
def test_a_malformed_file_raises_an_error_with_the_place(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_content(tmp_path, name, content)


def test_utf_16_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.CSV"
    path.write_bytes("text\nsmörgås\n中文\n".encode("utf-16"))
    assert [document.text for document in read_documents(path, encoding="utf-16")] == ["smörgås", "中文"]


def test_a_lone_surrogate_is_replaced_by_a_question_mark(tmp_path: Path) -> None:
    [document] = read_content(tmp_path, "a.jsonl", b'{"text": "\\ud83d hello"}')
    assert document.text == "? hello"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "nope"}, r"encoding is unknown.*got: 'nope'"),
        ({"text": ()}, r"no text field is given"),
        ({"label_separator": ""}, r"label_separator is empty"),
    ],
)
def test_invalid_options_raise_an_error_before_reading(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        read_documents("-", **options)


def test_fields_of_a_folder_raise_an_error(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"is a folder of texts, which has no fields"):
        read_documents(tmp_path, id="id")


def test_an_id_that_is_neither_text_nor_number_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"field 'id' is not an id \(allowed: a string or an integer; got: None\)"):
        read_content(tmp_path, "a.jsonl", b'{"text": "a", "id": null}', id="id")


def test_a_missing_file_raises_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"nowhere.csv does not exist"):
        read_documents(tmp_path / "nowhere.csv")


def test_an_unknown_extension_raises_an_error_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        ParameterError, match=r"unknown extension \(allowed: .jsonl, .ndjson, .json, .csv, .tsv, .parquet"
    ):
        read_content(tmp_path, "a.docx", b"")


def test_a_folder_without_texts_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="contains no documents"):
        list(read_documents(tmp_path))


def test_parquet_without_its_extra_raises_an_error_with_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet", RECORDS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fewbits\[parquet\]'"):
        list(read_documents(path))


def test_an_array_of_objects_is_read_as_json_lines_are(tmp_path: Path) -> None:
    for name, content in {
        "a.json": json.dumps(RECORDS, indent=1),
        "b.json": json.dumps(RECORDS),
        "c.jsonl": "\n " + json.dumps(RECORDS) + "\n",
        "d.json": "\n".join(map(json.dumps, RECORDS)),  # JSON Lines under another name
    }.items():
        (tmp_path / name).write_text(content)
        assert list(read_documents(tmp_path / name, text=("title", "body"), id="key", label="topic")) == EXPECTED, name
    assert read_content(tmp_path, "e.json", b" [ ] ") == []


def test_a_long_array_is_read_element_by_element(tmp_path: Path) -> None:
    texts = [f"number {n} " + "x" * (n * 37 % 5000) for n in range(400)]
    for indent in (None, 2):
        content = json.dumps([{"text": text} for text in texts], indent=indent).encode()
        assert [d.text for d in read_content(tmp_path, "a.json", content)] == texts
    stream = read_documents(tmp_path / "a.json")
    assert next(stream).text == texts[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"text": "a"},\n {"text": b}]', r"line 2 is not JSON \(allowed: an array of objects.*got: Expecting value"),
        (b'[{"text": "a"},\n 5]', r"line 2 is not a record \(allowed: a JSON object; got: int\)"),
        (b'[{"text": "a"}\n {"text": "b"}]', r"line 2 is not JSON \(allowed: a comma or \] after an element; got: '{"),
        (b'[{"text": "a"},\n', r"line 2 is not JSON"),
        (b'[{"text": "a"}', r"is not JSON"),
        (b'{"data": [1]}', r"line 1 has no field 'text' \(allowed: 'data'\)"),
    ],
)
def test_a_malformed_array_raises_an_error_with_the_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_content(tmp_path, "a.json", content)


def test_an_array_that_fails_in_the_middle_keeps_what_came_before_under_skip(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"text": "a"}, 7,\n{"text": 3}, {"text": "b"}]')
    stream = read_documents(tmp_path / "a.json", on_error="skip", warn=lambda sentence: None)
    assert [(d.id, d.text) for d in stream] == [(0, "a"), (3, "b")]
    assert stream.report.skipped == 2


def read_and_report(tmp_path: Path, name: str, content: bytes, **options: Any) -> tuple[list[Document], list[str], Any]:
    path = tmp_path / name
    path.write_bytes(content)
    warnings: list[str] = []
    stream = read_documents(path, warn=warnings.append, **options)
    return list(stream), warnings, stream.report


def test_skipped_records_are_counted_and_the_first_ten_are_named(tmp_path: Path) -> None:
    lines = ['{"text": "good"}'] + [f'{{"text": bad{n}}}' for n in range(12)] + ['{"text": 5}', '{"text": "last"}']
    documents, warnings, report = read_and_report(tmp_path, "a.jsonl", "\n".join(lines).encode(), on_error="skip")
    assert [(d.id, d.text) for d in documents] == [(0, "good"), (14, "last")]  # ids stay those of the file
    assert report.skipped == 13
    [warning] = warnings
    first, *named, last = warning.splitlines()
    assert first == "13 records were skipped:"
    assert len(named) == 10
    assert "a.jsonl, line 2 is not JSON (got: Expecting value at column 10)" in named[0]
    assert last == "  and 3 more."
    with pytest.raises(DataError, match="line 2 is not JSON"):
        list(read_documents(tmp_path / "a.jsonl"))
    with pytest.raises(ParameterError, match=r"on_error is unknown \(allowed: stop, skip; got: 'ignore'\)"):
        read_documents(tmp_path / "a.jsonl", on_error="ignore")


def test_a_damaged_row_of_a_csv_file_is_skipped_and_the_next_ones_are_read(tmp_path: Path) -> None:
    content = b'text,x\nfine,1\nonly\ncaf\xe9,2\n"a"b,3\nlast,4\n"open,5\nlost,6\n'
    documents, [warning], report = read_and_report(tmp_path, "a.csv", content, on_error="skip")
    assert [d.text for d in documents] == ["fine", "last"]
    assert report.skipped == 4
    for problem in (
        "line 3 differs from the header in the number of fields (allowed: 2; got: 1)",
        "line 4 is not utf-8 (got: byte 0xe9 at column 4)",
        "line 5 is not valid CSV",
        "lines 7 to 8 are not valid CSV (got: unexpected end of data)",
    ):
        assert problem in warning


def test_missing_and_null_texts_are_empty_with_a_warning_that_counts_them(tmp_path: Path) -> None:
    lines = ['{"text": "a", "title": "t"}', '{"text": null, "title": "u"}', '{"title": "v"}', '{"text": NaN}']
    documents, warnings, report = read_and_report(
        tmp_path, "a.jsonl", "\n".join(lines).encode(), text=("title", "text")
    )
    assert [d.text for d in documents] == ["t\na", "u\n", "v\n", "\n"]
    assert report.n_empty == {"text": 3, "title": 1}
    path = tmp_path / "a.jsonl"
    assert warnings == [
        f"3 records have no value in the field 'text', which counts as empty: {path}, line 2, line 3, line 4.",
        f"1 record has no value in the field 'title', which counts as empty: {path}, line 4.",
    ]
    with pytest.warns(UserWarning, match="3 records have no value in the field 'text'"):
        list(read_documents(path, text=("title", "text")))


def test_a_missing_label_or_metadata_field_is_counted_but_null_is_a_value(tmp_path: Path) -> None:
    content = b'{"text": "a", "y": 1, "l": null}\n{"text": "b", "y": null, "l": "x"}\n{"text": "c"}\n'
    documents, warnings, report = read_and_report(tmp_path, "a.jsonl", content, label="l", metadata=["y"])
    assert [(d.labels, d.metadata) for d in documents] == [((), {"y": 1}), (("x",), {"y": None}), ((), {})]
    assert report.n_empty == {"l": 1, "y": 1}
    assert len(warnings) == 2


def test_a_field_that_no_record_has_is_an_error_under_skip_too(tmp_path: Path) -> None:
    for on_error in ("stop", "skip"):
        with pytest.raises(DataError, match=r"line 1 has no field 'title', nor has any record after it"):
            read_content(tmp_path, "a.jsonl", b'{"text": "a"}\n{"text": "b"}', text="title", on_error=on_error)


def test_a_duplicate_id_is_an_error_that_names_both_lines(tmp_path: Path) -> None:
    content = b'{"id": "x", "text": "a"}\n\n{"id": "y", "text": "b"}\n{"id": "x", "text": "c"}\n'
    with pytest.raises(DataError, match=r"a.jsonl, line 1 and line 4: the id 'x' is given twice. Ids must be unique"):
        read_content(tmp_path, "a.jsonl", content, id="id")
    documents, [warning], _ = read_and_report(tmp_path, "a.jsonl", content, id="id", on_error="skip")
    assert [d.text for d in documents] == ["a", "b"]
    assert "line 1 and line 4: the id 'x' is given twice" in warning


@pytest.mark.parametrize(("delimiter", "separator"), [(";", ";"), ("\\t", "\t"), ("|", "|")])
def test_the_delimiter_of_a_csv_file_can_be_given(tmp_path: Path, delimiter: str, separator: str) -> None:
    content = separator.join(["text", "n"]) + "\n" + separator.join(["a, b", "1"]) + "\n"
    assert [d.text for d in read_content(tmp_path, "a.csv", content.encode(), delimiter=delimiter)] == ["a, b"]


@pytest.mark.parametrize(
    ("name", "delimiter", "message"),
    [
        ("a.csv", ";;", r"the delimiter is not valid \(allowed: one character, such as ; or \\t; got: ';;'\)"),
        ("a.csv", '"', "the delimiter is not valid"),
        ("a.jsonl", ";", r"a.jsonl has no delimiter \(allowed: a delimiter for .csv and .tsv files\)"),
    ],
)
def test_an_invalid_delimiter_is_an_error(tmp_path: Path, name: str, delimiter: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        read_content(tmp_path, name, b"text\na\n", delimiter=delimiter)


def test_html_is_stripped_on_request(tmp_path: Path) -> None:
    page = "<html><head><title>x</title></head><body><h1>Fish &amp; chips</h1><p>1 < 2 <b>bo</b>ld<br>new</p>"
    page += "<script>if (a < b) {}</script><!-- <p>no</p> --><a href='x' title=\"a>b\">li\u00adnk</a></body></html>"
    content = json.dumps({"text": page}).encode()
    assert read_content(tmp_path, "a.jsonl", content)[0].text == page
    [document] = read_content(tmp_path, "a.jsonl", content, strip_html=True)
    assert document.text == "Fish & chips\n1 < 2 bold\nnew\nli\u00adnk"


@pytest.mark.parametrize("piece", ["<a", "<!--", '<a href="', "<script>", '<a ">"', "&amp", "</", "<?", "&#9"])
def test_hostile_html_is_stripped_in_linear_time(tmp_path: Path, piece: str) -> None:
    def seconds(count: int) -> float:
        content = json.dumps({"text": piece * count}).encode()
        start = time.process_time()
        read_content(tmp_path, "a.jsonl", content, strip_html=True)
        return time.process_time() - start

    assert seconds(80_000) < 40 * max(seconds(8_000), 0.01)  # a quadratic one takes a hundred times as long


def test_a_text_file_that_cannot_be_decoded_is_skipped_on_request(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"caf\xe9")
    (folder / "b.txt").write_text("good")
    stream = read_documents(folder, on_error="skip", warn=lambda sentence: None)
    assert [d.id for d in stream] == ["b.txt"]
    assert "a.txt, line 1 is not utf-8" in stream.report.errors[0]
