"""A game for the tests of sessions: a corridor with a pit at its left end and a goal at its right end.

    P . . A . G      pit 0, agent 3, goal 5: "right" twice wins the bonus, "left" three times ends in the pit

Its text interface has all features: several actions per reply, a lenient form, a fallback, a reward tracker.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

import jaxgym
from jaxgym import text
from jaxgym.environment import Environment, EnvParams, EnvState, Transition
from jaxgym.options import Flag, Integer, Real, Static, static, traced
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.pool.session import Session

LEFT, STAY, RIGHT = range(3)
NAMES = ("left", "stay", "right")


@struct.dataclass
class Level:
    start: jax.Array
    goal: jax.Array


@struct.dataclass
class State(EnvState):
    position: jax.Array
    key: jax.Array


@struct.dataclass
class Params(EnvParams):
    bonus: jax.Array = traced(Real(1.0, "reward at the goal"))
    length: jax.Array = traced(Integer(8, "cells", low=3, high=8))


@struct.dataclass
class Scene:
    position: jax.Array
    cells: jax.Array
    is_won: jax.Array


@dataclasses.dataclass(unsafe_hash=True)
class Corridor(Environment[Level, State, Params, Scene]):
    longest: int = static(Static(8, "cells of the image", low=3, high=16))

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        goal = jnp.asarray(params.length, jnp.int32) - 1
        return Level(start=jax.random.randint(key, (), 1, goal), goal=goal)

    def initial_state(self, level: Level, params: Params) -> State:
        del params
        return State(level=level, position=level.start, key=jax.random.key(1))

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        position = jnp.clip(state.position + action - 1, 0, state.level.goal)
        is_won = position == state.level.goal
        return Transition(
            state=dataclasses.replace(state, position=position),
            reward=jnp.where(is_won, jnp.asarray(params.bonus, jnp.float32), 0.0),
            terminated=is_won | (position == 0),
            metrics={"success": is_won, "position": position},
        )

    def scene(self, state: State, params: Params) -> Scene:
        del params
        cells = jnp.arange(self.longest).astype(jnp.int8)
        return Scene(
            position=state.position.astype(jnp.int8),
            cells=jnp.where(cells == state.position.astype(jnp.int8), jnp.int8(1), jnp.int8(0)),
            is_won=state.position == state.level.goal,
        )

    def observe_scene(self, scene: Scene) -> jax.Array:
        return jnp.broadcast_to(scene.position.astype(jnp.uint8), (84, 84, 3))

    def action_space(self, params: Params | None = None) -> jaxgym.spaces.Discrete:
        del params
        return jaxgym.spaces.Discrete(3)


class Diary(text.RewardTracker):
    def __init__(self) -> None:
        self._seen: set[int] = set()

    def components(self, turn: text.Turn[Scene]) -> dict[str, float]:
        position = int(turn.scene.position)
        is_news = position not in self._seen
        self._seen.add(position)
        return {"environment": turn.reward, "news": 0.5 if is_news else 0.0}


@dataclasses.dataclass(frozen=True)
class CorridorTextInterface(text.TextInterface[Scene]):
    shouts: bool
    has_diary: bool = False

    @property
    def max_actions(self) -> int:
        return 3

    def system_prompt(self, params: Params) -> str:
        return f"Reach the goal of {int(params.length)} cells: <left>, <stay>, <right>, or several of them."

    def describe(self, scene: Scene, params: Params) -> str:
        cells = "".join(".A"[cell] for cell in scene.cells[: int(params.length)])
        return f"{cells} won" if scene.is_won else cells

    def parse(self, reply: str) -> text.ParsedAction | text.InvalidReply:
        names = reply.strip("<>").split()
        if reply == "look":
            return text.ParsedAction((), "look")
        if not names or not set(names) <= set(NAMES):
            return text.InvalidReply("Say left, stay or right.")
        return text.ParsedAction(tuple(NAMES.index(word) for word in names), " ".join(names), reply.startswith("<"))

    def fallback(self) -> text.ParsedAction:
        return text.ParsedAction((STAY,), "stay")

    def respond(self, turn: text.Turn[Scene], params: Params) -> str:
        answer = f"{turn.number}: {super().respond(turn, params)}"
        return answer.upper() if self.shouts else answer


@dataclasses.dataclass(frozen=True)
class RecordingTextInterface(CorridorTextInterface):
    def reward_tracker(self, scene: Scene, params: Params) -> Diary:
        del scene, params
        return Diary()


def _interface(env: Corridor, values: Mapping[str, Any]) -> CorridorTextInterface:
    return (RecordingTextInterface if values["diary"] else CorridorTextInterface)(env.env_id, shouts=values["shouts"])


def register() -> None:
    """Register the game and its text interface, once."""
    if "Corridor-v0" in jaxgym.registered_envs():
        return
    flags = {"shouts": Flag(False, "in capitals"), "diary": Flag(False, "pays news")}
    jaxgym.register("Corridor-v0", jaxgym.Spec(Corridor, Params, text=text.TextSpec(_interface, flags)))


def looked(pool: SessionPool, session_id: str) -> Session:
    """Return an open session."""
    session = pool.look(session_id)
    assert session is not None
    return session


def scene_of(pool: SessionPool, session_id: str) -> Any:
    """Return the scene of an open session."""
    session = looked(pool, session_id)
    return session.game.scene(session)
