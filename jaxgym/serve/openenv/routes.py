"""HTTP routes of an OpenEnv server; each call uses a temporary session."""

from importlib import metadata
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jaxgym.levels import SPLIT_SIZE
from jaxgym.serve.openenv import frames
from jaxgym.serve.openenv.frames import FrameError
from jaxgym.serve.openenv.rpc import Methods, respond_to_mcp
from jaxgym.serve.openenv.sessions import SPLITS, ClientSessions, seed_of, start_of
from jaxgym.serve.web.answers import answer, exception_handlers, quoted, read_json
from jaxgym.serve.web.serving import Serving

_UNREADABLE, _MISSING, _BAD = 422, 501, 400
_MOST_TASKS = 10_000
_VERSION = "1.0.0"
_TASK_ROUTES = ("tasks", "num_tasks", "task", "task_range")
_ALLOWED = f"expected an integer from 0 to {SPLIT_SIZE - 1}"

_NUMBER_OR_NONE = {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "number"}, {"type": "null"}]}
_METADATA = {"type": "object", "additionalProperties": True, "title": "Metadata", "description": "Ignored."}

_ACTION = {
    "type": "object",
    "title": "Reply",
    "additionalProperties": False,
    "properties": {
        "metadata": _METADATA,
        "message": {"type": "string", "title": "Message", "description": "The unchanged reply of the model."},
    },
    "required": ["message"],
}

_MESSAGE = {
    "type": "object",
    "title": "Message",
    "properties": {
        "sender_id": {"type": "integer", "description": "-1 is the game."},
        "content": {"type": "string", "description": "The newest text, possibly preceded by the previous one."},
        "category": {"type": "string"},
    },
    "required": ["sender_id", "content", "category"],
}

_OBSERVATION = {
    "type": "object",
    "title": "Observation",
    "additionalProperties": False,
    "properties": {
        "done": {"type": "boolean", "default": False, "description": "Whether the episode has ended."},
        "reward": {**_NUMBER_OR_NONE, "default": None, "description": "The reward of this turn."},
        "metadata": _METADATA,
        "prompt": {"type": "string", "description": "The rules and the form of a reply."},
        "text": {"type": "string", "description": "The newest text."},
        "image": {
            "type": "string",
            "contentEncoding": "base64",
            "contentMediaType": "image/png",
            "description": "The newest frame, in sessions with images.",
        },
        "messages": {"type": "array", "items": _MESSAGE, "description": "The newest text for TextArena."},
        "info": {
            "type": "object",
            "additionalProperties": True,
            "description": "Turn, seed, text version, invalid reply, reward signals, and final figures of the episode.",
        },
    },
    "required": ["prompt", "text", "messages", "info"],
}

_STATE = {
    "type": "object",
    "title": "State",
    "additionalProperties": True,
    "properties": {
        "episode_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "step_count": {"type": "integer", "minimum": 0, "default": 0},
        "env_id": {"type": "string"},
        "seed": {"type": "integer"},
        "total_reward": {"type": "number"},
        "terminated": {"type": "boolean"},
        "truncated": {"type": "boolean"},
    },
}


def routes(serving: Serving, sessions: ClientSessions, methods: Methods) -> Starlette:
    """Return the app of the routes."""
    own, hosted = _Routes(sessions, methods), sessions.hosted
    about = {
        "name": hosted.short_name,
        "description": f"{hosted.env_id} of jaxgym, as text.",
        "readme_content": hosted.system_prompt,
        "version": metadata.version("jaxgym"),
        "author": "The jaxgym authors",
        "documentation_url": None,
    }
    constants = {
        "/health": {"status": "healthy"},
        "/metadata": about,
        "/schema": {"action": _ACTION, "observation": _OBSERVATION, "reset_observation": _OBSERVATION, "state": _STATE},
        "/list_environments": [hosted.short_name],
    }
    listed = [
        *(Route(path, answer(content), methods=["GET"]) for path, content in constants.items()),
        Route("/state", own.state),
        Route("/reset", own.reset, methods=["POST"]),
        Route("/step", own.step, methods=["POST"]),
        Route("/mcp", own.mcp, methods=["POST", "GET", "DELETE"]),
        Route("/{name}/splits", own.splits),
        *(Route(f"/{{name}}/{kind}", own.tasks, methods=["POST"]) for kind in _TASK_ROUTES),
    ]
    responses = {"200": {"description": "As it should be."}}
    paths = {
        each.path: {method.lower(): {"responses": responses} for method in sorted(each.methods or ())}
        for each in listed
    }
    info = {"title": f"{serving.env} over OpenEnv", "version": _VERSION}
    openapi = Route("/openapi.json", answer({"openapi": "3.1.0", "info": info, "paths": paths}), methods=["GET"])
    handlers = {**exception_handlers("detail"), FrameError: _fault}
    app = Starlette(routes=[*listed, openapi], exception_handlers=handlers)
    app.router.redirect_slashes = False  # a redirect would echo the request's path
    return app


