"""Connections that are slow, large, many or in a state of their own."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fewbits import SearchEngine
from fewbits.server.schemas import Settings
from helpers.corpora import tiny_documents
from helpers.service import ERROR_FIELDS, running

LIMITS = Settings(head_seconds=1, body_seconds=1, connections=20, bodies_bytes=100_000)
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
BODY = b'{"query": "boat"}'
REQUEST = POST + b"content-length: %d\r\n\r\n" % len(BODY) + BODY


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running(LIMITS, SearchEngine.from_documents(tiny_documents(), n_bits=20, method="itq")) as port:
        yield port


def connect(port: int, *data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=15)
    for part in data:
        connection.sendall(part)
        time.sleep(0.05)
    return connection


def read(connection: socket.socket) -> bytes:
    """Return the bytes received until the server closes the connection."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def statuses(received: bytes) -> list[int]:
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([b"\r\n"], []),
        ([b"\n"], []),
        ([b"\r\n\r\n"], []),
        ([b"G"], []),
        ([GET], []),
        ([GET + b"\r\n"], [200]),
        ([GET + b"\r\n", b"\r\n"], [200]),
        ([GET + b"\r\n", b"\r\n\r\n\r\n"], [200]),
        ([GET + b"\r\n", GET], [200]),
        ([GET + b"content-length: 9\r\n\r\n"], [200]),
        ([GET + b"content-length: 9\r\n\r\n", b"x"], [200]),
        ([GET + b"content-length: 9\r\n\r\nx"], [200]),
        ([GET + b"transfer-encoding: chunked\r\n\r\n", b"5\r\nx"], [200]),
        ([GET + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n", b"x"], [200, 400]),
        ([GET + b"expect: 100-continue\r\ncontent-length: 9\r\n\r\n", b"x"], [200]),
        ([POST + b"content-length: 9\r\n\r\n", b"x"], [408]),
        ([POST + b"transfer-encoding: chunked\r\n\r\n", b"5\r\nx"], [408]),
        ([POST + b"transfer-encoding: chunked\r\n\r\n0\r\nx-trailer: "], [408]),
        ([REQUEST, b"\r\n"], [200]),
        ([REQUEST, b"P"], [200]),
    ],
)
def test_a_connection_is_closed_in_time_in_every_state(port: int, sent: list[bytes], expected: list[int]) -> None:
    with connect(port, *sent) as connection:
        start = time.monotonic()
        received = read(connection)
        assert time.monotonic() - start < 8 * LIMITS.head_seconds  # beside the work of other processes
    assert statuses(received) == expected


def test_requests_after_each_other_and_together_are_answered_in_order(port: int) -> None:
    chunked = (
        POST + b"transfer-encoding: chunked\r\n\r\n" + b"5\r\n" + BODY[:5] + b"\r\nc\r\n" + BODY[5:] + b"\r\n0\r\n\r\n"
    )
    for stream in (
        [REQUEST, GET + b"\r\n", REQUEST],
        [REQUEST + GET + b"\r\n" + chunked + REQUEST],
        [chunked + chunked[:20], chunked[20:] + GET + b"\r\n"],
        [b"\r\n" + GET + b"\r\n" + b"\r\n" + REQUEST],
        [b"".join([GET, b"content-length: 4\r\n\r\n", b"\n\n\n\n", REQUEST])],
        [bytes([byte]) for byte in GET + b"\r\n" + chunked[:-3]] + [b"\n\r\n"],
    ):
        with connect(port) as connection:
            for part in stream:
                connection.sendall(part)
                time.sleep(0.1 if len(stream) < 9 else 0.001)
            received = read(connection)
        count = b"".join(stream).count(b"HTTP/1.1")
        assert statuses(received) == [200] * count
        assert received.count(b'{"status":"ok"}') == b"".join(stream).count(b"GET ")


