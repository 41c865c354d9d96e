"""Attacks on saved folders: kills, flipped bits, a full disk."""

from __future__ import annotations

import collections
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from attack.outcomes import Attack, Count, Outcome
from fewbits.errors import FewbitsError
from fewbits.search import rebuild_lexical_index
from search import durability

KILLS = 1_000
FLIPS = 5_000
STEP = 4096  # bytes of free space between two attempts on a full disk
TIMEOUT_S = 120
CHANGES = """
import os, sys
sys.path.insert(0, sys.argv[2])
from search import durability
from fewbits import SearchEngine
engine = SearchEngine.load(sys.argv[1])
engine.add(durability.make_documents(list(range(90, 110)), 3))
engine.update(durability.make_documents([1, 2, 3], 4))
engine.remove([5, 6])
engine.search(durability.WORDS[0])
os._exit(0)  # as if killed: the write-ahead log stays
"""


def kills(scale: float) -> Outcome:
    """Kill processes that fit, add, update, remove, save, copy and rebuild; continue after a loss with a new folder."""
    tries = max(len(durability.OPERATIONS), int(KILLS * scale))
    count = Count()
    seed = 0
    while count.held + count.lost < tries:
        with tempfile.TemporaryDirectory(prefix="fewbits-kills-") as place, _temporary_files_in(place):
            outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
            failure = ""
            try:
                durability.survive(tries - count.held - count.lost, Path(place), seed, outcomes)
            except AssertionError as error:
                failure = str(error)[:300]
            for _ in range(sum(outcomes.values())):
                count.check(True, "")
            if failure:
                count.check(False, failure)
        seed += 1
    return count.outcome("kills")


@contextmanager
def _temporary_files_in(place: str) -> Iterator[None]:
    """Put the temporary files of killed processes where they are removed."""
    before = tempfile.tempdir
    tempfile.tempdir = place
    try:
        yield
    finally:
        tempfile.tempdir = before


def answers(folder: Path, *, verify: bool) -> str:
    """Return what an engine answers, through every table and file that answers come from."""
    from fewbits import SearchEngine

    engine = SearchEngine.load(folder, verify=verify)
    documents = list(engine.documents())
    ids = [document.id for document in documents]
    words = durability.WORDS
    found = [
        documents,
        engine.codes(ids).tobytes(),
        engine.search(f"{words[0]} {words[7]} {words[20]}", k=30),
        engine.search(words[3], k=200, rank="words"),
        engine.search(f"{words[5]} {words[6]}", k=200, rank="codes"),
        engine.search(words[1], k=200, labels=["label1"]),
        engine.search(words[1], k=200, where=["seed>=4"]),
        engine.search(words[1], k=200, where=["seed!=4"]),
        engine.similar(ids[7], k=10),
        engine.explain(words[2], ids[9]),
        engine.bits(),
        engine.duplicates(8, 0.3),
        [number in engine for number in range(112)],
        engine.info(),
    ]
    return repr(found)


def flips(scale: float) -> Outcome:
    """Flip one bit of a file: the engine must answer as before, or raise the documented error."""
    count = Count()
    counted: collections.Counter[str] = collections.Counter()
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="fewbits-flips-") as place:
        source = Path(place) / "engine"
        in_a_process(lambda: durability.fit_engine(list(range(90)), 1).save(source))
        subprocess.run([sys.executable, "-c", CHANGES, str(source), str(Path(__file__).parents[1])], check=True)
        files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.stat().st_size)
        # In BM25 of a rebuilt lexical index, documents that were removed do not count any more.
        expected = {in_a_process(partial(_answers_of_copy, source, rebuild=rebuild)) for rebuild in (False, True)}
        for number in range(max(10, int(FLIPS * scale))):
            name, verify = files[number % len(files)], number // len(files) % 2 == 0
            bit = int(generator.integers(8 * (source / name).stat().st_size))
            found = in_a_process(partial(_answers_of_copy, source, verify=verify, flipped=(name, bit)))
            result = "no effect" if found in expected else found if found == "detected" else "lost"
            counted[result] += 1
            counted[f"{result} by a {'verified' if verify else 'quick'} load"] += 1
            count.check(result != "lost", f"bit {bit} of {name}, verify={verify}: {found[:100]}")
    loads = [f"{result} by a {load} load" for load in ("quick", "verified") for result in ("detected", "no effect")]
    return count.outcome("flipped bits", {name: counted[name] for name in loads})


