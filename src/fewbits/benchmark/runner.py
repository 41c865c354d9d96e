"""Many runs, side by side in other processes: what is finished is not repeated, and a failure is a result.

A result is written by the process that made it, whole or not at all, and its name is known before. So the store is all
that the runner knows about its own past: killed at any moment, it goes on where it was.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fewbits.benchmark.evaluate import failed, keep_codes, learn_and_measure
from fewbits.benchmark.results import Result
from fewbits.benchmark.spec import Spec
from fewbits.benchmark.times import Times
from fewbits.data.datasets import Dataset, load_dataset
from fewbits.errors import BrokenFolderError, DataError, FewbitsError, MissingFileError
from fewbits.validation import check_whole_number

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
DIED = "its process died, as it does when memory runs out"


@dataclass(frozen=True)
class Step:
    """How far the runner is; the first step has no result yet."""

    done: int
    total: int
    finished_before: int
    failed_before: int  # of those that were finished
    seconds_left: float | None  # not known as long as no such run was done
    result: Result | None = None


def run_all(
    specs: Iterable[Spec], results: Path | None = None, *, jobs: int = 1, retry: bool = False, again: bool = False
) -> Iterator[Step]:
    """Do all runs that have no result yet, and yield each result as it comes.

    Parameters
    ----------
    results : Path, optional
        The store. Without it nothing is kept and nothing counts as finished.
    jobs : int
        How many runs go side by side, each in a process of its own; with more than one, each has one thread.
    retry, again : bool
        Whether runs that failed, or all runs, are done again.
    """
    check_whole_number("jobs", jobs, 1)
    wanted = list({spec.key: spec for spec in specs}.values())  # a suite may name a run twice: here and in a grid
    for spec in wanted:
        spec.check()
    with _Pool(min(jobs, max(len(wanted), 1))) as pool:
        fingerprints = pool.fingerprints(list(dict.fromkeys(spec.dataset for spec in wanted)))

        stored = {} if again or results is None else _stored(wanted, results, fingerprints)
        kept = {key: result for key, result in stored.items() if not (retry and result.error)}
        left = [spec for spec in wanted if spec.key not in kept]
        before = (len(kept), sum(result.error is not None for result in kept.values()))
        to_do, times = {spec.key: spec for spec in left}, Times(stored.values())

        def seconds_left() -> float | None:
            together = times.left(to_do.values())
            return None if together is None else together / min(pool.jobs, max(len(to_do), 1))

        yield Step(0, len(left), *before, seconds_left())
        for done, result in enumerate(pool.run(left, results, fingerprints), 1):
            times.add(result)
            to_do.pop(result.key, None)
            yield Step(done, len(left), *before, seconds_left(), result)


def _stored(specs: Iterable[Spec], results: Path, fingerprints: dict[str, str]) -> dict[str, Result]:
    """Results of those runs that are finished, well or not."""
    found = {}
    for spec in specs:
        with suppress(MissingFileError, BrokenFolderError):  # or no whole result: cut off, of another version, edited
            found[spec.key] = Result.load(Path(results) / spec.file_name(fingerprints[spec.dataset]))
    return found


class _Pool:
    """Some processes, each of which does one run after the other and is replaced when it dies."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.free: list[ProcessPoolExecutor] = []
        self.ids: dict[ProcessPoolExecutor, Future[int]] = {}

    def __enter__(self) -> _Pool:
        self.free = [self._new_process() for _ in range(self.jobs)]
        return self

    def __exit__(self, *_: object) -> None:
        """End them all, in the middle of a run too: Python waits for its children before it ends itself."""
        ids = {started.result() for started in self.ids.values() if started.done() and not started.exception()}
        for process in self.ids:
            process.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            if child.pid in ids:
                child.kill()

    def _new_process(self) -> ProcessPoolExecutor:
        process = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)
        with _environment(ONE_THREAD if self.jobs > 1 else {}):
            self.ids[process] = process.submit(
                os.getpid
            )  # starts it: threads are counted once, when libraries are loaded
        return process

    def fingerprints(self, datasets: list[str]) -> dict[str, str]:
        """Fingerprint of each data set; one that cannot be loaded ends all before any long work."""
        asked = {name: self.free[n % self.jobs].submit(_look_at, name) for n, name in enumerate(datasets)}
        found = {}
        for name, answer in asked.items():
            fingerprint, error = answer.result()
            if error:
                raise MissingFileError(error.rstrip(".")) if fingerprint == "missing" else DataError(error.rstrip("."))
            found[name] = fingerprint
        return found

    def run(self, specs: list[Spec], results: Path | None, fingerprints: dict[str, str]) -> Iterator[Result]:
        """Yield results as they come."""
        waiting = iter(specs)
        running: dict[Future[Result], tuple[Spec, ProcessPoolExecutor]] = {}
        while True:
            while self.free and (spec := next(waiting, None)) is not None:
                future, process = self._start(self.free.pop(), spec, results, fingerprints[spec.dataset])
                running[future] = spec, process
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                spec, process = running.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool:
                    process = self._replace(process)
                    result = failed(spec, fingerprints[spec.dataset], DIED)
                    if results is not None:
                        result.save(results)
                self.free.append(process)
                yield result

    def _start(
        self, process: ProcessPoolExecutor, spec: Spec, results: Path | None, fingerprint: str
    ) -> tuple[Future[Result], ProcessPoolExecutor]:
        try:
            return process.submit(_run, spec, results, fingerprint), process
        except BrokenProcessPool:  # it died while it had nothing to do
            process = self._replace(process)
            return process.submit(_run, spec, results, fingerprint), process

    def _replace(self, dead: ProcessPoolExecutor) -> ProcessPoolExecutor:
        dead.shutdown(wait=False)
        del self.ids[dead]
        return self._new_process()


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


# What follows is called in the other processes.


def _end_with_parent() -> None:
    """A runner that was killed leaves nobody behind who goes on working."""
    warnings.simplefilter("ignore")  # on constant bits and the like: the metrics tell, and the lines would mix
    parent = multiprocessing.parent_process()

    def wait_for_end() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()


@lru_cache(maxsize=1)
def _load(name: str) -> Dataset:
    return load_dataset(name)


def _look_at(name: str) -> tuple[str, str]:
    """The fingerprint, or why there is none; some errors cannot travel between processes, texts can."""
    try:
        return _load(name).fingerprint, ""
    except MissingFileError as error:
        return "missing", str(error)
    except FewbitsError as error:
        return "wrong", str(error)


def _run(spec: Spec, results: Path | None, fingerprint: str) -> Result:
    try:
        result, codes = learn_and_measure(spec, _load(spec.dataset))
    except Exception as error:  # whatever it is, it is the result of this run and no reason to stop the others
        result = failed(spec, fingerprint, f"{type(error).__name__}: {error}")
    else:
        if results is not None:
            with suppress(OSError):  # codes are a convenience
                keep_codes(result, codes, results)
    if results is not None:
        result.save(results)
    return result
