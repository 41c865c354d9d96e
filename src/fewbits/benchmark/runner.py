"""Run specifications in worker processes; finished runs are skipped, and a failure is stored as a result.

The worker process writes the result file atomically, under a name that depends only on the specification. The result
folder is therefore the runner's only state: killed at any moment, it resumes where it stopped.
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

from fewbits.benchmark.evaluate import failed_result, run_spec, save_codes
from fewbits.benchmark.results import Result, RunTimes
from fewbits.benchmark.spec import Spec
from fewbits.data.datasets import Dataset, load_dataset
from fewbits.errors import BrokenFolderError, DataError, FewbitsError, MissingFileError
from fewbits.validation import check_whole_number

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
WORKER_DIED = "the worker process died, which happens when memory runs out"


@dataclass(frozen=True)
class Step:
    """Progress of the runner; the first step, before any run, has no result."""

    done: int
    total: int
    finished_before: int
    failed_before: int  # of finished_before
    seconds_left: float | None  # None without any finished run to estimate from
    result: Result | None = None


def run_all(
    specs: Iterable[Spec], results: Path | None = None, *, jobs: int = 1, retry: bool = False, again: bool = False
) -> Iterator[Step]:
    """Execute all runs that have no result yet, and yield each result when it is finished.

    Parameters
    ----------
    results : Path, optional
        Folder of the result files. If None, nothing is stored and no run counts as finished.
    jobs : int
        Number of parallel runs, each in its own process; if more than one, each is limited to one thread.
    retry, again : bool
        Whether to repeat failed runs, or all runs.
    """
    check_whole_number("jobs", jobs, 1)
    unique = list({spec.key: spec for spec in specs}.values())  # a suite may name a run in two blocks
    for spec in unique:
        spec.check()
    with _Workers(min(jobs, max(len(unique), 1))) as workers:
        fingerprints = workers.load_fingerprints(list(dict.fromkeys(spec.dataset for spec in unique)))
        stored = {} if again or results is None else _load_stored(unique, results, fingerprints)
        finished = {key: result for key, result in stored.items() if not (retry and result.error)}
        before = (len(finished), sum(result.error is not None for result in finished.values()))
        remaining = {spec.key: spec for spec in unique if spec.key not in finished}
        todo, times = list(remaining.values()), RunTimes(stored.values())

        def seconds_left() -> float | None:
            seconds = times.remaining(remaining.values())
            return None if seconds is None else seconds / min(workers.jobs, max(len(remaining), 1))

        yield Step(0, len(todo), *before, seconds_left())
        for done, result in enumerate(workers.run(todo, results, fingerprints), 1):
            times.add(result)
            remaining.pop(result.key, None)
            yield Step(done, len(todo), *before, seconds_left(), result)


def _load_stored(specs: Iterable[Spec], results: Path, fingerprints: dict[str, str]) -> dict[str, Result]:
    """Load the results of finished runs, failed ones included."""
    stored = {}
    for spec in specs:
        with suppress(MissingFileError, BrokenFolderError):  # missing, truncated, edited, or of another version
            stored[spec.key] = Result.load(Path(results) / spec.file_name(fingerprints[spec.dataset]))
    return stored


class _Workers:
    """Worker processes, each of which handles one run at a time and is replaced if it dies."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.idle: list[ProcessPoolExecutor] = []
        self.process_ids: dict[ProcessPoolExecutor, Future[int]] = {}

    def __enter__(self) -> _Workers:
        self.idle = [self._start_worker() for _ in range(self.jobs)]
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all workers, even during a run: Python would wait for them before it exits."""
        ids = {started.result() for started in self.process_ids.values() if started.done() and not started.exception()}
        for worker in self.process_ids:
            worker.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            if child.pid in ids:
                child.kill()

    def _start_worker(self) -> ProcessPoolExecutor:
        worker = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_initialize_worker)
        # Numerical libraries read the number of threads once, on import; submitting starts the process.
        with _environment(ONE_THREAD if self.jobs > 1 else {}):
            self.process_ids[worker] = worker.submit(os.getpid)
        return worker

    def load_fingerprints(self, datasets: list[str]) -> dict[str, str]:
        """Return the fingerprint of each data set, or raise the error if one cannot be loaded."""
        futures = {name: self.idle[n % self.jobs].submit(_fingerprint, name) for n, name in enumerate(datasets)}
        fingerprints = {}
        for name, future in futures.items():
            fingerprint, error = future.result()
            if error:
                raise MissingFileError(error.rstrip(".")) if fingerprint == "missing" else DataError(error.rstrip("."))
            fingerprints[name] = fingerprint
        return fingerprints

    def run(self, specs: list[Spec], results: Path | None, fingerprints: dict[str, str]) -> Iterator[Result]:
        """Yield the results in the order in which they are finished."""
        waiting = iter(specs)
        running: dict[Future[Result], tuple[Spec, ProcessPoolExecutor]] = {}
        while True:
            while self.idle and (spec := next(waiting, None)) is not None:
                future, worker = self._submit(self.idle.pop(), spec, results, fingerprints[spec.dataset])
                running[future] = spec, worker
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                spec, worker = running.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool:
                    worker = self._replace(worker)
                    result = failed_result(spec, fingerprints[spec.dataset], WORKER_DIED)
                    if results is not None:
                        result.save(results)
                self.idle.append(worker)
                yield result

    def _submit(
        self, worker: ProcessPoolExecutor, spec: Spec, results: Path | None, fingerprint: str
    ) -> tuple[Future[Result], ProcessPoolExecutor]:
        """Submit a run, to a new worker if this one died while it was idle."""
        try:
            return worker.submit(_run, spec, results, fingerprint), worker
        except BrokenProcessPool:
            worker = self._replace(worker)
            return worker.submit(_run, spec, results, fingerprint), worker

    def _replace(self, dead: ProcessPoolExecutor) -> ProcessPoolExecutor:
        dead.shutdown(wait=False)
        del self.process_ids[dead]
        return self._start_worker()


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the duration of a block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# The functions below run in the worker processes.


def _initialize_worker() -> None:
    """Make the worker exit with its parent, even if the parent is killed."""
    warnings.simplefilter("ignore")  # such as constant bits: the metrics show them, and the output would be mixed up
    parent = multiprocessing.parent_process()

    def exit_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


@lru_cache(maxsize=1)
def _load(name: str) -> Dataset:
    return load_dataset(name)


def _fingerprint(name: str) -> tuple[str, str]:
    """Return the fingerprint and "", or the kind of error and its text: not every exception can be pickled."""
    try:
        return _load(name).fingerprint, ""
    except MissingFileError as error:
        return "missing", str(error)
    except FewbitsError as error:
        return "invalid", str(error)


def _run(spec: Spec, results: Path | None, fingerprint: str) -> Result:
    try:
        result, codes = run_spec(spec, _load(spec.dataset))
    except Exception as error:  # any failure is the result of this run and must not stop the others
        result = failed_result(spec, fingerprint, f"{type(error).__name__}: {error}")
    else:
        if results is not None:
            with suppress(OSError):  # stored codes are optional
                save_codes(result, codes, results)
    if results is not None:
        result.save(results)
    return result
