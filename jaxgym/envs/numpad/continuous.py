"""Numpad with a ball that rolls: accelerate it to the pads of a hidden sequence, and repeat the sequence from memory.

Source: `Numpad2DContinuousDiscreteActions` of MIKASA-Base (after Humplik et al., 2019), with the same rules, rewards
and observations, including these peculiarities:

- Only the acceleration is limited, and not the velocity.
- Pads are drawn one pixel wider than they are.
- The step that completes the sequence does not record its pad as the last one, so the pad counts again in the next
  step.

The original computes with 64 bits. Here, a level whose start has 64 bits (with `jax_enable_x64`) does so, too.
Differences: the end after 200 steps is a truncation, and actions that are no directions leave the velocity unchanged.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.common.valid_levels import within
from jaxgym.envs.numpad import pads
from jaxgym.envs.numpad.discrete import LENGTH, SIZE, check_length, metrics_of
from jaxgym.envs.numpad.pads import NO_PAD, SequenceProgress
from jaxgym.envs.numpad.picture import PadBoard, RollingScene, draw
from jaxgym.options import OBSERVATION, Integer, Real, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Discrete, frames_or_symbols

PUSHES = {
    "up": (-1, 0),
    "right": (0, 1),
    "down": (1, 0),
    "left": (0, -1),
    "up-right": (-1, 1),
    "down-right": (1, 1),
    "up-left": (-1, -1),
    "down-left": (1, -1),
}
"""Acceleration (row, column) of each action, in the order of the actions."""

_PUSHES = np.asarray(list(PUSHES.values()), np.int32)
_EXPERT_GAIN, _EXPERT_SPEED = 0.4, 3.0


@struct.dataclass
class RollingLevel:
    """Sampled parts of an episode.

    Attributes:
        sequence: Pads in order, int32 (`seq_len`,); a pad has the number row · k + column.
        start: Row and column of the ball in px, a float (2,).
        is_cued: Whether the light of each pad of the sequence is on before the first step, bool (`seq_len`,).
    """

    sequence: jax.Array
    start: jax.Array
    is_cued: jax.Array


@struct.dataclass
class RollingState(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        position: Row and column of the ball in px, a float (2,).
        velocity: In px per step, a float (2,).
        progress: Progress through the sequence.
        last_pad: The pad below the ball after the last step, `NO_PAD` in a gap, int32 ().
    """

    position: jax.Array
    velocity: jax.Array
    progress: SequenceProgress
    last_pad: jax.Array = starts_at(NO_PAD)


@struct.dataclass
class RollingParams(EnvParams):
    """The traced options."""

    task_cue_threshold: jax.Array = traced(
        Real(
            1.0,
            "each pad of the sequence is lit before the first step with probability 1 - `task_cue_threshold`",
            low=0.0,
            high=1.0,
        )
    )


