"""The lock of a folder, which lets one process write at a time, in turn."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TextIO

from fewbits.errors import LockedError, NotWritableError

LOCK, TURN = ".lock", ".turn"
LOCK_POLL_S = 0.005


@contextmanager
def writer_lock(folder: Path, timeout: float | None = None) -> Iterator[None]:
    """Hold the lock that every process takes before it changes a folder, waiting for at most ``timeout`` seconds.

    The operating system releases the lock when the process ends, however it ends. On Windows there is no lock: only
    one process at a time may write.
    """
    # Not the filelock package: of two busy writers one could keep the lock, and the other give up.
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    deadline = None if timeout is None else time.monotonic() + timeout
    with _open_lock_file(folder, TURN) as turn, _open_lock_file(folder, LOCK) as lock:
        # A waiting writer holds the turn lock, so that one that has just finished queues behind it.
        for stream in (turn, lock):
            if deadline is None:
                fcntl.flock(stream, fcntl.LOCK_EX)
            else:
                _poll(partial(fcntl.flock, stream, fcntl.LOCK_EX | fcntl.LOCK_NB), folder, deadline, timeout or 0.0)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield


def _open_lock_file(folder: Path, name: str) -> TextIO:
    try:
        return (folder / name).open("a")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise NotWritableError(
            f"{folder} is read-only", got=error.strerror, hint="It can be searched; to change it, copy it."
        ) from error


def _poll(lock: Callable[[], None], folder: Path, deadline: float, timeout: float) -> None:
    while True:
        try:
            lock()
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise LockedError(
                    f"another process is changing {folder}",
                    got=f"still locked after {timeout:g} s",
                    hint="Try again when it has finished; searching remains possible.",
                ) from None
        time.sleep(LOCK_POLL_S)
