"""Answers as JSON."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from fewbits.errors import BrokenFolderError, FewbitsError, LockedError, NotWritableError, UnknownIdError


class Reply(Response):
    """JSON, written from dataclasses as they are."""

    media_type = "application/json"

    def __init__(self, content: Any = None, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(content, status_code, headers)

    def render(self, content: Any) -> bytes:
        """Write a value as JSON."""
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)


SHOWN = 200  # characters of what was got
STATUSES: dict[type[FewbitsError], int] = {
    UnknownIdError: 404,
    LockedError: 503,
    NotWritableError: 403,
    BrokenFolderError: 503,
}


class ServiceError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, what: str, *, allowed: object = None, got: object = None, next: str = "") -> None:
        super().__init__(what)
        self.status = status
        self.facts = {"what": what, "allowed": _shown(allowed), "got": _shown(got), "next": next}
        self.headers: dict[str, str] = {}
        if status == 503:
            self.headers["retry-after"] = "1"
        if status == 401:
            self.headers["www-authenticate"] = "Bearer"
        if status in (408, 413):
            self.headers["connection"] = "close"  # what is left of the body is not read

    @classmethod
    def of(cls, error: FewbitsError) -> ServiceError:
        """The answer to an error of the engine."""
        status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 422)
        return cls(status, error.what, allowed=error.allowed, got=error.got, next=error.hint)

    def reply(self, request_id: str) -> Reply:
        """The error as it is sent."""
        return Reply({"error": {**self.facts, "request_id": request_id}}, self.status, self.headers)


def register_exception_handlers(app: FastAPI) -> None:
    """Give every error of an application the one shape; what nobody foresaw is answered by the guard."""

    @app.exception_handler(ServiceError)
    def _(request: Request, error: ServiceError) -> Reply:
        return error.reply(request_id(request))

    @app.exception_handler(FewbitsError)
    def _(request: Request, error: FewbitsError) -> Reply:
        return ServiceError.of(error).reply(request_id(request))

    @app.exception_handler(RequestValidationError)
    def _(request: Request, error: RequestValidationError) -> Reply:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
        problem = ServiceError(
            422,
            f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}",
            allowed="what /openapi.json describes",
            got=repr(first.get("input")),
            next="Correct it and send it again.",
        )
        return problem.reply(request_id(request))

    @app.exception_handler(HTTPException)
    def _(request: Request, error: HTTPException) -> Reply:
        problem = _of_routing(request, error)
        problem.headers |= dict(error.headers or {})
        return problem.reply(request_id(request))


def request_id(request: Request) -> str:
    """The id of a request, which the guard gave it."""
    return str(request.scope.get("request_id", ""))


def _of_routing(request: Request, error: HTTPException) -> ServiceError:
    got = f"{request.method} {request.url.path}"
    hint = "/openapi.json lists all addresses."
    if error.status_code == 404:
        return ServiceError(404, "there is nothing at this address", got=got, next=hint)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow")
        return ServiceError(405, "this address takes another method", allowed=allowed, got=got, next=hint)
    return ServiceError(error.status_code, str(error.detail), next=hint)


def _shown(value: Any) -> str | None:
    return None if value is None else str(value)[:SHOWN]