def test_a_large_head_is_refused_before_it_is_held(port: int) -> None:
    for header in (b"x: " + b"y" * 100_000, b"x: y\r\n" * 101, b"x: y\n" * 101):
        for end in (b"", b"\r\n\r\n"):
            with connect(port, GET + header + end) as connection:
                received = read(connection)
            head, _, body = received.partition(b"\r\n\r\n")
            assert statuses(head) == [431]
            assert set(json.loads(body)["error"]) == ERROR_FIELDS
    with connect(port, b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\n\r\n") as connection:
        assert statuses(read(connection)) == [431]


def sent_before_it_is_closed(connection: socket.socket, block: bytes) -> int:
    """Send a block again and again; return the number of bytes that were taken."""
    sent = 0
    connection.settimeout(0.5)  # then the server has stopped reading
    try:
        while sent < 500_000_000:
            sent += connection.send(block)
    except OSError:
        pass
    return sent


def test_a_flood_of_empty_lines_is_not_held(port: int) -> None:
    start = time.process_time()
    for line in (b"\r\n", b"\n"):
        with connect(port) as connection:
            connection.settimeout(0.5)
            with suppress(OSError):
                for _ in range(500):
                    connection.sendall(line * 100_000)
    assert time.process_time() - start < 3  # of the server, which runs in this process, and of the client


def test_many_requests_ahead_of_their_responses_are_not_held(port: int) -> None:
    with connect(port) as connection:
        assert sent_before_it_is_closed(connection, REQUEST * 1_000) < 20_000_000  # of the system's buffers
    with connect(port, REQUEST) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_the_connection_that_waited_longest_makes_room_for_a_new_one(port: int) -> None:
    waiting = [connect(port, b"G") for _ in range(LIMITS.connections)]
    with connect(port, REQUEST) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
    first, *others = waiting
    with first:
        first.settimeout(0.2)
        assert _is_closed(first)
    for other in others[3:]:
        with other:
            other.settimeout(0.01)
            assert not _is_closed(other)


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_large_bodies_are_limited_in_number_and_small_ones_are_not(port: int) -> None:
    large = [connect(port, POST + b"content-length: 90000\r\n\r\n" + b" " * 80_000) for _ in range(3)]
    with connect(port, REQUEST) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
    answers = [statuses(read(connection)) for connection in large]
    assert sorted(answers) == [[408], [503], [503]]
    for connection in large:
        connection.close()
    with connect(port, POST + b"content-length: 90000\r\n\r\n" + BODY + b" " * (90_000 - len(BODY))) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"  # what the others held is free again


def test_what_surrounds_chunks_is_limited_too() -> None:
    settings = Settings(head_seconds=20, body_seconds=20, body_bytes=1_000)
    engine = SearchEngine.from_documents(tiny_documents(), n_bits=20, method="itq")
    with running(settings, engine) as port, connect(port, POST + b"transfer-encoding: chunked\r\n\r\n") as connection:
        assert sent_before_it_is_closed(connection, b"1;" + b"x" * 1_000 + b"\r\n \r\n") < 20_000_000


def test_trailers_are_limited_like_heads(port: int) -> None:
    for trailers in (b"x: y\r\n" * 99 + b"\r\n", b"\r\n", b"x: " + b"y" * 20_000 + b"\r\n\r\n"):
        chunks = b"%x;a=b\r\n" % len(BODY) + BODY + b"\r\n0\r\n" + trailers
        for step in (1_000_000, 7):
            parts = [chunks[start : start + step] for start in range(0, min(len(chunks), 5_000 * step), step)]
            if len(parts) > 300:
                continue
            with connect(port, POST + b"transfer-encoding: chunked\r\n\r\n") as connection:
                for part in parts:
                    connection.sendall(part)
                assert connection.recv(12) == b"HTTP/1.1 200"
    for line in (b"x: y\r\n", b"x: " + b"y" * 1_000 + b"\r\n"):
        with connect(port, POST + b"transfer-encoding: chunked\r\n\r\n0\r\n") as connection:
            assert sent_before_it_is_closed(connection, line * 200) < 20_000_000
