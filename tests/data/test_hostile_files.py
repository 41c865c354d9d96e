"""Files that were damaged, or made to break their reader: a clear error, never one of Python's own."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fewbits import read_documents
from fewbits.errors import DataError, FewbitsError, ParameterError

ROWS = "".join(json.dumps({"id": number, "text": f"boat {number} wind"}) + "\n" for number in range(30))
LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "a", "id": LONG}\n'),
        ("a.jsonl", '{"text": "a", "n": [{"x": -LONG}]}\n'),
        ("a.json", '[{"text": "a", "n": LONG}]'),
        ("a.json", '[{"text": "a"}, LONG]'),
    ],
)
def test_an_integer_of_thousands_of_digits_is_a_clear_error(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content.replace("LONG", LONG))
    with pytest.raises(DataError, match="has a number that is too long"):
        list(read_documents(tmp_path / name))


def test_a_line_with_a_long_integer_can_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"text": "a", "n": {LONG}}}\n{{"text": "b"}}\n')
    stream = read_documents(tmp_path / "a.jsonl", on_error="skip")
    assert [document.text for document in stream] == ["b"]
    assert stream.report.skipped == 1


@pytest.mark.parametrize("encoding", ["zip", "zlib", "base64", "rot13", "hex", "bz2", "uu", "quopri", "undefined", "x"])
def test_a_codec_that_is_no_encoding_of_text_is_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.jsonl").write_text(ROWS)
    with pytest.raises(ParameterError, match="encoding is unknown"):
        list(read_documents(tmp_path / "a.jsonl", encoding=encoding))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "punycode"])
def test_a_file_in_another_encoding_is_a_clear_error(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.jsonl").write_text(ROWS)
    with pytest.raises(DataError, match=f"line 1 is not {encoding}"):
        list(read_documents(tmp_path / "a.jsonl", encoding=encoding))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030"])
def test_a_text_may_contain_what_unicode_calls_line_ends(tmp_path: Path, encoding: str) -> None:
    texts = ["boat\u2028wind\u2029sea\x85\x0b\x0c\x1c", "second\u2028", "third"]
    records = "\r\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in texts)
    (tmp_path / "a.jsonl").write_bytes(records.encode(encoding))
    (tmp_path / "a.csv").write_bytes(("id,text\r\n" + "\r\n".join(f"x,{text}" for text in texts)).encode(encoding))
    for name in ("a.jsonl", "a.csv"):
        documents = list(read_documents(tmp_path / name, encoding=encoding))
        assert [document.text for document in documents] == texts, name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json"])
def test_a_flipped_bit_in_a_compressed_file_is_a_clear_error_or_harmless(tmp_path: Path, name: str) -> None:
    text = "text\n" + "".join(f"boat {number} wind\n" for number in range(30))
    plain = (
        text
        if name == "a.csv"
        else ROWS
        if name == "a.jsonl"
        else json.dumps([json.loads(r) for r in ROWS.split("\n") if r])
    )
    content = gzip.compress(plain.encode(), mtime=0)
    path = tmp_path / f"{name}.gz"
    path.write_bytes(content)
    expected = list(read_documents(path))
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with contextlib.suppress(FewbitsError):
            assert list(read_documents(path)) == expected, bit


def test_a_truncated_compressed_file_is_a_clear_error(tmp_path: Path) -> None:
    content = gzip.compress(ROWS.encode())
    for size in range(1, len(content)):
        (tmp_path / "a.jsonl.gz").write_bytes(content[:size])
        with pytest.raises(DataError):
            list(read_documents(tmp_path / "a.jsonl.gz"))


def run(*arguments: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [os.fsencode(sys.executable), b"-m", b"fewbits", *arguments]
    return subprocess.run(command, capture_output=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux only")
def test_the_name_of_a_file_need_not_be_utf_8(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    (tmp_path / os.fsdecode(b"\xff\xfe.jsonl")).write_text(ROWS)
    for name, code in ((b"/\xff\xfe.jsonl", 0), (b"/\xff.jsonl", 1)):
        done = run(b"fit", folder + name, b"--output", folder + b"/engine", b"--method", b"itq", b"--bits", b"8")
        assert done.returncode == code
        assert b"Traceback" not in done.stderr
    assert run(b"search", folder + b"/engine", b"boat").returncode == 0
    # tantivy opens no such folder.
    done = run(
        b"fit", folder + b"/\xff\xfe.jsonl", b"--output", folder + b"/\xff", b"--method", b"itq", b"--bits", b"8"
    )
    assert done.returncode == 1
    assert b"Error: " in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("seed", range(3))
def test_damaged_parquet_is_a_clear_error_or_harmless(tmp_path: Path, seed: int) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": [f"boat {n}" for n in range(50)]}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    generator = np.random.default_rng(seed)
    for _ in range(100):
        flipped = bytearray(content)
        bit = int(generator.integers(8 * len(content)))
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "a.parquet").write_bytes(flipped)
        with contextlib.suppress(FewbitsError):
            list(read_documents(tmp_path / "a.parquet"))
