"""Implementation of AgentGym's routes; the ids of environments count from 0.

    POST /step {"id": 3, "action": "get 1 flax"}  ─>  AgentGymWrapper.step(owner, 3, "get 1 flax")  ─>  response

A wrapper follows AgentGym's guide for environments. A subclass can change responses and add routes.
"""

import asyncio
import dataclasses
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from jaxgym import text
from jaxgym.serve.errors import PartialStepError, RequestError, SessionError, UnknownSessionError
from jaxgym.serve.images import as_base64, data_url, png
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.sessions import Opening, TurnResult
from jaxgym.serve.web.answers import message_of
from jaxgym.serve.web.http import Hosted

_MOST_UNKNOWN = 16  # maximum size of a batch without a known id that gets an error for each id


@dataclasses.dataclass(slots=True)
class AgentGymSession:
    """Created environment.

    Attributes:
        key: The session id of the pool.
        owner: Token of the client that created it; None if environments do not belong to tokens.
        text_version: Version of the wording.
        first: First observation text of the episode; empty before the first reset.
        last: The last `observation`, `reward`, `score` and `done`, and in sessions with images the last `image`.
    """

    key: str
    owner: str | None
    text_version: int
    first: str = ""
    last: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    def note(self, made: Opening | TurnResult) -> dict[str, Any]:
        """Record a turn or the start of an episode, and return `last`."""
        if isinstance(made, TurnResult):
            self.last = {
                "observation": made.text,
                "reward": made.reward,
                "score": made.total_reward,
                "done": made.terminated or made.truncated,
            }
        else:
            self.first = made.text
            self.last = {"observation": made.text, "reward": 0.0, "score": 0.0, "done": False}
        if made.image is not None:
            self.last["image"] = as_base64(made.image)
        return self.last


