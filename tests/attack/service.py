"""Attacks on the service over real connections, each with a probe of ``/healthz`` beside it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from attack.outcomes import Attack, Count, Outcome
from fewbits import Document, SearchEngine

TOKEN = "attack-token-1"
DOCUMENTS = 20_000
LONG_TEXT = 99_000  # characters
LONGEST_PROBE_S = 1.0
MEMORY_RATIO = 1.5
ERROR_FIELDS = {"what", "allowed", "got", "next", "request_id"}
TICKS = os.sysconf("SC_CLK_TCK")


@cache
def engine_folder() -> Path:
    """Fit an engine of 20,000 documents, some of them long, and return its folder; the process removes it."""
    place = tempfile.TemporaryDirectory(prefix="fewbits-attack-")
    _PLACES.append(place)
    generator = np.random.default_rng(0)
    stems = ["".join(generator.choice(list("bcdfglmnprst"), 1)) + s for s in ("alo", "eri", "imu", "osa", "une", "yka")]
    words = sorted({first + second + third for first in stems for second in stems for third in stems})
    ranks = np.minimum(generator.zipf(1.3, (DOCUMENTS, 30)), len(words)) - 1
    documents = [
        Document(
            f"d{number}",
            " ".join(words[rank] for rank in row),
            (f"label{number % 7}",),
            {
                "year": 1990 + number % 35,
                "tags": [f"tag{number % 50}", "all"],
                "score": number / 7,
                "key": f"k{number}",
            },
        )
        for number, row in enumerate(ranks)
    ]
    long = " ".join(words[number % len(words)] + "abcdefghij"[number % 10] for number in range(LONG_TEXT))[:LONG_TEXT]
    documents += [Document(f"long{number}", long[number:], (), {}) for number in range(50)]
    SearchEngine.from_documents(documents, n_bits=64, method="itq").save(Path(place.name) / "engine")
    return Path(place.name) / "engine"


_PLACES: list[tempfile.TemporaryDirectory[str]] = []


@dataclass
class Target:
    """A running service, and what a probe beside an attack has seen of it."""

    port: int
    process: subprocess.Popen[bytes]
    idle_memory: int = 1  # bytes
    largest_memory: int = 0
    probes: list[float] = field(default_factory=list)  # seconds
    start_cpu: float = 0.0

    def memory(self) -> int:
        """Return the resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+)", status)
        return int(match[1]) * 1024 if match else 0

    def cpu(self) -> float:
        """Return the processor time used so far, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def connect(self, timeout: float = 60) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send a request on a connection of its own and return status and body; status 0 if it was closed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {"content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def probe(self, stop: threading.Event) -> None:
        """Time ``/healthz`` again and again, and measure the memory, until told to stop."""
        while not stop.is_set():
            start = time.perf_counter()
            status, _ = self.request("GET", "/healthz")
            self.probes.append(time.perf_counter() - start if status == 200 else 60.0)
            self.largest_memory = max(self.largest_memory, self.memory())
            stop.wait(0.05)

    def figures(self) -> dict[str, float]:
        """Return what the probe has seen."""
        return {
            "healthz s": round(max(self.probes, default=0), 3),
            "memory ratio": round(self.largest_memory / self.idle_memory, 3),
            "cpu s": round(self.cpu() - self.start_cpu, 2),
        }


@contextmanager
def running(folder: Path, *options: str, token: str | None = None) -> Iterator[Target]:
    """Run ``fewbits serve`` on a free port, warmed up; it is stopped when the block ends."""
    command = [sys.executable, "-m", "fewbits", "serve", str(folder), "--port", "0", "--no-umap", *options]
    environment = {**os.environ, **({"FEWBITS_TOKEN": token} if token else {})}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log)
        assert process.stdout is not None
        try:
            match = re.search(rb"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
            assert match, "the service did not start"
            target = Target(int(match[1]), process)
            while target.request("GET", "/v1/map")[0] != 200:
                time.sleep(0.1)
            for number in range(20):  # what the first requests allocate belongs to the idle size
                target.request("POST", "/v1/search", json.dumps({"query": f"balo beri {number}", "k": 100}).encode())
            target.idle_memory, target.start_cpu = target.memory(), target.cpu()
            yield target
        finally:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()
            process.stdout.close()


def is_documented(status: int, body: bytes) -> bool:
    """Return whether a response is one of success, or an error below 500 or of refusal in the documented form."""
    if 200 <= status < 400:
        return True
    if not (400 <= status < 500 or status == 503):
        return False
    with suppress(ValueError, KeyError, TypeError):
        return set(json.loads(body)["error"]) == ERROR_FIELDS
    return False


def under_attack(name: str, strike: Callable[[Target, Count, float], None], scale: float) -> Outcome:
    """Run an attack on a service of its own with a probe beside it."""
    count = Count()
    with running(engine_folder(), token=TOKEN) as target:
        stop = threading.Event()
        probe = threading.Thread(target=target.probe, args=[stop])
        probe.start()
        try:
            strike(target, count, scale)
        finally:
            stop.set()
            probe.join()
        figures = target.figures()
        count.check(target.process.poll() is None, "the service ended")
        count.check(figures["healthz s"] <= LONGEST_PROBE_S, f"a probe took {figures['healthz s']} s")
        count.check(
            figures["memory ratio"] <= MEMORY_RATIO, f"memory grew to {figures['memory ratio']} times idle size"
        )
    return count.outcome(name, figures)


def post(target: Target, count: Count, path: str, body: Any, **headers: str) -> None:
    """Send a body, and count whether the response is documented."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, answer = target.request("POST", path, content, headers)
    count.check(is_documented(status, answer), f"POST {path} {content[:60]!r}: {status} {answer[:100]!r}")


