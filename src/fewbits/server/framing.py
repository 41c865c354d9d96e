"""Where heads and chunked bodies end, as far as is needed to limit their size before a parser holds what is in them."""

from __future__ import annotations

import re

from fewbits.server.schemas import Settings

END_OF_HEAD = re.compile(rb"\n\r?\n")
LONGEST_END = 3  # bytes
LONGEST_SIZE = 32  # bytes of a line parsed for the size of a chunk


class Head:
    """The bytes and lines of a head so far."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last = b""  # bytes, which may be the beginning of the end
        self._bytes = self._lines = 0

    def next_size(self, received: bytes) -> int:
        """Return how many of the received bytes belong to the present head."""
        end = END_OF_HEAD.search(self._last + received)
        return len(received) if end is None else end.end() - len(self._last)

    def fits(self, part: bytes) -> bool:
        """Count a part of the head; return whether the head is not too large."""
        self._last = (self._last + part)[-LONGEST_END + 1 :]
        if END_OF_HEAD.search(self._last) or not part.strip():
            self._last = b""
        self._bytes += len(part)
        self._lines += part.count(b"\n")
        return self._bytes <= self._settings.head_bytes and self._lines <= self._settings.head_lines


class Chunked:
    """The framing of a chunked body so far: lines with sizes, chunks, and the trailers, which are like a head."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._left = 0  # bytes of the present chunk and its end
        self._line = b""
        self._bytes = 0
        self._trailers: Head | None = None

    def fits(self, part: bytes) -> bool:
        """Count a part of the body; return whether neither it nor the trailers are too large."""
        self._bytes += len(part)
        while part and self._trailers is None:
            skipped = min(self._left, len(part))
            self._left -= skipped
            line, end, rest = part[skipped:].partition(b"\n")
            part = rest
            self._line = (self._line + line)[:LONGEST_SIZE]
            if end:
                self._begin_chunk()
        fits_trailers = self._trailers is None or self._trailers.fits(part)
        # Mostly not the body, whose size is limited too, but what surrounds its chunks.
        return fits_trailers and self._bytes <= 2 * self._settings.body_bytes + self._settings.head_bytes

    def _begin_chunk(self) -> None:
        try:
            size = int(self._line.partition(b";")[0], 16)
        except ValueError:
            size = 0  # which the parser refuses
        self._line = b""
        self._left = size + len(b"\r\n")
        if size <= 0:
            self._trailers = Head(self._settings)
