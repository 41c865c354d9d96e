"""Data sets and their parts, the rule that splits them, and the archives they are read from."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fewbits.data.document import Document
from fewbits.errors import MissingExtraError, MissingFileError, ParameterError

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
DOWNLOAD_ATTEMPTS = 3


def assign_split(dataset: str, document_id: object, thresholds: tuple[float, float]) -> Part:
    """Return the part of a document, which depends on nothing but its id, so that every copy has the same split.

    A hash of the id is a number from 0 to 1: below the first threshold is train, below the second validation, else
    test.

    >>> assign_split("ng20", "sci.space/60940", (0.6, 0.8))
    'test'
    """
    digest = hashlib.sha256(f"{dataset}:{document_id}".encode()).hexdigest()
    number = int(digest[:8], 16) / 2**32
    return "train" if number < thresholds[0] else "validation" if number < thresholds[1] else "test"


@dataclass(frozen=True, eq=False)
class Split:
    """One part of a data set."""

    ids: list[Any]
    texts: list[str] | None  # None if the publisher released only term vectors
    features: Any  # CSR, documents x words, rows of unit length
    labels: Any  # CSR, documents x labels, 0/1

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)  # hashable by identity, since comparing would read all of the data
class Dataset:
    """A labelled collection in three parts, and its vocabulary."""

    name: str
    train: Split
    validation: Split
    test: Split
    vocabulary: list[str]
    label_names: list[str]
    fingerprint: str  # of ids, texts or terms, labels and vocabulary: comparable results have equal fingerprints

    def part(self, name: str) -> Split:
        """Return the part with this name."""
        if name not in PARTS:
            raise ParameterError("unknown part", allowed=", ".join(PARTS), got=repr(name))
        return {"train": self.train, "validation": self.validation, "test": self.test}[name]


@dataclass(frozen=True, eq=False)
class TermTable:
    """Documents as term vectors: counts, or weights if the publisher has weighted them."""

    ids: Sequence[str]
    label_sets: Sequence[tuple[str, ...]]
    terms: Any  # CSR, documents x words
    vocabulary: Sequence[str]
    weighted: bool = False
    parts: Sequence[Part] | None = None  # the publisher's split, if there is one

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Source:
    """Origin of a data set, and how it is split."""

    name: str
    read: Callable[[Path], Iterable[Document] | TermTable]
    thresholds: tuple[float, float]
    vocabulary_size: int
    archive: str | None = None
    url: str | None = None
    contents: str | None = None  # checksum of the documents in the archive, independent of its compression
    split_key: str | None = None  # hashed with the ids to split the documents, by default the name

    def locate(self, *, progress: bool = False) -> Path:
        """Return the path of the archive, or of the data folder if the set has no archive."""
        if self.archive:
            return find_archive(self.archive, self.url, progress=progress)
        return data_folder() if data_folder().is_dir() else cache_folder()


def cache_folder() -> Path:
    """Return the user's cache folder of fewbits."""
    # Not the platformdirs package: its folders differ on macOS and Windows, where archives would be downloaded again.
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "fewbits"


def data_folder() -> Path:
    """Return the folder in the environment variable FEWBITS_DATA, or else the cache folder."""
    folder = os.environ.get("FEWBITS_DATA")
    return Path(folder) if folder else cache_folder()


def find_archive(name: str, url: str | None = None, *, progress: bool = False) -> Path:
    """Return the path of an archive, downloading it into the cache if necessary.

    :func:`fewbits.load_dataset` checks the contents, not the file, so that a repacked archive is accepted.
    """
    for folder in (data_folder(), cache_folder()):
        if (folder / name).is_file():
            return folder / name
    if url is None:
        raise MissingFileError(
            f"{name} is not in {data_folder()}, and it has no download address",
            hint=f"Put {name} there, or set its folder: FEWBITS_DATA=/path/to/folder",
        )
    return _download(name, url, progress=progress)


def _download(name: str, url: str, *, progress: bool) -> Path:
    try:
        import pooch
        import requests
    except ImportError as error:
        raise MissingExtraError(f"downloading {name}", extra="download") from error
    # pooch writes to a temporary file first, and retries with growing pauses
    pooch.get_logger().setLevel("ERROR")
    store = pooch.create(
        path=cache_folder(),
        base_url="",
        registry={name: None},
        urls={name: url},
        retry_if_failed=DOWNLOAD_ATTEMPTS - 1,
    )
    try:
        return Path(store.fetch(name, downloader=pooch.HTTPDownloader(progressbar=progress, timeout=30)))
    except (requests.RequestException, OSError) as error:
        raise MissingFileError(
            f"{name} could not be downloaded from {url}",
            got=type(error).__name__,
            hint=f"Without a network, put the file into {data_folder()} or set FEWBITS_DATA to its folder.",
        ) from error
