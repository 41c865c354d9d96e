"""What is counted, in Prometheus's format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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
