"""What stands before every route: request ids, limits on bodies, security headers, the log and the metrics."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
import uuid
from typing import Any

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fewbits.server.errors import ServiceError
from fewbits.server.settings import Settings
from fewbits.server.telemetry import LOGGER, Metrics

BEGINNING = uuid.uuid4().hex[:16]
COUNTER = itertools.count(1)
GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}
QUIET = ("/healthz", "/readyz", "/metrics")  # asked every few seconds by machines


class ServiceMiddleware:
    """Wraps an application."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        request_id = scope["request_id"] = _request_id(Headers(scope=scope))
        answered = _Answered(send, request_id)
        try:
            await self._app(scope, await self._checked_body(scope, receive), answered)
        except ServiceError as problem:
            await problem.reply(request_id)(scope, receive, answered)
        except Exception:
            LOGGER.exception("a request failed", extra={"facts": {"request_id": request_id}})
            if not answered.status:
                failed = ServiceError(
                    500, "something went wrong here", next="Tell who runs this service the request_id."
                )
                await failed.reply(request_id)(scope, receive, answered)
        self._note(scope, answered.status, time.perf_counter() - start)

    async def _checked_body(self, scope: Scope, receive: Receive) -> Receive:
        """Read the body, within size and time, and look at it as JSON; then it can be received again."""
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
        announced = headers.get("content-length", "0")
        size = int(announced) if announced.isascii() and announced.isdigit() else 0
        parts: list[bytes] = []
        more = size <= limit
        length = size if size > limit else 0
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ServiceError(400, "the body ended early")
            parts.append(message.get("body", b""))
            length += len(parts[-1])
            more = message.get("more_body", False) and length <= limit
        if length > limit:
            allowed, got = f"{limit} bytes", f"{length} bytes or more"
            raise ServiceError(413, "the body is too large", allowed=allowed, got=got, next="Send it in parts.")
        return b"".join(parts)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        method = "any" if route == "other" or status == 405 else scope["method"]  # not whatever somebody sends
        self._metrics.seen(route, method, status, seconds)
        if route in QUIET or not LOGGER.isEnabledFor(20):
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


class _Answered:
    """Sends an answer on, with the headers that every answer has, and remembers its status."""

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
            for name, value in SECURITY.items():
                headers[name] = value
        await self._send(message)


def check_json(body: bytes, depth: int) -> None:
    """Refuse what is no JSON in UTF-8, or is nested deeply."""
    try:
        level: list[Any] = [orjson.loads(body)]
    except orjson.JSONDecodeError as error:
        raise ServiceError(400, "the body is no JSON", allowed="JSON in UTF-8", got=error, next="Correct it.") from None
    for _ in range(depth):
        level = [part for value in level for part in _parts(value)]
        if not level:
            return
    raise ServiceError(400, "the body is nested too deeply", allowed=f"{depth} levels", next="Send it flatter.")


def _parts(value: Any) -> list[Any]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [part for part in inside if isinstance(part, (dict, list))]


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    # Counted from a random beginning: asking the system for randomness each time would wait for other threads.
    return given if GIVEN_ID.fullmatch(given) else f"{BEGINNING}{next(COUNTER):016x}"
