"""Middleware around every route: request ids, limits on hosts and bodies, security headers, log and metrics."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import logging
import re
import time
import uuid
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fewbits.server.connections import CONNECTION, Connection
from fewbits.server.errors import ServiceError
from fewbits.server.schemas import Settings
from fewbits.server.telemetry import LOGGER, Metrics

ID_PREFIX = uuid.uuid4().hex[:16]
ID_COUNTER = itertools.count(1)
CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}
NOT_LOGGED = ("/healthz", "/readyz", "/metrics")  # monitoring polls these every few seconds


TRY_AGAIN = "Try again in a second."
SMALL_BODY = 16 << 10  # bytes of a body that are not counted among those of large bodies
_STOPPING = ServiceError(503, "the service is stopping", next="Send the request to another, or when it has started.")


@dataclass
class _Body:
    """Memory that the body of a request occupies."""

    large: int = 0  # bytes


class ServiceMiddleware:
    """ASGI middleware that reads and checks the body, answers errors, and records each request."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._large_bodies = 0  # bytes of bodies of requests that have not ended, beyond SMALL_BODY of each

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, also if it raises."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        headers = Headers(scope=scope)
        request_id = scope["request_id"] = _request_id(headers)
        response = _ResponseSender(send, request_id)
        connection: Connection | None = scope.get("state", {}).get(CONNECTION)  # None in tests without a server
        if connection is not None:
            connection.request_started(_body_length(headers))
        body = _Body()
        try:
            check_host(headers, self._settings.hosts)
            await self._app(scope, await self._receive_body(scope, receive, body, connection), response)
        except ServiceError as error:
            await error.to_response(request_id)(scope, receive, response)
        except asyncio.CancelledError:  # the grace period for running requests has ended
            LOGGER.warning("request cancelled", extra={"facts": {"request_id": request_id}})
            if not response.status:
                await _STOPPING.to_response(request_id)(scope, receive, response)
        except Exception:
            LOGGER.exception("request failed", extra={"facts": {"request_id": request_id}})
            if not response.status:
                failure = ServiceError(
                    500, "internal error", next="Report the request_id to the operator of this service."
                )
                await failure.to_response(request_id)(scope, receive, response)
        finally:
            self._large_bodies -= body.large
            if connection is not None:
                connection.request_ended()
        self._record(scope, response.status, time.perf_counter() - start)

    async def _receive_body(
        self, scope: Scope, receive: Receive, body: _Body, connection: Connection | None
    ) -> Receive:
        """Read and check the body, and return a callable that replays it to the application."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return receive
        try:
            content = await asyncio.wait_for(
                self._read(Headers(scope=scope), receive, body), self._settings.body_seconds
            )
        except asyncio.TimeoutError:
            allowed = f"{self._settings.body_seconds:g} s"
            raise ServiceError(408, "the body did not arrive in time", allowed=allowed, next="Send it again.") from None
        if connection is not None:
            connection.body_received()
        if content:
            check_json(content, self._settings)
        messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        return replay

    async def _read(self, headers: Headers, receive: Receive, body: _Body) -> bytes:
        limit = self._settings.body_bytes
        content_length = headers.get("content-length", "0")
        announced = int(content_length) if content_length.isascii() and content_length.isdigit() else 0
        parts: list[bytes] = []
        more = announced <= limit
        length = announced if announced > limit else 0
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ServiceError(400, "the body is incomplete")
            parts.append(message.get("body", b""))
            length += len(parts[-1])
            self._reserve(body, length)
            more = message.get("more_body", False) and length <= limit
        if length > limit:
            allowed, got = f"{limit} bytes", f"{length} bytes or more"
            raise ServiceError(413, "the body is too large", allowed=allowed, got=got, next="Send it in parts.")
        return b"".join(parts)

    def _reserve(self, body: _Body, length: int) -> None:
        """Count the bytes of a large body, of which only some may be held at the same time."""
        more = max(0, length - SMALL_BODY) - body.large
        if more > 0 and self._large_bodies + more > self._settings.bodies_bytes:
            allowed = f"{self._settings.bodies_bytes} bytes in all bodies at a time"
            error = ServiceError(503, "too many large bodies are being received", allowed=allowed, next=TRY_AGAIN)
            error.headers["connection"] = "close"  # the rest of the body is not read
            raise error
        body.large += max(0, more)
        self._large_bodies += max(0, more)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        """Update the metrics and write the log line of a request."""
        route = getattr(scope.get("route"), "path", None) or "other"
        # Clients can send any method name; unbounded label values would fill the metrics.
        method = "any" if route == "other" or status == 405 else scope["method"]
        self._metrics.record_request(route, method, status, seconds)
        if route in NOT_LOGGED or not LOGGER.isEnabledFor(logging.INFO):
            return
        facts = {
            "request_id": scope["request_id"],
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "ms": round(1000 * seconds, 2),
            "client": (scope.get("client") or ["unknown"])[0],
        }
        LOGGER.info("request", extra={"facts": facts})


class _ResponseSender:
    """Send a response with the common headers, and record its status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self._request_id
            headers.setdefault("cache-control", "no-store")
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
        await self._send(message)


