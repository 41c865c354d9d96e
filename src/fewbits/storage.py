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
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from fewbits.errors import BrokenFolderError, FewbitsError, MissingFileError, NotSavedError, ParameterError
from fewbits.locks import writer_lock

MANIFEST = "manifest.json"
GENERATION = re.compile(r"generation-[0-9a-f]{12}")
TEMPORARY = re.compile(r"\.manifest\.json\.[0-9a-f]{12}")  # of atomic_write
LARGE = 64 << 20  # bytes; SHA-256 of a larger file takes noticeable time
MAX_MANIFEST = 1 << 20  # bytes
MAX_JSON = 1 << 30
RESTORE = "Restore a copy, or save it again."
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, None)  # NumPy's error of a full disk has no number
# What a reader raises if a file is valid JSON or a valid array, but not of the expected form.
FORM_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError)

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


def read_json(path: Path, max_bytes: int = MAX_JSON) -> Any:
    """Read a JSON file."""
    size = path.stat().st_size if path.exists() else 0
    if size > max_bytes:  # before it is read: it may not fit into memory
        raise BrokenFolderError(f"{path} is too large", allowed=f"{max_bytes} bytes", got=size, hint=RESTORE)
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist") from None
    except (RecursionError, ValueError) as error:
        raise BrokenFolderError(f"{path} is not JSON", got=error, hint=RESTORE) from error


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays to a safetensors file."""
    # safetensors' own function writes through a memory map: on a full disk the process would be killed by SIGBUS.
    path.write_bytes(save({name: np.ascontiguousarray(values) for name, values in arrays.items()}))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read named arrays from a safetensors file."""
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError, *FORM_ERRORS) as error:
        raise BrokenFolderError(f"{path} is not a valid safetensors file", got=error, hint=RESTORE) from error


def write_array(path: Path, values: NDArray[Any]) -> None:
    """Write an array to a ``.npy`` file."""
    np.save(path, values, allow_pickle=False)


def read_array(path: Path, *, memory_map: bool = False) -> NDArray[Any]:
    """Read an array from a ``.npy`` file; a memory map loads pages on access and never writes changes back."""
    try:
        # A memory map is no larger than its file, whatever the header says, so nothing is allocated in vain.
        mapped = np.load(path, mmap_mode="c", allow_pickle=False)
        return mapped if memory_map else np.array(mapped)
    except (OSError, EOFError, *FORM_ERRORS) as error:
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
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with writer_lock(folder):
            _remove_leftovers(folder)  # first: they may be what fills the disk
            _save_generation(folder, {"format": kind, "version": version}, write, mutable_files)
    except OSError as error:
        if isinstance(error, FewbitsError) or error.errno not in FULL:
            raise
        hint = "What it contained before is unchanged. Free space on its disk, or choose another folder."
        raise NotSavedError(f"{folder} could not be saved", got=error, hint=hint) from error


def _save_generation(
    folder: Path, facts: dict[str, Any], write: Callable[[Path], None], mutable_files: Collection[str]
) -> None:
    generation = folder / f"generation-{uuid.uuid4().hex[:12]}"
    try:
        generation.mkdir()
        write(generation)
        names = _file_names(generation)
        for name in names:
            _sync_file(generation / name)
        fixed = [name for name in names if name.split("/")[0] not in mutable_files]
        files = {name: _file_facts(generation / name) for name in fixed}
        manifest = {**facts, "generation": generation.name, "files": files}
        write_json(folder / MANIFEST, {**manifest, "checksum": _checksum(manifest)})
    except BaseException:
        shutil.rmtree(generation, ignore_errors=True)
        raise
    _remove_generations(folder, generation.name)


def _remove_leftovers(folder: Path) -> None:
    """Remove the leftovers of interrupted saves; without a valid manifest it is unknown which files those are."""
    try:
        manifest = read_json(folder / MANIFEST, MAX_MANIFEST)
        checksum = manifest.pop("checksum", None)
        if checksum == _checksum(manifest) and _is_well_formed(manifest):
            _remove_generations(folder, manifest["generation"])
    except MissingFileError:  # no save has succeeded
        _remove_generations(folder, None)
    except (FewbitsError, OSError, *FORM_ERRORS):
        return


