"""A server that speaks OpenEnv: one game in words, a session for each WebSocket."""

import asyncio
import json
import logging
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from importlib import metadata
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jaxgym.serve import openenv_frames as frames
from jaxgym.serve.command import OpenEnv, Serving, be_a_server, listen
from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.http import App, Hosted, Loading, Receive, Send, answer, behind_guard, hosting, run
from jaxgym.serve.openenv_frames import FrameError
from jaxgym.serve.openenv_plays import SPARE, Play, Plays, sweep

_log = logging.getLogger(__name__)

_NORMAL, _AWAY = 1000, 1001
_UNREADABLE, _BUSY, _MISSING, _BAD = 422, 503, 501, 400

Scope = MutableMapping[str, Any]
Answers = Callable[[Plays, Play, str], Awaitable[str]]


class _HangUp(Exception):
    """Ends a conversation, with a last frame or without one."""

    def __init__(self, last: str | None = None):
        self.last = last


class OpenEnvApp:
    """The app: `/ws` and `/mcp` over WebSocket, and the routes over HTTP."""

    def __init__(self, serving: Serving, loading: Loading[Hosted]):
        """Answers as soon as the game is loaded.

        Args:
            serving: How many sessions there may be, and for how long.
            loading: The game.
        """
        self._serving, self._loading = serving, loading
        self._made: Plays | None = None
        self._sweeping: asyncio.Task[None] | None = None
        routes = [
            Route("/health", self._health),
            Route("/metadata", self._metadata),
            Route("/schema", self._schema),
            Route("/state", self._state),
            Route("/reset", self._reset, methods=["POST"]),
            Route("/step", self._step, methods=["POST"]),
            Route("/mcp", self._mcp, methods=["POST"]),
            Route("/openapi.json", self._openapi),
            Route("/list_environments", self._environments),
            Route("/{name}/splits", self._splits),
            *(
                Route(f"/{{name}}/{path}", self._tasks, methods=["POST"])
                for path in ("tasks", "num_tasks", "task", "task_range")
            ),
        ]
        handlers = {HTTPException: _detail, FrameError: _fault, CapacityError: _full, SessionError: _refused}
        self._http = Starlette(routes=routes, exception_handlers=handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request or talks with the client of a socket."""
        if scope["type"] != "websocket":
            await self._http(scope, receive, send)
        elif scope["path"] == "/ws":
            await self._talk(scope, receive, send, self._frame, frames.error_frame)
        elif scope["path"] == "/mcp":
            await self._talk(scope, receive, send, self._call, _rpc_frame)
        else:
            await send({"type": "websocket.close", "code": _NORMAL})

    async def _plays(self) -> Plays:
        """Returns the sessions, as soon as there may be some."""
        if self._made is None:
            hosted = await self._loading.get()
            if self._made is None:
                self._made = Plays(hosted, self._serving.max_sessions, self._serving.idle_seconds)
                if self._serving.idle_seconds:
                    self._sweeping = asyncio.create_task(sweep(self._made, self._serving.idle_seconds))
        return self._made

    # Sockets.

    async def _talk(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        answers: Answers,
        tell: Callable[..., str],
    ) -> None:
        """Talks with the client of a socket to its end; its session ends with it, unless it was there before."""
        await receive()
        await send({"type": "websocket.accept"})
        try:
            plays = await self._plays()
        except HTTPException as error:
            await _close(send, _NORMAL, "", tell(frames.SESSION_ERROR, error.detail))
            return
        try:
            named = parse_qs(scope["query_string"].decode("latin-1")).get("session_id")
            is_attached = bool(named) and scope["path"] == "/ws"
            play = _attached(plays, named[0]) if named and is_attached else plays.open()
        except _HangUp as end:
            await _close(send, _NORMAL, "", end.last)
            return
        except CapacityError as error:
            room = {"active_sessions": len(plays), "max_sessions": plays.max_sessions}
            await _close(send, _NORMAL, "", tell(frames.CAPACITY_REACHED, str(error), **room))
            return
        try:
            play.hang_up = lambda: _close(send, _AWAY, "idle for too long")
            await _converse(plays, play, receive, send, answers)
        except _HangUp as end:
            await _close(send, _NORMAL, "", end.last)
        except OSError:  # of a client that is gone
            return
        finally:
            play.hang_up = None
            if not is_attached or play.is_ending:
                plays.close(play)

    async def _frame(self, plays: Plays, play: Play, text: str) -> str:
        """Answers a frame of `/ws`."""
        try:
            frame = json.loads(text)
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
                return frames.observation_frame(await plays.step(play, reply))
            if kind == "reset":
                return frames.observation_frame(await plays.reset(play, _data(frame, required=False)))
            if kind == "state":
                _only(frame, "type")
                return json.dumps({"type": "state", "data": plays.state(play)})
            if kind == "mcp":
                return json.dumps({"type": "mcp", "data": await plays.rpc(_data(frame, required=True), play)})
            if kind == "close":
                _only(frame, "type")
                raise _HangUp
        except FrameError as error:
            return frames.fault_frame(error)
        except SessionError as error:
            return frames.error_frame(frames.EXECUTION_ERROR, str(error))
        return frames.error_frame(frames.UNKNOWN_TYPE, f"Unknown message type: {kind}")

    async def _call(self, plays: Plays, play: Play, text: str) -> str:
        """Answers a call of `/mcp`."""
        return json.dumps(await plays.rpc_text(text, play))

    # Routes.

    async def _health(self, _: Request) -> Response:
        return answer({"status": "healthy"})

    async def _schema(self, _: Request) -> Response:
        return answer(frames.SCHEMAS)

    async def _openapi(self, _: Request) -> Response:
        return answer(frames.openapi(self._serving.env))

    async def _metadata(self, _: Request) -> Response:
        hosted = (await self._plays()).hosted
        return answer(
            {
                "name": hosted.nick,
                "description": f"{hosted.env_id} of jaxgym, in words.",
                "readme_content": hosted.instructions,
                "version": metadata.version("jaxgym"),
                "author": "The jaxgym authors",
                "documentation_url": None,
            }
        )

    async def _environments(self, _: Request) -> Response:
        return answer([(await self._plays()).hosted.nick])

    async def _state(self, _: Request) -> Response:
        plays = await self._plays()

        async def stand(play: Play) -> dict[str, Any]:
            return plays.state(play)

        return answer(await plays.once(stand))

    async def _reset(self, request: Request) -> Response:
        given = frames.object_of(await _body(request), ("body",))
        frames.start_of(given, ("body",))
        plays = await self._plays()
        return Response(await plays.once(lambda play: plays.reset(play, given)), media_type="application/json")

    async def _step(self, request: Request) -> Response:
        given = frames.object_of(await _body(request), ("body",))
        reply = frames.reply_of(given.get("action"), ("body", "action"))
        plays = await self._plays()
        return Response(await plays.once(lambda play: plays.step(play, reply)), media_type="application/json")

    async def _mcp(self, request: Request) -> Response:
        text = await request.body()
        return answer(await (await self._plays()).rpc_text(text, None))

    async def _splits(self, request: Request) -> Response:
        await self._check_name(request)
        return answer([{"name": name, "type": name} for name in frames.SPLITS])

    async def _tasks(self, request: Request) -> Response:
        await self._check_name(request)
        given = frames.object_of(await _body(request), ("body",))
        split: Any = given.get("split")
        frames.seed_of(split, 0, ("body",))
        kind = request.url.path.rpartition("/")[2]
        if kind == "num_tasks":
            return answer({"num_tasks": frames.SPLIT_SIZE})
        if kind == "task":
            return answer({"task": _task(split, given.get("index"))})
        first, end = given.get("start"), given.get("stop")
        first, end = 0 if first is None else first, frames.SPLIT_SIZE if end is None else end
        is_range = type(first) is int and type(end) is int and 0 <= first <= end <= frames.SPLIT_SIZE
        if kind == "tasks" or (is_range and end - first > _MOST_TASKS):
            raise HTTPException(_MISSING, f"there are 2^31 tasks; ask for a range of at most {_MOST_TASKS}.")
        if not is_range:
            raise HTTPException(_BAD, "Invalid task index")
        return answer({"tasks": [_task(split, index) for index in range(first, end)]})

    async def _check_name(self, request: Request) -> None:
        name, hosted = request.path_params["name"], (await self._plays()).hosted
        if name.lower() not in (hosted.nick.lower(), hosted.env_id.lower()):
            raise HTTPException(404, f"unknown environment {name!r}")


_MOST_TASKS = 10_000


async def _converse(plays: Plays, play: Play, receive: Receive, send: Send, answers: Answers) -> None:
    """Answers what a client sends until it goes."""
    while True:
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        play.used = time.monotonic()
        text = message.get("text")
        if text is None:
            raise _HangUp(frames.error_frame(frames.SESSION_ERROR, "a frame is text, not bytes."))
        try:
            said = await answers(plays, play, text)
        except (_HangUp, OSError, asyncio.CancelledError):
            raise
        except Exception:  # a client is told that something is wrong with the server, and goes on
            _log.exception("a frame could not be answered")
            said = frames.error_frame(frames.EXECUTION_ERROR, "the server failed; its log tells how.")
        await send({"type": "websocket.send", "text": said})


async def _close(send: Send, code: int, reason: str, last: str | None = None) -> None:
    """Closes a socket, after a last frame if there is one; of a client that is gone, nothing."""
    try:
        if last is not None:
            await send({"type": "websocket.send", "text": last})
        await send({"type": "websocket.close", "code": code, "reason": reason})
    except (OSError, RuntimeError):
        return


def _attached(plays: Plays, session_id: str) -> Play:
    play = plays.get(session_id)
    if play is None or play.hang_up is not None:
        why = "Unknown session_id" if play is None else "Another WebSocket is attached to session"
        raise _HangUp(frames.error_frame(frames.SESSION_ERROR, f"{why}: {session_id}"))
    play.used = time.monotonic()
    return play


def _data(frame: dict[str, Any], *, required: bool) -> Any:
    _only(frame, "type", "data")
    if required and "data" not in frame:
        raise FrameError([{"type": "missing", "loc": ["data"], "msg": "Field required", "input": frame}])
    return frames.object_of(frame.get("data", {}), ("data",))


def _only(frame: dict[str, Any], *names: str) -> None:
    more = [name for name in frame if name not in names]
    if more:
        text = "Extra inputs are not permitted"
        raise FrameError(
            [{"type": "extra_forbidden", "loc": [name], "msg": text, "input": frame[name]} for name in more]
        )


def _rpc_frame(_: str, message: str, **more: Any) -> str:
    return json.dumps(frames.rpc_error(None, frames.RpcError(frames.SERVER_ERROR, message, more)))


def _task(split: str, index: Any) -> dict[str, Any]:
    try:
        seed = frames.seed_of(split, index)
    except FrameError as error:
        raise HTTPException(_BAD, "Invalid task index") from error
    return {"split": split, "index": index, "seed": seed}


async def _body(request: Request) -> Any:
    body = await request.body()
    try:
        return json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        text = f"JSON decode error: {error}"
        raise FrameError([{"type": "json_invalid", "loc": ["body"], "msg": text, "input": {}}]) from error


async def _detail(_: Request, error: Exception) -> Response:
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, str(error))
    return answer({"detail": detail}, status)


async def _fault(_: Request, error: Exception) -> Response:
    return answer({"detail": error.errors if isinstance(error, FrameError) else str(error)}, _UNREADABLE)


async def _full(_: Request, error: Exception) -> Response:
    return answer({"detail": str(error)}, _BUSY)


async def _refused(_: Request, error: Exception) -> Response:
    return answer({"detail": str(error)}, _UNREADABLE)


def _hosting(serving: Serving) -> Loading[Hosted]:
    # Clients of this protocol score for themselves: unless the options say otherwise, the reward is the environment's.
    return Loading(hosting(serving, {"scoring": "environment"}, spare=SPARE))


def serve(serving: Serving, listener: socket.socket) -> None:
    """Answers on a socket until the process is asked to end; see `jaxgym.serve.http.run`."""
    loading = _hosting(serving)
    run(OpenEnvApp(serving, loading), serving, listener, loading)


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
    """Returns the app for any ASGI server, which loads the game with its lifespan.

    Raises:
        OptionError: If the file of the token is empty.
        OSError: If it can't be read.
    """
    be_a_server()
    loading = _hosting(serving)
    return behind_guard(OpenEnvApp(serving, loading), serving, loading)


def listen_and_serve(serving: Serving) -> None:
    """Serves until the process is asked to end; see `jaxgym.serve.command.listen` and `serve`."""
    with listen(serving) as listener:
        be_a_server()
        serve(serving, listener)
