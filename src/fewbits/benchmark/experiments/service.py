"""How many queries a second the service answers, beside the bare scan of the same codes in the same run."""

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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from fewbits.benchmark.report.tables import markdown
from fewbits.codes import Packed
from fewbits.data import Document
from fewbits.features import TextVectorizer
from fewbits.hashers.registry import make_hasher
from fewbits.search import SearchEngine
from fewbits.storage import read_json, write_json

BITS = 64
K = 10
VOCABULARY = 2_000
WORDS_OF_A_DOCUMENT = 6
WORDS_OF_A_QUERY = 4
LEARNT_FROM = 20_000
CEILING_QUERIES = 2_000
CEILING_BATCH = 32
ROUNDS = 4  # the ceiling is measured before and after, because a busy machine changes


@dataclass(frozen=True)
class Load:
    """What clients saw who ask again as soon as they are answered."""

    documents: int
    bits: int
    rescore: str
    clients: int
    seconds: float
    requests: int
    errors: int
    rate: float  # requests a second
    median_ms: float
    p99_ms: float
    ceiling: float  # queries a second of the bare scan, many in a call
    overhead: float  # ceiling / rate
    cores: int
    other_load: float  # processes that wanted a core before it began, on average over a minute


def measure_load(
    documents: int = 1_000_000,
    clients: int = 32,
    seconds: float = 30.0,
    rescorings: tuple[str, ...] = ("none", "words"),
    folder: Path | None = None,
) -> Iterator[Load]:
    """Serve an engine of made-up documents and ask it for some time, in each way of rescoring."""
    with tempfile.TemporaryDirectory(prefix="fewbits-load-") as temporary:
        place = folder or Path(temporary) / "engine"
        if not (place / "manifest.json").exists():
            made_up_engine(documents).save(place)
        engine = SearchEngine.load(place, verify=False)
        with engine.snapshot() as snapshot:
            codes = snapshot.sample(documents)[1]
        queries = list(_queries(CEILING_QUERIES))
        encoded = engine.encode(queries)
        del engine
        for rescore in rescorings:
            busy = os.getloadavg()[0]
            before = [bare_scan(encoded, codes) for _ in range(ROUNDS // 2)]
            times, errors, lasted = _ask(place, queries, clients, seconds, rescore)
            after = [bare_scan(encoded, codes) for _ in range(ROUNDS // 2)]
            ceiling = statistics.median(before + after)
            rate = len(times) / lasted
            yield Load(
                documents=len(codes),
                bits=BITS,
                rescore=rescore,
                clients=clients,
                seconds=round(lasted, 1),
                requests=len(times),
                errors=errors,
                rate=round(rate, 1),
                median_ms=round(1000 * float(np.median(times)), 2),
                p99_ms=round(1000 * float(np.quantile(times, 0.99)), 2),
                ceiling=round(ceiling, 1),
                overhead=round(ceiling / rate, 2),
                cores=_cores(),
                other_load=round(busy, 1),
            )


def made_up_engine(documents: int) -> SearchEngine:
    """An engine of short texts of made-up words, the more frequent the earlier they were made up."""
    texts = list(_texts(documents, WORDS_OF_A_DOCUMENT, seed=0))
    features = TextVectorizer(max_features=VOCABULARY)
    rows = features.fit_transform(texts)
    hasher = make_hasher("itq", BITS, 0).fit(rows[:LEARNT_FROM])
    labels = [(f"label {number}",) for number in range(10)]
    stream = (Document(number, text, labels[number % 10]) for number, text in enumerate(texts))
    return SearchEngine.from_fitted(features, hasher, stream, rows, method="itq")


def bare_scan(queries: Packed, codes: Packed) -> float:
    """Queries a second of faiss alone, many in a call: with all cores or one, whichever is faster now."""
    return max(_scan(queries, codes, threads) for threads in sorted({1, _cores()}))


def _scan(queries: Packed, codes: Packed, threads: int) -> float:
    faiss.omp_set_num_threads(threads)
    start = time.perf_counter()
    for first in range(0, len(queries), CEILING_BATCH):
        faiss.knn_hamming(queries[first : first + CEILING_BATCH], codes, K, variant="mc")
    return len(queries) / (time.perf_counter() - start)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _texts(count: int, words: int, seed: int) -> Iterator[str]:
    generator = np.random.default_rng(seed)
    vocabulary = [_word(number) for number in range(VOCABULARY)]
    for start in range(0, count, 10_000):
        size = (min(10_000, count - start), words)
        drawn = (VOCABULARY * generator.random(size) ** 2).astype(np.int64)
        yield from (" ".join(vocabulary[word] for word in row) for row in drawn.tolist())


def _word(number: int) -> str:
    """A word of letters: syllables for the digits of a number."""
    syllables = ["ba", "do", "fi", "gu", "ke", "lo", "mi", "na", "pu", "ra", "se", "ti"]
    word = syllables[number % 12]
    while number := number // 12:
        word += syllables[number % 12]
    return word + "x"


def _queries(count: int) -> Iterator[str]:
    return _texts(count, WORDS_OF_A_QUERY, seed=1)


def _ask(
    folder: Path, queries: list[str], clients: int, seconds: float, rescore: str
) -> tuple[NDArray[np.float64], int, float]:
    """Start the service, let clients ask in a process of their own, stop the service."""
    command = [sys.executable, "-m", "fewbits", "serve", str(folder), "--port", "0", "--log-level", "warning"]
    process = subprocess.Popen([*command, "--no-umap"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert found, "the service did not start"
        with get_context("spawn").Pool(1) as pool:
            return pool.apply(_clients, (int(found[1]), queries, clients, seconds, rescore))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _clients(
    port: int, queries: list[str], clients: int, seconds: float, rescore: str
) -> tuple[NDArray[np.float64], int, float]:
    with suppress(ImportError):  # clients share the cores with the service: the less they need, the better it is seen
        import uvloop

        return uvloop.run(_all_clients(port, queries, clients, seconds, rescore))
    return asyncio.run(_all_clients(port, queries, clients, seconds, rescore))


async def _all_clients(
    port: int, queries: list[str], clients: int, seconds: float, rescore: str
) -> tuple[NDArray[np.float64], int, float]:
    while not (await _once(port, b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")).startswith(b"HTTP/1.1 200"):
        await asyncio.sleep(0.5)
    requests = [_request(query, rescore) for query in queries]
    start = time.perf_counter()
    answers = await asyncio.gather(
        *(_client(port, requests[number::clients], start + seconds) for number in range(clients))
    )
    lasted = time.perf_counter() - start
    return np.concatenate([times for times, _ in answers]), sum(errors for _, errors in answers), lasted


def _request(query: str, rescore: str) -> bytes:
    body = json.dumps({"query": query, "k": K, "rescore": rescore}).encode()
    head = "POST /v1/search HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length:"
    return f"{head} {len(body)}\r\n\r\n".encode() + body


async def _client(port: int, requests: list[bytes], until: float) -> tuple[NDArray[np.float64], int]:
    """Ask, wait for the whole answer, ask again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times: list[float] = []
    errors = number = 0
    while (start := time.perf_counter()) < until:
        writer.write(requests[number % len(requests)])
        number += 1
        head, body = await _answer(reader)
        errors += not (head.startswith(b"HTTP/1.1 200") and body.startswith(b'{"bits":64,"hits":[{"id":'))
        times.append(time.perf_counter() - start)
    writer.close()
    return np.array(times), errors


async def _once(port: int, request: bytes) -> bytes:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return b""
    writer.write(request)
    head, _ = await _answer(reader)
    writer.close()
    return head


async def _answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length
    return head, await reader.readexactly(int(length[1]))


def save_load(facts: Load, folder: Path) -> Path:
    """Write one file for a way of rescoring."""
    path = Path(folder) / f"load-{facts.rescore}.json"
    write_json(path, asdict(facts))
    return path


def render_load(folder: Path) -> str:
    """A table in Markdown of all files of a folder."""
    found: list[Any] = [Load(**read_json(path)) for path in sorted(Path(folder).glob("load-*.json"))]
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
        for load in found
    ]
    header = ["rescore", "requests", "errors", "requests/s", "median ms", "p99 ms", "bare faiss/s", "times slower"]
    conditions = [
        f"`{load.rescore}`: {load.documents:,} codes of {load.bits} bits, {load.clients} clients, {load.seconds:g} s,"
        f" {load.cores} cores on which {load.other_load:g} other processes wanted to run."
        for load in found
    ]
    return "\n".join([INTRODUCTION, markdown(header, rows), *(f"- {line}" for line in conditions), ""])


INTRODUCTION = f"""\
# The service under load

Rendered by `fewbits bench report` from what `fewbits bench service --save` measured.

Clients on the same machine ask for the {K} nearest documents of a short text, each again as soon as it is answered,
and read the whole answer: text in, documents out. *bare faiss*: `knn_hamming` alone on the same codes with codes as
queries, {CEILING_BATCH} in a call, with all cores or one, whichever was faster, measured before and after in the same
run; no text, no HTTP, no documents. `rescore: none` ranks by codes alone, as the bare scan does. `words`, the default,
also weighs the bits of each query and reads the words of 3,000 documents for it, which the bare scan does not.
"""