def _remove_generations(folder: Path, current: str | None) -> None:
    for path in folder.iterdir():
        if path.name != current and GENERATION.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)
        elif TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def load_folder(
    folder: Path, kind: str, version: int, read: Callable[[Path], Loaded], *, verify: bool = True, oldest: int = 1
) -> Loaded:
    """Check a saved folder and ``read`` its generation.

    Without ``verify`` a faster checksum is compared, and of large .npy files, which may be memory-mapped, the size.
    """
    while True:
        manifest = _read_manifest(folder, kind, version)
        if manifest["version"] < oldest:
            allowed, hint, got = (
                f"{kind} from version {oldest}",
                "Create it again from its documents.",
                manifest["version"],
            )
            raise BrokenFolderError(f"{folder} has an older format", allowed=allowed, got=got, hint=hint)
        generation = folder / manifest["generation"]
        try:
            check_contained(generation, manifest["files"])
            for name, facts in manifest["files"].items():
                _check_file(generation / name, facts, verify=verify)
            return read(generation)
        except (FewbitsError, OSError, *FORM_ERRORS) as error:
            # A concurrent save may have removed this generation; then the manifest names a newer one.
            if _read_manifest(folder, kind, version) == manifest:
                if isinstance(error, (FewbitsError, OSError)):
                    raise
                what, got = f"{folder} does not contain a valid {kind}", f"{type(error).__name__}: {error}"[:200]
                raise BrokenFolderError(what, got=got, hint=RESTORE) from error


def _read_manifest(folder: Path, kind: str, version: int) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise MissingFileError(
            f"{folder} is not a saved {kind}",
            allowed=f"a folder with {MANIFEST}",
            hint="Check the path, or save there first.",
        )
    manifest = read_json(path, MAX_MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        other = manifest.get("format") if isinstance(manifest, dict) else None
        raise BrokenFolderError(f"{folder} holds another kind of data", allowed=kind, got=other)
    if type(manifest.get("version")) is not int or manifest["version"] > version:
        raise BrokenFolderError(
            f"{folder} has a newer format",
            allowed=f"{kind} up to version {version}",
            got=manifest.get("version"),
            hint="Update fewbits: pip install -U fewbits",
        )
    checksum = manifest.pop("checksum", None)
    if checksum != _checksum(manifest):
        raise BrokenFolderError(f"{path} was altered", hint=RESTORE)
    if not _is_well_formed(manifest):  # its author computed a checksum, but did not save it with fewbits
        raise BrokenFolderError(f"{path} is not valid", allowed="files inside the folder, with sizes and checksums")
    return manifest


def _is_well_formed(manifest: dict[str, Any]) -> bool:
    """Return whether all fields have the right types, and all names are inside the folder."""
    generation, files = manifest.get("generation"), manifest.get("files")
    return (
        isinstance(generation, str)
        and GENERATION.fullmatch(generation) is not None
        and isinstance(files, dict)
        and all(_is_relative(name) for name in files)
        and all(
            isinstance(facts, dict)
            and type(facts.get("bytes")) is int
            and all(isinstance(facts.get(name, ""), str) for name in ("sha256", "sum"))
            for facts in files.values()
        )
    )


def _is_relative(name: str) -> bool:
    return not set(name) & set("\\:\0") and not {"", ".", ".."} & set(name.split("/"))


def check_contained(folder: Path, names: Iterable[str]) -> None:
    """Raise an error if a folder, or one of the files or folders in it, is a link."""
    parts = (accumulate([str(folder), *name.split("/")], "{}/{}".format) for name in names)
    for path in set(chain.from_iterable(parts)):  # strings, as to make paths would take longer than the check
        if os.path.islink(path):  # noqa: PTH114
            raise BrokenFolderError(f"{path} is a link to another place", allowed="files inside the folder")


def _saved_kind(folder: Path) -> str | None:
    with suppress(OSError, ValueError, AttributeError):
        return str(json.loads((folder / MANIFEST).read_bytes()).get("format"))
    return None


def _file_names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _file_facts(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": _sha256(path), "sum": fast_checksum(path)}


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
    is_large = size >= LARGE
    if verify or ("sum" not in facts and not is_large):
        is_same = _sha256(path) == facts.get("sha256")
    else:  # what earlier releases saved has no fast checksum
        is_same = "sum" not in facts or (is_large and path.suffix == ".npy") or fast_checksum(path) == facts["sum"]
    if not is_same:
        raise BrokenFolderError(f"{path} was altered: its checksum differs", hint=RESTORE)


def fast_checksum(path: Path) -> str:
    """Compute a checksum that detects damage, at the speed of memory; it does not protect against forgery.

    It is the CRC-32 of sums of 64-bit numbers: per page of 4 KiB, and per place in the pages of a block.
    """
    checksum = 0
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            whole = len(block) // 4096 * 4096
            pages = np.frombuffer(block, np.uint64, whole // 8).reshape(-1, 512)
            sums = pages.sum(axis=0, dtype=np.uint64).tobytes() + pages.sum(axis=1, dtype=np.uint64).tobytes()
            checksum = zlib.crc32(block[whole:], zlib.crc32(sums, checksum))
    return f"{checksum:08x}"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()  # hashlib.file_digest needs Python 3.11
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename in a folder durable; only POSIX systems need it and can open a folder."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
