"""T-Maze, the smallest memory task: a signal at the start gives the direction to turn at the end of a corridor.

It represents the small symbolic environments that users write: a step costs about as much as its six numbers.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

import jaxgym
from jaxgym.spaces import Box, Discrete

LENGTH = 10
FORWARD, UP, DOWN = range(3)


@struct.dataclass
class Level:
    """Level of an episode: the way to turn, 0 for up and 1 for down, int32 ()."""

    way: jax.Array


@struct.dataclass
class State(jaxgym.EnvState):
    """The place along the corridor, int32 (), and the turn at its end, -1 before it, int32 ()."""

    place: jax.Array
    turn: jax.Array


@struct.dataclass
class Scene:
    """The place along the corridor, and the signal: 0 and 1 at the start, -1 later."""

    place: jax.Array
    signal: jax.Array


@dataclasses.dataclass(unsafe_hash=True)
class TMaze(jaxgym.Environment[Level, State, jaxgym.EnvParams, Scene]):
    """Walk along a corridor, and turn as the signal said."""

    def action_space(self, params: Any = None) -> Discrete:
        del params
        return Discrete(3)

    def observation_space(self, params: Any = None) -> Box:
        del params
        return Box(low=0.0, high=1.0, shape=(6,), dtype=jnp.float32)

    def sample_level(self, key: jax.Array, params: Any) -> Level:
        del params
        return Level(way=jax.random.randint(key, (), 0, 2))

    def initial_state(self, level: Level, params: Any) -> State:
        del params
        return State(level=level, place=jnp.int32(0), turn=jnp.int32(-1))

    def transition(self, state: State, action: jax.Array, params: Any) -> jaxgym.Transition:
        del params
        is_at_end = state.place == LENGTH
        has_turned = is_at_end & (action != FORWARD)
        turn = jnp.where(has_turned, action - UP, state.turn)
        is_right = has_turned & (turn == state.level.way)
        place = jnp.where((action == FORWARD) & ~is_at_end, state.place + 1, state.place)
        reward = jnp.where(is_right, 1.0, jnp.where(has_turned, -1.0, 0.0)).astype(jnp.float32)
        state = dataclasses.replace(state, place=place, turn=turn)
        return jaxgym.Transition(state, reward, has_turned, {"success": is_right.astype(jnp.int32)})

    def scene(self, state: State, params: Any) -> Scene:
        del params
        return Scene(place=state.place, signal=jnp.where(state.place == 0, state.level.way, -1))

    def observe_scene(self, scene: Scene) -> jax.Array:
        seen = (
            scene.signal == 0,
            scene.signal == 1,
            scene.place == 0,
            scene.place == LENGTH,
            (scene.place > 0) & (scene.place < LENGTH),
        )
        share = scene.place.astype(jnp.float32) / LENGTH
        return jnp.stack([*(each.astype(jnp.float32) for each in seen), share])


def t_maze() -> TMaze:
    """Return the environment without a time limit."""
    return TMaze("TMaze-v0", jaxgym.EnvParams())
