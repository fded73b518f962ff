"""T-Maze with a lamp: the position is hidden, a lamp shows the end of the corridor, and an arm ends the episode.

Source: the variant of MIKASA-Base in the file `env_passive_t_maze_flag.py`, which calls the lamp a flag.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.environment import Transition
from jaxgym.envs.common.valid_levels import within
from jaxgym.envs.t_maze import game
from jaxgym.envs.t_maze.game import Params, State, TMaze
from jaxgym.envs.t_maze.scene import Scene, draw
from jaxgym.options import OBSERVATION, Integer, static
from jaxgym.spaces import Box, frames_or_symbols

_MOST_NOISE = 2**16


@struct.dataclass
class NoisyLevel:
    """Sampled parts of an episode.

    Attributes:
        goal_y: y of the goal, 1 or -1, int32 ().
        noise: Random number -1, 0 or 1 of each observation, int8 (`noise_length`,); repeated if there are not enough.
    """

    goal_y: jax.Array
    noise: jax.Array


@dataclasses.dataclass(unsafe_hash=True)
class TMazeLamp(TMaze):
    """T-Maze with a lamp.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (4,): y; the sign at x = 0 in the first
        observation, else 0; 1 at the end of the corridor, else 0; a random number, -1, 0 or 1.
    Action:
        0 right (x + 1), 1 up (y + 1), 2 left (x - 1), 3 down (y - 1). A move into a wall has no effect.
    Start:
        At x = 0.
    Reward:
        In the last step, `goal_reward` at the goal, else 0 if `goal_reward` is 1 and -1 otherwise. In each earlier
        step, `penalty` if x < t - `oracle_length`, where t is the number of steps so far, and `distract_reward` if
        x = 0.
    End:
        Terminated in an arm and after `TMazeLamp.num_steps`.
    Info:
        `reward` and `length` so far, `success` (1 at the goal).
    Versions:
        v0: as in MIKASA-Base of February 2025.
    """

    spare_steps: ClassVar[int] = 1
    ambiguous_position: bool = False
    expose_goal: bool = False
    add_timestep: bool = False
    noise_length: int = static(Integer(64, "number of random numbers in a level", low=1, high=_MOST_NOISE))
    observation: str = static(OBSERVATION)

    def observation_space(self, params: Params | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        return frames_or_symbols(self, params, low=-1.0, high=1.0)

    def sample_level(self, key: jax.Array, params: Params) -> NoisyLevel:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Sample the goal and the random numbers."""
        key_goal, key_noise = jax.random.split(key)
        return NoisyLevel(goal_y=game.sample_goal(key_goal), noise=self._sample_noise(key_noise))

    def _sample_noise(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (self.noise_length,), -1, 2, jnp.int32).astype(jnp.int8)

    def reseed(self, state: State, key: jax.Array) -> State:
        """Replace the random numbers of the observations to come."""
        level: Any = state.level
        is_shown = np.arange(self.noise_length, dtype=np.int32) == state.time % self.noise_length
        noise = jnp.where(is_shown, level.noise, self._sample_noise(key))
        return dataclasses.replace(state, level=dataclasses.replace(level, noise=noise))

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Move the agent; an arm ends the episode."""
        state = game.move(state, action, params)
        is_over = (state.time >= self.num_steps(params)) | (state.y != 0)
        is_success = is_over & (state.y == state.level.goal_y)
        failure = jnp.where(jnp.asarray(params.goal_reward) == 1.0, 0.0, -1.0)
        last = jnp.where(is_success, params.goal_reward, failure)
        reward = jnp.where(is_over, last, game.reward_before_end(state, params)).astype(jnp.float32)
        return Transition(state, reward, is_over, {"success": is_success.astype(jnp.int32)})

    def scene(self, state: State, params: Params) -> Scene:
        """Return the facts that the observation shows."""
        shown = super().scene(state, params)
        is_lit = (state.x == params.corridor_length) & (state.y == 0)
        noise = state.level.noise[state.time % self.noise_length].astype(jnp.int32)
        return dataclasses.replace(shown, x=jnp.int32(0), lamp=is_lit.astype(jnp.int32), noise=noise)

    def observe_scene(self, scene: Scene) -> jax.Array:
        """Return the frame or the symbols."""
        if self.observation != "symbolic":
            return draw(scene, is_ambiguous=self.ambiguous_position)
        return jnp.stack([scene.y, scene.cue, scene.lamp, scene.noise]).astype(jnp.float32)


def valid_levels(_env: TMazeLamp, buffer: NoisyLevel, _params: Params) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    return {"goal_y": np.isin(buffer.goal_y, (-1, 1)), "noise": within(buffer.noise, -1, 1)}
