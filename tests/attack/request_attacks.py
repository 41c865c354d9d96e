"""Attacks by requests: generated from the description of the service, and those that cost most."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from attack.outcomes import Attack, Count
from attack.service import DOCUMENTS, LONG_TEXT, TOKEN, Target, is_documented, post, under_attack

REQUESTS = 600  # per route, with and without the token
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
WORDS = ["balo", "beri", "dimu", "fosa", "lune", "myka", "pimu", "rosa"]


def generated(target: Target, count: Count, scale: float, *, with_token: bool) -> None:
    """Send what the description of the service permits and what it forbids."""
    address = f"http://127.0.0.1:{target.port}"
    schema: Any = schemathesis.openapi.from_url(f"{address}/openapi.json")
    headers = {"authorization": f"Bearer {TOKEN}"} if with_token else {}
    for number, result in enumerate(schema.get_all_operations()):
        _send_all(result.ok(), address, headers, max(3, int(REQUESTS * scale)), number, count)


def _send_all(operation: Any, address: str, headers: dict[str, str], requests: int, number: int, count: Count) -> None:
    @seed(number)
    @settings(max_examples=requests, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def send(case: Any) -> None:
        failure = ""
        response = case.call(base_url=address, headers=headers)
        if not is_documented(response.status_code, response.content):
            failure = f"{response.status_code} {response.content[:100]!r}"
        try:
            case.validate_response(response, checks=CHECKS)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        count.check(not failure, f"{case.method} {case.path} {str(case.body)[:60]}: {failure}")

    send()


def costly(target: Target, count: Count, scale: float) -> None:
    """Send the requests that take longest, several at a time."""
    long = " ".join(WORDS[n % 8] + "abcdefghij"[n % 10] for n in range(LONG_TEXT))[:LONG_TEXT]
    bodies: list[tuple[str, Any]] = [
        ("/v1/search", {"query": "balo beri", "radius": 64, "fields": ["text"]}),
        ("/v1/search", {"query": "balo beri", "k": 1_000, "facets": True, "fields": ["text"]}),
        ("/v1/search", {"query": long, "k": 1_000}),
        ("/v1/search", {"query": "b* d* f* l*", "k": 1_000}),
        ("/v1/search", {"query": " ".join(f"-{word}" for word in WORDS * 40) + " balo", "k": 1_000}),
        ("/v1/search", {"query": '"' + " ".join(WORDS * 200) + '"', "k": 1_000}),
        ("/v1/search", {"query": "balo", "labels": [f"label{n}" for n in range(100)]}),
        ("/v1/search", {"query": "balo", "where": [f"score>={n / 7}" for n in range(20)]}),
        ("/v1/search", {"query": "balo", "where": [f"key!=k{n}" for n in range(20)]}),
        ("/v1/similar", {"id": "long1", "k": 1_000, "fields": ["text"]}),
        ("/v1/explain", {"query": long, "hit": "long2"}),
        ("/v1/explain", {"id": "long1", "hit": "long2"}),
        ("/v1/encode", {"texts": [long] * 40}),
        ("/v1/encode", {"texts": ["balo " * 800] * 1_000}),
    ]

    def strike() -> None:
        for path, body in bodies * max(1, int(5 * scale)):
            post(target, count, path, body)

    threads = [threading.Thread(target=strike) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status, answer = target.request("GET", "/v1/info")
    count.check(f'"documents":{DOCUMENTS}'.encode() in answer or status == 200, "the documents have changed")


STRIKES: dict[str, Callable[[Target, Count, float], None]] = {
    "generated requests": partial(generated, with_token=False),
    "generated requests with the token": partial(generated, with_token=True),
    "costly requests": costly,
}
ATTACKS = [Attack(name, "service", partial(under_attack, name, strike)) for name, strike in STRIKES.items()]