def costly_conditions(target: Target, count: Count, scale: float) -> None:
    """Send conditions that take long to parse or to evaluate."""
    runs = [" " * 1_500, " " * 100_000, "x" * 99_000, "year" + " " * 5_000 + "x", "<" * 900, "year>=1990" + " " * 1_400]
    for run in runs:
        post(target, count, "/v1/search", {"query": "balo", "where": [run]})
    for number in range(max(1, int(5 * scale))):
        where = [f"score>={number + part / 10}" for part in range(20)]
        post(target, count, "/v1/search", {"query": "balo", "where": where})
        post(target, count, "/v1/search", {"query": "balo", "where": [f"key!=k{number}{part}" for part in range(20)]})


def large_bodies(target: Target, count: Count, scale: float) -> None:
    """Send bodies of almost the permitted size with as many values, errors or levels as possible."""
    size = 4 << 20
    fillings = [b"0,", b"[],", b"{},", b"1.5,", b'"",', b"null,", b"-0e1,", b"[[]],", b'{"a":0},', b'"\\u0000",']
    for filling in fillings:
        for path, name in (("/v1/encode", "texts"), ("/v1/remove", "ids"), ("/v1/add", "documents")):
            values = (filling * (size // len(filling)))[: size - 60].rsplit(b",", 1)[0]
            body = b'{"' + name.encode() + b'":[' + values + b"]}"
            post(target, count, path, body, authorization=f"Bearer {TOKEN}")
    keys = b",".join(b'"%d":0' % number for number in range(380_000))
    post(target, count, "/v1/search", b"{" + keys + b"}")
    post(target, count, "/v1/search", b'{"query":"balo","labels":[' + b'"",' * 900_000 + b'""]}')
    post(target, count, "/v1/search", b"[" * size)
    post(target, count, "/v1/search", b'{"a":' * 800_000)


ATTACKS = [
    Attack(name, "service", partial(under_attack, name, strike))
    for name, strike in {"costly conditions": costly_conditions, "large bodies": large_bodies}.items()
]
