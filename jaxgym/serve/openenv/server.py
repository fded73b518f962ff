"""A server that speaks OpenEnv: one game in words, a session for each WebSocket."""

import asyncio
import contextlib
import json
import logging
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.openenv import frames
from jaxgym.serve.openenv.frames import FrameError
from jaxgym.serve.openenv.plays import SPARE, Play, Plays, sweep
from jaxgym.serve.openenv.routes import routes
from jaxgym.serve.page.boards import Board, Served
from jaxgym.serve.page.routes import with_page
from jaxgym.serve.web import log
from jaxgym.serve.web.answers import quoted
from jaxgym.serve.web.guard import App, Message, Receive, Send
from jaxgym.serve.web.http import Hosted, behind_guard, host, loaded_at_start, run
from jaxgym.serve.web.serving import OpenEnv, Serving, be_a_server, starting, token_of

_log = logging.getLogger(__name__)

_NORMAL, _AWAY, _RESTART = 1000, 1001, 1012
_PATIENCE = 2.0  # seconds for its first frame where there is no room for a client, or for reading that it ends

Scope = MutableMapping[str, Any]
Answers = Callable[[Play, str], Awaitable[str]]


class _HangUp(Exception):
    """Ends a conversation, with a last frame or without one."""

    def __init__(self, last: str | None = None):
        self.last = last