class AgentGymWrapper:
    """Environments of one id, each a session of a pool, with the responses of AgentGym's guide.

    It is used from one event loop. A response is any JSON value. An invalid call raises a `SessionError`, which becomes
    the response `{"error": ...}`. The system prompt is empty before `prepare`.
    """

    ROUTES: ClassVar[Mapping[tuple[str, str], str]] = {
        ("GET", "/"): "hello",
        ("POST", "/create"): "create",
        ("POST", "/step"): "step",
        ("POST", "/reset"): "reset",
        ("GET", "/observation"): "observe",
        ("POST", "/close"): "close",
        ("GET", "/detail"): "detail",
        ("POST", "/render"): "render",
        ("GET", "/list_envs"): "list_envs",
        ("GET", "/instruction_text"): "instruction_text",
        ("POST", "/step_batch"): "step_batch",
        ("POST", "/reset_batch"): "reset_batch",
    }
    """Name of the method of each route. The arguments after the owner are the fields of the body, or of the query of a
    GET; see `jaxgym.serve.web.api.reader_of`. Without fields, the body is ignored."""

    title = ""
    """Name in the greeting; the short name if empty."""

    def __init__(self, name: str, pool: SessionPool, options: Mapping[str, Any] | None = None):
        """Make a wrapper, with options for its sessions; raises `UnknownIdError` as `jaxgym.text.text_spec_of` does."""
        self.env_id, self.name = self.names_of(name)
        self.system_prompt = ""
        self._pool, self._options = pool, dict(options or {})
        self._running: dict[int, AgentGymSession] = {}
        self._count = 0

    @staticmethod
    def names_of(name: str) -> tuple[str, str]:
        """Return the id and the short name of an environment; raises the errors of `jaxgym.text.text_spec_of`."""
        return text.text_spec_of(name)[0], text.short_name_of(name)

    def prepare(self) -> None:
        """Compile the programs, so that no request waits for it; raises the errors of `SessionPool.prepare`."""
        self.system_prompt = self._pool.prepare(self.env_id, self._options)

    @property
    def hosted(self) -> Hosted | None:
        """The game, for the page; None if the page does not show it."""
        return Hosted(self._pool, self.env_id, self.name, self._options, self.system_prompt)

    def sessions(self, owner: str | None) -> list[str]:
        """Return the session ids of the caller's environments."""
        return [running.key for running in self._running.values() if running.owner == owner]

    def sweep(self) -> None:
        """Close idle sessions, and remove the environments of closed ones."""
        self._pool.close_idle()
        self._running = {number: each for number, each in self._running.items() if each.key in self._pool}

    def seed_of(self, data_idx: int) -> int:
        """Return the level seed of a task.

        Raises:
            RequestError: If there is no such task.
        """
        last = self._pool.num_seeds - 1
        if not 0 <= data_idx <= last:
            raise RequestError(f"data_idx: expected an integer from 0 to {last}, got {data_idx}.")
        return data_idx

    # The routes of the guide.

    async def hello(self, owner: str | None) -> Any:
        """Return the name of the environment."""
        return f"This is environment {self.title or self.name}."

    async def create(self, owner: str | None) -> Any:
        """Create an environment and return its id; its task is task 0 until a reset."""
        return {"id": await self._create(owner)}

    async def step(self, owner: str | None, id: int, action: str) -> Any:
        """Make a turn; after the end it changes nothing and its reward is 0."""
        running = self._find(owner, id)
        try:
            result = await self._pool.astep(running.key, action)
        except UnknownSessionError:
            raise self._gone(id) from None
        return self.step_answer(running.note(result))

    async def reset(self, owner: str | None, id: int, data_idx: int | None = 0) -> Any:
        """Start a task."""
        return self.reset_answer(id, await self._start(id, self._find(owner, id), data_idx or 0))

    async def observe(self, owner: str | None, id: int) -> Any:
        """Return the last observation; start the task if necessary."""
        return self.observation_answer((await self._started(owner, id)).last)

    async def close(self, owner: str | None, id: int) -> Any:
        """Close an environment; its id is not used again."""
        try:
            running = self._find(owner, id)
            del self._running[id]
            await self._pool.aclose(running.key)
        except SessionError as error:
            return self.close_answer(error)
        return self.close_answer(None)

    async def detail(self, owner: str | None, id: int) -> Any:
        """Return the status of an environment."""
        running = await self._started(owner, id)
        return {**running.last, "deleted": False, "text_version": running.text_version}

    # Further routes.

    async def render(self, owner: str | None, id: int) -> Any:
        """Return the frame of an environment as a data URL of a PNG; the first call compiles for a second."""
        running = await self._started(owner, id)
        try:
            frame = await asyncio.to_thread(self._pool.frame, running.key)
        except UnknownSessionError:
            raise self._gone(id) from None
        return data_url(png(frame))

    async def list_envs(self, owner: str | None) -> Any:
        """Return the ids of the caller's environments."""
        self.sweep()
        return [number for number, running in self._running.items() if running.owner == owner]

    async def instruction_text(self, owner: str | None) -> Any:
        """Return the system prompt."""
        return self.system_prompt

    async def step_batch(self, owner: str | None, ids: list[int], actions: list[str]) -> Any:
        """Make a turn in each of several environments; return the response of each step."""

        def step(keys: Sequence[str], replies: Sequence[str]) -> Sequence[Any]:
            try:
                return self._pool.step(keys, replies)
            except PartialStepError as error:
                return [error.results[key] for key in keys]

        return self._batch(owner, ids, "actions", actions, step, lambda _, last: self.step_answer(last))

    async def reset_batch(self, owner: str | None, ids: list[int], data_idxs: list[int]) -> Any:
        """Start a task in each of several environments; return the response of each reset."""
        seeds = [self.seed_of(data_idx) for data_idx in data_idxs]
        return self._batch(owner, ids, "data_idxs", seeds, self._pool.reset, self.reset_answer)

    # Responses; `last` has observation, reward, score, done and perhaps image.

    def step_answer(self, last: dict[str, Any]) -> Any:
        """Return the response of a step."""
        return last

    def reset_answer(self, number: int, last: dict[str, Any]) -> Any:
        """Return the response of a reset."""
        return last

    def observation_answer(self, last: dict[str, Any]) -> Any:
        """Return the response of an observation request."""
        return last

    def close_answer(self, error: SessionError | None) -> Any:
        """Return the response of a close, or of the error of one."""
        return {"closed": True} if error is None else {"closed": False, "error": message_of(error)}

    # Environments.

    async def _create(self, owner: str | None, *, starts: bool = False) -> int:
        """Create an environment, with task 0 or with the started task of its id; return its id."""
        opening = await self._pool.aopen(self.env_id, self.seed_of(0), self._options, start=False)
        number = self._count
        self._count += 1
        running = AgentGymSession(opening.id, owner, opening.text_version)
        if starts:  # before other calls can find the environment
            await self._start(number, running, number)
        self._running[number] = running
        if len(self._running) > 2 * self._pool.capacity:
            self.sweep()
        return number

    def _find(self, owner: str | None, number: int) -> AgentGymSession:
        running = self._running.get(number)
        if running is None or running.owner != owner or running.key not in self._pool:
            raise self._gone(number)
        return running

    def _gone(self, number: int) -> UnknownSessionError:
        """Return the error of a call for no environment of the caller, or for one that is closed during the call."""
        idle = self._pool.idle_seconds
        why = "" if idle is None else f", was idle for {idle:g} s,"
        if 0 <= number < self._count:
            text = f"Environment {number} was closed{why} or belongs to another token. Create another one."
            return UnknownSessionError(text)
        return UnknownSessionError(f"Unknown environment {reprlib.repr(number)}. Use an id that /create returned.")

    def _batch(
        self,
        owner: str | None,
        numbers: Sequence[int],
        name: str,
        values: Sequence[Any],
        make: Callable[[Sequence[str], Sequence[Any]], Sequence[Any]],
        response: Callable[[int, dict[str, Any]], Any],
    ) -> list[Any]:
        """Make a call of each of several environments; return the responses, with the errors of unknown ids.

        Args:
            owner: The caller.
            numbers: The ids.
            name: Name of the argument `values` in error messages.
            values: The argument of each call.
            make: Takes session ids and values; returns the result or the error of each.
            response: Takes an id and its new `last`; returns the response.
        """
        if len(numbers) != len(values):
            raise RequestError(f"{name}: expected one for each of {len(numbers)} ids, got {len(values)}.")
        if len(set(numbers)) < len(numbers):
            raise RequestError("ids: expected different ids in a batch, got one twice.")
        if len(numbers) > self._pool.capacity:
            raise RequestError(f"ids: expected at most {self._pool.capacity} in a batch, got {len(numbers)}.")
        found, answers = dict[int, AgentGymSession](), list[Any]([None] * len(numbers))
        for index, number in enumerate(numbers):
            try:
                found[index] = self._find(owner, number)
            except UnknownSessionError as error:
                answers[index] = {"error": message_of(error)}
        if not found and len(numbers) > _MOST_UNKNOWN:
            raise self._gone(numbers[0])
        results = make([running.key for running in found.values()], [values[index] for index in found])
        for (index, running), result in zip(found.items(), results, strict=True):
            is_error = isinstance(result, Exception)
            answers[index] = (
                {"error": message_of(result)} if is_error else response(numbers[index], running.note(result))
            )
        return answers

    async def _start(self, number: int, running: AgentGymSession, data_idx: int) -> dict[str, Any]:
        try:
            return running.note(await self._pool.areset(running.key, self.seed_of(data_idx)))
        except UnknownSessionError:
            raise self._gone(number) from None

    async def _started(self, owner: str | None, number: int) -> AgentGymSession:
        running = self._find(owner, number)
        if not running.last:
            await self._start(number, running, 0)
        return running
