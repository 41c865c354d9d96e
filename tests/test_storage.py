from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fewbits.errors import BrokenFolderError, LockedError, MissingFileError, ParameterError
from fewbits.locks import writer_lock
from fewbits.search.snapshot import folder_stamp
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


def test_saving_again_replaces_all_files_and_leaves_one_generation(tmp_path: Path) -> None:
    save_folder(tmp_path, "test", 1, write_two)

    def write_one(folder: Path) -> None:
        (folder / "c.txt").write_text("third")

    save_folder(tmp_path, "test", 1, write_one)
    assert [path.name for path in opened(tmp_path, "test", 1).iterdir()] == ["c.txt"]
    assert len(list(tmp_path.glob("generation-*"))) == 1


def test_an_error_while_saving_leaves_the_previous_state(tmp_path: Path) -> None:
    save_folder(tmp_path, "test", 1, write_two)

    def fail(folder: Path) -> None:
        write_two(folder)
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        save_folder(tmp_path, "test", 1, fail)
    assert (opened(tmp_path, "test", 1) / "a.txt").read_text() == "first"
    assert len(list(tmp_path.glob("generation-*"))) == 1


def test_a_generation_left_by_a_crash_is_ignored_and_removed_by_the_next_save(tmp_path: Path) -> None:
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
        ("other kind", r"holds another kind of data \(allowed: test; got: else\)"),
    ],
)
def test_loading_a_damaged_folder_raises_an_error_with_the_reason(tmp_path: Path, how: str, message: str) -> None:
    save_folder(tmp_path, "test", 1, write_two)
    damage(tmp_path, how)
    with pytest.raises(BrokenFolderError, match=message):
        opened(tmp_path, "test", 1)


def test_loading_a_missing_folder_raises_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"nowhere is not a saved test.*manifest.json"):
        opened(tmp_path / "nowhere", "test", 1)


def test_saving_into_a_folder_with_other_files_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ParameterError, match=r"contains other files.*got: thesis.tex"):
        save_folder(tmp_path, "test", 1, write_two)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["manifest.json", "generation-alpha"])
def test_saving_into_a_folder_that_only_resembles_a_saved_one_raises_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"name": "a browser extension"}')
    with pytest.raises(ParameterError, match=rf"contains other files.*got: {name}"):
        save_folder(tmp_path, "test", 1, write_two)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_saving_over_a_folder_of_another_kind_raises_an_error(tmp_path: Path) -> None:
    save_folder(tmp_path, "test", 1, write_two)
    with pytest.raises(ParameterError, match="contains other files"):
        save_folder(tmp_path, "other", 1, write_two)
    assert (opened(tmp_path, "test", 1) / "a.txt").read_text() == "first"


def test_written_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_json(tmp_path / "value.json", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "value.json").stat().st_mode & 0o777 == 0o600


def test_concurrent_readers_and_writers_see_complete_states_only(tmp_path: Path) -> None:
    script = """
import signal
import sys
from pathlib import Path
from fewbits.search.snapshot import folder_stamp
from fewbits.storage import save_folder
folder, mark = Path(sys.argv[1]), sys.argv[2]
def write(generation):
    for number in range(5):
        (generation / f"{number}.txt").write_text(mark)
for _ in range(60):
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


def test_an_error_while_writing_a_file_keeps_its_old_content(tmp_path: Path) -> None:
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


def test_a_file_of_mutable_files_may_change_after_saving(tmp_path: Path) -> None:
    save_folder(tmp_path, "test", 1, write_two, mutable_files=["a.txt"])
    (opened(tmp_path, "test", 1) / "a.txt").write_text("changed")
    assert (opened(tmp_path, "test", 1) / "a.txt").read_text() == "changed"


def test_the_state_of_a_folder_changes_with_every_save(tmp_path: Path) -> None:
    states = [folder_stamp(tmp_path)]
    for _ in range(3):
        save_folder(tmp_path, "test", 1, write_two)
        states.append(folder_stamp(tmp_path))
    assert states[0] is None
    assert len(set(states)) == 4


LOCK_AND_WAIT = """
import sys
from pathlib import Path
from fewbits.search.snapshot import folder_stamp
from fewbits.locks import writer_lock
with writer_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_lock_times_out_while_another_process_has_it_and_is_free_when_that_process_is_killed(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", LOCK_AND_WAIT, str(tmp_path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(LockedError, match=r"still locked after 0.1 s"), writer_lock(tmp_path, 0.1):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        with writer_lock(tmp_path, 10):
            pass
