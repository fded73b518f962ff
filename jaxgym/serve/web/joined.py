"""What uvicorn's protocols lack: one write for an answer, and an end to clients that take without giving.

uvicorn writes head and body apart, which is a call of the system for each; on a small answer that call is half of the
work. It also waits for ever for a client that does not finish its request, or does not read what it asked for.
"""

import asyncio
import json
import re
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LONGEST_HEAD = 64 * 1024
"""Maximum length of the head of a request, and of the extensions and trailers of a chunked body, in bytes."""

MOST_DISCARDED = 2**23
"""How much of a request that was refused is taken and thrown away, in bytes."""

DISCARD_SECONDS = 1.0
"""How long that is done: those who still send would not see the answer."""

MOST_PIECES = 1024
"""The most pieces of a message of a WebSocket."""

MOST_AHEAD = 1024
"""The most messages of a WebSocket that wait for the app."""

_LINGER_SECONDS = 10.0  # for those who are told the end and do not read it
_END = b"\r\n\r\n"
_CHUNK_FRAMING = 20  # 16 digits of a size and two ends of lines
# HTTP/1.1 lets a server ignore an upgrade, such as one to h2c (RFC 9110, 7.8). The parser would take the body for that
# of another protocol, so it does not get to see the header.
_ANY_UPGRADE = re.compile(rb"(?<=\r\n)upgrade(?=:)", re.IGNORECASE)
_UPGRADE = re.compile(rb"(?<=\r\n)upgrade(?=:(?![ \t]*websocket[ \t]*\r\n))", re.IGNORECASE)


def _answer(status: int, phrase: str, reason: str) -> bytes:
    body = json.dumps({"error": reason})
    head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n{body}".encode()


_TOO_LONG = _answer(
    431,
    "Request Header Fields Too Large",
    f"expected at most {LONGEST_HEAD} bytes in a head, and as many in chunk extensions and trailers.",
)
_NO_HTTP = _answer(400, "Bad Request", "expected a request of HTTP/1.1, got something else.")
_TOO_BIG, _NO_TEXT, _POLICY = 1009, 1007, 1008


