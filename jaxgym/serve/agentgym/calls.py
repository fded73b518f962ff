"""Calls over HTTP as the front of several workers reads them, and the connections that they come over."""

import asyncio
import dataclasses
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import httptools

from jaxgym.serve.web.joined import DISCARD_SECONDS, LONGEST_HEAD, MOST_DISCARDED

_PASSED_ON = (b"authorization", b"origin", b"host", b"accept", b"content-type")
_MOST_WAITING = 16
_PHRASES = {200: "OK", 400: "Bad Request", 405: "Method Not Allowed", 413: "Content Too Large", 431: "Head Too Large"}


def respond(status: int, content: Any) -> bytes:
    """Returns an answer that holds JSON."""
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def body_of(answer: bytes) -> bytes:
    """Returns what stands behind the head of an answer."""
    return answer.partition(b"\r\n\r\n")[2]


@dataclasses.dataclass
class Request:
    """A call.

    Attributes:
        method: Its method.
        url: All that was asked for.
        path: The path of that.
        query: What stands behind the question mark.
        headers: The lines that are passed on to a worker.
        body: The body.
        is_last: Whether the connection ends with it.
    """

    method: str
    url: bytes
    path: str
    query: str
    headers: bytes
    body: bytes
    is_last: bool

    def to_worker(self, body: bytes | None = None) -> bytes:
        """Returns what a worker is sent: the call, or one with another body."""
        body = self.body if body is None else body
        head = b"%s %s HTTP/1.1\r\n%scontent-length: %d\r\n\r\n" % (
            self.method.encode(),
            self.url,
            self.headers,
            len(body),
        )
        return head + body


class Answering(Protocol):
    """What answers calls.

    Attributes:
        max_bytes: The longest body.
        callers: The connections of clients.
    """

    max_bytes: int
    callers: "set[Caller]"

    def answer(self, request: Request, tell: Callable[[bytes], None]) -> None:
        """Has a call answered."""
        ...


class Caller(asyncio.Protocol):
    """The connection of a client: its calls are answered one after the other.

    Attributes:
        used: When the client last sent something, in seconds of `time.monotonic`.
        is_busy: Whether a call is being answered.
    """

    def __init__(self, front: Answering):
        """Belongs to a front."""
        self.used = time.monotonic()
        self._front = front
        self._parser = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._waiting = deque[Request]()
        self.is_busy = self._is_ending = self._is_paused = self._is_held = self._is_refused = False
        self._url, self._headers, self._body = b"", list[bytes](), bytearray()
        self._head: int | None = None  # as in `jaxgym.serve.web.joined.JoinedProtocol`
        self._expects, self._discarded = False, 0

    def connection_made(self, transport: Any) -> None:
        """Begins."""
        self._transport = transport
        self._front.callers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        del exc
        self._front.callers.discard(self)
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        """Takes bytes."""
        if self._is_refused:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED and not self._transport.is_closing():
                self.hang_up()
            return
        self.used, began = time.monotonic(), self._head
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "this protocol is HTTP; there are no WebSockets.")
        except httptools.HttpParserError:
            self._refuse(400, "this is no HTTP.")
        if began is not None and self._head is not None:
            self._head = began + len(data)
            if self._head > LONGEST_HEAD:
                self._refuse(431, f"the head of a request may have {LONGEST_HEAD} bytes.")
        if len(self._waiting) > _MOST_WAITING and not self._is_held:
            self._is_held = True
            self._transport.pause_reading()
        self._next()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begins a request."""
        self._head, self._url, self._headers, self._body, self._expects = 0, b"", [], bytearray(), False

    def on_url(self, url: bytes) -> None:
        """Takes a part of what is asked for."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header."""
        name = name.lower()
        if name in _PASSED_ON:
            self._headers.append(b"%s: %s\r\n" % (name, value))
        elif name == b"content-length" and int(value) > self._front.max_bytes:
            self._refuse_length()
        elif name == b"expect":
            self._expects = True

    def on_headers_complete(self) -> None:
        """Ends the head of a request."""
        self._head = None
        if self._expects and not self._is_refused:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Takes a part of a body."""
        if not self._is_refused:
            self._body += body
            if len(self._body) > self._front.max_bytes:
                self._refuse_length()

    def on_message_complete(self) -> None:
        """Ends a request."""
        if self._is_refused:
            return
        url = httptools.parse_url(self._url)
        is_last = self._parser.get_http_version() == "1.0" or not self._parser.should_keep_alive()
        path, query = (url.path or b"").decode("ascii"), (url.query or b"").decode("latin-1")
        method = self._parser.get_method().decode("ascii")
        headers = b"".join(self._headers)
        self._waiting.append(Request(method, self._url, path, query, headers, bytes(self._body), is_last))

    # Answers.

    def pause_writing(self) -> None:
        """Answers no more to a client that does not read."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Goes on."""
        self._is_paused = False
        self._next()

    def _next(self) -> None:
        """Has the next call answered, if none is."""
        if self.is_busy or self._is_paused or not self._waiting or self._transport.is_closing():
            return
        self.is_busy = True
        request = self._waiting.popleft()
        self._front.answer(request, lambda answer: self._tell(answer, request.is_last))

    def _tell(self, answer: bytes, is_last: bool) -> None:
        self.is_busy = False
        if self._transport.is_closing():
            return
        if is_last or self._is_ending:
            self._transport.write(answer.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
            self.hang_up()
            return
        self._transport.write(answer)
        if self._waiting:
            # In a round of its own: a long queue is no deep stack.
            asyncio.get_running_loop().call_soon(self._next)
        elif self._is_held:
            self._is_held = False
            self._transport.resume_reading()

    def _refuse_length(self) -> None:
        self._refuse(413, f"a request may have {self._front.max_bytes} bytes.")

    def _refuse(self, status: int, why: str) -> None:
        """Answers what is no call, and ends some time later: whoever still sends would not see the answer."""
        if self._is_refused:
            return
        self._is_refused = True
        self._waiting.clear()
        answer = respond(status, {"error": why})
        self._transport.write(answer.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
        asyncio.get_running_loop().call_later(DISCARD_SECONDS, self.hang_up)

    def end(self) -> None:
        """Ends as soon as what was asked is answered."""
        self._is_ending = True
        if not self.is_busy and not self._transport.is_closing():
            self.hang_up()

    def hang_up(self) -> None:
        """Closes the connection; a client that does not read is cut off."""
        if self._transport.is_closing():
            self._transport.abort()
        else:
            self._transport.close()
