"""Frozen Lake: cross the ice to the goal and avoid the holes.

The player moves from cell to cell of an N × N lake. A hole ends the episode with reward 0, the goal with reward 1. On
slippery ice, a move goes in its direction with probability 1/3, else to one of the two sides.

Source: Gymnasium's FrozenLake-v1 (after Barto, Sutton and Watkins), with the same transitions; `map_name="4x4"` and
`map_name="8x8"` are its two fixed maps. Differences by default:

- The ice is not slippery.
- Each level has its own map, start and goal, with a path from start to goal.
- Slips are determined by the level and the step number, so an episode depends only on its level and its actions.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym import threefry
from jaxgym.environment import Environment, EnvParams, EnvState, Transition
from jaxgym.envs.frozen_lake import maps
from jaxgym.envs.frozen_lake import scene as seen
from jaxgym.errors import OptionError
from jaxgym.options import OBSERVATION, Flag, OneOf, Real, Static, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Discrete

MAX_STEPS = 100
"""Gymnasium's time limit at 4 × 4. Without a limit, an agent that moves into the border never ends the episode."""

DEFAULT_SIZE = 4

NUM_SLIPS = 3
_SLIPS = np.arange(NUM_SLIPS) - 1
_DISCOUNT = 0.99
_SWEEPS_PER_CELL = 4


class Action(enum.IntEnum):
    """Directions of a move."""

    LEFT = 0
    DOWN = 1
    RIGHT = 2
    UP = 3


_MOVES = np.asarray([[0, -1], [1, 0], [0, 1], [-1, 0]], np.int32)
"""Row and column offsets of each action."""


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        is_hole: bool (N, N), row first.
        start_cell: Row and column, int32 (2,).
        goal_cell: Row and column, int32 (2,).
        slip_seed: Determines the slip of each step, together with the step number, uint32 ().
    """

    is_hole: jax.Array
    start_cell: jax.Array
    goal_cell: jax.Array
    slip_seed: jax.Array


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        player_cell: Row and column, int32 (2,).
    """

    player_cell: jax.Array


@struct.dataclass
class Params(EnvParams):
    """The traced options."""

    p: jax.Array = traced(
        Real(
            0.8,
            "probability that a cell other than start and goal is frozen; no effect on a fixed map",
            low=0.0,
            high=1.0,
        )
    )
    is_slippery: jax.Array = traced(Flag(False, "make two of three moves slip to a side"))


def sizes_of(buffer: Any) -> dict[str, int]:
    """Return the map size of a level buffer; nothing for levels of another kind."""
    return {"size": buffer.is_hole.shape[-1]} if isinstance(buffer, Level) and buffer.is_hole.ndim else {}