@dataclasses.dataclass(unsafe_hash=True)
class RollingNumpad(Environment[RollingLevel, RollingState, RollingParams, RollingScene]):
    """Numpad with a ball that rolls.

    Observation:
        uint8 (s, s, 3), row first, with s = k · (`tile_size` + 2 · `spacing_size`), by default 60; with
        `observation="symbolic"` float32 (4 + k²,): position / s, velocity / (`tile_size` / 2), and 1 for each lit pad.
    Action:
        Acceleration by `tile_size` / 10: 0 up, 1 right, 2 down, 3 left, 4 up and right, 5 down and right, 6 up and
        left, 7 down and left.
    Start:
        At a random place that is not on the first pad of the sequence, at rest. All lights are off.
    Reward:
        1 for each correct pad, but only once per pad until the sequence is completed.
    End:
        Truncated after `max_steps`, 200.
    Info:
        `reward` and `length` so far, `success` (1 once the sequence was completed), `completed` (how often).
    Versions:
        v0: as in MIKASA-Base of February 2025.
    """

    numpad_size: int = static(SIZE)
    seq_len: int = static(LENGTH)
    tile_size: int = static(Integer(10, "width of a pad in px", low=2, high=40))
    spacing_size: int = static(Integer(5, "width of the gap at each side of a pad in px", low=1, high=40))
    ball_size: int = static(Integer(5, "width of the ball in px, for frames", low=1, high=40))
    observation: str = static(OBSERVATION)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return no further fields.

        Raises:
            OptionError: If the sequence has more pads than there are.
        """
        check_length(env_id, values)
        return {}

    @property
    def board(self) -> PadBoard:
        """The places of the pads."""
        return PadBoard(self.numpad_size, self.tile_size, self.spacing_size, self.ball_size)

    def action_space(self, params: RollingParams | None = None) -> Discrete:
        """Return the space of the eight directions."""
        return Discrete(len(PUSHES))

    def observation_space(self, params: RollingParams | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        side = self.board.side
        if self.observation != "symbolic":
            return Box(low=0, high=255, shape=(side, side, 3), dtype=jnp.uint8)
        return frames_or_symbols(self, params, low=-float(side), high=float(side))

    def sample_level(self, key: jax.Array, params: RollingParams) -> RollingLevel:
        """Sample the sequence, the start and the cues."""
        key_sequence, key_start, key_cues = jax.random.split(key, 3)
        sequence = pads.sample_sequence(key_sequence, self.numpad_size, self.seq_len)

        def again(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            key, key_place = jax.random.split(carry[0])
            return key, jax.random.uniform(key_place, (2,), jnp.float32) * self.board.side

        def is_on_first(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
            return self.board.pad_at(carry[1]) == sequence[0]

        start = jax.lax.while_loop(is_on_first, again, again((key_start, jnp.zeros(2, jnp.float32))))[1]
        is_cued = jax.random.uniform(key_cues, (self.seq_len,), jnp.float32) >= params.task_cue_threshold
        return RollingLevel(sequence=sequence, start=start, is_cued=is_cued)

    def initial_state(self, level: RollingLevel, params: RollingParams) -> RollingState:
        """Place the ball, and light the cues."""
        progress = SequenceProgress.at_start(self.numpad_size**2)
        is_lit = (np.arange(self.numpad_size**2, dtype=np.int32)[:, None] == level.sequence[None]) & level.is_cued[None]
        start = jnp.asarray(level.start)
        return RollingState(
            level=level,
            position=start,
            velocity=jnp.zeros_like(start),
            progress=dataclasses.replace(progress, lights=is_lit.any(axis=1)),
        )

    def transition(self, state: RollingState, action: jax.Array, params: RollingParams) -> Transition:
        """Accelerate the ball and press the pad that it reaches."""
        is_push = (action >= 0) & (action < len(PUSHES))
        push = jnp.where(is_push, jnp.asarray(_PUSHES)[jnp.clip(action, 0, len(PUSHES) - 1)], 0)
        return self.roll(state, push.astype(state.position.dtype))

    def roll(self, state: RollingState, push: jax.Array) -> Transition:
        """Accelerate the ball by `push` times a tenth of a pad, a float (2,), and press the pad that it reaches."""
        fastest = self.tile_size / 2
        velocity = state.velocity + jnp.clip(push * (self.tile_size / 10), -fastest, fastest)
        end = float(self.board.side - 1)
        position = jnp.clip(state.position + velocity, 0.0, end)
        velocity = jnp.where((position == 0.0) | (position == end), 0.0, velocity)

        pad, sequence, before = self.board.pad_at(position), state.level.sequence, state.progress
        before = dataclasses.replace(before, lights=before.lights & (state.time > 1))  # the first step ends the cues
        is_new = (pad != NO_PAD) & (pad != state.last_pad)
        is_next = is_new & (pad == sequence[before.count])
        is_wrong = is_new & ~is_next
        pressed, is_rewarded = pads.press(before, pad)
        missed = dataclasses.replace(
            before, lights=before.lights & ~is_wrong, count=jnp.where(is_wrong, 0, before.count)
        )
        progress = jax.tree.map(lambda new, old: jnp.where(is_next, new, old), pressed, missed)
        is_complete = is_next & (progress.count == self.seq_len)
        after = dataclasses.replace(
            state,
            position=position,
            velocity=velocity,
            progress=pads.complete(progress, is_complete),
            last_pad=jnp.where(is_complete, state.last_pad, pad).astype(jnp.int32),
        )
        reward = jnp.where(is_next & is_rewarded, 1.0, 0.0).astype(jnp.float32)
        return Transition(after, reward, jnp.zeros((), bool), metrics_of(state.episode_return + reward, self.seq_len))

    def scene(self, state: RollingState, params: RollingParams) -> RollingScene:
        """Return the ball and the lights."""
        shown = pads.sequence_lights(state.level.sequence, self.numpad_size**2) & state.progress.has_completed
        numbers = jnp.concatenate([state.position, state.velocity])
        units = np.repeat([self.board.side, self.tile_size / 2], 2).astype(numbers.dtype)
        # For a constant or broadcast divisor, XLA multiplies by its inverse, which rounds differently.
        normalized = numbers / (units + 0.0 * numbers)
        return RollingScene(state.position, state.velocity, normalized, state.progress.lights | shown)

    def hidden(self, state: RollingState, params: RollingParams) -> facts.Facts:
        """Return the sequence, and the next pad of it."""
        return pads.hidden(state.level.sequence, state.progress.count, self.numpad_size)

    def visible(self, scene: RollingScene) -> RollingScene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: RollingScene) -> jax.Array:
        """Return the frame or the symbols."""
        if self.observation != "symbolic":
            return draw(scene, self.board)
        return jnp.concatenate([scene.normalized, scene.lights.astype(scene.normalized.dtype)])


def expert_action(env: RollingNumpad, state: RollingState, _: RollingParams) -> jax.Array:
    """Return the push toward the next pad of the sequence, int32 ()."""
    target = env.board.center_of(state.level.sequence[state.progress.count]).astype(state.position.dtype)
    wanted = jnp.clip(_EXPERT_GAIN * (target - state.position), -_EXPERT_SPEED, _EXPERT_SPEED)
    reached = state.velocity[None] + jnp.asarray(_PUSHES).astype(wanted.dtype) * (env.tile_size / 10)
    return jnp.argmin(jnp.square(reached - wanted[None]).sum(axis=1)).astype(jnp.int32)


def view(env: RollingNumpad, state: RollingState, params: RollingParams) -> jax.Array:
    """Return the frame with the order of the sequence, enlarged four times, uint8 (4 s, 4 s, 3)."""
    return enlarged(draw(env.scene(state, params), env.board, state.level.sequence))


def valid_levels(env: RollingNumpad, buffer: RollingLevel, _: RollingParams) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    is_path = pads.is_sequence(np.asarray(buffer.sequence), env.numpad_size)
    return {"sequence": is_path, "start": within(np.asarray(buffer.start), 0, env.board.side)}
