"""T-Maze: see a sign, walk along a corridor, and turn at its end as the sign showed.

The corridor has the squares x = 0 to E with y = 0, and an arm on each side of its end: (E, 1) and (E, -1). One of the
arms is the goal. The sign, visible on the first visit of x = 0, shows which one. The agent starts `oracle_length`
squares to the right of the sign. The reward for the goal is given in the last step only, so the agent must be there at
that time; with the default episode length, it has no step to spare.

Source: the T-Mazes of MIKASA-Base and Memory-RL (after Bakker, 2001), with the same rules, rewards and observations.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.t_maze.scene import MOST_STEPS, Scene, draw
from jaxgym.errors import OptionError
from jaxgym.options import OBSERVATION, Flag, Integer, Real, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Discrete, frames_or_symbols

LONGEST_CORRIDOR = 10**6
LONGEST_ORACLE = 1000


class TMazeAction(enum.IntEnum):
    """Directions of a move; up is y + 1."""

    RIGHT = 0
    UP = 1
    LEFT = 2
    DOWN = 3


_MOVES = np.asarray([[1, 0], [0, 1], [-1, 0], [0, -1]], np.int32)
"""Change of x and y by each action."""


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        goal_y: y of the goal, 1 or -1, int32 ().
    """

    goal_y: jax.Array


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        x: Square along the corridor, from 0, int32 ().
        y: 0 in the corridor, 1 in the upper arm, -1 in the lower arm, int32 ().
        first_visit: Time of the first visit of x = 0, int32 (); -1 before it.
    """

    x: jax.Array
    y: jax.Array = starts_at(0)
    first_visit: jax.Array = starts_at(-1)


@struct.dataclass
class Params(EnvParams):
    """The traced options."""

    corridor_length: jax.Array = traced(
        Integer(10, "squares from the start to the end of the corridor", low=1, high=LONGEST_CORRIDOR)
    )
    oracle_length: jax.Array = traced(
        Integer(0, "squares from the sign to the start; 0 starts at the sign", low=0, high=LONGEST_ORACLE)
    )
    episode_length: jax.Array = traced(
        Integer(
            0,
            "number of steps of an episode; 0 for the shortest way from the start to the sign and to the goal, "
            "which is corridor_length + 2 oracle_length + 1",
            low=0,
            high=MOST_STEPS,
        )
    )
    goal_reward: jax.Array = traced(Real(1.0, "reward for being at the goal in the last step"))
    penalty: jax.Array = traced(
        Real(0.0, "reward of a step before the last one in which the agent is behind the shortest way")
    )
    is_dense: jax.Array = traced(Flag(False, "replace `penalty` by -1 / corridor_length"))
    distract_reward: jax.Array = traced(Real(0.0, "further reward of a step before the last one that ends at x = 0"))


@dataclasses.dataclass(unsafe_hash=True)
class TMaze(Environment[Level, State, Params, Scene]):
    """T-Maze.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (2,): 1 at the end of the corridor and in
        its arms, else 0; then y there, or the sign at x = 0, else 0. With `ambiguous_position=False` float32 (3,): x,
        y, and the sign. `add_timestep` appends the time.
    Action:
        0 right (x + 1), 1 up (y + 1), 2 left (x - 1), 3 down (y - 1). A move into a wall has no effect.
    Start:
        In the corridor, `oracle_length` squares to the right of the sign.
    Reward:
        `goal_reward` if the agent is at the goal in the last step. In each earlier step, `penalty` if
        x < t - `oracle_length`, where t is the number of steps so far, and `distract_reward` if x = 0.
    End:
        Terminated after `TMaze.num_steps`. Nothing else ends an episode, and the agent can leave an arm again.
    Info:
        `reward` and `length` so far, `success` (1 at the goal in the last step).
    Versions:
        v0: as in MIKASA-Base of February 2025.
    """

    spare_steps: ClassVar[int] = 0
    """Steps of an episode beyond the shortest way, if the option `episode_length` is 0."""

    ambiguous_position: bool = static(Flag(True, "show only whether the agent is at the end of the corridor, not x"))
    expose_goal: bool = static(
        Flag(False, "show the sign in every step from the first visit of x = 0; needs `ambiguous_position=False`")
    )
    add_timestep: bool = static(Flag(False, "show the number of steps so far"))
    observation: str = static(OBSERVATION)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return no further fields.

        Raises:
            OptionError: If the goal shall be exposed while the position is ambiguous.
        """
        if values["ambiguous_position"] and values["expose_goal"]:
            raise OptionError(
                f"{env_id}: expose_goal: expected False with ambiguous_position=True, got True. "
                "Pass ambiguous_position=False, too."
            )
        return {}

    def action_space(self, params: Params | None = None) -> Discrete:
        """Return the space of the four directions."""
        return Discrete(len(TMazeAction))

    def observation_space(self, params: Params | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        is_small = self.ambiguous_position and not self.add_timestep
        return frames_or_symbols(self, params, low=-1.0, high=1.0 if is_small else float(MOST_STEPS))

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample the goal."""
        return Level(goal_y=sample_goal(key))

    def num_steps(self, params: Params) -> jax.Array:
        """Return the number of steps of an episode, int32 ()."""
        shortest = params.corridor_length + 2 * params.oracle_length + 1
        return jnp.where(params.episode_length > 0, params.episode_length, shortest + self.spare_steps)

    def initial_state(self, level: Level, params: Params) -> State:
        """Place the agent at the start."""
        x = jnp.asarray(params.oracle_length, jnp.int32)
        return State(level=level, x=x, first_visit=jnp.where(x == 0, 0, -1).astype(jnp.int32))

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Move the agent; the last step pays for the goal."""
        state = move(state, action, params)
        is_over = state.time >= self.num_steps(params)
        is_success = is_over & (state.y == state.level.goal_y)
        reward = jnp.where(is_over, jnp.where(is_success, params.goal_reward, 0.0), reward_before_end(state, params))
        return Transition(state, reward.astype(jnp.float32), is_over, {"success": is_success.astype(jnp.int32)})

    def scene(self, state: State, params: Params) -> Scene:
        """Return the facts that the observation shows; 0 for those that it does not show."""
        is_at_end = state.x == end_of(params)
        is_first = (state.x == 0) & (state.first_visit == state.time)
        is_cue_shown = (state.first_visit >= 0) if self.expose_goal else is_first
        return Scene(
            x=is_at_end.astype(jnp.int32) if self.ambiguous_position else state.x,
            y=state.y,
            cue=jnp.where(is_cue_shown, state.level.goal_y, 0).astype(jnp.int32),
            time=state.time if self.add_timestep else jnp.int32(0),
            lamp=jnp.int32(0),
            noise=jnp.int32(0),
        )

    def hidden(self, state: State, params: Params) -> facts.Facts:
        """Return the arm that is the goal."""
        return {"goal": facts.Fact((state.level.goal_y > 0).astype(jnp.int32), 2, ("lower", "upper"))}

    def visible(self, scene: Scene) -> Scene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: Scene) -> jax.Array:
        """Return the frame or the symbols."""
        if self.observation != "symbolic":
            return draw(scene, is_ambiguous=self.ambiguous_position)
        shown = [scene.x, scene.y + scene.cue] if self.ambiguous_position else [scene.x, scene.y, scene.cue]
        return jnp.stack([*shown, *([scene.time] if self.add_timestep else [])]).astype(jnp.float32)


