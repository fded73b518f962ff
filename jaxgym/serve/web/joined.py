"""What uvicorn's protocols lack: one write for an answer, and an end to clients that take without giving.

uvicorn writes head and body apart, which is a call of the system for each; on a small answer that call is half of the
work. It also waits for ever for a client that does not finish its request, or does not read what it asked for.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LONGEST_HEAD = 64 * 1024
"""The longest head of a request that comes in several pieces, in bytes."""

MOST_DISCARDED = 2**23
"""How much of a request that was refused is taken and thrown away, in bytes."""

DISCARD_SECONDS = 1.0
"""How long that is done: those who still send would not see the answer."""

MOST_PIECES = 1024
"""The most pieces of a message of a WebSocket."""

_LINGER_SECONDS = 10.0  # for those who are told the end and do not read it
_TOO_LONG = b'{"error": "the head of a request may have %d bytes."}' % LONGEST_HEAD
_REFUSAL = b"HTTP/1.1 431 \r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (
    len(_TOO_LONG),
    _TOO_LONG,
)
_TOO_BIG, _NO_TEXT = 1009, 1007


class JoinedWrites:
    """A transport that writes what it is given in one round of the event loop at its end.

    Attributes:
        on_lost: Called once when the connection is lost; None for nothing.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop, on_lost: Callable[[], None] | None = None):
        """Takes a transport, which all but writing is left to."""
        self.on_lost = on_lost
        self._transport, self._loop = transport, loop
        self._waiting: list[bytes] = []
        self._lingering: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        """Returns what the transport has."""
        return getattr(self._transport, name)

    def write(self, content: bytes) -> None:
        """Writes bytes behind those that wait."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(content)

    def writelines(self, contents: list[bytes]) -> None:
        """Writes all of some bytes."""
        self.write(b"".join(contents))

    def write_eof(self) -> None:
        """Writes what waits, and the end."""
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Writes what waits and closes the transport; a client that does not read it is cut off some time later."""
        self._flush()
        self._transport.close()
        if self._lingering is None and self._transport.get_write_buffer_size():
            self._lingering = self._loop.call_later(_LINGER_SECONDS, self._transport.abort)

    def lose(self) -> None:
        """Tells that the connection is lost."""
        if self._lingering is not None:
            self._lingering.cancel()
        if self.on_lost is not None:
            self.on_lost()
            self.on_lost = None

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and not self._transport.is_closing():
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))


class JoinedProtocol(HttpToolsProtocol):
    """uvicorn's protocol of HTTP on such a transport; a request that does not go on is given up.

    Attributes:
        on_lost: Called once when the connection is lost, whatever it has become; None for nothing.
    """

    on_lost: Callable[[], None] | None = None
    _head: int | None = None  # bytes of a head that is not complete, but for the first piece; None outside of one
    _discarding: asyncio.TimerHandle | None = None
    _discarded = 0

    def connection_made(self, transport: Any) -> None:
        """Starts on a connection."""
        joined = JoinedWrites(transport, self.loop, self.on_lost)
        super().connection_made(joined)  # pyright: ignore[reportArgumentType]
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        self._unset_keepalive_if_required()
        self._go_on()
        super().connection_lost(exc)
        joined: Any = self.transport
        joined.lose()

    def data_received(self, data: bytes) -> None:
        """Takes bytes."""
        began = self._head
        super().data_received(data)
        if self._discarding is not None:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED:
                self.transport.close()
        if self._head is None:
            if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
                self._wait()
            return
        if began is not None:
            self._head = began + len(data)
            if self._head > LONGEST_HEAD:
                self.transport.write(_REFUSAL)
                self.transport.close()
                return
        self._wait()

    def on_message_begin(self) -> None:
        """Begins a request."""
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Ends the head of a request."""
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Ends a request."""
        self._go_on()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Ends an answer; where the request was not read to its end by then, the rest is thrown away for a while."""
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body and not self.transport.is_closing():
            self._discarding = self.loop.call_later(DISCARD_SECONDS, self.transport.close)
            self._discarded = 0

    def _go_on(self) -> None:
        if self._discarding is not None:
            self._discarding.cancel()
            self._discarding = None

    def _wait(self) -> None:
        if self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )


class JoinedSockets(WebSocketsSansIOProtocol):
    """uvicorn's protocol of WebSockets on such a transport, where nothing piles up that nobody reads."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        super().connection_lost(exc)
        joined: Any = self.transport
        joined.lose()

    async def send(self, message: Any) -> None:
        """Sends what an app says; a request that was answered with a refusal is over, and nothing to log."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def handle_ping(self) -> None:
        """Answers a ping; not to a client that does not read, for which answers would pile up."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Any) -> None:
        """Takes a further piece of a message."""
        if len(self.frames) >= MOST_PIECES:
            self._fail(_TOO_BIG, "a message in too many pieces")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Passes a message on; text that is none ends the connection, and is nothing to log."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self._fail(_NO_TEXT, "a message that is no UTF-8")
                return
        super().send_receive_event_to_app()

    def _fail(self, code: int, why: str) -> None:
        self.frames = []
        self.conn.fail(code, why)
        self.handle_parser_exception()
