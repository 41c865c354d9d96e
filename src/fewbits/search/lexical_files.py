"""Checksums of the files of the lexical index, which tantivy writes once and then maps into memory unchecked."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fewbits.errors import BrokenFolderError, FewbitsError
from fewbits.storage import FORM_ERRORS, check_contained, fast_checksum, read_json, write_json

META, CHECKSUMS = "meta.json", "checksums.json"
PARTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")  # files of a segment
FOOTER_END = struct.Struct("<II")  # length of the footer in JSON, and a constant
FOOTER_MARK = 1337
MAX_FOOTER = 10_000  # bytes


def fields(folder: Path) -> dict[str, Any]:
    """Return how the fields are stored; it is fixed when an index is created."""
    meta = read_json(folder / META)
    return {name: meta[name] for name in ("schema", "index_settings")}


def check_files(folder: Path, expected_fields: dict[str, Any] | None, verified: set[object]) -> None:
    """Compare the files of the last commit with their checksums, and add them to those that are verified."""
    while True:
        meta = (folder / META).read_bytes()
        try:
            if expected_fields is not None and fields(folder) != expected_fields:
                raise BrokenFolderError(f"{folder / META} was altered")
            return _check_segments(folder, verified)
        except (FewbitsError, OSError):
            if (folder / META).read_bytes() == meta:  # otherwise another process has replaced the files
                raise


def _check_segments(folder: Path, verified: set[object]) -> None:
    checksums = _recorded(folder)
    for path in _segment_files(folder):
        stamp = _stamp(path)
        if stamp not in verified:
            check_contained(folder, [path.name])
            recorded = checksums.get(path.name)
            if fast_checksum(path) != recorded if recorded is not None else not _matches_footer(path):
                raise BrokenFolderError(f"{path} was altered: its checksum differs")
            verified.add(stamp)


def record_files(folder: Path, verified: set[object]) -> None:
    """Record checksums of the files of a commit, which are faster to compare than those of tantivy."""
    checksums = _recorded(folder)
    paths = _segment_files(folder)
    kept = {path.name: checksums.get(path.name) or fast_checksum(path) for path in paths}
    write_json(folder / CHECKSUMS, kept)
    verified.update(map(_stamp, paths))


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a ValueError where tantivy panics, for example because of a file that does not have its format."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"tantivy: {error}") from error


def _recorded(folder: Path) -> dict[str, str]:
    with suppress(FewbitsError, OSError, *FORM_ERRORS):
        return {str(name): str(value) for name, value in read_json(folder / CHECKSUMS).items()}
    return {}


def _segment_files(folder: Path) -> list[Path]:
    """Return the files of the last commit."""
    paths = []
    for segment in read_json(folder / META)["segments"]:
        name = str(segment["segment_id"]).replace("-", "")
        paths += [folder / f"{name}.{part}" for part in PARTS]
        if segment["deletes"] is not None:
            paths.append(folder / f"{name}.{int(segment['deletes']['opstamp'])}.del")
    return paths


def _stamp(path: Path) -> tuple[object, ...]:
    status = path.stat()
    return path.name, status.st_ino, status.st_size, status.st_mtime_ns


def _matches_footer(path: Path) -> bool:
    """Compare a file with the checksum at its end."""
    content = memoryview(path.read_bytes())
    if len(content) < FOOTER_END.size:
        return False
    length, mark = FOOTER_END.unpack(content[-FOOTER_END.size :])
    end = len(content) - FOOTER_END.size - length
    if mark != FOOTER_MARK or length > MAX_FOOTER or end < 0:
        return False
    return bool(json.loads(bytes(content[end : -FOOTER_END.size]))["crc"] == zlib.crc32(content[:end]))
