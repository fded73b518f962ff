"""Wrapper of BabyAI, which reproduces AgentGym's server `agentenv-babyai`; see `jaxgym.envs.babyai.agentgym`.

Its tasks have levels of 40 ids, and its actions depend on what the agent sees. So its episodes are in a pool of their
own instead of a `SessionPool`.
"""

import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np

from jaxgym.envs.babyai import agentgym
from jaxgym.envs.minigrid import render
from jaxgym.errors import OptionError
from jaxgym.serve.agentgym.wrapper import AgentGymSession, AgentGymWrapper
from jaxgym.serve.errors import CapacityError, RequestError, SessionError, UnknownSessionError
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.pool.calls import Calls, PoolCall
from jaxgym.serve.sessions import Opening, TurnResult

NAME = "babyai"
"""Name of the environment; it is not a registered id."""

_TILE_PX = 32
_NOT_STARTED = "Environment not initialized"
_PROMPT = """\
You are in a world of rooms and have to reach a goal. Each observation lists the things that you see and the actions \
that you can do. The actions:
turn left, turn right, move forward
go to THING NUMBER: walk to the thing and face it.
pickup THING NUMBER: walk to the thing and take it.
drop: put what you carry on the cell ahead of you.
toggle: open the door ahead of you.
go through DOOR NUMBER: walk onto an open door.
toggle and go through DOOR NUMBER: walk to a closed door, open it and step onto it. For a locked door, you must carry \
a key of its color.
check available actions: list the actions.
Each turn has one action, for example: go to red ball 1

The reward is 1 - 0.9 x steps / limit when you reach the goal. A turn is one step, and a walk is as many steps as you \
turn and move. The limit depends on the level. The episode ends when you reach the goal with a reward above 0.5."""

_draw = jax.jit(render.draw_grid, static_argnums=1)


class FinishedError(SessionError):
    """Step after the end of an episode."""

    def __init__(self, key: str):
        super().__init__(f"The task with environment {key} has finished.")


@dataclasses.dataclass(eq=False, slots=True)
class _Session:
    """Open session: the time of its last call in seconds, and its episode; None before the first reset."""

    used: float
    episode: agentgym.AgentGymEpisode | None = None


class BabyAIPool:
    """Sessions of AgentGym's BabyAI, with those methods of `SessionPool` that a wrapper calls.

    It is used from one event loop. The id of a session is the id of its environment.
    """

    def __init__(self, capacity: int, idle_seconds: float | None):
        """Make an empty pool; see `SessionPool`."""
        self.capacity, self.idle_seconds = capacity, idle_seconds
        self._sessions = dict[str, _Session]()
        self._keys = map(str, itertools.count())
        self._calls = Calls(self._make_calls)

    def __contains__(self, key: object) -> bool:
        """Return whether a session is open."""
        return key in self._sessions

    def prepare(self, name: str, options: Mapping[str, Any]) -> str:
        """Compile the programs and return the system prompt; the arguments are ignored."""
        agentgym.prepare()
        return _PROMPT

    async def aopen(self, name: str, seed: int, options: Mapping[str, Any], *, start: bool) -> Opening:
        """Open a session without an episode; the arguments are ignored.

        Raises:
            CapacityError: If the pool is full.
        """
        key = next(self._keys)  # the wrapper also counts attempts that fail
        if len(self._sessions) >= self.capacity:
            raise CapacityError(f"expected at most {self.capacity} open sessions, got one more. Close some.")
        self._sessions[key] = _Session(time.monotonic())
        return _opening(key, 0, "")

    async def aclose(self, key: str) -> None:
        """Close a session; raises `UnknownSessionError` if it is not open."""
        self._session(key)
        del self._sessions[key]

    def close_idle(self) -> None:
        """Close the sessions that have been idle for `idle_seconds`."""
        if self.idle_seconds is not None:
            last = time.monotonic() - self.idle_seconds
            self._sessions = {key: session for key, session in self._sessions.items() if session.used >= last}

    def reset(self, keys: Sequence[str], tasks: Sequence[int]) -> list[Opening]:
        """Start a task, given by its number, in each of several sessions."""
        sessions = [self._session(key) for key in keys]
        for session, task in zip(sessions, tasks, strict=True):
            session.episode = agentgym.begin(agentgym.task_of(task))
        return [_opening(key, task, self.observation(key)) for key, task in zip(keys, tasks, strict=True)]

    async def areset(self, key: str, task: int) -> Opening:
        """Start a task in a session."""
        return self.reset([key], [task])[0]

    def step(self, keys: Sequence[str], actions: Sequence[str]) -> list[TurnResult | SessionError]:
        """Do one action in each of several different sessions; return the error of each session that has no episode."""
        episodes = [self._running(key) for key in keys]
        pairs = zip(episodes, actions, strict=True)
        playing = [(each, action) for each, action in pairs if not isinstance(each, SessionError)]
        agentgym.play([episode for episode, _ in playing], [action for _, action in playing])
        return [episode if isinstance(episode, SessionError) else _result_of(episode) for episode in episodes]

    async def astep(self, key: str, action: str) -> TurnResult:
        """Do one action in a session, in a batch with those of others; raises the errors of `step`."""
        return await self._calls.future(key, action, None)

    def _make_calls(self, calls: Sequence[PoolCall]) -> None:
        results = self.step([call.session_id for call in calls], [str(call.reply) for call in calls])
        for call, result in zip(calls, results, strict=True):
            call.result = result

    def _running(self, key: str) -> agentgym.AgentGymEpisode | SessionError:
        """Return the episode of a session for a step, or an error."""
        try:
            episode = self.episode(key)
        except SessionError as error:
            return error
        return FinishedError(key) if episode.has_ended else episode

    def episode(self, key: str) -> agentgym.AgentGymEpisode:
        """Return the episode of a session; raises `UnknownSessionError`, or `RequestError` if it has none."""
        episode = self._session(key).episode
        if episode is None:
            raise RequestError("expected an environment with a task, got one without a task. Call /reset.")
        return episode

    def observation(self, key: str) -> str:
        """Return the goal and the last observation of a session."""
        episode = self.episode(key)
        return episode.goal + episode.observation

    def frame(self, key: str) -> np.ndarray:
        """Return the frame of the whole grid, uint8 (32 · H, 32 · W, 3); the first call of each size compiles."""
        return np.asarray(_draw(agentgym.world_of(self.episode(key)), _TILE_PX))

    def _session(self, key: str) -> _Session:
        session = self._sessions.get(key)
        if session is None:
            raise UnknownSessionError(f"Unknown session {key!r}. Use an id that aopen returned.")
        session.used = time.monotonic()
        return session