class JoinedWrites:
    """A transport that writes what it is given in one round of the event loop at its end."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop):
        """Takes a transport, which all but writing is left to."""
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
        """End with the connection."""
        if self._lingering is not None:
            self._lingering.cancel()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and not self._transport.is_closing():
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))


class JoinedProtocol(HttpToolsProtocol):
    """uvicorn's protocol of HTTP on such a transport, with a bound on each part of a request.

    A head is parsed when it is complete, and only when the request before it is answered: of what a client sends ahead,
    the connection holds one read. A body goes to the app, which bounds it. What frames a chunked body (sizes,
    extensions, trailers) is bounded here and never seen by the app.
    """

    _held = b""  # an incomplete head, or what follows a request that is being answered
    _is_in_body = _is_chunked = _is_over = False
    _left = 0  # bytes of the body that are yet to come, unless it is chunked
    _framing = 0
    _deadline: asyncio.TimerHandle | None = None
    _discarding: asyncio.TimerHandle | None = None
    _discarded = 0

    def connection_made(self, transport: Any) -> None:
        """Start on a connection."""
        joined = JoinedWrites(transport, self.loop)
        super().connection_made(joined)  # pyright: ignore[reportArgumentType]
        self._set_deadline(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._unset_keepalive_if_required()
        self._set_deadline(False)
        self._stop_discarding()
        super().connection_lost(exc)
        joined: Any = self.transport
        joined.lose()

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        self._unset_keepalive_if_required()
        if self._discarding is not None:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED:
                self.transport.close()
        if self._held:
            data, self._held = self._held + data, b""
        while data and not self._is_over and not self.transport.is_closing():
            if self._is_in_body:
                data = self._take_body(data)
            elif self.cycle is not None and not self.cycle.response_complete:
                self._held = data
                self.flow.pause_reading()
                return
            else:
                data = self._take_head(data)
        self._set_deadline(self._is_in_body or bool(self._held))

    def _take_head(self, data: bytes) -> bytes:
        """Parse the head at the start of some bytes, or hold them until it is complete; return those behind it."""
        end = data.find(_END) + len(_END)
        if end < len(_END):
            end, self._held = len(data), data
        if end > LONGEST_HEAD:
            self._held = b""
            self._reject(_TOO_LONG)
        elif not self._held:
            head = data[:end]
            if b"upgrade" in head.lower():
                head = (_UPGRADE if head.lstrip().startswith(b"GET ") else _ANY_UPGRADE).sub(b"ignored", head)
            self._feed(head)
        return data[end:]

    def _take_body(self, data: bytes) -> bytes:
        """Parse what some bytes have of a body; return those behind it."""
        if not self._is_chunked:
            end = self._left
            self._left -= min(end, len(data))
            self._feed(data[:end])
            return data[end:]
        self._framing += len(data)
        self._feed(data)
        self._framing = max(self._framing, 0)
        if self._framing > LONGEST_HEAD:
            self._reject(_TOO_LONG)
        return b""

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)  # pyright: ignore[reportOptionalMemberAccess]
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self._is_over = True
                self.handle_websocket_upgrade()
            else:
                self._reject(_NO_HTTP)
        except httptools.HttpParserError:
            if not self._is_over:
                self._reject(_NO_HTTP)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the protocol of WebSockets, unless that can't read the head."""
        super().handle_websocket_upgrade()
        joined: Any = self.transport
        sockets: Any = joined.get_protocol()
        if not sockets.handshake_initiated:
            sockets.handshake_complete = sockets.close_sent = True
            self._reject(_NO_HTTP)

    def _reject(self, answer: bytes) -> None:
        """Close the connection, with an answer unless the app has given one or is about to end one."""
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if self._discarding is None and not is_answering:
            self.transport.write(answer)
        self._is_over = True
        self.transport.close()

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._is_over:
            raise httptools.HttpParserError("bytes behind the last request")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End the head of a request."""
        headers = dict(self.headers)
        self._is_in_body, self._is_chunked = True, b"transfer-encoding" in headers
        self._left, self._framing = int(headers.get(b"content-length", 0)), 0
        super().on_headers_complete()
        if self._is_chunked:
            self.headers = []  # trailers go there; those of the head stay in the scope

    def on_chunk_header(self) -> None:
        """Take the size of a chunk, whose own framing counts for nothing."""
        self._framing -= _CHUNK_FRAMING

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._framing -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request; behind a chunked one, whose end has no known place in a read, the connection ends."""
        self._is_in_body = False
        if self._is_chunked and self.cycle is not None:
            self._is_over, self.cycle.keep_alive = True, False
        if self._discarding is not None:
            self._stop_discarding()
            if self._is_chunked:
                self.transport.close()
            else:
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """End an answer; the rest of a request that was not read to its end is thrown away for a while."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self.cycle.more_body:
            self._discarding = self.loop.call_later(DISCARD_SECONDS, self.transport.close)
            self._discarded = 0
        elif self._held:
            self.data_received(b"")

    def _stop_discarding(self) -> None:
        if self._discarding is not None:
            self._discarding.cancel()
            self._discarding = None

    def _set_deadline(self, is_incomplete: bool) -> None:
        """Have the connection closed if its next request is not complete in time, however its bytes arrive."""
        if is_incomplete and self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.timeout_keep_alive, self._give_up)
        elif self._deadline is not None and not is_incomplete:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.flow.read_paused:  # the app has yet to take what came: the client can't go on
            self._set_deadline(True)
        else:
            self.transport.close()


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
        if self.queue.qsize() >= MOST_AHEAD:
            self._fail(_POLICY, "too many messages ahead of their answers")
            return
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
