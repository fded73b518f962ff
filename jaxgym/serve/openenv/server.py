"""OpenEnv server of one environment: `jaxgym serve openenv --env sudoku`, and apps for other ASGI servers.

Each WebSocket has a session, and sends frames of OpenEnv (`/ws`) or calls of JSON-RPC (`/mcp`).
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.openenv import frames, rpc
from jaxgym.serve.openenv.branching import UNDO_TURNS
from jaxgym.serve.openenv.frames import CallFrame, ResetFrame, StateFrame, StepFrame
from jaxgym.serve.openenv.routes import HttpRoutes
from jaxgym.serve.openenv.rpc import Methods
from jaxgym.serve.openenv.sessions import SPARE, ClientSession, ClientSessions, ResetOptions
from jaxgym.serve.page.routes import with_page
from jaxgym.serve.web.answers import answer, quoted, read_json
from jaxgym.serve.web.api import FieldError, checked
from jaxgym.serve.web.guard import Guard
from jaxgym.serve.web.http import Hosted, host, loaded_at_start, serve
from jaxgym.serve.web.serving import OpenEnv, be_a_server, starting, tokens_of

_log = logging.getLogger(__name__)

NORMAL = 1000
_AWAY = 1001
_PATIENCE = 2.0  # s; timeout of a full server for a client's first frame, and of a close for the client to read it


async def close(send: Send, code: int, reason: str, last: str | None = None, receive: Receive | None = None) -> None:
    """Close a socket, after a last frame if there is one; ignore a client that has disconnected.

    With `receive`, first wait for a message: clients send one before they read, and would not get the last frame if the
    socket were closed at once.
    """
    with contextlib.suppress(OSError, RuntimeError):
        if last is not None:
            await send({"type": "websocket.send", "text": last})
        if receive is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(receive(), _PATIENCE)
        await send({"type": "websocket.close", "code": code, "reason": reason})


def hanging_up(send: Send, conversation: Any) -> Callable[[], Awaitable[None]]:
    """Return a function that ends a conversation, an asyncio task, even if the client does not read."""

    async def hang_up() -> None:
        try:
            await asyncio.wait_for(close(send, _AWAY, "idle for too long"), _PATIENCE)
        except TimeoutError:
            conversation.cancel()

    return hang_up


class HangUp(Exception):
    """End of a conversation, with or without a last frame."""

    def __init__(self, error: str | None = None, last: str | None = None):
        """Make an end with a last frame, or with that of a session error."""
        self.last = last if error is None else frames.error_frame(frames.SESSION_ERROR, error)


class OpenEnvApp:
    """App with `/ws` and `/mcp` over WebSocket, and the HTTP routes."""

    def __init__(self, serving: OpenEnv, hosted: Hosted):
        """Make the app of an environment."""
        self._sessions = sessions = ClientSessions(hosted, serving.max_sessions, serving.idle_seconds)
        self._methods = Methods(sessions, branching=serving.branching)
        self._closing_idle: asyncio.Task[None] | None = None
        # OpenEnv sessions do not belong to a token, so with several tokens the page shows no sessions of clients.
        is_of_many = len(tokens_of(serving) or ()) > 1
        app = HttpRoutes(serving, sessions, self._methods)
        self._http = with_page(app, serving, [hosted], lambda _: [] if is_of_many else sessions.ids())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or serve a WebSocket."""
        if self._closing_idle is None:
            self._closing_idle = asyncio.create_task(self._sessions.close_idle())
        path = scope["path"].rstrip("/") or "/"
        scope = scope if path == scope["path"] else {**scope, "path": path}
        if scope["type"] != "websocket":
            await self._http(scope, receive, send)
        elif path in ("/ws", "/mcp"):
            await self._talk(scope, receive, send)
        else:
            await receive()
            await answer({"error": "the WebSocket paths of this server are /ws and /mcp."}, 404)(scope, receive, send)

    async def _talk(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket until it closes; then close its session, unless the session was created before it."""
        is_rpc, session = scope["path"] == "/mcp", None
        named = [] if is_rpc else parse_qs(scope["query_string"].decode("latin-1")).get("session_id", [])
        await receive()
        await send({"type": "websocket.accept"})
        try:
            session = self._attached(named) if named else self._opened(is_rpc)
            session.hang_up = hanging_up(send, asyncio.current_task())
            while (message := await receive())["type"] == "websocket.receive":
                reply = await self._reply(session, message.get("text"), is_rpc)
                await send({"type": "websocket.send", "text": reply})
        except HangUp as end:
            await close(send, NORMAL, "", end.last, receive if session is None else None)
        except (OSError, asyncio.CancelledError):  # the client has disconnected or does not read
            return
        finally:
            if session is not None:
                session.hang_up = None
                if not named or session.is_ending:
                    self._sessions.close(session)

    def _attached(self, named: list[str]) -> ClientSession:
        if len(named) > 1:
            raise HangUp(f"expected one session_id, got {len(named)}.")
        session_id = named[0]
        session = self._sessions.get(session_id)
        if session is None or session.hang_up is not None:
            why = "Unknown session_id" if session is None else "Another WebSocket is attached to session"
            raise HangUp(f"{why}: {quoted(session_id)}")
        session.used = time.monotonic()
        return session

    def _opened(self, is_rpc: bool) -> ClientSession:
        try:
            return self._sessions.open()
        except CapacityError as error:
            full = rpc.rpc_error(None, rpc.RpcError(rpc.SERVER_ERROR, str(error), self._sessions.room))
            frame = frames.error_frame(frames.CAPACITY_REACHED, str(error), **self._sessions.room)
            raise HangUp(last=json.dumps(full) if is_rpc else frame) from error

    async def _reply(self, session: ClientSession, text: str | None, is_rpc: bool) -> str:
        """Answer a message; after a failure of the server the client gets an error frame and can continue."""
        if text is None:
            raise HangUp("expected a text frame, got bytes.")
        session.used = time.monotonic()
        try:
            return await (self._methods.answer_text(session, text) if is_rpc else self._frame(session, text))
        except (HangUp, OSError):
            raise
        except Exception:
            _log.exception("a frame could not be answered")
            return frames.error_frame(frames.EXECUTION_ERROR, "the server failed; see its log.")

    async def _frame(self, session: ClientSession, text: str) -> str:
        """Answer a frame of `/ws`."""
        try:
            frame = read_json(text)
        except ValueError as error:
            return frames.error_frame(frames.INVALID_JSON, f"Invalid JSON: {error}")
        if type(frame) is not dict:
            raise HangUp("expected a JSON object with the key type.")
        kind = frame.get("type")
        try:
            if kind == "step":
                return frames.observation_frame(await session.step(checked(StepFrame, frame).data.message))
            if kind == "reset":
                given = checked(ResetOptions, checked(ResetFrame, frame).data, "data")
                return frames.observation_frame(await session.reset(given))
            if kind == "mcp":
                call = checked(CallFrame, frame).data
                return json.dumps({"type": "mcp", "data": await self._methods.answer(call, session)})
            if kind in ("state", "close"):
                checked(StateFrame, frame)
                if kind == "close":
                    raise HangUp
                return json.dumps({"type": "state", "data": session.state()})
        except FieldError as error:
            return frames.error_frame(frames.VALIDATION_ERROR, f"Invalid message: {error}", errors=error.errors)
        except SessionError as error:
            return frames.error_frame(frames.EXECUTION_ERROR, str(error))
        return frames.error_frame(frames.UNKNOWN_TYPE, f"Unknown message type: {quoted(kind)}")


def load(serving: OpenEnv) -> OpenEnvApp:
    """Make the app and compile its programs, which takes seconds; raises the errors of `host`."""
    # OpenEnv clients compute their own rewards, so the default is the environment's reward only.
    undo_turns = UNDO_TURNS if serving.branching else 0
    return OpenEnvApp(serving, host(serving, {"rewards": "environment"}, SPARE, undo_turns))


def settings(env: str, options: Sequence[str] = (), **more: Any) -> OpenEnv:
    """Return the settings of `jaxgym serve openenv`; defaults can come from environment variables.

    Args:
        env: Id or short name of an environment with a text interface.
        options: Options, each NAME=VALUE.
        **more: Other settings, such as `max_sessions`; an invalid one raises an `OptionError`.
    """
    return OpenEnv(env, tuple(options), **more)


def make_app(serving: OpenEnv) -> ASGIApp:
    """Return the app for any ASGI server; it loads the environment at the start. Raises the errors of `tokens_of`."""
    tokens_of(serving)
    be_a_server()
    return loaded_at_start(lambda: Guard(load(serving), serving))


def listen_and_serve(serving: OpenEnv) -> None:
    """Serve until the process receives a signal; see `jaxgym.serve.web.serving.starting` and `http.serve`."""
    with starting(serving) as bound:
        serve(load, serving, bound)
