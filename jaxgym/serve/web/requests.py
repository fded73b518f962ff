"""uvicorn's protocols with limits on the size of each part of a request or message, and on the time of a request."""

import json
import math
import re
import time
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import SecurityError
from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS

from jaxgym.serve.web.answers import MOST_SAID, quoted

LONGEST_HEAD = 64 * 1024
"""Maximum length of the head of a request, and of the extensions and trailers of a chunked body, in bytes."""

MOST_DISCARDED = 2**23
"""Maximum number of bytes that are discarded of a request that is already answered."""

DISCARD_SECONDS = 1.0
"""Time in seconds for discarding. Without it, a client that still sends would not get the response.

At shutdown, it is also the time in which a client can complete its request.
"""

_VERSIONS = ("1.1", "1.0")
_END = b"\r\n\r\n"
_CHUNK_FRAMING = 20  # 16 digits of a size and two line ends
# HTTP/1.1 allows a server to ignore an upgrade, such as one to h2c (RFC 9110, 7.8). The parser would treat the body as
# another protocol, so the header is renamed before parsing.
_ANY_UPGRADE = re.compile(rb"(?<=\r\n)upgrade(?=:)", re.IGNORECASE)
_UPGRADE = re.compile(rb"(?<=\r\n)upgrade(?=:(?![ \t]*websocket[ \t]*\r\n))", re.IGNORECASE)
_ABSOLUTE = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)


def _answer(status: int, reason: str) -> bytes:
    body = json.dumps({"error": reason})
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()


_TOO_LONG = _answer(
    431, f"expected at most {LONGEST_HEAD} bytes in a head, and as many in chunk extensions and trailers."
)
_NO_HTTP = _answer(400, "expected a request of HTTP/1.1, got something else.")
_NO_CODING = _answer(501, "expected no header Transfer-Encoding but chunked. Send the body uncoded.")
_NO_VERSION = _answer(505, "expected HTTP/1.1 or HTTP/1.0, got another version.")
_LONG_HANDSHAKE = _answer(
    431, f"expected at most {MAX_LINE_LENGTH} bytes in a line and {MAX_NUM_HEADERS} headers in a WebSocket handshake."
)
_ENDING = _answer(503, "the server shuts down. Repeat the request later.")