class _Routes:
    """Handlers of the routes."""

    def __init__(self, sessions: ClientSessions, methods: Methods):
        self._sessions, self._methods = sessions, methods

    async def state(self, _: Request) -> Response:
        with self._sessions.once() as session:
            return answer(session.state())

    async def reset(self, request: Request) -> Response:
        given = frames.object_of(await _body(request), ("body",))
        start_of(given, ("body",))
        with self._sessions.once() as session:
            return Response(await session.reset(given), media_type="application/json")

    async def step(self, request: Request) -> Response:
        given = frames.object_of(await _body(request), ("body",))
        reply = frames.reply_of(given.get("action"), ("body", "action"))
        with self._sessions.once() as session:
            return Response(await session.step(reply), media_type="application/json")

    async def mcp(self, request: Request) -> Response:
        return await respond_to_mcp(request, self._sessions, self._methods)

    async def splits(self, request: Request) -> Response:
        self._check_name(request)
        return answer([{"name": name, "type": name} for name in SPLITS])

    async def tasks(self, request: Request) -> Response:
        self._check_name(request)
        given = frames.object_of(await _body(request), ("body",))
        split: Any = given.get("split")
        seed_of(split, 0, ("body",))
        kind = request.url.path.rpartition("/")[2]
        if kind == "num_tasks":
            return answer({"num_tasks": SPLIT_SIZE})
        if kind == "task":
            return answer({"task": _task(split, given.get("index"))})
        first, end = given.get("start"), given.get("stop")
        first, end = 0 if first is None else first, SPLIT_SIZE if end is None else end
        is_range = type(first) is int and type(end) is int and 0 <= first <= end <= SPLIT_SIZE
        if kind == "tasks":
            reason = f"A split has 2^31 tasks. Request at most {_MOST_TASKS} of them with /task_range."
            raise HTTPException(_MISSING, reason)
        if not is_range:
            got = f"got start {quoted(given.get('start'))} and stop {quoted(given.get('stop'))}"
            raise HTTPException(_BAD, f"Invalid task range: expected 0 <= start <= stop <= 2^31, {got}.")
        if end - first > _MOST_TASKS:
            raise HTTPException(_BAD, f"expected a range of at most {_MOST_TASKS} tasks, got {end - first}.")
        return answer({"tasks": [_task(split, index) for index in range(first, end)]})

    def _check_name(self, request: Request) -> None:
        name, hosted = request.path_params["name"], self._sessions.hosted
        if name.lower() not in (hosted.short_name.lower(), hosted.env_id.lower()):
            raise HTTPException(404, f"unknown environment {quoted(name)!r}; this server has {hosted.short_name!r}")


def _task(split: str, index: Any) -> dict[str, Any]:
    try:
        seed = seed_of(split, index)
    except FrameError as error:
        raise HTTPException(_BAD, f"Invalid task index: {_ALLOWED}, got {quoted(index)}.") from error
    return {"split": split, "index": index, "seed": seed}


async def _body(request: Request) -> Any:
    body = await request.body()
    try:
        return read_json(body) if body.strip() else {}
    except ValueError as error:
        text = f"JSON decode error: {error}"
        raise FrameError([{"type": "json_invalid", "loc": ["body"], "msg": text, "input": {}}]) from error


async def _fault(_: Request, error: Exception) -> Response:
    return answer({"detail": error.errors if isinstance(error, FrameError) else str(error)}, _UNREADABLE)
