"""Endless T-Maze: corridor after corridor, each with a cue at its start that says where to turn at its end.

The agent sees the cue at the start of a corridor only. The correct turn at the end leads to the next corridor, whose
cue replaces the old one. With `is_uniform`, the lengths of corridors differ, and nothing shows their ends.

Source: the public code of Adaptive-Memory-Envs of July 2025 (`variant="code"`), with the same rules, rewards and
observations. The paper (arXiv 2601.15086) describes other rewards (`variant="paper"`); whether a wrong turn ends an
episode there is not published, and it does here.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.common.valid_levels import within
from jaxgym.envs.t_maze import scene as t_maze
from jaxgym.errors import OptionError
from jaxgym.options import OBSERVATION, Flag, Integer, OneOf, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Discrete, frames_or_symbols

LONGEST = 10**6
MOST_CORRIDORS = 1024
LEFT_CUE, RIGHT_CUE = -1, 1

TURN_REWARD = 1.0
PENALTY = -0.01


class MazeTurn(enum.IntEnum):
    """Actions."""

    FORWARD = 0
    LEFT = 1
    RIGHT = 2


WRONG_TURN_REWARDS = {"code": PENALTY, "paper": -1.0}
"""Reward of an action at the end of a corridor that is not the correct turn, by variant."""

FORWARD_REWARDS = {"code": 0.0, "paper": PENALTY}
"""Reward of a move forward in a corridor, by variant."""


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        cues: Cue of each corridor, -1 for left and 1 for right, int8 (n,).
        lengths: Squares from the start to the end of each corridor, int32 (n,).
    """

    cues: jax.Array
    lengths: jax.Array


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        corridor: Index of the corridor, int32 ().
        x: Square in the corridor, from 0, int32 ().
    """

    corridor: jax.Array = starts_at(0)
    x: jax.Array = starts_at(0)


@struct.dataclass
class Params(EnvParams):
    """The traced options."""

    max_length: jax.Array = traced(Integer(10, "largest length of a corridor", low=1, high=LONGEST))
    min_length: jax.Array = traced(Integer(1, "smallest length of a corridor, if `is_uniform`", low=1, high=LONGEST))
    is_uniform: jax.Array = traced(
        Flag(False, "sample the length of each corridor from `min_length` to `max_length`, else it is `max_length`")
    )


@struct.dataclass
class Scene:
    """Scene of the Endless T-Maze.

    Attributes:
        x: Square in the corridor, int32 ().
        cue: The cue at x = 0, else 0, int32 ().
        max_length: The option, int32 ().
    """

    x: jax.Array
    cue: jax.Array
    max_length: jax.Array


@dataclasses.dataclass(unsafe_hash=True)
class EndlessTMaze(Environment[Level, State, Params, Scene]):
    """Endless T-Maze.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (3,): x / `max_length`; at x = 0, 1 if the
        cue is left; at x = 0, 1 if the cue is right; else 0.
    Action:
        0 forward, 1 left, 2 right. In a corridor, a turn moves nothing.
    Start:
        At the start of the first corridor.
    Reward:
        1 for the correct turn at the end of a corridor. In the variant "code", -0.01 for any other action there, and
        -0.01 for a turn in a corridor. In the variant "paper", -1 for any other action at the end, and -0.01 for each
        action in a corridor.
    End:
        Terminated by the correct turn at the end of the last corridor, and by any other action at the end of a
        corridor. Truncated after `max_steps`, 330.
    Info:
        `reward` and `length` so far, `success` (1 after the last corridor), `corridors_completed`.
    Versions:
        v0: as in the public code of July 2025.
    """

    num_corridors: int = static(Integer(5, "number n of corridors", low=1, high=MOST_CORRIDORS))
    variant: str = static(OneOf("code", "rewards of the public code or of the paper", values=("code", "paper")))
    observation: str = static(OBSERVATION)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return no further fields.

        Raises:
            OptionError: If the smallest length is above the largest one.
        """
        if values["is_uniform"] and values["min_length"] > values["max_length"]:
            raise OptionError(
                f"{env_id}: min_length: expected at most max_length={values['max_length']}, got "
                f"{values['min_length']}. Reduce it."
            )
        return {}

    def action_space(self, params: Params | None = None) -> Discrete:
        """Return the space of forward, left and right."""
        return Discrete(len(MazeTurn))

    def observation_space(self, params: Params | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        return frames_or_symbols(self, params)

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample the cues and the lengths."""
        key_cues, key_lengths = jax.random.split(key)
        cues = 2 * jax.random.randint(key_cues, (self.num_corridors,), 0, 2, jnp.int32) - 1
        lowest = jnp.where(params.is_uniform, params.min_length, params.max_length)
        lengths = jax.random.randint(key_lengths, (self.num_corridors,), lowest, params.max_length + 1, jnp.int32)
        return Level(cues=cues.astype(jnp.int8), lengths=lengths)

    def initial_state(self, level: Level, params: Params) -> State:
        """Place the agent at the start of the first corridor."""
        return State(level=level)

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Move forward in a corridor, or turn at its end; numbers that are no action do nothing."""
        level, is_action = state.level, (action >= 0) & (action < len(MazeTurn))
        is_at_end = state.x >= level.lengths[state.corridor]
        turn = jnp.where(level.cues[state.corridor] < 0, MazeTurn.LEFT, MazeTurn.RIGHT)
        is_forward = action == int(MazeTurn.FORWARD)
        is_correct = is_at_end & (action == turn)
        is_wrong = is_at_end & is_action & ~is_correct
        is_last = state.corridor == self.num_corridors - 1
        is_success = is_correct & is_last
        in_corridor = jnp.where(is_forward, FORWARD_REWARDS[self.variant], PENALTY)
        at_end = jnp.where(is_correct, TURN_REWARD, WRONG_TURN_REWARDS[self.variant])
        reward = jnp.where(is_action, jnp.where(is_at_end, at_end, in_corridor), 0.0)
        moves_on = is_correct & ~is_last
        x = jnp.where(is_forward & ~is_at_end, state.x + 1, jnp.where(moves_on, 0, state.x))
        corridor = jnp.where(moves_on, state.corridor + 1, state.corridor)
        after = dataclasses.replace(state, corridor=corridor.astype(jnp.int32), x=x.astype(jnp.int32))
        metrics = {
            "success": is_success.astype(jnp.int32),
            "corridors_completed": jnp.where(is_success, corridor + 1, corridor).astype(jnp.int32),
        }
        return Transition(after, reward.astype(jnp.float32), is_success | is_wrong, metrics)

    def scene(self, state: State, params: Params) -> Scene:
        """Return the place, and the cue at the start of a corridor."""
        cue = jnp.where(state.x == 0, state.level.cues[state.corridor], 0)
        return Scene(x=state.x, cue=cue.astype(jnp.int32), max_length=jnp.asarray(params.max_length, jnp.int32))

    def hidden(self, state: State, params: Params) -> facts.Facts:
        """Return the cue of the corridor, and whether the agent is at its end."""
        level, corridor = state.level, state.corridor
        return {
            "cue": facts.Fact((level.cues[corridor] == RIGHT_CUE).astype(jnp.int32), 2, ("left", "right")),
            "end": facts.flags(state.x >= level.lengths[corridor]),
        }

    def visible(self, scene: Scene) -> Scene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: Scene) -> jax.Array:
        """Return the frame or the symbols."""
        if self.observation != "symbolic":
            return draw(scene.x, scene.cue)
        place = scene.x.astype(jnp.float32) / scene.max_length.astype(jnp.float32)
        cues = [(scene.cue == cue).astype(jnp.float32) for cue in (LEFT_CUE, RIGHT_CUE)]
        return jnp.stack([place, *cues])

    def normalized_return(self, info: Mapping[str, jax.Array], state: State, params: Params) -> jax.Array:
        """Return the share of corridors that were completed, float32 ()."""
        return info["corridors_completed"] / np.float32(self.num_corridors)


