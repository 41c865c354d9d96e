"""Attacks by connections: too many, too slow, too large, or never read."""

from __future__ import annotations

import json
import selectors
import socket
import time
from contextlib import suppress
from functools import partial

from attack.outcomes import Attack, Count
from attack.service import Target, is_documented, under_attack

CONNECTIONS = 3_000  # three times as many as the service keeps
CLOSED_AFTER_S = 40.0  # seconds for a head and seconds for a body, and a margin for a busy machine
FLOOD = 90 << 20  # bytes
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
BODY = b'{"query": "balo beri"}'
REQUEST = POST + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
STATES = {
    "nothing": b"",
    "an empty line": b"\r\n",
    "part of a head": GET,
    "a response": GET + b"\r\n",
    "a response and an empty line": GET + b"\r\n\r\n",
    "part of a body that GET does not have": GET + b"content-length: 9\r\n\r\nx",
    "part of a body": POST + b"content-length: 900\r\n\r\nx",
    "part of a chunk": POST + b"transfer-encoding: chunked\r\n\r\n5\r\nx",
    "part of a trailer": POST + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ",
}


def search(target: Target, count: Count, what: str) -> None:
    """Search as another client does, and count whether it is answered."""
    status, answer = target.request("POST", "/v1/search", BODY)
    count.check(is_documented(status, answer), f"a search beside {what}: {status} {answer[:80]!r}")


def stay_open(target: Target, count: Count, scale: float) -> None:
    """Leave connections open in every state that the protocol has."""
    start = time.monotonic()
    waiting: list[socket.socket] = []
    for _ in range(max(2, int(CONNECTIONS * scale) // len(STATES))):
        for data in STATES.values():
            with suppress(OSError):
                connection = target.connect()
                waiting.append(connection)
                connection.sendall(data)
        if len(waiting) % 10 == 0:
            search(target, count, f"{len(waiting)} connections that stay open")
    left = _wait_until_closed(waiting, start + CLOSED_AFTER_S)
    for place in range(len(waiting)):
        count.check(place >= left, f"{left} connections stay open")
    search(target, count, "connections that stayed open")


def _wait_until_closed(connections: list[socket.socket], deadline: float) -> int:
    """Read until the service closes the connections; return the number of those that it does not."""
    left = len(connections)
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ, connection)
        while left and time.monotonic() < deadline:
            for key, _ in selector.select(1.0):
                connection = key.data
                try:
                    is_closed = not connection.recv(1 << 16)
                except OSError:
                    is_closed = True
                if is_closed:
                    selector.unregister(connection)
                    connection.close()
                    left -= 1
    for connection in connections:
        connection.close()
    return left


def floods(target: Target, count: Count, scale: float) -> None:
    """Send endless heads, chunks and requests on one connection, and many large heads and bodies at a time."""
    blocks = {
        "headers": (GET, b"x: y\r\n" * 2_000),
        "one header": (GET + b"x: ", b"y" * 12_000),
        "a path": (b"GET /", b"y" * 12_000),
        "chunk extensions": (POST + b"transfer-encoding: chunked\r\n\r\n", b"1;" + b"x" * 2_000 + b"\r\n \r\n"),
        "trailers": (POST + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n" * 2_000),
        "empty lines": (b"", b"\r\n" * 2_000),
        "requests": (b"", REQUEST * 100),
        "short requests": (b"", b"GET / HTTP/1.1\r\n\r\n" * 1_000),
    }
    for name, (start, block) in blocks.items():
        with target.connect(timeout=2) as connection, suppress(OSError):
            connection.sendall(start)
            sent = 0
            while sent < FLOOD * scale:
                connection.sendall(block)
                sent += len(block)
        search(target, count, f"a flood of {name}")
    large = POST + b"content-length: 4000000\r\n\r\n" + b" " * 3_900_000
    for name, content in (("heads", GET + b"x: y\r\n" * 90), ("bodies", large)):
        connections = []
        for _ in range(max(5, int(100 * scale))):
            connection = target.connect(timeout=2)
            connections.append(connection)
            with suppress(OSError):
                connection.sendall(content)
        search(target, count, f"many large {name}")
        for connection in connections:
            connection.close()


def never_read(target: Target, count: Count, scale: float) -> None:
    """Ask for the largest responses on many connections, and read none of them."""
    body = json.dumps({"query": "balo beri", "k": 1_000, "fields": ["text"]}).encode()
    request = POST + b"content-length: %d\r\n\r\n" % len(body) + body
    connections = []
    for number in range(max(5, int(400 * scale))):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", target.port))
        connection.sendall(request)
        connections.append(connection)
        if number % 20 == 0:
            search(target, count, "responses that nobody reads")
    time.sleep(2)
    search(target, count, "responses that nobody reads")
    for connection in connections:
        connection.close()


ATTACKS = [
    Attack(name, "service", partial(under_attack, name, strike))
    for name, strike in {"open connections": stay_open, "floods": floods, "unread responses": never_read}.items()
]
