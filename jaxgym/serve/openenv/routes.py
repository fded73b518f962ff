"""HTTP routes of an OpenEnv server; each call uses a temporary session."""

from importlib import metadata
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from jaxgym.serve.openenv import frames, mcp, tasks
from jaxgym.serve.openenv.frames import FrameError
from jaxgym.serve.openenv.rpc import Methods
from jaxgym.serve.openenv.schemas import SCHEMAS
from jaxgym.serve.openenv.sessions import ClientSession, ClientSessions
from jaxgym.serve.web.answers import answer, exception_handlers, quoted, read_json
from jaxgym.serve.web.serving import Serving

_UNREADABLE, _MISSING, _BAD = 422, 501, 400
_MOST_TASKS = 10_000
_VERSION = "1.0.0"
_ALLOWED = f"expected an integer from 0 to {tasks.SPLIT_SIZE - 1}"


class _Path(NamedTuple):
    """Path with its HTTP methods, its handler, and the summary for `/openapi.json`, if any."""

    path: str
    methods: str
    call: str
    about: str = ""


_RPC = "JSON-RPC: tools/list, tools/call, openenv/session/create, openenv/session/close"
_PATHS = (
    _Path("/health", "GET", "health", "Whether the server is there"),
    _Path("/metadata", "GET", "metadata", "What is played"),
    _Path("/schema", "GET", "schema", "Schemas of action, observation and state"),
    _Path("/state", "GET", "state", "State of an episode that has not started"),
    _Path("/reset", "POST", "reset", "The first observation of an episode that is given up at once"),
    _Path("/step", "POST", "step", "A step in an episode that is given up at once"),
    _Path("/mcp", "POST GET DELETE", "mcp", _RPC),
    _Path("/list_environments", "GET", "environments", "Names of what is played"),
    _Path("/openapi.json", "GET", "openapi"),
    _Path("/{name}/splits", "GET", "splits"),
    *(_Path(f"/{{name}}/{path}", "POST", "tasks") for path in ("tasks", "num_tasks", "task", "task_range")),
)


def routes(serving: Serving, sessions: ClientSessions, methods: Methods) -> Starlette:
    """Return the app of the routes."""
    own = _Routes(serving, sessions, methods)
    app = Starlette(
        routes=[Route(path, getattr(own, call), methods=methods.split()) for path, methods, call, _ in _PATHS],
        exception_handlers={**exception_handlers("detail"), FrameError: _fault, ClientDisconnect: _gone},
    )
    app.router.redirect_slashes = False  # a redirect would echo the request's path
    return app


def _openapi(name: str) -> dict[str, Any]:
    """Return the OpenAPI description of the routes."""
    paths = {
        path: {
            methods.split()[0].lower(): {"summary": about, "responses": {"200": {"description": "As it should be."}}}
        }
        for path, methods, _, about in _PATHS
        if about
    }
    return {"openapi": "3.1.0", "info": {"title": f"{name} over OpenEnv", "version": _VERSION}, "paths": paths}


class _Routes:
    """Handlers of the routes."""

    def __init__(self, serving: Serving, sessions: ClientSessions, methods: Methods):
        self._serving, self._sessions, self._methods = serving, sessions, methods

    async def health(self, _: Request) -> Response:
        return answer({"status": "healthy"})

    async def schema(self, _: Request) -> Response:
        return answer(SCHEMAS)

    async def openapi(self, _: Request) -> Response:
        return answer(_openapi(self._serving.env))

    async def metadata(self, _: Request) -> Response:
        hosted = self._sessions.hosted
        return answer(
            {
                "name": hosted.short_name,
                "description": f"{hosted.env_id} of jaxgym, as text.",
                "readme_content": hosted.system_prompt,
                "version": metadata.version("jaxgym"),
                "author": "The jaxgym authors",
                "documentation_url": None,
            }
        )

    async def environments(self, _: Request) -> Response:
        return answer([self._sessions.hosted.short_name])

    async def state(self, _: Request) -> Response:
        async def stand(session: ClientSession) -> dict[str, Any]:
            return self._sessions.state(session)

        return answer(await self._sessions.once(stand))

    async def reset(self, request: Request) -> Response:
        given = frames.object_of(await _body(request), ("body",))
        tasks.start_of(given, ("body",))
        observed = await self._sessions.once(lambda session: self._sessions.reset(session, given))
        return Response(observed, media_type="application/json")

    async def step(self, request: Request) -> Response:
        given = frames.object_of(await _body(request), ("body",))
        reply = frames.reply_of(given.get("action"), ("body", "action"))
        observed = await self._sessions.once(lambda session: self._sessions.step(session, reply))
        return Response(observed, media_type="application/json")

    async def mcp(self, request: Request) -> Response:
        return await mcp.respond(request, self._sessions, self._methods)

    async def splits(self, request: Request) -> Response:
        await self._check_name(request)
        return answer([{"name": name, "type": name} for name in tasks.SPLITS])

    async def tasks(self, request: Request) -> Response:
        await self._check_name(request)
        given = frames.object_of(await _body(request), ("body",))
        split: Any = given.get("split")
        tasks.seed_of(split, 0, ("body",))
        kind = request.url.path.rpartition("/")[2]
        if kind == "num_tasks":
            return answer({"num_tasks": tasks.SPLIT_SIZE})
        if kind == "task":
            return answer({"task": _task(split, given.get("index"))})
        first, end = given.get("start"), given.get("stop")
        first, end = 0 if first is None else first, tasks.SPLIT_SIZE if end is None else end
        is_range = type(first) is int and type(end) is int and 0 <= first <= end <= tasks.SPLIT_SIZE
        if kind == "tasks" or (is_range and end - first > _MOST_TASKS):
            raise HTTPException(_MISSING, f"expected a range of at most {_MOST_TASKS} of the 2^31 tasks.")
        if not is_range:
            raise HTTPException(_BAD, f"Invalid task index: {_ALLOWED}, with start up to stop")
        return answer({"tasks": [_task(split, index) for index in range(first, end)]})

    async def _check_name(self, request: Request) -> None:
        name, hosted = request.path_params["name"], self._sessions.hosted
        if name.lower() not in (hosted.short_name.lower(), hosted.env_id.lower()):
            raise HTTPException(404, f"unknown environment {quoted(name)!r}; this server has {hosted.short_name!r}")


def _task(split: str, index: Any) -> dict[str, Any]:
    try:
        seed = tasks.seed_of(split, index)
    except FrameError as error:
        raise HTTPException(_BAD, f"Invalid task index: {_ALLOWED}") from error
    return {"split": split, "index": index, "seed": seed}


async def _body(request: Request) -> Any:
    body = await request.body()
    try:
        return read_json(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        text = f"JSON decode error: {error}"
        raise FrameError([{"type": "json_invalid", "loc": ["body"], "msg": text, "input": {}}]) from error


async def _fault(_: Request, error: Exception) -> Response:
    return answer({"detail": error.errors if isinstance(error, FrameError) else str(error)}, _UNREADABLE)


async def _gone(*_: Any) -> Response:
    return answer({"detail": "the client has disconnected."}, _BAD)
