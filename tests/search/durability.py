# ruff: noqa: E402
"""Kill processes at random moments while they fit, add, update, remove, save, copy and rebuild the lexical index.

The folder must hold the state before or the state after, whole. Run by ``make durability`` with 200 kills, and by the
tests with fewer.
"""

from __future__ import annotations

import os

# A process is forked from this one for every operation: nothing here may start threads.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import argparse
import collections
import hashlib
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fewbits import Document, SearchEngine
from fewbits.search import rebuild_lexical_index

WORDS = [first + second for first in "bcdfghklmnprst" for second in ("alo", "eri", "imu", "osa", "une")]
OPERATIONS = ("fit", "add", "update", "remove", "save", "copy", "rebuild")


def make_documents(ids: list[int], seed: int) -> list[Document]:
    generator = np.random.default_rng(seed)
    texts = [" ".join(WORDS[word] for word in generator.integers(0, len(WORDS), 12)) for _ in ids]
    return [Document(id, text, (f"label{id % 3}",), {"seed": seed}) for id, text in zip(ids, texts, strict=True)]


def fit_engine(ids: list[int], seed: int) -> SearchEngine:
    return SearchEngine.from_documents(make_documents(ids, seed), n_bits=32, method="itq", random_state=seed)


def prepare(operation: str, folder: Path, seed: int) -> Callable[[], object]:
    """Prepare an operation, which is the same for the same seed and folder."""
    engine = SearchEngine.load(folder)
    ids = sorted(int(document.id) for document in engine.documents())
    some = sorted(np.random.default_rng(seed).choice(ids, min(100, len(ids) // 2), replace=False).tolist())
    new = list(range(ids[-1] + 1, ids[-1] + 201))
    if operation == "fit":
        return lambda: fit_engine(list(range(500)), seed).save(folder)
    if operation == "save":
        other = fit_engine(list(range(400)), seed)
        return lambda: other.save(folder)
    if operation == "copy":  # of a saved engine with changes, to this folder
        source = Path(tempfile.mkdtemp()) / "engine"
        fit_engine(list(range(300)), seed).save(source)
        other = SearchEngine.load(source)
        other.add(make_documents(list(range(300, 320)), seed))
        return lambda: other.save(folder)
    if operation == "rebuild":
        return lambda: rebuild_lexical_index(folder)
    if operation == "add":
        return lambda: engine.add(make_documents(new, seed))
    if operation == "update":
        return lambda: engine.update(make_documents(some, seed))
    return lambda: engine.remove(some)


def state(folder: Path) -> str:
    """Return a fingerprint of documents, codes and answers of a folder, after checking it."""
    engine = SearchEngine.load(folder)
    documents = list(engine.documents())
    digest = hashlib.sha256(repr(documents).encode())
    digest.update(engine.codes([document.id for document in documents]).tobytes())
    digest.update(engine.encode(WORDS).tobytes())
    check_words(engine, documents)
    digest.update(repr([engine.search(WORDS[0], k=5, rank="codes"), engine.info()["drift"]]).encode())
    return digest.hexdigest()


def check_words(engine: SearchEngine, documents: list[Document]) -> None:
    """Check that the lexical index has the words of exactly these documents."""
    with engine.snapshot() as snapshot:
        assert snapshot.words is not None
        assert (snapshot.words.version, len(snapshot.words)) == (snapshot.version, len(documents))
    for word in WORDS[:10]:
        found = {hit.id for hit in engine.search(word, k=len(documents), rank="words")}
        assert found == {document.id for document in documents if word in document.text.split()}, word


def in_a_process(work: Callable[[Callable[[bytes], object]], object]) -> tuple[int, int]:
    """Fork a process that calls ``work`` with a function that writes to a pipe; return its id and the reading end."""
    receiver, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(receiver)
        code = 1
        try:
            work(lambda text: os.write(write, text))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    return process, receiver


def finished(process: int, receiver: int) -> bytes:
    content = b""
    while block := os.read(receiver, 4096):
        content += block
    os.close(receiver)
    assert os.waitpid(process, 0)[1] == 0, "the process failed"
    return content


def state_in_a_process(folder: Path) -> str:
    return finished(*in_a_process(lambda write: write(state(folder).encode()))).decode()


def run(operation: str, folder: Path, seed: int, kill_after: float | None) -> float:
    """Run an operation in a process, killed after ``kill_after`` seconds if given; return the elapsed seconds."""

    def work(write: Callable[[bytes], object]) -> None:
        operate = prepare(operation, folder, seed)
        write(b"ready")
        operate()

    process, receiver = in_a_process(work)
    assert os.read(receiver, 5) == b"ready"
    start = time.perf_counter()
    if kill_after is None:
        finished(process, receiver)
        return time.perf_counter() - start
    time.sleep(kill_after)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(receiver)
    return time.perf_counter() - start


def survive(
    kills: int, place: Path, seed: int = 0, outcomes: collections.Counter[tuple[str, str]] | None = None
) -> collections.Counter[tuple[str, str]]:
    """Kill processes; count how often each operation left the state before and after."""
    generator = np.random.default_rng(seed)
    folder, copy = place / "engine", place / "copy"
    finished(*in_a_process(lambda _: fit_engine(list(range(600)), 1).save(folder)))
    outcomes = collections.Counter() if outcomes is None else outcomes
    before = state_in_a_process(folder)
    for number in range(kills):
        operation = OPERATIONS[number % len(OPERATIONS)]
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        duration = run(operation, copy, number, None)
        after = state_in_a_process(copy)
        assert (before == after) == (operation == "rebuild")
        run(operation, folder, number, generator.uniform(0, 1.1 * duration))
        survivor = state_in_a_process(folder)
        assert survivor in (before, after), f"{operation} left neither the state before nor the state after"
        outcomes[operation, "before" if survivor == before else "after"] += 1
        before = survivor
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        tempfile.tempdir = place  # killed processes leave files there
        outcomes = survive(arguments.kills, Path(place), arguments.seed)
    for operation in OPERATIONS:
        before, after = (outcomes[operation, side] for side in ("before", "after"))
        print(f"{operation:<7} killed {before + after:>3} times: state before {before:>3}, state after {after:>3}")
    print(f"{sum(outcomes.values())} processes killed; every folder opened whole, before or after")


if __name__ == "__main__":
    main()
