"""Answers as JSON."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response


class Reply(Response):
    """JSON, written from dataclasses as they are."""

    media_type = "application/json"

    def __init__(self, content: Any = None, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(content, status_code, headers)

    def render(self, content: Any) -> bytes:
        """Write a value as JSON."""
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
