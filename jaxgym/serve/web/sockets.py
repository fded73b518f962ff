"""uvicorn's WebSocket protocol with limits on messages that a client does not read or the app has not answered."""

import math
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from jaxgym.serve.web.answers import MOST_SAID, quoted

MOST_PIECES = 1024
"""Maximum number of pieces of a message."""

MOST_AHEAD = 1024
"""Maximum number of queued messages for the app."""

_TOO_BIG, _NO_TEXT, _POLICY = 1009, 1007, 1008


class SocketConnection(WebSocketsSansIOProtocol):
    """WebSocket connection.

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