def draw(x: jax.Array, cue: jax.Array) -> jax.Array:
    """Return the frame, uint8 (84, 84, 3): x as a binary number, and a triangle that points up for left."""
    nothing = jnp.int32(0)
    return t_maze.draw(t_maze.Scene(x, nothing, -cue, nothing, nothing, nothing), is_ambiguous=False)


def expert_action(_: EndlessTMaze, state: State, params: Params) -> jax.Array:
    """Return forward in a corridor, and the correct turn at its end; int32 ()."""
    del params
    turn = jnp.where(state.level.cues[state.corridor] < 0, MazeTurn.LEFT, MazeTurn.RIGHT)
    is_at_end = state.x >= state.level.lengths[state.corridor]
    return jnp.where(is_at_end, turn, int(MazeTurn.FORWARD)).astype(jnp.int32)


def view(_: EndlessTMaze, state: State, params: Params) -> jax.Array:
    """Return the frame with the cue, enlarged four times, uint8 (336, 336, 3)."""
    del params
    return enlarged(draw(state.x, state.level.cues[state.corridor].astype(jnp.int32)))


def valid_levels(_: EndlessTMaze, buffer: Level, params: Params) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    longest = int(params.max_length)
    lowest = int(params.min_length) if bool(params.is_uniform) else longest
    return {"cues": within(np.abs(buffer.cues), 1, 1), "lengths": within(buffer.lengths, lowest, longest)}