def check_host(headers: Headers, allowed: tuple[str, ...]) -> None:
    """Raise unless the host that the client asks for is an address, or one of the names that are allowed.

    A web page from elsewhere can let its own name point to this service, and would then be allowed to read its answers
    (DNS rebinding). It cannot do so with an address.
    """
    for host in headers.getlist("host"):
        name = host[1:].partition("]")[0] if host.startswith("[") and "]" in host else host.partition(":")[0]
        if name.lower() not in allowed and "*" not in allowed and not _is_address(name):
            names = ", ".join((*allowed, "an address"))
            raise ServiceError(421, "the host is not served", allowed=names, got=host, next="See --allow-host.")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def check_json(body: bytes, settings: Settings) -> None:
    """Raise unless a body is JSON in UTF-8, with as many values and levels as are allowed."""
    if _exceeds(body, settings.json_values):
        allowed = f"{settings.json_values} values"
        raise ServiceError(413, "the body has too many values", allowed=allowed, next="Send it in parts.")
    try:
        level: list[Any] = [orjson.loads(body)]
    except orjson.JSONDecodeError as error:
        raise ServiceError(
            400, "the body is not valid JSON", allowed="JSON in UTF-8", got=error, next="Correct it."
        ) from None
    for _ in range(settings.json_depth):
        if any(len(value) > settings.json_keys for value in level if isinstance(value, dict)):
            allowed = f"{settings.json_keys} keys"
            raise ServiceError(413, "an object has too many keys", allowed=allowed, next="Send fewer.")
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    allowed = f"{settings.json_depth} levels"
    raise ServiceError(400, "the body is nested too deeply", allowed=allowed, next="Send a flatter body.")


def _exceeds(body: bytes, limit: int) -> bool:
    """Return whether a body has more values than a limit, without building any of them."""
    if _count_separators(body) <= limit:
        return False
    # What is between quotes may contain separators too. Texts are limited in number, so that the parts are.
    parts = body.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"', 2 * limit)
    return len(parts) > 2 * limit or _count_separators(b"".join(parts[::2])) > limit


def _count_separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _children(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, (dict, list))]


def _body_length(headers: Headers) -> int | None:
    """Return the number of bytes of a body; None without a content-length header."""
    if "transfer-encoding" in headers:
        return None
    length = headers.get("content-length", "0").strip()
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None


def _request_id(headers: Headers) -> str:
    """Return the client's request id if it is valid, else a new one."""
    given = headers.get("x-request-id", "")
    # A counter after a random prefix: a call for random bytes per request would release the interpreter lock and
    # wait for the search threads to get it back.
    return given if CLIENT_ID.fullmatch(given) else f"{ID_PREFIX}{next(ID_COUNTER):016x}"
