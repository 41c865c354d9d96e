"""Freed blocks stay with the process while a model trains."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# glibc's mallopt, as malloc.h numbers its parameters
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
GIB = 1 << 30
FOUND_BY_ITSELF = 32 << 20  # what glibc arrives at by itself once large blocks have been freed


@contextmanager
def freed_blocks_kept() -> Iterator[None]:
    """Keep what is freed instead of giving it back to the system, and give it back at the end.

    Every step needs the same few large blocks. By itself the C library returns such blocks and asks for fresh ones,
    which the system fills with zeros page by page; that can be a third of a step. Where the C library is another one
    nothing is changed.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt") or not hasattr(library, "malloc_trim"):
        yield
        return
    library.mallopt(MMAP_THRESHOLD, GIB)
    library.mallopt(TRIM_THRESHOLD, GIB)
    try:
        yield
    finally:
        library.mallopt(MMAP_THRESHOLD, FOUND_BY_ITSELF)
        library.mallopt(TRIM_THRESHOLD, 2 * FOUND_BY_ITSELF)
        library.malloc_trim(0)
