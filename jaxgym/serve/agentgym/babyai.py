"""Wrapper of BabyAI, which reproduces AgentGym's server `agentenv-babyai`; see `jaxgym.envs.babyai.agentgym`.

Its tasks have levels of 40 ids, and its actions depend on what the agent sees. So it has a session pool of its own,
with `BabyAIGame` in place of a game with a text interface.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxgym.envs.babyai import agentgym
from jaxgym.envs.minigrid import render
from jaxgym.errors import OptionError
from jaxgym.serve.agentgym.wrapper import AgentGymSession, AgentGymWrapper
from jaxgym.serve.errors import RequestError, SessionError
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.pool.session import Session
from jaxgym.serve.sessions import TurnResult

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


class BabyAIGame:
    """AgentGym's BabyAI in a session pool, in place of a `GameTable`. The slot of a session is its number from 0."""

    env_id, system_prompt, reply_format, text_version = NAME, _PROMPT, "", 1

    def __init__(self) -> None:
        """Compile the programs."""
        agentgym.prepare()
        self._episodes, self._count = dict[int, agentgym.AgentGymEpisode](), itertools.count()

    def has(self, name: str, options: Mapping[str, Any]) -> bool:
        """Return True: the pool has this game only."""
        return True

    def get(self, name: str, options: Mapping[str, Any]) -> "BabyAIGame":
        """Return this game."""
        return self

    def take(self, seed: int, used: float) -> Session:
        """Return a new session."""
        return Session(self, next(self._count), seed, used)

    def give_back(self, session: Session) -> None:
        """Drop the episode of a session."""
        self._episodes.pop(session.slot, None)

    def start(self, sessions: Sequence[Session]) -> Sequence[None]:
        """Start the tasks of the sessions' seeds."""
        for session in sessions:
            self._episodes[session.slot] = agentgym.begin(agentgym.task_of(session.seed))
            session.text, session.number = self.observation(session), 0
        return [None] * len(sessions)

    def step(self, sessions: Sequence[Session], actions: Sequence[str]) -> list[TurnResult | RequestError]:
        """Do one action in each of several different sessions; return the error of each session that has no episode."""
        episodes = [self._episodes.get(session.slot) for session in sessions]
        pairs = zip(episodes, actions, strict=True)
        playing = [(each, action) for each, action in pairs if each is not None and not each.has_ended]
        errors = [_error_of(session, each) for session, each in zip(sessions, episodes, strict=True)]
        agentgym.play([episode for episode, _ in playing], [action for _, action in playing])
        results = (_result_of(episode) for episode, _ in playing)
        return [next(results) if error is None else error for error in errors]

    def observation(self, session: Session) -> str:
        """Return the goal and the last observation of a session with an episode."""
        episode = self._episodes[session.slot]
        return episode.goal + episode.observation

    def frame(self, session: Session) -> np.ndarray:
        """Return the frame of the whole grid, uint8 (32 · H, 32 · W, 3); the first call of each size compiles."""
        return np.asarray(_draw(agentgym.world_of(self._episodes[session.slot]), _TILE_PX))


def _error_of(session: Session, episode: agentgym.AgentGymEpisode | None) -> RequestError | None:
    if episode is None:
        return RequestError("expected an environment with a task, got one without a task. Call /reset.")
    return RequestError(f"The task with environment {session.slot} has finished.") if episode.has_ended else None


def _result_of(episode: agentgym.AgentGymEpisode) -> TurnResult:
    text, number, has_ended = episode.observation, episode.number, episode.has_ended
    return TurnResult(text, episode.reward, has_ended, False, number, None, {}, episode.score, has_ended, {})


class BabyAIPool(SessionPool):
    """Session pool of AgentGym's BabyAI, whose seeds are the numbers of tasks."""

    num_seeds = agentgym.NUM_TASKS

    def __init__(self, capacity: int, idle_seconds: float | None):
        """Make an empty pool; see `SessionPool`."""
        super().__init__(capacity, idle_seconds)
        self.game = BabyAIGame()
        self._games: Any = self.game


class BabyAIWrapper(AgentGymWrapper):
    """BabyAI with the responses of AgentGym's own server.

    The task of an index is level `index % 40` with seed `index // 40`. A step before the first reset, or after the end
    of an episode, is an error.
    """

    title = "BabyAI"

    def __init__(self, name: str, pool: SessionPool, options: Mapping[str, Any] | None = None):
        """Make a wrapper with as many sessions as the pool.

        Raises:
            OptionError: If there are options.
        """
        if options:
            raise OptionError(f"{NAME}: expected no options, got {', '.join(options)}. Leave them out.")
        super().__init__(name, BabyAIPool(pool.capacity, pool.idle_seconds))

    @staticmethod
    def names_of(name: str) -> tuple[str, str]:
        """Return the name as id and as short name."""
        return name, name

    @property
    def hosted(self) -> None:
        """None: the page does not show these environments."""

    async def reset(self, owner: str | None, id: int, data_idx: int) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start a task, which AgentGym's server requires."""
        return await super().reset(owner, id, data_idx)

    async def observe(self, owner: str | None, id: int) -> Any:
        """Return the goal and the last observation."""
        running = self._find(owner, id)
        if not running.last:
            return self.reset_answer(id, {"observation": _NOT_STARTED, "reward": 0, "score": 0, "done": False})
        if running.last["done"]:
            raise RequestError(f"The task with environment {id} has finished.")
        session: Any = self._pool.look(running.key)
        return self.reset_answer(id, {**running.last, "observation": session.game.observation(session)})

    def close_answer(self, error: SessionError | None) -> Any:
        """Return whether an environment was open."""
        return error is None

    def reset_answer(self, number: int, last: dict[str, Any]) -> Any:
        """Return the response of a reset."""
        return {**last, "deleted": False}

    async def _started(self, owner: str | None, number: int) -> AgentGymSession:
        """Return an environment with a task."""
        running = self._find(owner, number)
        if not running.last:
            raise RequestError(f"Environment {number} has no task yet. Call /reset first.")
        return running
