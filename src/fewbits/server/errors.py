"""JSON responses, and the responses to errors."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from fewbits.errors import BrokenFolderError, FewbitsError, LockedError, NotWritableError, UnknownIdError

MAX_SHOWN = 200  # characters of a received value that an error repeats
STATUSES: dict[type[FewbitsError], int] = {
    UnknownIdError: 404,
    LockedError: 503,
    NotWritableError: 403,
    BrokenFolderError: 503,
}


class JsonResponse(Response):
    """JSON response; dataclasses are serialised directly."""

    media_type = "application/json"

    def __init__(self, content: Any = None, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(content, status_code, headers)

    def render(self, content: Any) -> bytes:
        """Serialise a value as JSON."""
        try:
            return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_STRICT_INTEGER)
        except TypeError:  # an integer of more than 53 bits
            return orjson.dumps(_with_exact_ids(content), option=orjson.OPT_NON_STR_KEYS)


class ServiceError(Exception):
    """Error with an HTTP status."""

    def __init__(self, status: int, what: str, *, allowed: object = None, got: object = None, next: str = "") -> None:
        super().__init__(what)
        self.status = status
        self.facts = {"what": what, "allowed": _shorten(allowed), "got": _shorten(got), "next": next}
        self.headers: dict[str, str] = {}
        if status == 503:
            self.headers["retry-after"] = "1"
        if status == 401:
            self.headers["www-authenticate"] = "Bearer"
        if status in (408, 413, 421):
            self.headers["connection"] = "close"  # the rest of the body is not read

    @classmethod
    def from_engine_error(cls, error: FewbitsError) -> ServiceError:
        """Convert an error of the engine."""
        status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 422)
        return cls(status, error.what, allowed=error.allowed, got=error.got, next=error.hint)

    def to_response(self, request_id: str) -> JsonResponse:
        """Return the error as a response."""
        return JsonResponse({"error": {**self.facts, "request_id": request_id}}, self.status, self.headers)


def register_exception_handlers(app: FastAPI) -> None:
    """Give all errors of an application the same shape. The middleware handles unexpected exceptions."""

    @app.exception_handler(ServiceError)
    def _(request: Request, error: ServiceError) -> JsonResponse:
        return error.to_response(_request_id(request))

    @app.exception_handler(FewbitsError)
    def _(request: Request, error: FewbitsError) -> JsonResponse:
        return ServiceError.from_engine_error(error).to_response(_request_id(request))

    @app.exception_handler(RequestValidationError)
    def _(request: Request, error: RequestValidationError) -> JsonResponse:
        return _from_validation(error).to_response(_request_id(request))

    @app.exception_handler(HTTPException)
    def _(request: Request, error: HTTPException) -> JsonResponse:
        return _from_routing(request, error).to_response(_request_id(request))


def _request_id(request: Request) -> str:
    """Return the id that the middleware assigned to a request."""
    return str(request.scope.get("request_id", ""))


def _from_validation(error: RequestValidationError) -> ServiceError:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
    return ServiceError(
        422,
        f"{field}: {first['msg'][:1].lower()}{first['msg'][1:]}",
        allowed="see /openapi.json",
        got=repr(first.get("input")),
        next="Correct the request and send it again.",
    )


def _from_routing(request: Request, error: HTTPException) -> ServiceError:
    got = f"{request.method} {request.url.path}"
    hint = "See /openapi.json for all paths."
    if error.status_code == 404:
        converted = ServiceError(404, "unknown path", got=got, next=hint)
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow")
        converted = ServiceError(405, "this path does not support the method", allowed=allowed, got=got, next=hint)
    else:
        converted = ServiceError(error.status_code, str(error.detail), next=hint)
    converted.headers |= dict(error.headers or {})
    return converted


def _with_exact_ids(value: Any, name: str = "") -> Any:
    """Write large ids as texts, since JavaScript would round them, and integers of more than 64 bits."""
    if is_dataclass(value):
        return {field.name: _with_exact_ids(getattr(value, field.name), field.name) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _with_exact_ids(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_exact_ids(item, name) for item in value]
    largest = 2**53 - 1 if name in ("id", "ids") else 2**63 - 1
    return str(value) if type(value) is int and not -largest - 1 <= value <= largest else value


def _shorten(value: Any) -> str | None:
    return None if value is None else str(value)[:MAX_SHOWN]
