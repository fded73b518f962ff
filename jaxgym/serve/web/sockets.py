"""uvicorn's protocol of WebSockets, where nothing piles up that a client does not read or an app does not answer."""

import math
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

MOST_PIECES = 1024
"""Maximum number of pieces of a message."""

MOST_AHEAD = 1024
"""Maximum number of messages that wait for the app."""

_TOO_BIG, _NO_TEXT, _POLICY = 1009, 1007, 1008


class SocketConnection(WebSocketsSansIOProtocol):
    """A connection of a WebSocket.

    Attributes:
        deadline: When the connection is cut, in seconds of `time.monotonic`.
    """

    deadline = math.inf
    _is_ending = _is_waiting = False

    def shutdown(self) -> None:
        """End the connection with the server, as soon as the app has answered what came."""
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
        """Send a message of the app; a request that is rejected with an answer over HTTP is over, and not logged.

        Raises:
            ClientDisconnected: If this server has closed the connection.
        """
        if self.handshake_complete and self.close_sent:  # uvicorn would raise, and log, a RuntimeError
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def handle_ping(self) -> None:
        """Answer a ping, unless the client does not read: answers would pile up."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Any) -> None:
        """Take a further piece of a message."""
        if len(self.frames) >= MOST_PIECES:
            self._fail(_TOO_BIG, "a message in too many pieces")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Pass a message on; text that is not UTF-8 ends the connection, and is not logged."""
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
