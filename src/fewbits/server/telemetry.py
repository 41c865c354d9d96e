"""Logs and metrics: one JSON object per line on standard error, and counters in the format of Prometheus."""

from __future__ import annotations

import logging
import sys
from datetime import datetime, timezone
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

LOGGER = logging.getLogger("fewbits.server")
LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64)


class JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON; ``extra={"facts": {...}}`` adds fields.

    python-json-logger would need a subclass as long as this one for the documented fields and lower-case levels.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
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
    """Write the logs of the service and of uvicorn to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("fewbits.server", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [] if name == "uvicorn.error" else [handler]
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(level.upper())


class Metrics:
    """Metrics of one service, in its own registry so that one process can run several services."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "fewbits_requests", "Requests answered.", ("route", "method", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "fewbits_request_seconds",
            "Time to answer a request.",
            ("route",),
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.refused = Counter(
            "fewbits_refused", "Requests rejected because the queue was full.", registry=self.registry
        )
        self.waiting = Gauge("fewbits_waiting", "Requests waiting or in progress.", registry=self.registry)
        self.batch = Histogram(
            "fewbits_batch_queries", "Queries per call of the engine.", buckets=BATCH_BUCKETS, registry=self.registry
        )
        self.documents = Gauge("fewbits_documents", "Documents in the engine.", registry=self.registry)

    def record_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request and its latency."""
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
