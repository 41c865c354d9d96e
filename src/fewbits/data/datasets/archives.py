"""Find the archives of the benchmark data sets in a local folder or the cache, or download them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fewbits.errors import MissingExtraError, MissingFileError

DOWNLOAD_ATTEMPTS = 3


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
