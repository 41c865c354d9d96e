from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fewbits.errors import BrokenFolderError, MissingFileError, ParameterError
from fewbits.storage import atomic_write, load_folder, read_json, save_folder, write_json


def opened(folder: Path, kind: str, version: int) -> Path:
    return load_folder(folder, kind, version, lambda generation: generation)


def write_two(folder: Path) -> None:
    (folder / "a.txt").write_text("first")
    (folder / "inner").mkdir()
    (folder / "inner" / "b.txt").write_text("second")


def test_a_saved_folder_opens_with_all_its_files(tmp_path: Path) -> None:
    save_folder(tmp_path / "saved", "test", 1, write_two)
    generation = opened(tmp_path / "saved", "test", 1)
    assert (generation / "inner" / "b.txt").read_text() == "second"


def test_saving_again_replaces_all_and_leaves_one_generation(tmp_path: Path) -> None:
    save_folder(tmp_path, "test", 1, write_two)

    def write_one(folder: Path) -> None:
        (folder / "c.txt").write_text("third")

    save_folder(tmp_path, "test", 1, write_one)
    assert [path.name for path in opened(tmp_path, "test", 1).iterdir()] == ["c.txt"]
    assert len(list(tmp_path.glob("generation-*"))) == 1


def test_an_error_while_saving_leaves_the_last_state(tmp_path: Path) -> None:
    save_folder(tmp_path, "test", 1, write_two)

    def fail(folder: Path) -> None:
        write_two(folder)
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        save_folder(tmp_path, "test", 1, fail)
    assert (opened(tmp_path, "test", 1) / "a.txt").read_text() == "first"
    assert len(list(tmp_path.glob("generation-*"))) == 1


def test_what_a_crash_left_behind_neither_disturbs_reading_nor_stays(tmp_path: Path) -> None:
    save_folder(tmp_path, "test", 1, write_two)
    (tmp_path / "generation-0123456789ab").mkdir()
    assert (opened(tmp_path, "test", 1) / "a.txt").read_text() == "first"
    save_folder(tmp_path, "test", 1, write_two)
    assert not (tmp_path / "generation-0123456789ab").exists()


def damage(tmp_path: Path, how: str) -> None:
    generation = next(tmp_path.glob("generation-*"))
    manifest = tmp_path / "manifest.json"
    if how == "truncated":
        (generation / "a.txt").write_text("fir")
    elif how == "altered":
        (generation / "a.txt").write_text("First")
    elif how == "missing":
        (generation / "a.txt").unlink()
    elif how == "not JSON":
        manifest.write_text(manifest.read_text()[:40])
    elif how == "manifest altered":
        manifest.write_text(manifest.read_text().replace('"bytes": 5', '"bytes": 6'))
    elif how == "newer":
        manifest.write_text(json.dumps({"format": "test", "version": 2}))
    elif how == "other kind":
        manifest.write_text(json.dumps({"format": "else", "version": 1}))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated", r"a.txt is truncated \(allowed: 5 bytes; got: 3\). Restore a copy"),
        ("altered", "a.txt was altered: its checksum differs"),
        ("missing", "a.txt is missing"),
        ("not JSON", "manifest.json is not JSON"),
        ("manifest altered", "manifest.json was altered"),
        ("newer", r"newer format \(allowed: test up to version 1; got: 2\). Update fewbits: pip install -U fewbits"),
        ("other kind", r"of another kind \(allowed: test; got: else\)"),
    ],
)
def test_a_damaged_folder_is_refused_with_what_is_wrong(tmp_path: Path, how: str, message: str) -> None:
    save_folder(tmp_path, "test", 1, write_two)
    damage(tmp_path, how)
    with pytest.raises(BrokenFolderError, match=message):
        opened(tmp_path, "test", 1)


def test_a_folder_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"nowhere is no saved test.*manifest.json"):
        opened(tmp_path / "nowhere", "test", 1)


def test_a_folder_with_other_files_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ParameterError, match=r"holds other files.*got: thesis.tex"):
        save_folder(tmp_path, "test", 1, write_two)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["manifest.json", "generation-alpha"])
def test_a_folder_that_only_looks_like_a_saved_one_is_never_written_into(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"name": "an extension of somebody\'s browser"}')
    with pytest.raises(ParameterError, match=rf"holds other files.*got: {name}"):
        save_folder(tmp_path, "test", 1, write_two)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_saved_folder_of_another_kind_is_never_replaced(tmp_path: Path) -> None:
    save_folder(tmp_path, "test", 1, write_two)
    with pytest.raises(ParameterError, match="holds other files"):
        save_folder(tmp_path, "other", 1, write_two)
    assert (opened(tmp_path, "test", 1) / "a.txt").read_text() == "first"


def test_files_are_as_open_to_others_as_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_json(tmp_path / "value.json", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "value.json").stat().st_mode & 0o777 == 0o600


def test_readers_and_writers_at_one_time_see_whole_states_only(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from fewbits.storage import save_folder
folder, mark = Path(sys.argv[1]), sys.argv[2]
def write(generation):
    for number in range(5):
        (generation / f"{number}.txt").write_text(mark)
for _ in range(150):
    save_folder(folder, "test", 1, write)
"""

    def read(generation: Path) -> set[str]:
        return {path.read_text() for path in generation.iterdir()}

    save_folder(tmp_path, "test", 1, lambda generation: None)
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), mark]) for mark in ("a", "b")]
    seen = []
    while any(writer.poll() is None for writer in writers):
        seen.append(load_folder(tmp_path, "test", 1, read))
    assert [writer.returncode for writer in writers] == [0, 0]
    assert all(marks in ({"a"}, {"b"}, set()) for marks in seen)
    assert {"a"} in seen
    assert {"b"} in seen


def test_a_file_keeps_its_old_content_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"old": 1})

    def write_half() -> None:
        with atomic_write(path) as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert read_json(path) == {"old": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]
