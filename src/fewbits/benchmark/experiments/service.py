"""Throughput and latency of the service under load, compared with a plain scan of the same codes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from fewbits.benchmark.experiments.base import Experiment, markdown_table
from fewbits.codes import Packed
from fewbits.data import Document
from fewbits.features import TextVectorizer
from fewbits.hashers.registry import make_hasher
from fewbits.search import SearchEngine

BITS = 64
K = 10
VOCABULARY_SIZE = 2_000
WORDS_PER_DOCUMENT = 6
WORDS_PER_QUERY = 4
TRAINING_SIZE = 20_000
N_QUERIES = 2_000
SCAN_BATCH = 32
SCAN_ROUNDS = 4  # half before and half after the load, because the speed of a busy machine changes


@dataclass(frozen=True)
class Load:
    """Response times for clients that send the next query as soon as the last one is answered."""

    documents: int
    bits: int
    rescore: str
    clients: int
    seconds: float
    requests: int
    errors: int
    rate: float  # requests per second
    median_ms: float
    p99_ms: float
    ceiling: float  # queries per second of the plain scan, in batches
    overhead: float  # ceiling / rate
    cores: int
    other_load: float  # load average of the last minute before the measurement


@dataclass(frozen=True)
class ServiceLoad(Experiment[Load]):
    """Serve an engine of synthetic documents to parallel clients, with each ranking."""

    folder = "service"
    fact = Load
    page = "service-load.md"  # service.md documents the service itself

    documents: int = 1_000_000
    clients: int = 32
    seconds: float = 30.0
    rescorings: Sequence[str] = ("none", "words")
    engine: Path | None = None  # folder of a synthetic engine, created if it does not exist

    def measure(self) -> Iterator[Load]:
        """Yield the facts of one way of reranking at a time."""
        with tempfile.TemporaryDirectory(prefix="fewbits-load-") as temporary:
            folder = self.engine or Path(temporary) / "engine"
            if not (folder / "manifest.json").exists():
                synthetic_engine(self.documents).save(folder)
            engine = SearchEngine.load(folder, verify=False)
            with engine.snapshot() as snapshot:
                codes = snapshot.sample(self.documents)[1]
            queries = list(_synthetic_texts(N_QUERIES, WORDS_PER_QUERY, seed=1))
            encoded = engine.encode(queries)
            del engine
            for rescore in self.rescorings:
                yield self._measure(folder, rescore, queries, encoded, codes)

    def _measure(self, folder: Path, rescore: str, queries: list[str], encoded: Packed, codes: Packed) -> Load:
        other_load = os.getloadavg()[0]
        before = [scan_rate(encoded, codes) for _ in range(SCAN_ROUNDS // 2)]
        times, errors, elapsed = _serve_and_query(folder, queries, self.clients, self.seconds, rescore)
        after = [scan_rate(encoded, codes) for _ in range(SCAN_ROUNDS // 2)]
        ceiling = statistics.median(before + after)
        rate = len(times) / elapsed
        return Load(
            documents=len(codes),
            bits=BITS,
            rescore=rescore,
            clients=self.clients,
            seconds=round(elapsed, 1),
            requests=len(times),
            errors=errors,
            rate=round(rate, 1),
            median_ms=round(1000 * float(np.median(times)), 2),
            p99_ms=round(1000 * float(np.quantile(times, 0.99)), 2),
            ceiling=round(ceiling, 1),
            overhead=round(ceiling / rate, 2),
            cores=_n_cores(),
            other_load=round(other_load, 1),
        )

    @classmethod
    def file_name(cls, facts: Load) -> str:
        """Return the name of the JSON file."""
        return f"load-{facts.rescore}.json"

    @classmethod
    def render(cls, facts: Sequence[Load]) -> str:
        """Return the page in Markdown."""
        header = ["ranking", "requests", "errors", "requests/s", "median ms", "p99 ms", "plain faiss/s", "slowdown"]
        rows = [
            [
                load.rescore,
                f"{load.requests:,}",
                str(load.errors),
                f"{load.rate:,.0f}",
                f"{load.median_ms:.1f}",
                f"{load.p99_ms:.1f}",
                f"{load.ceiling:,.0f}",
                f"{load.overhead:.2f}",
            ]
            for load in facts
        ]
        conditions = [
            f"- `{load.rescore}`: {load.documents:,} codes of {load.bits} bits, {load.clients} clients,"
            f" {load.seconds:g} s, {load.cores} cores, load average of other processes {load.other_load:g}."
            for load in facts
        ]
        return "\n".join([INTRODUCTION, markdown_table(header, rows), *conditions, ""])


def synthetic_engine(documents: int) -> SearchEngine:
    """Create an engine of short synthetic texts, in which few words are frequent and most are rare."""
    texts = list(_synthetic_texts(documents, WORDS_PER_DOCUMENT, seed=0))
    vectorizer = TextVectorizer(max_features=VOCABULARY_SIZE)
    rows = vectorizer.fit_transform(texts)
    hasher = make_hasher("itq", BITS, 0).fit(rows[:TRAINING_SIZE])
    labels = [(f"label {number}",) for number in range(10)]
    stream = (Document(number, text, labels[number % 10]) for number, text in enumerate(texts))
    return SearchEngine.from_fitted(vectorizer, hasher, stream, rows, method="itq")


def scan_rate(queries: Packed, codes: Packed) -> float:
    """Return the queries per second of faiss alone, in batches, with one thread or all cores, whichever is faster."""
    return max(_scan_rate(queries, codes, threads) for threads in sorted({1, _n_cores()}))


def _scan_rate(queries: Packed, codes: Packed, threads: int) -> float:
    faiss.omp_set_num_threads(threads)
    start = time.perf_counter()
    for first in range(0, len(queries), SCAN_BATCH):
        faiss.knn_hamming(queries[first : first + SCAN_BATCH], codes, K, variant="mc")
    return len(queries) / (time.perf_counter() - start)


def _n_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _synthetic_texts(count: int, words: int, seed: int) -> Iterator[str]:
    generator = np.random.default_rng(seed)
    vocabulary = [_synthetic_word(number) for number in range(VOCABULARY_SIZE)]
    for start in range(0, count, 10_000):
        size = (min(10_000, count - start), words)
        drawn = (VOCABULARY_SIZE * generator.random(size) ** 2).astype(np.int64)
        yield from (" ".join(vocabulary[word] for word in row) for row in drawn.tolist())


def _synthetic_word(number: int) -> str:
    """Return a word with one syllable per digit of a number in base 12."""
    syllables = ["ba", "do", "fi", "gu", "ke", "lo", "mi", "na", "pu", "ra", "se", "ti"]
    word = syllables[number % 12]
    while number := number // 12:
        word += syllables[number % 12]
    return word + "x"


def _serve_and_query(
    folder: Path, queries: list[str], clients: int, seconds: float, rescore: str
) -> tuple[NDArray[np.float64], int, float]:
    """Start the service, run the clients in another process, and stop the service.

    Return the response times, the number of errors, and the elapsed seconds.
    """
    command = [sys.executable, "-m", "fewbits", "serve", str(folder), "--port", "0", "--log-level", "warning"]
    process = subprocess.Popen([*command, "--no-umap"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert address, "the service did not start"
        with get_context("spawn").Pool(1) as pool:
            return pool.apply(_run_clients, (int(address[1]), queries, clients, seconds, rescore))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _run_clients(
    port: int, queries: list[str], clients: int, seconds: float, rescore: str
) -> tuple[NDArray[np.float64], int, float]:
    with suppress(ImportError):  # faster clients leave more of the shared cores to the service
        import uvloop

        return uvloop.run(_all_clients(port, queries, clients, seconds, rescore))
    return asyncio.run(_all_clients(port, queries, clients, seconds, rescore))


async def _all_clients(
    port: int, queries: list[str], clients: int, seconds: float, rescore: str
) -> tuple[NDArray[np.float64], int, float]:
    while not (await _send(port, b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")).startswith(b"HTTP/1.1 200"):
        await asyncio.sleep(0.5)
    requests = [_request(query, rescore) for query in queries]
    start = time.perf_counter()
    outcomes = await asyncio.gather(
        *(_client(port, requests[number::clients], start + seconds) for number in range(clients))
    )
    elapsed = time.perf_counter() - start
    return np.concatenate([times for times, _ in outcomes]), sum(errors for _, errors in outcomes), elapsed


def _request(query: str, rescore: str) -> bytes:
    body = json.dumps({"query": query, "k": K, "rescore": rescore}).encode()
    head = "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length:"
    return f"{head} {len(body)}\r\n\r\n".encode() + body


async def _client(port: int, requests: list[bytes], until: float) -> tuple[NDArray[np.float64], int]:
    """Send one request after the other, each as soon as the last response is complete."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times: list[float] = []
    errors = number = 0
    while (start := time.perf_counter()) < until:
        writer.write(requests[number % len(requests)])
        number += 1
        head, body = await _read_response(reader)
        errors += not (head.startswith(b"HTTP/1.1 200") and b'"hits":[{"id":' in body)
        times.append(time.perf_counter() - start)
    writer.close()
    return np.array(times), errors


async def _send(port: int, request: bytes) -> bytes:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return b""
    writer.write(request)
    head, _ = await _read_response(reader)
    writer.close()
    return head


async def _read_response(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length
    return head, await reader.readexactly(int(length[1]))


INTRODUCTION = f"""\
# The service under load

Rendered by `fewbits bench report` from the measurements of `fewbits bench service --save`.

Clients on the same machine request the {K} nearest documents for a short text. Each client sends its next query as soon
as it has read the whole response, which contains the documents. *plain faiss* is `knn_hamming` on the same codes,
without texts, HTTP and documents: its queries are codes, {SCAN_BATCH} per call, and it uses one thread or all cores,
whichever is faster. It is measured before and after the load. `none` ranks by the number of differing bits, as
the plain scan does. `words`, the former name of `hybrid`, is the default: BM25 and codes together. Files of earlier
releases measured the former `words`, which reranked 3,000 documents by the cosine of their words.
"""
