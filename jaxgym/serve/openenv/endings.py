"""Ends of WebSockets: last frames, and clients that do not read."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from jaxgym.serve.web.guard import Receive, Send

NORMAL = 1000
_AWAY = 1001
_PATIENCE = 2.0  # s; timeout of a full server for a client's first frame, and of a close for the client to read it


async def turn_away(receive: Receive, send: Send, last: str) -> None:
    """Send an error frame to a client without a session, and close the socket."""
    try:
        await send({"type": "websocket.send", "text": last})
        # Clients send a message before they read. If the socket were closed at once, they would not get the frame.
        with contextlib.suppress(TimeoutError):
            if (await asyncio.wait_for(receive(), _PATIENCE))["type"] == "websocket.disconnect":
                return
        await close(send, NORMAL, "")
    except OSError:  # the client has disconnected
        return


async def close(send: Send, code: int, reason: str, last: str | None = None) -> None:
    """Close a socket, after a last frame if there is one; ignore a client that has disconnected."""
    try:
        if last is not None:
            await send({"type": "websocket.send", "text": last})
        await send({"type": "websocket.close", "code": code, "reason": reason})
    except (OSError, RuntimeError):
        return


def hanging_up(send: Send, conversation: "asyncio.Task[Any] | None") -> Callable[[], Awaitable[None]]:
    """Return a function that ends a conversation, even if the client does not read."""

    async def hang_up() -> None:
        try:
            await asyncio.wait_for(close(send, _AWAY, "idle for too long"), _PATIENCE)
        except TimeoutError:
            if conversation is not None:
                conversation.cancel()

    return hang_up
