"""Middleware around every route: request ids, limits on bodies, security headers, log and metrics."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import time
import uuid
from typing import Any

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class ServiceMiddleware:
    """ASGI middleware that reads and checks the body, answers errors, and records each request."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, also if it raises."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        request_id = scope["request_id"] = _request_id(Headers(scope=scope))
        response = _ResponseSender(send, request_id)
        try:
            await self._app(scope, await self._receive_body(scope, receive), response)
        except ServiceError as error:
            await error.to_response(request_id)(scope, receive, response)
        except Exception:
            LOGGER.exception("request failed", extra={"facts": {"request_id": request_id}})
            if not response.status:
                failure = ServiceError(
                    500, "internal error", next="Report the request_id to the operator of this service."
                )
                await failure.to_response(request_id)(scope, receive, response)
        self._record(scope, response.status, time.perf_counter() - start)

    async def _receive_body(self, scope: Scope, receive: Receive) -> Receive:
        """Read and check the body, and return a callable that replays it to the application."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return receive
        try:
            body = await asyncio.wait_for(self._read(Headers(scope=scope), receive), self._settings.body_seconds)
        except asyncio.TimeoutError:
            allowed = f"{self._settings.body_seconds:g} s"
            raise ServiceError(408, "the body did not arrive in time", allowed=allowed, next="Send it again.") from None
        if body:
            check_json(body, self._settings.json_depth)
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        return replay

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
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
            more = message.get("more_body", False) and length <= limit
        if length > limit:
            allowed, got = f"{limit} bytes", f"{length} bytes or more"
            raise ServiceError(413, "the body is too large", allowed=allowed, got=got, next="Send it in parts.")
        return b"".join(parts)

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


def check_json(body: bytes, depth: int) -> None:
    """Raise unless a body is JSON in UTF-8, nested at most ``depth`` levels deep."""
    try:
        level: list[Any] = [orjson.loads(body)]
    except orjson.JSONDecodeError as error:
        raise ServiceError(
            400, "the body is not valid JSON", allowed="JSON in UTF-8", got=error, next="Correct it."
        ) from None
    for _ in range(depth):
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    raise ServiceError(400, "the body is nested too deeply", allowed=f"{depth} levels", next="Send a flatter body.")


def _children(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, (dict, list))]


def _request_id(headers: Headers) -> str:
    """Return the client's request id if it is valid, else a new one."""
    given = headers.get("x-request-id", "")
    # A counter after a random prefix: a call for random bytes per request would release the interpreter lock and
    # wait for the search threads to get it back.
    return given if CLIENT_ID.fullmatch(given) else f"{ID_PREFIX}{next(ID_COUNTER):016x}"