class OpenEnvApp:
    """The app: `/ws` and `/mcp` over WebSocket, and the routes over HTTP."""

    def __init__(self, serving: Serving, hosted: Hosted):
        """Make it.

        Args:
            serving: How many sessions there may be, and for how long.
            hosted: The game.
        """
        self._plays = plays = Plays(hosted, serving.max_sessions, serving.idle_seconds)
        self._idle_seconds = serving.idle_seconds
        self._sweeping: asyncio.Task[None] | None = None
        self._in_hand, self._is_ending = 0, False
        token = token_of(serving)
        # OpenEnv does not tell its clients apart, so with several tokens nobody watches what others play.
        is_of_many = token is not None and len(token.split()) > 1
        board = Board(hosted.env_id, hosted.env_id, hosted.short_name, hosted.options, hosted.instructions)
        served = Served(hosted.pool, [board], lambda _: [] if is_of_many else plays.ids())
        self._http = with_page(routes(serving, plays), serving, served)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request or talks with the client of a socket."""
        if self._sweeping is None and self._idle_seconds:
            self._sweeping = asyncio.create_task(sweep(self._plays, self._idle_seconds))
        path = scope["path"].rstrip("/") or "/"
        scope = scope if path == scope["path"] else {**scope, "path": path}
        if scope["type"] != "websocket":
            await self._http(scope, receive, send)
        elif scope["path"] == "/ws":
            await self._talk(scope, receive, send, self._frame, frames.error_frame)
        elif scope["path"] == "/mcp":
            await self._talk(scope, receive, send, self._call, _rpc_frame)
        else:
            await send({"type": "websocket.close", "code": _NORMAL})

    # Sockets.

    async def _talk(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        answers: Answers,
        tell: Callable[..., str],
    ) -> None:
        """Talk with the client of a socket to its end; its session ends with it, unless it was there before."""
        plays = self._plays
        await receive()
        await send({"type": "websocket.accept"})
        try:
            named = parse_qs(scope["query_string"].decode("latin-1")).get("session_id")
            is_attached = bool(named) and scope["path"] == "/ws"
            play = _attached(plays, named[0]) if named and is_attached else plays.open()
        except _HangUp as end:
            await _turn_away(receive, send, end.last)
            return
        except CapacityError as error:
            room = {"active_sessions": len(plays), "max_sessions": plays.max_sessions}
            await _turn_away(receive, send, tell(frames.CAPACITY_REACHED, str(error), **room))
            return
        try:
            play.hang_up = _hanging_up(send, asyncio.current_task())
            await self._converse(play, receive, send, answers)
        except _HangUp as end:
            await _close(send, _NORMAL, "", end.last)
        except (OSError, asyncio.CancelledError):  # of a client that is gone, or was hung up on
            return
        finally:
            play.hang_up = None
            if not is_attached or play.is_ending:
                plays.close(play)

    async def _converse(self, play: Play, receive: Receive, send: Send, answers: Answers) -> None:
        """Answers what a client sends until it goes."""
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                return
            self._in_hand += 1
            try:
                play.used = time.monotonic()
                await send({"type": "websocket.send", "text": await self._said(play, message, answers)})
            finally:
                self._in_hand -= 1
            if self._is_ending:
                await _close(send, _RESTART, "the server ends")
                return

    async def _said(self, play: Play, message: Message, answers: Answers) -> str:
        text = message.get("text")
        if text is None:
            raise _HangUp(frames.error_frame(frames.SESSION_ERROR, "a frame is text, not bytes."))
        try:
            return await answers(play, text)
        except (_HangUp, OSError):
            raise
        except Exception:  # a client is told that something is wrong with the server, and goes on
            _log.exception("a frame could not be answered")
            return frames.error_frame(frames.EXECUTION_ERROR, "the server failed; its log tells how.")

    async def drain(self) -> None:
        """Returns when no frame is being answered any more; a socket whose frame was answered meanwhile is closed."""
        self._is_ending = True
        while self._in_hand:
            await asyncio.sleep(0.005)

    async def _frame(self, play: Play, text: str) -> str:
        """Answers a frame of `/ws`."""
        try:
            frame = frames.loads(text)
        except (ValueError, RecursionError) as error:
            return frames.error_frame(frames.INVALID_JSON, f"Invalid JSON: {error}")
        if type(frame) is not dict:
            raise _HangUp(frames.error_frame(frames.SESSION_ERROR, "a frame is a JSON object with the key type."))
        try:
            kind, data = frame.get("type"), frame.get("data")
            if kind == "step":
                # The common frame is taken as it is; what else there may be is looked at by those who know the schema.
                is_plain = len(frame) == 2 and type(data) is dict and len(data) == 1  # noqa: PLR2004
                reply = data.get("message") if is_plain and data else None
                if type(reply) is not str:
                    reply = frames.reply_of(_data(frame, required=True))
                return frames.observation_frame(await self._plays.step(play, reply))
            if kind == "reset":
                return frames.observation_frame(await self._plays.reset(play, _data(frame, required=False)))
            if kind == "state":
                _only(frame, "type")
                return json.dumps({"type": "state", "data": self._plays.state(play)})
            if kind == "mcp":
                return json.dumps({"type": "mcp", "data": await self._plays.rpc(_data(frame, required=True), play)})
            if kind == "close":
                _only(frame, "type")
                raise _HangUp
        except FrameError as error:
            return frames.fault_frame(error)
        except SessionError as error:
            return frames.error_frame(frames.EXECUTION_ERROR, str(error))
        return frames.error_frame(frames.UNKNOWN_TYPE, f"Unknown message type: {quoted(kind)}")

    async def _call(self, play: Play, text: str) -> str:
        """Answers a call of `/mcp`."""
        return json.dumps(await self._plays.rpc_text(text, play))


async def _turn_away(receive: Receive, send: Send, last: str | None) -> None:
    """Tells a client why there is no session for it, and closes the socket."""
    try:
        await send({"type": "websocket.send", "text": last or ""})
        # Clients send before they read: a socket that is closed by then is all that they would see.
        with contextlib.suppress(TimeoutError):
            if (await asyncio.wait_for(receive(), _PATIENCE))["type"] == "websocket.disconnect":
                return
        await _close(send, _NORMAL, "")
    except OSError:  # of a client that is gone
        return


async def _close(send: Send, code: int, reason: str, last: str | None = None) -> None:
    """Closes a socket, after a last frame if there is one; of a client that is gone, nothing."""
    try:
        if last is not None:
            await send({"type": "websocket.send", "text": last})
        await send({"type": "websocket.close", "code": code, "reason": reason})
    except (OSError, RuntimeError):
        return


def _hanging_up(send: Send, conversation: "asyncio.Task[Any] | None") -> Callable[[], Awaitable[None]]:
    """Returns what ends a conversation, whether its client reads that or not."""

    async def hang_up() -> None:
        try:
            await asyncio.wait_for(_close(send, _AWAY, "idle for too long"), _PATIENCE)
        except TimeoutError:
            if conversation is not None:
                conversation.cancel()

    return hang_up


def _attached(plays: Plays, session_id: str) -> Play:
    play = plays.get(session_id)
    if play is None or play.hang_up is not None:
        why = "Unknown session_id" if play is None else "Another WebSocket is attached to session"
        raise _HangUp(frames.error_frame(frames.SESSION_ERROR, f"{why}: {quoted(session_id)}"))
    play.used = time.monotonic()
    return play


def _data(frame: dict[str, Any], *, required: bool) -> Any:
    _only(frame, "type", "data")
    if required and "data" not in frame:
        raise FrameError([{"type": "missing", "loc": ["data"], "msg": "Field required", "input": frame}])
    return frames.object_of(frame.get("data", {}), ("data",))


def _only(frame: dict[str, Any], *names: str) -> None:
    errors = frames.extra_faults(frame, names)
    if errors:
        raise FrameError(errors)


def _rpc_frame(_: str, message: str, **more: Any) -> str:
    return json.dumps(frames.rpc_error(None, frames.RpcError(frames.SERVER_ERROR, message, more)))


def load(serving: Serving) -> OpenEnvApp:
    """Return the app with its game, ready to be played, which takes seconds.

    Raises:
        OptionError, UnknownIdError, LevelError: If something that was given does not exist.
    """
    # Clients of this protocol score for themselves: unless the options say otherwise, the reward is the environment's.
    return OpenEnvApp(serving, host(serving, {"scoring": "environment"}, spare=SPARE))


def serve(serving: Serving, bound: socket.socket) -> None:
    """Load the game and serve until the process is asked to end; see `jaxgym.serve.web.http.run`."""
    log.say(f"loading {serving.env}")
    app = load(serving)
    run(app, serving, bound, app.drain)


# For packages that wrap a game.


def settings(env: str, options: Sequence[str] = (), **more: Any) -> OpenEnv:
    """Returns what `jaxgym serve openenv` is told, with its defaults and those of the process's environment.

    Args:
        env: Id of an environment that has words, or its short name.
        options: Options, NAME=VALUE each.
        **more: Any of the other settings, such as `max_sessions`.

    Raises:
        OptionError: If a setting does not take its value.
    """
    return OpenEnv(env, tuple(options), **more)


def make_app(serving: Serving) -> App:
    """Return the app for any ASGI server, which loads the game when the server starts.

    Raises:
        OptionError: If the file of the token is empty.
        OSError: If it can't be read.
    """
    token_of(serving)
    be_a_server()
    return loaded_at_start(lambda: behind_guard(load(serving), serving))


def listen_and_serve(serving: Serving) -> None:
    """Serve until the process is asked to end; see `jaxgym.serve.web.serving.starting` and `serve`."""
    with starting(serving) as bound:
        serve(serving, bound)
