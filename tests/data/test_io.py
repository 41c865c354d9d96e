from __future__ import annotations

import gzip
import io
import json
import sys
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
    with pytest.raises(ParameterError, match=r"unknown extension \(allowed: .jsonl, .ndjson, .csv, .tsv, .parquet"):
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