@dataclasses.dataclass(unsafe_hash=True)
class FrozenLake(Environment[Level, State, Params, seen.Scene]):
    """Frozen Lake.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (5 · size²,), see
        `jaxgym.envs.frozen_lake.scene.symbols`.
    Action:
        0 left, 1 down, 2 right, 3 up. A move into the border has no effect.
    Start:
        At a random cell, with the goal at another random cell and a path between them; on a fixed map at the top left,
        with the goal at the bottom right.
    Reward:
        1 at the goal, else 0.
    End:
        Terminated at the goal or in a hole. Truncated after `max_steps`, 100.
    Info:
        `reward` and `length` so far, `success` (1 at the goal), `moved` (1 if the step led to another cell).
    Versions:
        v0: the transitions of Gymnasium's FrozenLake-v1.
    """

    size: int = static(
        Static(
            None,
            "rows and columns of the lake",
            low=maps.SMALLEST,
            high=maps.LARGEST,
            none=f"the size of the map or level buffer, or {DEFAULT_SIZE} without either",
        )
    )
    map_name: str | None = static(
        OneOf(
            None,
            "name of a fixed map of Gymnasium for all levels",
            values=tuple(maps.FIXED),
            none="a sampled map per level",
        )
    )
    observation: str = static(OBSERVATION)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the size of the map.

        Raises:
            OptionError: If `size` is not that of the map.
        """
        size, name = values["size"], values["map_name"]
        own = DEFAULT_SIZE if name is None else len(maps.FIXED[name])
        if name is not None and size not in (None, own):
            raise OptionError(
                f"{env_id}: size: expected {own} for map_name={name!r}, got {size}. Leave one of them out."
            )
        return {"size": own if size is None else size}

    def action_space(self, params: Params | None = None) -> Discrete:
        """Return the space of the four actions."""
        return Discrete(len(Action))

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample a map with a path, or take the fixed map; sample the seed of the slips."""
        key_map, key_slips = jax.random.split(key)
        if self.map_name is not None:
            is_hole = jnp.asarray(maps.FIXED[self.map_name])
            start, goal = jnp.zeros(2, jnp.int32), jnp.full(2, self.size - 1, jnp.int32)
        else:
            is_hole, start, goal = maps.sample(key_map, params.p, self.size)
        slip_seed = jax.random.bits(key_slips, (), jnp.uint32)
        return Level(is_hole=is_hole, start_cell=start, goal_cell=goal, slip_seed=slip_seed)

    def initial_state(self, level: Level, params: Params) -> State:
        """Place the player at the start."""
        return State(level=level, player_cell=level.start_cell)

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Move the player; on slippery ice, the direction may change."""
        slip = jnp.where(params.is_slippery, slip_at(state.level.slip_seed, state.time), 0)
        return self.slide(state, action, slip)

    def slide(self, state: State, action: jax.Array, slip: jax.Array) -> Transition:
        """Move the player with a given slip, see `move`.

        A player in a hole or at the goal stays there and gets no further reward.
        """
        is_over = jnp.any(jnp.stack(endings(state.player_cell, state.level)))
        cell = jnp.where(is_over, state.player_cell, move(state.player_cell, action, slip, self.size))
        is_in_hole, is_at_goal = endings(cell, state.level)
        metrics = {
            "success": is_at_goal.astype(jnp.int32),
            "moved": jnp.any(cell != state.player_cell).astype(jnp.int32),
        }
        reward = (is_at_goal & ~is_over).astype(jnp.float32)
        return Transition(dataclasses.replace(state, player_cell=cell), reward, is_in_hole | is_at_goal, metrics)

    def reseed(self, state: State, key: jax.Array) -> State:
        """Replace the slips to come."""
        return dataclasses.replace(
            state, level=dataclasses.replace(state.level, slip_seed=jax.random.bits(key, (), jnp.uint32))
        )

    def scene(self, state: State, params: Params) -> seen.Scene:
        """Return the scene, which shows the whole lake."""
        level = state.level
        is_start, is_goal = (maps.at(cell, self.size) for cell in (level.start_cell, level.goal_cell))
        kinds = jnp.where(level.is_hole, int(seen.Cell.HOLE), int(seen.Cell.FROZEN))
        kinds = jnp.where(is_goal, int(seen.Cell.GOAL), jnp.where(is_start, int(seen.Cell.START), kinds))
        is_in_hole, is_at_goal = endings(state.player_cell, level)
        return seen.Scene(
            cells=kinds.astype(jnp.uint8), player_cell=state.player_cell, is_in_hole=is_in_hole, is_at_goal=is_at_goal
        )

    def observe_scene(self, scene: seen.Scene) -> jax.Array:
        """Return the frame or the symbols."""
        return (seen.symbols if self.observation == "symbolic" else seen.draw)(scene)


def slip_at(slip_seed: jax.Array, time: jax.Array) -> jax.Array:
    """Return the slip of a step in quarter turns, -1, 0 or 1 with equal probability, int32 ()."""
    # Seed and step form the key: this takes one round of the generator, `fold_in` three.
    key = jax.random.wrap_key_data(jnp.stack([slip_seed, time.astype(jnp.uint32)]), impl=threefry.FLAT)
    return jnp.asarray(_SLIPS, jnp.int32)[jax.random.bits(key, (), jnp.uint32) % jnp.uint32(NUM_SLIPS)]


def move(cell: jax.Array, action: jax.Array, slip: jax.Array, size: int) -> jax.Array:
    """Return the cell after a move, int32 (2,).

    Args:
        cell: Row and column, int32 (2,).
        action: An `Action`; any other number does not move.
        slip: Quarter turns from the action in the order of `Action`, -1, 0 or 1: left slips up or down.
        size: Number of rows and columns; the player stays inside.
    """
    is_action = (action >= 0) & (action < len(Action))
    step = jnp.asarray(_MOVES)[(action + slip) % len(Action)]
    return jnp.where(is_action, jnp.clip(cell + step, 0, size - 1), cell)


def endings(cell: jax.Array, level: Level) -> tuple[jax.Array, jax.Array]:
    """Return whether a cell is a hole, and whether it is the goal, bool () each."""
    return level.is_hole[cell[0], cell[1]], jnp.all(cell == level.goal_cell)


def expert_action(env: FrozenLake, state: State, params: Params) -> jax.Array:
    """Return the optimal action for a discount of 0.99, int32 ()."""
    size = env.size
    numbers = jnp.arange(size, dtype=jnp.int32)
    cells = jnp.stack(jnp.meshgrid(numbers, numbers, indexing="ij"), axis=-1).reshape(-1, 2)
    actions, slips = jnp.arange(len(Action), dtype=jnp.int32), jnp.asarray(_SLIPS, jnp.int32)

    def following(cell: jax.Array) -> jax.Array:
        """Return the cell after each action with each slip, int32 (4, 3)."""
        ends = jax.vmap(lambda action: jax.vmap(lambda slip: move(cell, action, slip, size))(slips))(actions)
        return ends[..., 0] * size + ends[..., 1]

    led_to = jax.vmap(following)(cells)
    is_meant = (slips == 0).astype(jnp.float32)
    chances = jnp.where(params.is_slippery, np.float32(1 / NUM_SLIPS), is_meant)
    is_goal, is_hole = maps.at(state.level.goal_cell, size).reshape(-1), state.level.is_hole.reshape(-1)

    def improve(_: Any, worth: jax.Array) -> jax.Array:
        best = np.float32(_DISCOUNT) * jnp.max(jnp.matmul(worth[led_to], chances, precision="highest"), axis=1)
        return jnp.where(is_goal, np.float32(1.0), jnp.where(is_hole, np.float32(0.0), best))

    worth = lax.fori_loop(0, _SWEEPS_PER_CELL * size * size, improve, is_goal.astype(jnp.float32))
    here = state.player_cell[0] * size + state.player_cell[1]
    return jnp.argmax(jnp.matmul(worth[led_to[here]], chances, precision="highest")).astype(jnp.int32)


def view(env: FrozenLake, state: State, params: Params) -> jax.Array:
    """Return the frame, which shows everything, enlarged four times, uint8 (336, 336, 3)."""
    return enlarged(seen.draw(env.scene(state, params)))
