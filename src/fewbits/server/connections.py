"""Connections: a deadline and a limit of size in every state, and a limit on their number.

uvicorn takes any asyncio protocol in place of its own. The one here stands between the transport and uvicorn's, which
it does not change: it passes on one head at a time, and the middleware tells it when a request begins and ends.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from fewbits.server.errors import ServiceError
from fewbits.server.framing import Chunked, Head
from fewbits.server.schemas import Settings

CONNECTION = "connection"  # in the state of an ASGI scope
CHUNK = 512  # bytes of a chunked body that are passed on at once, as requests may follow it
MIN_SENT = 64 << 10  # bytes that a client takes of a response within ``head_seconds``
LINGER_S = 2.0  # to read what the client still sends, without which it might lose the response


class Stage(Enum):
    """State of a connection."""

    HEAD = auto()  # waiting for a request, or receiving its head
    PASSED = auto()  # a head was passed to uvicorn, which starts the request
    BODY = auto()
    WORK = auto()  # the request is being answered
    CLOSING = auto()


class Connections:
    """The connections of a server by state, oldest in the state first."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._waiting: dict[Connection, None] = {}  # for a request or its body
        self._sending: dict[Connection, None] = {}  # a response that the client has not taken yet
        self._open: set[Connection] = set()

    def set_waiting(self, connection: Connection, *, is_waiting: bool) -> None:
        """Put a connection at the end of those that wait for their client, or remove it from them."""
        self._waiting.pop(connection, None)
        if is_waiting:
            self._waiting[connection] = None

    def add(self, connection: Connection) -> None:
        """Add a new connection; if there are too many, close the one that has waited longest for its client."""
        self._open.add(connection)
        if len(self._open) > self.settings.connections:
            next(iter(self._waiting), connection).abort()

    def add_sending(self, connection: Connection) -> None:
        """Add a connection that has a response to send; of too much to send, the oldest is dropped."""
        self._sending.pop(connection, None)
        self._sending[connection] = None
        unsent = {one: one.unsent() for one in self._sending}
        total = sum(unsent.values())
        for one in [*unsent][:-1]:
            if unsent[one] == 0:
                del self._sending[one]
            elif total > self.settings.unsent_bytes:
                total -= unsent[one]
                one.abort()

    def discard(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        self._sending.pop(connection, None)


class Connection(asyncio.Protocol):
    """A connection, with uvicorn's protocol behind it."""

    _transport: asyncio.Transport

    def __init__(
        self,
        others: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._others = others
        self._settings = others.settings
        self._loop = _loop or asyncio.get_running_loop()
        self._http = HttpToolsProtocol(config, server_state, {**app_state, CONNECTION: self}, _loop)
        self._stage = Stage.HEAD
        self._received = b""  # not passed on yet
        self._head = Head(self._settings)
        self._body_left: int | None = 0  # bytes; None if the body is chunked
        self._chunked = Chunked(self._settings)
        self._is_paused = False  # by uvicorn
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        self._transport = cast("asyncio.Transport", transport)
        self._http.connection_made(_GuardedTransport(self._transport, self))
        self._await_head()
        self._others.add(self)

    def data_received(self, data: bytes) -> None:
        """Pass data on, as far as it belongs to the present request."""
        if self._stage is Stage.CLOSING:
            return
        self._received += data
        self._pass_on()
        if self._stage is Stage.WORK and len(self._received) > self._settings.head_bytes:
            self.abort()  # the client sends many requests before the response

    def eof_received(self) -> None:
        """Let the transport close."""
        self._http.eof_received()

    def pause_writing(self) -> None:
        """Pause uvicorn's writing: the client does not read fast enough."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Tell uvicorn that the client takes more."""
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel_timer()
        self._others.discard(self)
        self._stage = Stage.CLOSING
        self._http.connection_lost(exc)

    def request_started(self, length: int | None) -> None:
        """Receive the body of a request; its length is None if it is chunked."""
        self._stage = Stage.WORK if length == 0 else Stage.BODY
        self._body_left, self._chunked = length, Chunked(self._settings)
        settings = self._settings
        self._set_timer(settings.body_seconds + settings.request_seconds + settings.head_seconds, self.abort)
        self._others.set_waiting(self, is_waiting=self._stage is Stage.BODY)
        self._loop.call_soon(self._pass_on)

    def body_received(self) -> None:
        """Stop passing data on until the request ends."""
        if self._stage is Stage.BODY:
            self._stage = Stage.WORK
            self._others.set_waiting(self, is_waiting=False)

    def request_ended(self) -> None:
        """Wait for the next request."""
        if self._stage is Stage.CLOSING:
            return
        self._await_head()
        if self.unsent():
            self._others.add_sending(self)
        self._loop.call_soon(self._pass_on)

    def unsent(self) -> int:
        """Return the number of bytes that the client has not taken yet."""
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close the connection at once."""
        self._others.discard(self)
        self._transport.abort()

    def close(self) -> None:
        """Close the connection after what was written; first read what the client is still sending."""
        is_complete = self._stage is not Stage.BODY and not self._body_left and not self._received
        if self._stage is Stage.CLOSING:
            return
        self._stage, self._received = Stage.CLOSING, b""
        if is_complete and not self.unsent():
            self._transport.close()
            return
        self._set_timer(self._settings.head_seconds if is_complete else LINGER_S, self.abort)
        if is_complete:
            self._transport.close()
            self._watch(self.unsent())
        else:
            self._transport.write_eof()
            self._read(True)

    def set_paused(self, is_paused: bool) -> None:
        """Stop or continue to pass data on, as uvicorn asks for."""
        self._is_paused = is_paused
        if self._stage is not Stage.CLOSING:
            self._read(not is_paused)
            self._loop.call_soon(self._pass_on)

    def _read(self, is_reading: bool) -> None:
        """Continue or stop to receive data."""
        if self._transport.is_closing() or self._transport.is_reading() == is_reading:
            return
        if is_reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _await_head(self) -> None:
        self._stage = Stage.HEAD
        self._head = Head(self._settings)
        self._others.set_waiting(self, is_waiting=True)
        self._watch(self.unsent())

    def _watch(self, unsent: int) -> None:
        """Close the connection if neither a request arrives nor the last response is taken in time."""
        self._set_timer(self._settings.head_seconds, lambda: self._check(unsent))

    def _check(self, unsent_before: int) -> None:
        unsent = self.unsent()
        if unsent and unsent_before - unsent >= min(MIN_SENT, unsent_before):
            self._watch(unsent)
        elif unsent:
            self.abort()
        elif unsent_before and self._stage is Stage.HEAD:
            self._watch(0)  # the client has taken the response only now
        else:
            self._transport.close()

    def _pass_on(self) -> None:
        """Pass to uvicorn what belongs to the present request."""
        while self._received and not self._is_paused and not self._transport.is_closing():
            if self._stage is Stage.HEAD:
                self._pass_head()
                break
            if self._stage is not Stage.BODY:
                break
            self._pass_body()
        if self._stage is not Stage.CLOSING:  # as much is held as one head needs, and nothing beside a response
            is_ahead = bool(self._received) and self._stage is Stage.WORK
            self._read(not (self._is_paused or is_ahead or len(self._received) > self._settings.head_bytes))

    def _pass_head(self) -> None:
        """Pass on the headers of one request, or the part received so far."""
        size = self._head.next_size(self._received)
        part, self._received = self._received[:size], self._received[size:]
        if not self._head.fits(part):
            self._refuse_head()
            return
        self._stage = Stage.PASSED
        self._http.data_received(part)
        self._loop.call_soon(self._after_head)  # after the request, if there is one, has begun

    def _after_head(self) -> None:
        if self._stage is Stage.PASSED:  # an incomplete head, or an empty line
            self._stage = Stage.HEAD
            self._pass_on()

    def _pass_body(self) -> None:
        size = CHUNK if self._body_left is None else self._body_left
        part, self._received = self._received[:size], self._received[size:]
        if self._body_left is None:
            if not self._chunked.fits(part):
                self.abort()
                return
        else:
            self._body_left -= len(part)
            if not self._body_left:
                self.body_received()
        self._http.data_received(part)

    def _refuse_head(self) -> None:
        allowed = f"{self._settings.head_bytes} bytes in {self._settings.head_lines} lines"
        error = ServiceError(431, "the head of the request is too large", allowed=allowed, next="Send fewer headers.")
        error.headers["connection"] = "close"
        response = error.to_response("")
        head = "".join(f"{name.decode()}: {value.decode()}\r\n" for name, value in response.raw_headers)
        line = "HTTP/1.1 431 Request Header Fields Too Large\r\n"
        self._transport.write(f"{line}{head}\r\n".encode("latin-1") + bytes(response.body))
        self._body_left = None
        self.close()

    def _set_timer(self, seconds: float, callback: Any) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_later(seconds, callback)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _GuardedTransport(asyncio.Transport):
    """What uvicorn's protocol sees of a transport."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        super().__init__()
        self._transport = transport
        self._connection = connection
        self._is_closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def write(self, data: Any) -> None:
        self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._connection.set_paused(True)

    def resume_reading(self) -> None:
        self._connection.set_paused(False)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._connection.close()

    def abort(self) -> None:
        self._connection.abort()
