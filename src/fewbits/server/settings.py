"""What a service allows."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """Limits of a service, and the token without which nobody changes its documents."""

    token: str | None = field(default=None, repr=False)  # None: read-only
    body_bytes: int = 4 << 20
    text_length: int = 100_000  # characters of a query or a document
    hits: int = 1_000
    documents: int = 1_000  # in one request
    json_depth: int = 32
    request_seconds: float = 30.0
    body_seconds: float = 10.0  # to send a body
    head_seconds: float = 10.0  # to send a request's head, and to stay connected without one
    connections: int = 10_000
    workers: int = 2  # threads that search
    waiting: int = 256  # requests that may wait for a worker; one more is refused
    map_documents: int = 12_000
