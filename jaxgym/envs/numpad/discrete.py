"""Numpad with a ball that moves from pad to pad: find a hidden sequence of pads by trial, and repeat it from memory.

Source: `Numpad2DDiscrete` of MIKASA-Base (after Humplik et al., 2019), with the same rules, rewards and observations.
Differences: the end after 500 steps is a truncation, and actions that are no directions are allowed.
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
from jaxgym.environment import Environment, EnvParams, EnvState, Transition
from jaxgym.envs.common.valid_levels import within
from jaxgym.envs.numpad import pads
from jaxgym.envs.numpad.pads import LARGEST, SMALLEST, SequenceProgress
from jaxgym.envs.numpad.scene import Scene, draw
from jaxgym.errors import OptionError
from jaxgym.options import OBSERVATION, Integer, static
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Discrete, frames_or_symbols


class PadMove(enum.IntEnum):
    """Directions of a move."""

    UP = 0
    RIGHT = 1
    DOWN = 2
    LEFT = 3


MOVES = np.asarray([[-1, 0], [0, 1], [1, 0], [0, -1]], np.int32)
"""Change of row and column by each direction."""

SIZE = Integer(3, "rows and columns of pads", low=SMALLEST, high=LARGEST)
LENGTH = Integer(4, "number of pads in the sequence", low=1, high=LARGEST**2)


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        sequence: Pads in order, int32 (`seq_len`,); a pad has the number row · k + column.
        start: Row and column of the ball, int32 (2,).
    """

    sequence: jax.Array
    start: jax.Array


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        ball: Row and column of the ball, int32 (2,).
        progress: Progress through the sequence.
    """

    ball: jax.Array
    progress: SequenceProgress


@dataclasses.dataclass(unsafe_hash=True)
class Numpad(Environment[Level, State, EnvParams, Scene]):
    """Numpad with a ball that moves from pad to pad.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (2 k²,): first 1 for each lit pad, then 1
        for the ball's pad, row by row.
    Action:
        0 up, 1 right, 2 down, 3 left. A move off the pads leaves the ball on its pad, which counts as pressing it.
    Start:
        On a random pad in the row or the column of the first pad of the sequence. All lights are off.
    Reward:
        1 for each correct pad, but only once per pad until the sequence is completed.
    End:
        Truncated after `max_steps`, 500.
    Info:
        `reward` and `length` so far, `success` (1 once the sequence was completed), `completed` (how often).
    Versions:
        v0: as in MIKASA-Base of February 2025.
    """

    numpad_size: int = static(SIZE)
    seq_len: int = static(LENGTH)
    observation: str = static(OBSERVATION)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return no further fields.

        Raises:
            OptionError: If the sequence has more pads than there are.
        """
        check_length(env_id, values)
        return {}

    def action_space(self, params: EnvParams | None = None) -> Discrete:
        """Return the space of the four directions."""
        return Discrete(len(PadMove))

    def observation_space(self, params: EnvParams | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        return frames_or_symbols(self, params)

    def sample_level(self, key: jax.Array, params: EnvParams) -> Level:
        """Sample the sequence and the start."""
        key_sequence, key_start = jax.random.split(key)
        sequence = pads.sample_sequence(key_sequence, self.numpad_size, self.seq_len)
        row, column = sequence[0] // self.numpad_size, sequence[0] % self.numpad_size
        # The 2 k - 1 pads of its row and its column are equally likely.
        number = jax.random.randint(key_start, (), 0, 2 * self.numpad_size - 1, jnp.int32)
        other_row = number - self.numpad_size
        other_row = jnp.where(other_row >= row, other_row + 1, other_row)
        is_in_row = number < self.numpad_size
        start = jnp.stack([jnp.where(is_in_row, row, other_row), jnp.where(is_in_row, number, column)])
        return Level(sequence=sequence, start=start.astype(jnp.int32))

    def initial_state(self, level: Level, params: EnvParams) -> State:
        """Place the ball; the pad below it is not pressed."""
        return State(level=level, ball=level.start, progress=SequenceProgress.at_start(self.numpad_size**2))

    def transition(self, state: State, action: jax.Array, params: EnvParams) -> Transition:
        """Move the ball and press the pad."""
        is_move = (action >= 0) & (action < len(PadMove))
        step = jnp.where(is_move, jnp.asarray(MOVES)[jnp.clip(action, 0, len(PadMove) - 1)], 0)
        ball = jnp.clip(state.ball + step, 0, self.numpad_size - 1)
        pad, sequence = ball[0] * self.numpad_size + ball[1], state.level.sequence
        before = state.progress
        is_next = pad == sequence[before.count]
        # A wrong pad clears the lights, and counts as the first pad of a new try.
        count = jnp.where(is_next, before.count, 0)
        before = dataclasses.replace(before, lights=before.lights & is_next, count=count)
        pressed, is_rewarded = pads.press(before, pad)
        is_pressed = pad == sequence[count]
        progress = jax.tree.map(lambda new, old: jnp.where(is_pressed, new, old), pressed, before)
        is_complete = is_pressed & (progress.best == self.seq_len - 1)
        after = dataclasses.replace(state, ball=ball, progress=pads.complete(progress, is_complete))
        reward = jnp.where(is_pressed & is_rewarded, 1.0, 0.0).astype(jnp.float32)
        return Transition(after, reward, jnp.zeros((), bool), metrics_of(state.episode_return + reward, self.seq_len))

    def scene(self, state: State, params: EnvParams) -> Scene:
        """Return the lights and the ball's pad."""
        shown = pads.sequence_lights(state.level.sequence, self.numpad_size**2) & state.progress.has_completed
        return Scene(lights=state.progress.lights | shown, ball=state.ball)

    def hidden(self, state: State, params: EnvParams) -> facts.Facts:
        """Return the sequence, and the next pad of it."""
        return pads.hidden(state.level.sequence, state.progress.count, self.numpad_size)

    def visible(self, scene: Scene) -> Scene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: Scene) -> jax.Array:
        """Return the frame or the symbols."""
        if self.observation != "symbolic":
            return draw(scene)
        pad = scene.ball[0] * self.numpad_size + scene.ball[1]
        is_ball = np.arange(self.numpad_size**2, dtype=np.int32) == pad
        return jnp.concatenate([scene.lights, is_ball]).astype(jnp.float32)


