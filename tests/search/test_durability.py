from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fewbits import Document, SearchEngine
from fewbits.errors import LockedError, NotWritableError
from fewbits.locks import writer_lock
from helpers.engines import count_of, document_of

SECONDS = float(os.environ.get("FEWBITS_SECONDS", "3"))
CREW = 20
KILLS = 14


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_the_state_before_or_after() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("durability.py")), "--kills", str(KILLS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{KILLS} processes killed; every folder opened whole" in done.stdout
    outcomes = [int(figure) for figure in re.findall(r"state (?:before|after)\s+(\d+)", done.stdout)]
    assert sum(outcomes) == KILLS
    assert len(outcomes) == 14


WRITER = """
import sys, time
from fewbits import Document, SearchEngine
engine = SearchEngine.load(sys.argv[1])
end = time.monotonic() + float(sys.argv[2])
turn = 0
while time.monotonic() < end:
    turn += 1
    crew = [Document(f"crew-{n}", f"boat {turn}", ("crew",), {"turn": turn}) for n in range(int(sys.argv[3]))]
    engine.update(crew)
    engine.add([Document(f"guest-{n}", f"harbour {turn}", ("guest",)) for n in range(50)])
    engine.remove([f"guest-{n}" for n in range(50)])
print(turn)
"""


@pytest.mark.slow
def test_a_reader_sees_complete_states_while_another_process_writes(engine: SearchEngine, tmp_path: Path) -> None:
    engine.add([Document(f"crew-{n}", "boat 0", ("crew",), {"turn": 0}) for n in range(CREW)])
    engine.save(tmp_path / "engine")
    reader = SearchEngine.load(tmp_path / "engine")
    arguments = [sys.executable, "-c", WRITER, str(tmp_path / "engine"), str(SECONDS), str(CREW)]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    turns, sizes = set(), set()
    while writer.poll() is None:
        hits = reader.search("boat", k=CREW, labels=["crew"])
        assert len(hits) == CREW
        assert len({hit.metadata["turn"] for hit in hits}) == 1  # all of one change, or none
        assert {hit.text for hit in hits} == {f"boat {hits[0].metadata['turn']}"}
        turns.add(hits[0].metadata["turn"])
        sizes.add(len(reader))
    assert writer.stdout is not None
    written = int(writer.stdout.read())
    writer.stdout.close()
    assert writer.returncode == 0
    print(f"{written} turns of the writer, {len(turns)} of them seen by the reader in {SECONDS:g} s")
    assert sizes <= {60 + CREW, 60 + CREW + 50}
    assert len(turns) > 3
    assert document_of(reader, "crew-0").metadata == {"turn": written}


def test_threads_search_one_engine_while_another_thread_changes_it(engine: SearchEngine) -> None:
    from concurrent.futures import ThreadPoolExecutor

    stop = time.monotonic() + 1

    def read(_: int) -> set[int]:
        sizes = set()
        while time.monotonic() < stop:
            assert len(engine.search("boat harbour", k=5)) == 5
            sizes.add(len(engine))
        return sizes

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, number) for number in range(3)]
        while time.monotonic() < stop:
            engine.add([Document(f"new-{n}", "boat mast") for n in range(10)])
            engine.remove([f"new-{n}" for n in range(10)])
        for reader in readers:
            assert reader.result() <= {60, 70}


def test_a_second_writer_waits_for_the_lock_and_then_raises_an_error(
    engine: SearchEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.save(tmp_path / "engine")
    loaded = SearchEngine.load(tmp_path / "engine")
    monkeypatch.setattr("fewbits.search.state.LOCK_TIMEOUT_S", 0.2)
    with (
        writer_lock(tmp_path / "engine"),
        pytest.raises(
            LockedError, match=r"another process is changing .*engine \(got: still locked after 0.2 s\). Try again"
        ),
    ):
        loaded.add([Document("late", "boat")])
    assert loaded.search("boat")
    assert loaded.add([Document("late", "boat")]) == 1


def test_an_engine_that_was_replaced_as_a_whole_is_seen_by_its_readers_and_writers(
    engine: SearchEngine, tmp_path: Path
) -> None:
    engine.save(tmp_path / "engine")
    reader = SearchEngine.load(tmp_path / "engine")
    assert len(reader) == 60
    SearchEngine.from_texts(["red apples", "green pears"], ids=["a", "p"], n_bits=8, method="itq").save(
        tmp_path / "engine"
    )
    assert [hit.id for hit in reader.search("apples", k=1)] == ["a"]
    reader.add([Document("r", "red red apples")])
    assert document_of(SearchEngine.load(tmp_path / "engine"), "r").text == "red red apples"
    assert reader.n_bits == 8


READ_ONLY = """
import os, sys
from fewbits import Document, SearchEngine
from fewbits.errors import NotWritableError
if os.geteuid() == 0:  # root can write anywhere: read as another user
    os.setuid(65534)
engine = SearchEngine.load(sys.argv[1])
print(len(engine), engine.search("boat", k=1)[0].labels[0])
try:
    engine.add([Document("new", "boat")])
except NotWritableError as error:
    print(error)
"""


def test_a_read_only_folder_can_be_searched_but_not_changed(engine: SearchEngine, tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    engine.save(folder)
    (folder / ".lock").unlink()
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for parent in list(folder.parents)[:-2] if os.geteuid() == 0 else ():
        parent.chmod(parent.stat().st_mode | 0o055)
    arguments = [sys.executable, "-c", READ_ONLY, str(folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    for path in paths:
        path.chmod(0o755)
    assert done.stdout.splitlines()[0] == "60 sailing", done.stderr
    assert "is read-only" in done.stdout
    assert issubclass(NotWritableError, PermissionError)


BUSY = """
import sys, time
from fewbits import Document, SearchEngine
engine = SearchEngine.load(sys.argv[1])
end = time.monotonic() + float(sys.argv[2])
changes = 0
while time.monotonic() < end:
    engine.add([Document(f"{sys.argv[3]}-{changes}", "boat harbour")])
    changes += 1
print(changes)
"""


def test_busy_writers_take_turns(engine: SearchEngine, tmp_path: Path) -> None:
    engine.save(tmp_path / "engine")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", BUSY, str(tmp_path / "engine"), "4", str(number)], stdout=subprocess.PIPE, text=True
        )
        for number in range(3)
    ]
    changes = [int(writer.communicate()[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert min(changes) > 0.5 * max(changes)  # they start at different moments
    assert count_of(SearchEngine.load(tmp_path / "engine")) == 60 + sum(changes)