def _opening(key: str, task: int, text: str) -> Opening:
    return Opening(key, NAME, task, _PROMPT, "", text, text_version=1)


def _result_of(episode: agentgym.AgentGymEpisode) -> TurnResult:
    text, number, has_ended = episode.observation, episode.number, episode.has_ended
    return TurnResult(text, episode.reward, has_ended, False, number, None, {}, episode.score, has_ended, {})


class BabyAIWrapper(AgentGymWrapper):
    """BabyAI with the responses of AgentGym's own server.

    The task of an index is level `index % 40` with seed `index // 40`. A step before the first reset, or after the end
    of an episode, is an error.
    """

    def __init__(self, name: str, pool: SessionPool, options: Mapping[str, Any] | None = None):
        """Make a wrapper with as many sessions as the pool.

        Raises:
            OptionError: If there are options.
        """
        if options:
            raise OptionError(f"{NAME}: expected no options, got {', '.join(options)}. Leave them out.")
        self._episodes = BabyAIPool(pool.capacity, pool.idle_seconds)
        super().__init__(name, cast(Any, self._episodes))

    @staticmethod
    def names_of(name: str) -> tuple[str, str]:
        """Return the name as id and as short name."""
        return name, name

    @property
    def hosted(self) -> None:
        """None: the page does not show these environments."""

    def sweep(self) -> None:
        """Close idle environments."""
        self._episodes.close_idle()
        super().sweep()

    def seed_of(self, data_idx: int) -> int:
        """Return the number of a task.

        Raises:
            RequestError: If there is no such task.
        """
        if not 0 <= data_idx < agentgym.NUM_TASKS:
            raise RequestError(f"data_idx: expected an integer from 0 to {agentgym.NUM_TASKS - 1}, got {data_idx}.")
        return data_idx

    async def hello(self, owner: str | None) -> Any:
        """Return the name of the environment."""
        return "This is environment BabyAI."

    async def reset(self, owner: str | None, id: int, data_idx: int) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start a task, which AgentGym's server requires."""
        return await super().reset(owner, id, data_idx)

    async def observe(self, owner: str | None, id: int) -> Any:
        """Return the goal and the last observation."""
        running = self._find(owner, id)
        if not running.last:
            return self.reset_answer(id, {"observation": _NOT_STARTED, "reward": 0, "score": 0, "done": False})
        if running.last["done"]:
            raise FinishedError(running.key)
        return self.reset_answer(id, {**running.last, "observation": self._episodes.observation(running.key)})

    async def close(self, owner: str | None, id: int) -> Any:
        """Close an environment; return whether it was open."""
        return await self._close_if_open(owner, id)

    def reset_answer(self, number: int, last: dict[str, Any]) -> Any:
        """Return the response of a reset."""
        return {**last, "deleted": False}

    async def _started(self, owner: str | None, number: int) -> AgentGymSession:
        """Return an environment with a task."""
        running = self._find(owner, number)
        if not running.last:
            raise RequestError(f"Environment {number} has no task yet. Call /reset first.")
        return running
