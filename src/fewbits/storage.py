"""Atomic writes of files and folders, verified when read.

A saved folder holds ``manifest.json`` and a subfolder with the files, the generation. Saving writes a new generation
beside the old one and then replaces the manifest in one atomic step, so that readers see the old state or the new one.
The manifest holds the format version and a checksum of every file except mutable ones: databases, which change in
place and have their own transactions.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from fewbits.errors import BrokenFolderError, LockedError, MissingFileError, NotWritableError, ParameterError

MANIFEST = "manifest.json"
LOCK = ".lock"
GENERATION = re.compile(r"generation-[0-9a-f]{12}")
LARGE = 64 << 20  # bytes; the checksum of a larger file takes noticeable time
LOCK_POLL_S = 0.05
RESTORE = "Restore a copy, or save it again."

Loaded = TypeVar("Loaded")


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file for writing that replaces ``path`` if the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON, atomically."""
    with atomic_write(path) as stream:
        stream.write((json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist") from None
    except ValueError as error:
        raise BrokenFolderError(f"{path} is not JSON", got=error, hint=RESTORE) from error


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays to a safetensors file."""
    save_file({name: np.ascontiguousarray(values) for name, values in arrays.items()}, path)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read named arrays from a safetensors file."""
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError, ValueError) as error:
        raise BrokenFolderError(f"{path} is not a valid safetensors file", got=error, hint=RESTORE) from error


def write_array(path: Path, values: NDArray[Any]) -> None:
    """Write an array to a ``.npy`` file."""
    np.save(path, values, allow_pickle=False)


def read_array(path: Path, *, memory_map: bool = False) -> NDArray[Any]:
    """Read an array from a ``.npy`` file; a memory map loads pages on access and never writes changes back."""
    try:
        return np.load(path, mmap_mode="c" if memory_map else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BrokenFolderError(f"{path} is not a valid .npy file", got=type(error).__name__, hint=RESTORE) from error


def check_replaceable(folder: Path, kind: str) -> None:
    """Raise an error if a folder contains anything but an earlier save of the same kind."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{folder} is a file", allowed="a new folder, or one saved by fewbits")
    if not folder.is_dir() or _saved_kind(folder) == kind:
        return
    # Generations and hidden files may be left over from a first save that was killed.
    others = [
        path.name for path in folder.iterdir() if not GENERATION.fullmatch(path.name) and not path.name.startswith(".")
    ]
    if others:
        raise ParameterError(
            f"{folder} contains other files",
            allowed=f"a new or empty folder, or a saved {kind}",
            got=", ".join(sorted(others)[:3]),
            hint="Choose another folder.",
        )


def save_folder(
    folder: Path, kind: str, version: int, write: Callable[[Path], None], *, mutable_files: Collection[str] = ()
) -> None:
    """Save a folder: ``write`` fills an empty generation, which then replaces the previous one.

    ``mutable_files`` names files and folders that may change later and therefore get no checksum.
    """
    check_replaceable(folder, kind)
    folder.mkdir(parents=True, exist_ok=True)
    with writer_lock(folder):
        generation = folder / f"generation-{uuid.uuid4().hex[:12]}"
        generation.mkdir()
        try:
            write(generation)
            names = _file_names(generation)
            for name in names:
                _sync_file(generation / name)
            fixed = [name for name in names if name.split("/")[0] not in mutable_files]
            manifest = {
                "format": kind,
                "version": version,
                "generation": generation.name,
                "files": {name: _file_facts(generation / name) for name in fixed},
            }
            write_json(folder / MANIFEST, {**manifest, "checksum": _checksum(manifest)})
        except BaseException:
            shutil.rmtree(generation, ignore_errors=True)
            raise
        for other in folder.iterdir():  # the previous generation, and any left by a save that was killed
            if other != generation and GENERATION.fullmatch(other.name):
                shutil.rmtree(other, ignore_errors=True)


def load_folder(
    folder: Path, kind: str, version: int, read: Callable[[Path], Loaded], *, verify: bool = True, oldest: int = 1
) -> Loaded:
    """Check a saved folder and ``read`` its generation; without ``verify``, check large files by size only."""
    while True:
        manifest = _read_manifest(folder, kind, version)
        if manifest["version"] < oldest:
            raise BrokenFolderError(
                f"{folder} has an older format",
                allowed=f"{kind} from version {oldest}",
                got=manifest["version"],
                hint="Create it again from its documents.",
            )
        generation = folder / manifest["generation"]
        try:
            for name, facts in manifest["files"].items():
                _check_file(generation / name, facts, verify=verify)
            return read(generation)
        except (BrokenFolderError, OSError):
            # A concurrent save may have removed this generation; then the manifest names a newer one.
            if _read_manifest(folder, kind, version) == manifest:
                raise


def _read_manifest(folder: Path, kind: str, version: int) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise MissingFileError(
            f"{folder} is not a saved {kind}",
            allowed=f"a folder with {MANIFEST}",
            hint="Check the path, or save there first.",
        )
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        other = manifest.get("format") if isinstance(manifest, dict) else None
        raise BrokenFolderError(f"{folder} holds another kind of data", allowed=kind, got=other)
    if not isinstance(manifest.get("version"), int) or manifest["version"] > version:
        raise BrokenFolderError(
            f"{folder} has a newer format",
            allowed=f"{kind} up to version {version}",
            got=manifest.get("version"),
            hint="Update fewbits: pip install -U fewbits",
        )
    checksum = manifest.pop("checksum", None)
    if checksum != _checksum(manifest):
        raise BrokenFolderError(f"{path} was altered", hint=RESTORE)
    return manifest


def _saved_kind(folder: Path) -> str | None:
    with suppress(OSError, ValueError, AttributeError):
        return str(json.loads((folder / MANIFEST).read_bytes()).get("format"))
    return None


def _file_names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _file_facts(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": _sha256(path)}


def _sync_file(path: Path) -> None:
    """Wait until a file and its entry in the folder are on disk."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
    _sync_folder(path.parent)


def _check_file(path: Path, facts: dict[str, Any], *, verify: bool) -> None:
    if not path.is_file():
        raise BrokenFolderError(f"{path} is missing", hint=RESTORE)
    size = path.stat().st_size
    if size != facts["bytes"]:
        problem = "truncated" if size < facts["bytes"] else "altered"
        raise BrokenFolderError(f"{path} is {problem}", allowed=f"{facts['bytes']} bytes", got=size, hint=RESTORE)
    if (verify or size < LARGE) and _sha256(path) != facts["sha256"]:
        raise BrokenFolderError(f"{path} was altered: its checksum differs", hint=RESTORE)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()  # hashlib.file_digest needs Python 3.11
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


@contextmanager
def writer_lock(folder: Path, timeout: float | None = None) -> Iterator[None]:
    """Hold the lock that every process takes before it changes a folder, waiting for at most ``timeout`` seconds.

    The operating system releases the lock when the process ends, however it ends. On Windows there is no lock: only
    one process at a time may write.
    """
    # Not the filelock package: it polls, while flock without a timeout queues writers in the kernel.
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with _open_lock_file(folder) as stream:
        if timeout is None:
            fcntl.flock(stream, fcntl.LOCK_EX)
        else:
            _poll(lambda: fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB), folder, timeout)
        yield


def _open_lock_file(folder: Path) -> TextIO:
    try:
        return (folder / LOCK).open("a")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise NotWritableError(
            f"{folder} is read-only", got=error.strerror, hint="It can be searched; to change it, copy it."
        ) from error


def _poll(lock: Callable[[], None], folder: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
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


def _sync_folder(folder: Path) -> None:
    """Make a rename in a folder durable; only POSIX systems need it and can open a folder."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