def _answers_of_copy(
    source: Path, *, verify: bool = True, flipped: tuple[Path, int] | None = None, rebuild: bool = False
) -> str:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "engine"
        shutil.copytree(source, folder)
        if flipped is not None:
            name, bit = flipped
            content = bytearray((folder / name).read_bytes())
            content[bit // 8] ^= 1 << bit % 8
            (folder / name).write_bytes(content)
        if rebuild:
            rebuild_lexical_index(folder)
        try:
            return answers(folder, verify=verify)
        except FewbitsError:
            return "detected"


def in_a_process(work: Callable[[], object]) -> str:
    """Call a function in a process of its own; return what it returned, or how the process ended."""
    receiver, sender = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(receiver)
        signal.alarm(TIMEOUT_S)
        with suppress(BaseException), os.fdopen(sender, "wb") as stream:
            try:
                result = str(work())
            except Exception as error:
                result = repr(error)
            stream.write(result.encode("utf-8", "surrogatepass"))
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as stream:
        content = stream.read().decode("utf-8", "surrogatepass")
    status = os.waitpid(process, 0)[1]
    return content if status == 0 else f"the process ended with {status}"


OPERATIONS = ("save", "replace", "add", "update", "remove", "rebuild")


def full_disk(scale: float) -> Outcome:
    """Let the disk be full after each page: the documented error, the state before or after, and no leftovers."""
    count = Count()
    step = STEP * max(1, round(1 / scale))
    with tempfile.TemporaryDirectory(prefix="fewbits-disk-") as place:
        source = Path(place) / "engine"
        in_a_process(lambda: durability.fit_engine(list(range(90)), 1).save(source))
        with _small_disk(Path(place) / "disk") as disk:
            for operation in OPERATIONS:
                _fill(disk, source, operation, step, count)
    return count.outcome("full disk")


def _fill(disk: Path, source: Path, operation: str, step: int, count: Count) -> None:
    """Try an operation with more and more free space until it succeeds."""
    free = 0
    while True:
        _clear(disk)
        folder = disk / "engine"
        if operation != "save":
            shutil.copytree(source, folder)
        before = "" if operation == "save" else in_a_process(partial(durability.state, folder))
        usage = os.statvfs(disk)
        (disk / "filler").write_bytes(bytes(max(0, usage.f_bavail * usage.f_frsize - free)))
        result = in_a_process(partial(_operate, operation, folder))
        (disk / "filler").unlink()
        after = in_a_process(partial(durability.state, folder)) if (folder / "manifest.json").exists() else ""
        changed = operation == "rebuild" or after != before
        is_whole = after == before if result == "refused" else result == "done" and changed and len(after) == 64
        count.check(is_whole, f"{operation} with {free} bytes: {result}, {'changed' if changed else 'unchanged'}")
        if result == "done" or count.lost > 20:
            return
        if in_a_process(partial(_operate, operation, folder)) != "done":
            count.check(False, f"{operation} with {free} bytes does not recover when there is space again")
        free += step


def _operate(operation: str, folder: Path) -> str:
    kind = {"save": "fit", "replace": "fit"}.get(operation, operation)
    if kind == "fit":
        other = durability.fit_engine(list(range(70)), 2)
        work: Callable[[], object] = lambda: other.save(folder)  # noqa: E731
    else:
        work = durability.prepare(kind, folder, 2)
    try:
        work()
    except FewbitsError:
        return "refused"
    return "done"


def _clear(disk: Path) -> None:
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def _small_disk(place: Path) -> Iterator[Path]:
    """Mount a small file system in memory, which only root can."""
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", bytes(place), b"tmpfs", 0, b"size=24m") != 0:
        sys.exit(f"a file system cannot be mounted ({os.strerror(ctypes.get_errno())}): run as root")
    try:
        yield place
    finally:
        libc.umount2(bytes(place), 2)


ATTACKS = [
    Attack("flipped bits", "folder", flips),
    Attack("full disk", "folder", full_disk),
    Attack("kills", "folder", kills),
]
