"""Logs: one JSON object a line, on standard error."""

from __future__ import annotations

import logging
import sys
from datetime import datetime, timezone
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

LOGGER = logging.getLogger("fewbits.server")


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what was given as ``extra={"facts": ...}`` stands beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def log_as_json(level: str = "info") -> None:
    """Send our log and uvicorn's to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("fewbits.server", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [] if name == "uvicorn.error" else [handler]
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(level.upper())


SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "fewbits_requests", "Requests answered.", ("route", "method", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "fewbits_request_seconds", "Time to answer.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self.refused = Counter("fewbits_refused", "Requests refused because too many wait.", registry=self.registry)
        self.waiting = Gauge("fewbits_waiting", "Requests that wait or are worked on.", registry=self.registry)
        self.batch = Histogram(
            "fewbits_batch_queries",
            "Queries answered by one call of the engine.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )
        self.documents = Gauge("fewbits_documents", "Documents in the engine.", registry=self.registry)

    def seen(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All figures as Prometheus reads them."""
        return generate_latest(self.registry)
