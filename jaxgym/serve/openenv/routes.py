"""HTTP routes of an OpenEnv server; each call uses a temporary session."""

from collections.abc import Awaitable, Mapping
from importlib import metadata
from typing import Annotated, Any

import pydantic
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from jaxgym.levels import SPLIT_SIZE
from jaxgym.serve.openenv.frames import MessageAction, Metadata, StrictModel
from jaxgym.serve.openenv.rpc import Methods, respond_to_mcp
from jaxgym.serve.openenv.sessions import SPLITS, ClientSessions, ResetOptions, Split
from jaxgym.serve.web.answers import quoted
from jaxgym.serve.web.api import Api, constant
from jaxgym.serve.web.serving import Serving

_MOST_TASKS = 10_000
_VERSION = "1.0.0"


class TextArenaMessage(pydantic.BaseModel):
    """Newest text for clients of TextArena; the sender -1 is the game."""

    sender_id: int
    content: Annotated[str, pydantic.Field(description="The newest text, possibly preceded by the previous one.")]
    category: str


class StepObservation(StrictModel):
    """Response to a reset or a step."""

    done: Annotated[bool, pydantic.Field(description="Whether the episode has ended.")] = False
    reward: Annotated[bool | int | float | None, pydantic.Field(description="The reward of this turn.")] = None
    metadata: Metadata = pydantic.Field({})
    prompt: Annotated[str, pydantic.Field(description="The rules and the form of a reply.")]
    text: Annotated[str, pydantic.Field(description="The newest text.")]
    image: Annotated[str, pydantic.Field(description="The newest frame, a PNG in base64, in sessions with images.")] = (
        ""
    )
    messages: list[TextArenaMessage]
    info: Annotated[
        dict[str, Any],
        pydantic.Field(description="Turn, seed, invalid reply, reward signals, and final figures of the episode."),
    ]


class EpisodeState(pydantic.BaseModel):
    """State of an episode."""

    model_config = pydantic.ConfigDict(extra="allow")

    episode_id: str | None = None
    step_count: Annotated[int, pydantic.Field(ge=0)] = 0
    env_id: str
    seed: int
    total_reward: float
    terminated: bool
    truncated: bool


_SCHEMAS: Mapping[str, type[pydantic.BaseModel]] = {
    "action": MessageAction,
    "observation": StepObservation,
    "reset_observation": StepObservation,
    "state": EpisodeState,
}


class HttpRoutes(Api):
    """App of the HTTP routes."""

    error_key = "detail"

    def __init__(self, serving: Serving, sessions: ClientSessions, methods: Methods):
        """Make the app of a server."""
        self._sessions, self._methods, hosted = sessions, methods, sessions.hosted
        about = {
            "name": hosted.short_name,
            "description": f"{hosted.env_id} of jaxgym, as text.",
            "readme_content": hosted.system_prompt,
            "version": metadata.version("jaxgym"),
            "author": "The jaxgym authors",
            "documentation_url": None,
        }
        routes = {
            ("GET", "/health"): constant({"status": "healthy"}),
            ("GET", "/metadata"): constant(about),
            ("GET", "/schema"): constant({name: model.model_json_schema() for name, model in _SCHEMAS.items()}),
            ("GET", "/list_environments"): constant([hosted.short_name]),
            ("GET", "/state"): self._state,
            ("POST", "/reset"): self._reset,
            ("POST", "/step"): self._step,
        }
        for name in (hosted.short_name, hosted.env_id):
            routes |= {
                ("GET", f"/{name}/splits"): constant([{"name": split, "type": split} for split in SPLITS]),
                ("POST", f"/{name}/num_tasks"): self._num_tasks,
                ("POST", f"/{name}/tasks"): self._tasks,
                ("POST", f"/{name}/task"): self._task,
                ("POST", f"/{name}/task_range"): self._task_range,
            }
        paths: dict[str, Any] = {}
        for method, path in (*routes, ("POST", "/mcp"), ("DELETE", "/mcp")):
            paths.setdefault(path, {})[method.lower()] = {"responses": {"200": {"description": "Successful response"}}}
        info = {"title": f"{serving.env} over OpenEnv", "version": _VERSION}
        routes["GET", "/openapi.json"] = constant({"openapi": "3.1.0", "info": info, "paths": paths})
        super().__init__(routes)

    def respond(self, scope: Scope, body: bytes) -> Awaitable[Response | tuple[int, Any]]:
        """Return the response to a request, or its status and content."""
        if scope["path"] == "/mcp":
            return respond_to_mcp(Request(scope), body, self._sessions, self._methods)
        return super().respond(scope, body)

    async def _state(self, owner: str | None) -> Any:
        with self._sessions.once() as session:
            return session.state()

    async def _reset(self, owner: str | None, body: ResetOptions) -> Any:
        with self._sessions.once() as session:
            return Response(await session.reset(body), media_type="application/json")

    async def _step(self, owner: str | None, action: MessageAction) -> Any:
        with self._sessions.once() as session:
            return Response(await session.step(action.message), media_type="application/json")

    async def _num_tasks(self, owner: str | None, split: Split) -> Any:
        return {"num_tasks": SPLIT_SIZE}

    async def _tasks(self, owner: str | None, split: Split) -> Any:
        raise HTTPException(501, f"A split has 2^31 tasks. Request at most {_MOST_TASKS} of them with /task_range.")

    async def _task(self, owner: str | None, split: Split, index: Any = None) -> Any:
        if type(index) is not int or not 0 <= index < SPLIT_SIZE:
            allowed = f"expected an integer from 0 to {SPLIT_SIZE - 1}"
            raise HTTPException(400, f"Invalid task index: {allowed}, got {quoted(index)}.")
        return {"task": _task(split, index)}

    async def _task_range(self, owner: str | None, split: Split, start: Any = None, stop: Any = None) -> Any:
        first, end = 0 if start is None else start, SPLIT_SIZE if stop is None else stop
        if not (type(first) is int and type(end) is int and 0 <= first <= end <= SPLIT_SIZE):
            got = f"got start {quoted(start)} and stop {quoted(stop)}"
            raise HTTPException(400, f"Invalid task range: expected 0 <= start <= stop <= 2^31, {got}.")
        if end - first > _MOST_TASKS:
            raise HTTPException(400, f"expected a range of at most {_MOST_TASKS} tasks, got {end - first}.")
        return {"tasks": [_task(split, index) for index in range(first, end)]}


def _task(split: Split, index: int) -> dict[str, Any]:
    return {"split": split, "index": index, "seed": SPLITS[split] + index}
