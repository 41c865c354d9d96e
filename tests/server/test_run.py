"""The service with real connections: slow and idle clients, malformed requests, shutdown."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from fewbits import Document, SearchEngine, cli
from fewbits.server.run import raise_file_limit
from fewbits.server.schemas import Settings
from helpers.corpora import tiny_documents
from helpers.service import running

LARGE_TEXT = 30_000_000  # bytes: more than the socket buffers hold
SHORT_TIMEOUTS = Settings(head_seconds=2, body_seconds=1, body_bytes=50_000)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Run a server with short timeouts in a thread and yield its port."""
    raise_file_limit()
    huge = Document("huge", "enormous " + "x" * LARGE_TEXT)
    engine = SearchEngine.from_documents([*tiny_documents(), huge], n_bits=20, method="itq")
    with running(SHORT_TIMEOUTS, engine) as address:
        yield address


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=15)


def read_all(connection: socket.socket) -> bytes:
    """Return the bytes received until the server closes the connection."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def search(port: int) -> int:
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/search", json={"query": "boat", "k": 3}, timeout=15)
    return len(answer.json()["hits"])


def test_idle_connections_are_closed_and_do_not_block_requests(port: int) -> None:
    idle = [connect(port) for _ in range(1000)]
    try:
        assert search(port) == 3
        assert all(read_all(connection) == b"" for connection in idle)  # closed by the server
    finally:
        for connection in idle:
            connection.close()
    assert search(port) == 3


def test_connection_with_a_slow_head_is_closed(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ")
        start = time.monotonic()
        assert read_all(connection) == b""
        assert time.monotonic() - start < 10


def test_request_with_a_slow_body_gets_408_and_is_closed(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: 400\r\n\r\n{"
        )
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"the body did not arrive in time" in answer


def test_unlimited_chunked_body_gets_413_and_is_closed(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        chunk = b"2710\r\n" + b" " * 10_000 + b"\r\n"
        for _ in range(6):
            connection.sendall(chunk)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 413")


def test_connection_whose_client_stops_reading_is_closed(port: int) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(15)
        connection.connect(("127.0.0.1", port))
        body = b'{"query": "enormous", "k": 1}'
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        time.sleep(SHORT_TIMEOUTS.head_seconds * 2 + 1)
        received = 0
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 20):
                received += len(part)
    assert 0 < received < LARGE_TEXT
    assert search(port) == 3


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"G" * 70_000 + b"\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
    ],
)
def test_malformed_http_is_rejected(port: int, garbage: bytes) -> None:
    with connect(port) as connection:
        connection.sendall(garbage)
        assert re.match(rb"(HTTP/1.1 4\d\d .*)?$", read_all(connection), re.DOTALL)
    assert search(port) == 3


def test_path_traversal_reaches_no_file(port: int) -> None:
    for path in (
        "/static/../../errors.py",
        "/static/%2e%2e/%2e%2e/errors.py",
        "/static/..%5c..%5cerrors.py",
        "//etc/passwd",
    ):
        with connect(port) as connection:  # httpx would normalise the path
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
            assert read_all(connection).startswith(b"HTTP/1.1 404")


def test_sigterm_completes_running_requests_and_logs_are_json(engine: SearchEngine, tmp_path: Path) -> None:
    engine.save(tmp_path / "engine")
    token = "never-in-a-log-1"
    process = subprocess.Popen(
        [sys.executable, "-m", "fewbits", "serve", str(tmp_path / "engine"), "--port", "0", "--no-umap"],
        env={**os.environ, "FEWBITS_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        match = re.search(rb"http://127.0.0.1:(\d+)/", process.stdout.readline())
        assert match
        body = json.dumps({"ids": ["sailing-1"]}).encode()
        head = "POST /v1/remove HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer"
        with connect(int(match[1])) as connection:
            connection.sendall(f"{head} {token}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body[:4])
            time.sleep(1)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            connection.sendall(body[4:])
            assert read_all(connection).endswith(b'{"changed":1,"documents":59}')
        _, log = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    [request] = [line for line in lines if line["message"] == "request"]
    assert (request["path"], request["status"]) == ("/v1/remove", 200)
    assert len(request["request_id"]) == 32
    assert token.encode() not in log
    assert len(SearchEngine.load(tmp_path / "engine")) == 59


SLOW = """
import sys, time
from pathlib import Path
from fewbits.search import Snapshot
from fewbits.server import run
from fewbits.server.schemas import Settings
run.SHUTDOWN_TIMEOUT_S = 1
Snapshot.similar = lambda *_, **__: time.sleep(5)
run.serve(Path(sys.argv[1]), Settings(), port=0, use_umap=False, on_start=lambda address: print(address, flush=True))
"""


def test_requests_that_take_too_long_after_sigterm_get_the_documented_error(
    engine: SearchEngine, tmp_path: Path
) -> None:
    engine.save(tmp_path / "engine")
    command = [sys.executable, "-c", SLOW, str(tmp_path / "engine")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        answers: list[httpx.Response] = []
        ask = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{address}v1/similar", json={"id": "sailing-1"}, timeout=30))
        )
        ask.start()
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        ask.join(30)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert answers[0].status_code == 503
    assert answers[0].json()["error"]["what"] == "the service is stopping"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_right_after_the_address_is_printed_stops_the_service(
    engine: SearchEngine, tmp_path: Path, number: signal.Signals
) -> None:
    engine.save(tmp_path / "engine")
    command = [sys.executable, "-m", "fewbits", "serve", str(tmp_path / "engine"), "--port", "0", "--no-umap"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"Serving")
        process.send_signal(number)
        _, log = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0
    assert b"Traceback" not in log


def test_port_in_use_and_missing_folder_give_clear_errors(engine: SearchEngine, tmp_path: Path, port: int) -> None:
    engine.save(tmp_path / "engine")
    for folder, message in (
        (tmp_path / "engine", f"cannot listen on 127.0.0.1:{port}"),
        (tmp_path / "no", "is not a saved"),
    ):
        command = [sys.executable, "-m", "fewbits", "serve", str(folder), "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1
        assert message in done.stderr


def test_weak_token_is_rejected_before_the_engine_is_read() -> None:
    for token in ("short", "has a space in it", "ümläute-überall"):
        done = CliRunner().invoke(cli.app, ["serve", "nowhere", "--token", token])
        assert done.exit_code == 2
        assert re.search(r"a token has (at least )?8", done.output)