def check_length(env_id: str, values: Mapping[str, Any]) -> None:
    """Check that the pads suffice for the sequence.

    Raises:
        OptionError: If they do not.
    """
    most = values["numpad_size"] ** 2
    if values["seq_len"] > most:
        raise OptionError(
            f"{env_id}: seq_len: expected at most {most} for numpad_size={values['numpad_size']}, got "
            f"{values['seq_len']}. Choose a shorter sequence or more pads."
        )


def metrics_of(pressed: jax.Array, length: int) -> dict[str, jax.Array]:
    """Return the entries of `info`, given the number of rewarded pads so far."""
    completed = pressed.astype(jnp.int32) // length
    return {"success": (completed > 0).astype(jnp.int32), "completed": completed}


def expert_action(env: Numpad, state: State, _: EnvParams) -> jax.Array:
    """Return a move to the next pad of the sequence, int32 (); from the first pad itself, away from it and back."""
    target = state.level.sequence[state.progress.count]
    row, column = target // env.numpad_size - state.ball[0], target % env.numpad_size - state.ball[1]
    vertical = jnp.where(row < 0, PadMove.UP, PadMove.DOWN)
    horizontal = jnp.where(column < 0, PadMove.LEFT, PadMove.RIGHT)
    move = jnp.where(row != 0, vertical, horizontal)
    # A move into the border presses the pad where the ball is, if the target is a corner or at a border.
    at = state.ball
    into = jnp.where(
        at[0] == 0,
        PadMove.UP,
        jnp.where(at[1] == 0, PadMove.LEFT, jnp.where(at[0] == env.numpad_size - 1, PadMove.DOWN, PadMove.RIGHT)),
    )
    return jnp.where((row == 0) & (column == 0), into, move).astype(jnp.int32)


def view(env: Numpad, state: State, params: EnvParams) -> jax.Array:
    """Return the frame with the order of the sequence, enlarged four times, uint8 (336, 336, 3)."""
    return enlarged(draw(env.scene(state, params), sequence=state.level.sequence))


def valid_levels(env: Numpad, buffer: Level, _: EnvParams) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    size = env.numpad_size
    sequences, starts = np.asarray(buffer.sequence), np.asarray(buffer.start)
    first = np.stack([sequences[:, 0] // size, sequences[:, 0] % size], axis=1)
    return {
        "sequence": pads.is_sequence(sequences, size),
        "start": within(starts, 0, size - 1) & (starts == first).any(axis=1),
    }
