"""How fewbits writes to disk: a file or a folder appears whole or not at all, and is checked when read.

A saved folder holds ``manifest.json`` and one sub-folder of files, its generation. Saving writes a new
generation beside the old one and then replaces the manifest, which is a single atomic step: whoever reads
finds the old state or the new one. The manifest carries the format's version and a checksum of every file, but for
those that live: databases, which change in their place and have transactions of their own.
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
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from fewbits.errors import BrokenFolderError, LockedError, MissingFileError, NotWritableError, ParameterError

MANIFEST = "manifest.json"
LOCK = ".lock"
GENERATION = re.compile(r"generation-[0-9a-f]{12}")
LARGE = 64 << 20  # bytes from which a checksum takes noticeable time
LOCK_POLL = 0.05  # seconds between two tries to become the writer
RESTORE = "Restore a copy, or save it again."

Loaded = TypeVar("Loaded")


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside ``path`` that takes its place when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        with beside.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Write a value as readable JSON, whole or not at all."""
    with atomic_write(path) as stream:
        stream.write((json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file that :func:`write_json` wrote."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MissingFileError(f"{path} is not there") from None
    except ValueError as error:
        raise BrokenFolderError(f"{path} is not JSON", got=error, hint=RESTORE) from error


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as safetensors."""
    save_file({name: np.ascontiguousarray(values) for name, values in arrays.items()}, path)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read named arrays."""
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError, ValueError) as error:
        raise BrokenFolderError(f"{path} holds no arrays", got=error, hint=RESTORE) from error


def write_array(path: Path, values: NDArray[Any]) -> None:
    """Write one array in a form that can be mapped into memory."""
    np.save(path, values, allow_pickle=False)


def read_array(path: Path, *, memory_map: bool = False) -> NDArray[Any]:
    """Read one array; mapped, it stays on disk until it is needed, and changes to it never reach the file."""
    try:
        return np.load(path, mmap_mode="c" if memory_map else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BrokenFolderError(f"{path} holds no array", got=type(error).__name__, hint=RESTORE) from error


def check_replaceable(folder: Path, kind: str) -> None:
    """Refuse a folder that holds anything but an earlier save of the same kind."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{folder} is a file", allowed="a folder that is new or was saved by fewbits")
    if not folder.is_dir() or _saved_kind(folder) == kind:
        return
    # What a first save leaves behind when it is killed is ours too.
    others = [
        path.name for path in folder.iterdir() if not GENERATION.fullmatch(path.name) and not path.name.startswith(".")
    ]
    if others:
        raise ParameterError(
            f"{folder} holds other files",
            allowed=f"a folder that is new, empty, or a saved {kind}",
            got=", ".join(sorted(others)[:3]),
            hint="Choose another folder.",
        )


def save_folder(
    folder: Path, kind: str, version: int, write: Callable[[Path], None], *, mutable_files: Collection[str] = ()
) -> None:
    """Save a folder of one kind: ``write`` fills an empty generation, which then replaces the last one.

    Files that are ``mutable_files`` may change later, and so have no checksum.
    """
    check_replaceable(folder, kind)
    folder.mkdir(parents=True, exist_ok=True)
    with writer_lock(folder):
        generation = folder / f"generation-{uuid.uuid4().hex[:12]}"
        generation.mkdir()
        try:
            write(generation)
            names = _file_names(generation)
            manifest = {
                "format": kind,
                "version": version,
                "generation": generation.name,
                "files": {name: _facts(generation / name) for name in names if name not in mutable_files},
            }
            for name in mutable_files:
                _sync_file(generation / name)
            write_json(folder / MANIFEST, {**manifest, "checksum": _checksum(manifest)})
        except BaseException:
            shutil.rmtree(generation, ignore_errors=True)
            raise
        for other in folder.iterdir():  # the last one, and what a killed save left
            if other != generation and GENERATION.fullmatch(other.name):
                shutil.rmtree(other, ignore_errors=True)


def load_folder(
    folder: Path, kind: str, version: int, read: Callable[[Path], Loaded], *, verify: bool = True, oldest: int = 1
) -> Loaded:
    """Check a saved folder and ``read`` its generation; without ``verify`` large files are checked by size only."""
    while True:
        manifest = _read_manifest(folder, kind, version)
        if manifest["version"] < oldest:
            raise BrokenFolderError(
                f"{folder} is of an older format",
                allowed=f"{kind} from version {oldest}",
                got=manifest["version"],
                hint="Make it again from its documents.",
            )
        generation = folder / manifest["generation"]
        try:
            for name, facts in manifest["files"].items():
                _check_file(generation / name, facts, verify=verify)
            return read(generation)
        except (BrokenFolderError, OSError):
            # Somebody may have saved meanwhile and removed what was being read; then there is a newer state.
            if _read_manifest(folder, kind, version) == manifest:
                raise


def state_of(folder: Path) -> tuple[int, int] | None:
    """What differs after each save, at the cost of a look; None where nothing is saved."""
    try:
        found = (folder / MANIFEST).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _read_manifest(folder: Path, kind: str, version: int) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise MissingFileError(
            f"{folder} is no saved {kind}",
            allowed=f"a folder with {MANIFEST}",
            hint="Check the path, or save one there.",
        )
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise BrokenFolderError(f"{folder} is of another kind", allowed=kind, got=found)
    if not isinstance(manifest.get("version"), int) or manifest["version"] > version:
        raise BrokenFolderError(
            f"{folder} is of a newer format",
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


def _facts(path: Path) -> dict[str, Any]:
    """Size and checksum of a file, once its bytes are on the disk."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        digest = _sha256(stream)
    _sync_folder(path.parent)
    return {"bytes": path.stat().st_size, "sha256": digest}


def _sync_file(path: Path) -> None:
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
    if verify or size < LARGE:
        with path.open("rb") as stream:
            digest = _sha256(stream)
        if digest != facts["sha256"]:
            raise BrokenFolderError(f"{path} was altered: its checksum differs", hint=RESTORE)


def _sha256(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := stream.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


@contextmanager
def writer_lock(folder: Path, wait: float | None = None) -> Iterator[None]:
    """Let writers wait for each other, so many seconds at most; the system drops the lock of one that dies."""
    try:
        import fcntl
    except ImportError:  # Windows: there, one process writes at a time or none is promised
        yield
        return
    try:
        stream = (folder / LOCK).open("a")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise NotWritableError(
            f"{folder} may not be changed", got=error.strerror, hint="It can be read; to change it, copy it."
        ) from error
    with stream:
        if wait is None:
            fcntl.flock(stream, fcntl.LOCK_EX)
        deadline = time.monotonic() + (wait or 0)
        while wait is not None:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LockedError(
                        f"another process is changing {folder}",
                        got=f"no turn within {wait:g} s",
                        hint="Try again when it has finished; searching goes on meanwhile.",
                    ) from None
            time.sleep(LOCK_POLL)
        yield


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; not every system can open a folder, and there it is not needed."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