class HttpConnection(HttpToolsProtocol):
    """HTTP connection.

    A head is parsed when it is complete and the previous request is answered; the connection buffers one read of
    pipelined requests. The app limits the size of a body. The framing of a chunked body (sizes, extensions, trailers)
    is limited here and not passed to the app.

    Attributes:
        deadline: Time at which the connection is closed unless its next request is complete and its responses are read,
            in seconds of `time.monotonic`; infinite while the app answers. It replaces uvicorn's keep-alive timer.
    """

    deadline = math.inf
    _held = b""  # an incomplete head, or bytes after a request that is not answered yet
    _is_in_body = _is_chunked = _is_discarding = _is_over = False
    _left = 0  # remaining bytes of a body that is not chunked
    _tail = b""  # the last bytes of a chunked body, at most three
    _framing = _discarded = 0

    def connection_made(self, transport: Any) -> None:
        """Open the connection."""
        super().connection_made(transport)
        self.deadline = time.monotonic() + self.timeout_keep_alive

    def eof_received(self) -> Any:
        """Return whether the connection stays open after the client has shut down its side: until it is answered."""
        is_answering = self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        if is_answering:
            self.cycle.keep_alive = False
        return is_answering

    def shutdown(self) -> None:
        """End the connection at shutdown after its response; an incomplete request is rejected soon."""
        super().shutdown()
        self.loop.call_later(DISCARD_SECONDS, self._reject_incomplete)

    def _reject_incomplete(self) -> None:
        if self._is_in_body and not self.transport.is_closing():
            self._reject(_ENDING)

    def give_up(self) -> None:
        """Close the connection at its deadline, unless the app still has to read received bytes."""
        if self.flow.read_paused and not self.flow.write_paused:
            self.deadline = time.monotonic() + self.timeout_keep_alive
        else:
            self.deadline = math.inf
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Process received bytes; blank lines between requests change nothing, so the connection times out anyway."""
        if not (self._is_in_body or self._held or data.strip(b"\r\n")):
            return
        if not (self._is_in_body or self._held or self.flow.write_paused):
            self.deadline = math.inf  # the next request has its own time
        if self._is_discarding:
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
        if data and not self.transport.is_closing():
            protocol: Any = self.transport.get_protocol()
            if protocol is not self:
                protocol.data_received(data)  # bytes behind a handshake
        self._set_deadline()

    def _set_deadline(self) -> None:
        if self.flow.write_paused:
            return
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering and not self._is_in_body and not self._held:
            self.deadline = math.inf
        elif self.deadline == math.inf:
            self.deadline = time.monotonic() + self.timeout_keep_alive

    def pause_writing(self) -> None:
        """Wait for the client to read its responses, until the deadline."""
        super().pause_writing()
        self.deadline = min(self.deadline, time.monotonic() + self.timeout_keep_alive)

    def resume_writing(self) -> None:
        """Continue after the client has read its responses."""
        super().resume_writing()
        self.deadline = math.inf
        self._set_deadline()

    def _take_head(self, data: bytes) -> bytes:
        """Parse the head at the start of `data`, or buffer it until it is complete; return the remaining bytes."""
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
        """Parse the part of a body at the start of `data`; return the remaining bytes."""
        if not self._is_chunked:
            end = self._left
            self._left -= min(end, len(data))
            self._feed(data[:end])
            return data[end:]
        at = 0
        while at < len(data) and self._is_in_body and not self._is_over:
            end = self._end_of_lines(data, at)
            self._framing += end - at
            self._feed(data[at:end])
            at, self._framing = end, max(self._framing, 0)
            if self._framing > LONGEST_HEAD and not self._is_over:
                self._reject(_TOO_LONG)
        self._tail = (self._tail + data[-3:])[-3:]
        return data[at:]

    def _end_of_lines(self, data: bytes, at: int) -> int:
        """Return the next place in `data` behind two line ends, or its end; a chunked body ends at such a place."""
        across = (self._tail + data[:3]).find(_END) if at == 0 else -1
        if across >= 0:
            return across + len(_END) - len(self._tail)
        found = data.find(_END, max(at - 3, 0))
        return len(data) if found < 0 else found + len(_END)

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
        """Pass the connection to the WebSocket protocol; reject it if that protocol can't read the head."""
        super().handle_websocket_upgrade()
        socket: Any = self.transport.get_protocol()
        if not socket.handshake_initiated:
            socket.handshake_complete = socket.close_sent = True
            error = socket.conn.handshake_exc
            is_long = isinstance(error.__cause__ or error, SecurityError)
            self._reject(_LONG_HANDSHAKE if is_long else _NO_HTTP)

    def _reject(self, answer: bytes) -> None:
        """Close the connection; send a response first unless the app has sent one or has started one."""
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not self._is_discarding and not is_answering:
            self.transport.write(answer)
        self._is_over = True
        self.transport.close()

    def on_message_begin(self) -> None:
        """Begin a request, unless the connection ends."""
        if self._is_over:
            raise httptools.HttpParserError("bytes after the last request")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Process the end of a head; an absolute target names the host in place of `Host` (RFC 9112, 3.2.2)."""
        headers, codings = dict(self.headers), [b"chunked"]
        is_chunked = b"transfer-encoding" in headers
        if is_chunked:
            codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        is_known = self.parser.get_http_version() in _VERSIONS  # pyright: ignore[reportOptionalMemberAccess]
        if not is_known or codings != [b"chunked"]:
            self._reject(_NO_CODING if is_known else _NO_VERSION)
            raise httptools.HttpParserError  # stops the parser
        absolute = None if self.url[:1] == b"/" else _ABSOLUTE.match(self.url)
        if absolute:
            self.headers[:] = [(name, absolute[1] if name == b"host" else value) for name, value in self.headers]
            self.url = b"/" + self.url[absolute.end() :].removeprefix(b"/")  # the WebSocket protocol reads paths only
        self._is_in_body, self._is_chunked = True, is_chunked
        self._left, self._framing, self._tail = int(headers.get(b"content-length", 0)), 0, b""
        super().on_headers_complete()
        if self._is_chunked:
            self.headers = []  # collects the trailers; the scope has the headers

    def on_chunk_header(self) -> None:
        """Process the size of a chunk; the minimum framing of a chunk does not count."""
        self._framing -= _CHUNK_FRAMING

    def on_body(self, body: bytes) -> None:
        """Process a part of a body."""
        self._framing -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Process the end of a request."""
        self._is_in_body = False
        if self._is_discarding:
            self._is_discarding = False
            self.deadline = time.monotonic() + self.timeout_keep_alive
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Process the end of a response; discard the rest of an incomplete request for `DISCARD_SECONDS`."""
        # uvicorn's method would also set its keep-alive timer, and start a request of its pipeline, which is empty.
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.cycle.more_body:
            self._is_discarding, self._discarded = True, 0
            self.deadline = time.monotonic() + DISCARD_SECONDS
        elif self._held:
            self.data_received(b"")
        else:
            self._set_deadline()


MOST_PIECES = 1024
"""Maximum number of pieces of a message."""

MOST_AHEAD = 1024
"""Maximum number of queued messages for the app."""

_TOO_BIG, _NO_TEXT, _POLICY = 1009, 1007, 1008


class SocketConnection(WebSocketsSansIOProtocol):
    """WebSocket connection with limits on messages that a client does not read or the app has not answered.

    Attributes:
        deadline: Time at which the connection is aborted, in seconds of `time.monotonic`.
    """

    deadline = math.inf
    _is_ending = _is_waiting = False

    def __init__(self, *args: Any, **settings: Any):
        """Make the protocol; it truncates the error of an invalid handshake, which repeats a header of the client."""
        super().__init__(*args, **settings)
        reject = self.conn.reject
        self.conn.reject = lambda status, text: reject(status, quoted(text.rstrip(), MOST_SAID))

    def shutdown(self) -> None:
        """End the connection at shutdown, after the app has answered the received messages."""
        self._is_ending = True
        if self._is_waiting or not self.handshake_complete:
            super().shutdown()

    async def receive(self) -> Any:
        """Return the next message for the app."""
        if self._is_ending and self.queue.empty():
            super().shutdown()
        self._is_waiting = self.queue.empty()
        try:
            return await super().receive()
        finally:
            self._is_waiting = False

    async def send(self, message: Any) -> None:
        """Send a message of the app; an HTTP response ends a rejected handshake, which is not logged.

        Raises:
            ClientDisconnected: If this server has closed the connection.
        """
        if self.handshake_complete and self.close_sent:  # uvicorn would raise, and log, a RuntimeError
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def handle_ping(self) -> None:
        """Answer a ping unless the client does not read, so that responses do not accumulate."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Any) -> None:
        """Process a further piece of a message."""
        if len(self.frames) >= MOST_PIECES:
            self._fail(_TOO_BIG, f"expected at most {MOST_PIECES} pieces of a message")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Pass a message to the app; text that is not UTF-8 ends the connection and is not logged."""
        if self.queue.qsize() >= MOST_AHEAD:
            self._fail(_POLICY, f"expected at most {MOST_AHEAD} messages without a response")
            return
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self._fail(_NO_TEXT, "expected a message in UTF-8")
                return
        super().send_receive_event_to_app()

    def _fail(self, code: int, why: str) -> None:
        self.frames = []
        self.conn.fail(code, why)
        self.handle_parser_exception()