def sample_goal(key: jax.Array) -> jax.Array:
    """Sample y of the goal, int32 (); consumes `key`."""
    return 2 * jax.random.randint(key, (), 0, 2, jnp.int32) - 1


def end_of(params: Params) -> jax.Array:
    """Return x of the end of the corridor, int32 ()."""
    return jnp.asarray(params.oracle_length + params.corridor_length, jnp.int32)


def move(state: State, action: jax.Array, params: Params) -> State:
    """Return the state after a move; numbers that are no action do not move."""
    is_action = (action >= 0) & (action < len(TMazeAction))
    step = jnp.where(is_action, jnp.asarray(_MOVES)[jnp.clip(action, 0, len(TMazeAction) - 1)], 0)
    x, y = state.x + step[0], state.y + step[1]
    end = end_of(params)
    is_free = (x >= 0) & (x <= end) & ((y == 0) | ((x == end) & (jnp.abs(y) == 1)))
    x, y = jnp.where(is_free, x, state.x), jnp.where(is_free, y, state.y)
    first_visit = jnp.where((x == 0) & (state.first_visit < 0), state.time, state.first_visit)
    return dataclasses.replace(state, x=x, y=y, first_visit=first_visit)


def reward_before_end(state: State, params: Params) -> jax.Array:
    """Return the reward of a step that does not end the episode, a float ()."""
    penalty = jnp.where(params.is_dense, -1.0 / jnp.asarray(params.corridor_length).astype(float), params.penalty)
    is_late = state.x < state.time - params.oracle_length
    return jnp.where(is_late, penalty, 0.0) + jnp.where(state.x == 0, params.distract_reward, 0.0)


def expert_action(_: TMaze, state: State, params: Params) -> jax.Array:
    """Return the next action on the way to the sign and to the goal; int32 ()."""
    turn = jnp.where(state.level.goal_y > 0, TMazeAction.UP, TMazeAction.DOWN)
    is_at_end = (state.x == end_of(params)) & (state.y == 0)
    forward = jnp.where(is_at_end, turn, TMazeAction.RIGHT)
    return jnp.where(state.first_visit < 0, TMazeAction.LEFT, forward).astype(jnp.int32)


def view(env: TMaze, state: State, params: Params) -> jax.Array:
    """Return the frame with the sign, enlarged four times, uint8 (336, 336, 3)."""
    shown = dataclasses.replace(env.scene(state, params), cue=state.level.goal_y)
    return enlarged(draw(shown, is_ambiguous=env.ambiguous_position))


def valid_levels(_env: TMaze, buffer: Level, _params: Params) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    return {"goal_y": np.isin(buffer.goal_y, (-1, 1))}
