"""How fewbits writes to disk: a file or a folder appears whole or not at all, and is checked when read.

A saved folder holds ``manifest.json`` and one sub-folder of files, its generation. Saving writes a new
generation beside the old one and then replaces the manifest, which is a single atomic step: whoever reads
finds the old state or the new one. The manifest carries the format's version and a checksum of every file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from fewbits.errors import BrokenFolderError, MissingFileError, ParameterError

MANIFEST = "manifest.json"


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside ``path`` that takes its place when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.chmod(0o644)  # mkstemp's files are private to their owner
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Write a value as readable JSON, whole or not at all."""
    with replacing(path) as stream:
        stream.write((json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file that :func:`write_json` wrote."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MissingFileError(f"{path} is not there") from None
    except ValueError as error:
        raise BrokenFolderError(f"{path} is not JSON", got=error, hint="Save it again or restore a copy.") from error


def save_folder(folder: Path, kind: str, version: int, write: Callable[[Path], None]) -> None:
    """Save a folder of one kind: ``write`` fills an empty generation, which then replaces the last one."""
    folder = Path(folder)
    _check_replaceable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    generation = folder / f"generation-{uuid.uuid4().hex[:12]}"
    generation.mkdir()
    try:
        write(generation)
        manifest = {
            "format": kind,
            "version": version,
            "generation": generation.name,
            "files": {name: _facts(generation / name) for name in _file_names(generation)},
        }
        write_json(folder / MANIFEST, {**manifest, "checksum": _checksum(manifest)})
    except BaseException:
        shutil.rmtree(generation, ignore_errors=True)
        raise
    for other in folder.glob("generation-*"):
        if other != generation:
            shutil.rmtree(other, ignore_errors=True)


def open_folder(folder: Path, kind: str, version: int, *, verify: bool = True) -> Path:
    """Return the generation of a saved folder after checking it; ``verify=False`` checks sizes only."""
    folder = Path(folder)
    manifest = _read_manifest(folder, kind, version)
    generation = folder / manifest["generation"]
    for name, facts in manifest["files"].items():
        _check_file(generation / name, facts, verify=verify)
    return generation


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
        raise BrokenFolderError(f"{path} was altered", hint="Restore a copy, or save it again.")
    return manifest


def _check_replaceable(folder: Path) -> None:
    """Refuse to write into a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{folder} is a file", allowed="a folder that is new or was saved by fewbits")
    if folder.is_dir() and not (folder / MANIFEST).is_file():
        others = [path.name for path in folder.iterdir() if not path.name.startswith(("generation-", "."))]
        if others:
            raise ParameterError(
                f"{folder} holds other files",
                allowed="a folder that is new, empty, or was saved by fewbits",
                got=", ".join(sorted(others)[:3]),
                hint="Choose another folder.",
            )


def _file_names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _facts(path: Path) -> dict[str, Any]:
    """Size and checksum of a file, once its bytes are on the disk."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        digest = _sha256(stream)
    _sync_folder(path.parent)
    return {"bytes": path.stat().st_size, "sha256": digest}


def _check_file(path: Path, facts: dict[str, Any], *, verify: bool) -> None:
    restore = "Restore a copy, or save it again."
    if not path.is_file():
        raise BrokenFolderError(f"{path} is missing", hint=restore)
    size = path.stat().st_size
    if size != facts["bytes"]:
        problem = "truncated" if size < facts["bytes"] else "altered"
        raise BrokenFolderError(f"{path} is {problem}", allowed=f"{facts['bytes']} bytes", got=size, hint=restore)
    if verify:
        with path.open("rb") as stream:
            digest = _sha256(stream)
        if digest != facts["sha256"]:
            raise BrokenFolderError(f"{path} was altered: its checksum differs", hint=restore)


def _sha256(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := stream.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; not every system can open a folder, and there it is not needed."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
