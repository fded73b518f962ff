"""MiniGrid-Memory: remember an object, and walk to the same object at the end of a hallway.

A room at the left holds a key or a ball. A hallway leads to a key and a ball, one above and one below its end. The
episode ends next to one of them; it succeeds next to the one that is in the room.

Source: package minigrid 3.2.0, `MiniGrid-MemoryS7-v0` to `MiniGrid-MemoryS17Random-v0`. Levels, rules, rewards,
observations and frames are equal, including these peculiarities:

- The agent starts anywhere in the middle row, facing right, so often in the hallway, where it must turn back to see the
  object in the room.
- Picking up toggles instead, which changes neither a key nor a ball. So the agent can't take anything.
- With a hallway of random length, the grid to the right of its end stays empty, and no agent gets there.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition
from jaxgym.envs.minigrid import render
from jaxgym.envs.minigrid.reward import reward_at
from jaxgym.envs.minigrid.view import SIZE, Visible, symbolic_space, symbols, visible_in
from jaxgym.envs.minigrid.world import (
    EMPTY,
    WALL,
    Color,
    Direction,
    GridWorld,
    MiniGridAction,
    Type,
    act,
    coordinates,
    thing,
)
from jaxgym.options import OBSERVATION, Integer, static
from jaxgym.spaces import Box, Dict, Discrete

MISSION = "go to the matching object at the end of the hallway"
"""The mission of every level, which minigrid adds to each observation."""

MAX_STEPS_PER_CELL = 5
"""The time limit is this number times the area of the grid."""

ROOM_END = 4
"""x of the wall between the room and the hallway."""

ROOM_REACH = 1
"""Number of rows of the room above the middle row, and below it."""

SHORTEST_END = 4
"""Smallest `Level.hallway_end` of a hallway of random length."""

AFTER_END = 3
"""Distance from the longest hallway's end to the right edge of the grid."""

_OBJECTS = (Type.KEY, Type.BALL)
_HUMAN_TILE_PX = 32


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        hallway_end: x of the last cell of the hallway, int32 ().
        start_x: x of the agent, int32 ().
        room_object: `Type` of the object in the room, int32 ().
        upper_object: `Type` of the object above the end of the hallway, int32 (); the other one is below it.
    """

    hallway_end: jax.Array
    start_x: jax.Array
    room_object: jax.Array
    upper_object: jax.Array


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        world: The grid and the agent.
    """

    world: GridWorld


@dataclasses.dataclass(unsafe_hash=True)
class MiniGridMemory(Environment[Level, State, EnvParams, GridWorld]):
    """MiniGrid-Memory on a grid of `size` × `size` cells.

    Observation:
        `"pixels"`: the frame of the agent's view of 7 × 7 cells, uint8 (56, 56, 3), row first. `"full_pixels"`: the
        frame of the whole grid, uint8 (8 · size, 8 · size, 3). `"symbolic"`: a dict of `image`, uint8 (7, 7, 3), with
        type, color and state of each cell of the view, column first, and `direction`, int32 (). `"one_hot"`: the same
        with an `image` of uint8 (7, 7, 20).
    Action:
        0 turn left, 1 turn right, 2 forward; 3 pick up, 4 drop, 5 toggle and 6 done have no effect.
    Start:
        In the middle row, anywhere from the left wall to the end of the hallway, facing right.
    Reward:
        1 - 0.9 · steps / `max_steps` next to the matching object (1 without a limit), else 0.
    End:
        Terminated next to one of the two objects at the end of the hallway. Truncated after `max_steps`, 5 · size².
    Info:
        `reward` and `length` so far, `success` (1 next to the matching object).
    Versions:
        v0: as minigrid 3.2.0.
    """

    size: int
    random_length: bool
    observation: str = static(OBSERVATION, values=("pixels", "full_pixels", "symbolic", "one_hot"))
    tile_size: int = static(Integer(render.TILE_PX, "side of a cell in px, for frames", low=1, high=64))

    def action_space(self, params: EnvParams | None = None) -> Discrete:
        """Return the space of minigrid's seven actions."""
        return Discrete(len(MiniGridAction))

    def observation_space(self, params: EnvParams | None = None) -> Box | Dict:
        """Return the space of the observation in the class docstring."""
        if "pixels" in self.observation:
            side = self.tile_size * (SIZE if self.observation == "pixels" else self.size)
            return Box(low=0, high=255, shape=(side, side, 3), dtype=jnp.uint8)
        return symbolic_space(is_one_hot=self.observation == "one_hot")

    def sample_level(self, key: jax.Array, params: EnvParams) -> Level:
        """Sample the length of the hallway, the start and the objects."""
        keys = jax.random.split(key, 3)
        end = jnp.int32(self.size - AFTER_END)
        if self.random_length:
            end = jax.random.randint(keys[0], (), SHORTEST_END, end + 1, jnp.int32)
        start = jax.random.randint(keys[1], (), 1, end + 1, jnp.int32)
        room, upper = jax.random.choice(keys[2], jnp.asarray(_OBJECTS, jnp.int32), (2,))
        return Level(hallway_end=end, start_x=start, room_object=room, upper_object=upper)

    def mission_of(self, level: Level) -> str:
        """Return the mission, which is the same in every level."""
        del level
        return MISSION

    def initial_state(self, level: Level, params: EnvParams) -> State:
        """Place the agent in the middle row, facing right."""
        world = GridWorld(
            cells=cells_of(level, self.size),
            position=jnp.stack([level.start_x, jnp.int32(self.size // 2)]),
            direction=jnp.int32(Direction.RIGHT),
            carrying=jnp.uint16(EMPTY),
        )
        return State(level=level, world=world)

    def transition(self, state: State, action: jax.Array, params: EnvParams) -> Transition:
        """Apply the action; the episode ends next to an object at the end of the hallway."""
        world = act(state.world, jnp.where(action == MiniGridAction.PICKUP, MiniGridAction.TOGGLE, action))
        x, y = world.position
        is_at_end = (x == state.level.hallway_end + 1) & (jnp.abs(y - self.size // 2) == 1)
        is_success = is_at_end & (y == success_y(state.level, self.size))
        reward = jnp.where(is_success, reward_at(state.time, params.max_steps_in_episode), 0.0)
        metrics = {"success": is_success.astype(jnp.int32)}
        return Transition(dataclasses.replace(state, world=world), reward, is_at_end, metrics)

    def scene(self, state: State, params: EnvParams) -> GridWorld:
        """Return the grid and the agent."""
        return state.world

    def hidden(self, state: State, params: EnvParams) -> facts.Facts:
        """Return the objects in the room and above the end of the hallway, this end, and the agent's place."""
        level, world = state.level, state.world
        names = tuple(Type(kind).name.lower() for kind in _OBJECTS)
        return {
            "room_object": facts.Fact((level.room_object == _OBJECTS[1]).astype(jnp.int32), 2, names),
            "upper_object": facts.Fact((level.upper_object == _OBJECTS[1]).astype(jnp.int32), 2, names),
            "hallway_end": facts.Fact(level.hallway_end, self.size, first=1),
            **facts.tile(world.position, self.size, self.size, "agent"),
            "direction": facts.Fact(world.direction, len(Direction), tuple(each.name.lower() for each in Direction)),
        }

    def visible(self, scene: GridWorld) -> Visible:
        """Return the facts that the agent sees."""
        return visible_in(scene)

    def observe_scene(self, scene: GridWorld) -> Any:
        """Return the observation in the class docstring."""
        if self.observation == "pixels":
            return render.draw_view(scene, self.tile_size)
        if self.observation == "full_pixels":
            return render.draw_grid(scene, self.tile_size)
        return symbols(self.visible(scene), is_one_hot=self.observation == "one_hot")

    def normalized_return(self, info: Mapping[str, jax.Array], state: State, params: EnvParams) -> jax.Array:
        """Return the return divided by that of the shortest way to the matching object, float32 ()."""
        level = state.level
        shortest = level.hallway_end + 1 - level.start_x + 2  # a turn, and one step to the side
        return info["episode_return"] / reward_at(shortest, params.max_steps_in_episode)


def success_y(level: Level, size: int) -> jax.Array:
    """Return y of the cell next to the matching object at the end of the hallway, int32 ()."""
    return jnp.where(level.upper_object == level.room_object, size // 2 - 1, size // 2 + 1)


def cells_of(level: Level, size: int) -> jax.Array:
    """Return the things of a level, uint16 (size, size)."""
    x, y = coordinates(size, size)
    away = np.abs(y - size // 2)
    end = level.hallway_end
    is_room_wall = (x <= ROOM_END) & (away == ROOM_REACH + 1) | (x == ROOM_END) & (away == ROOM_REACH)
    is_wall = (x == 0) | (y == 0) | (x == size - 1) | (y == size - 1) | is_room_wall
    is_wall |= (x > ROOM_END) & (x < end) & (away == 1)
    is_wall |= (x == end) & (away != 0) | (x == end + 2)
    cells = jnp.where(is_wall, WALL, EMPTY)
    lower = sum(_OBJECTS) - level.upper_object
    for kind, at_x, at_y in (
        (level.room_object, 1, size // 2 - 1),
        (level.upper_object, end + 1, size // 2 - 2),
        (lower, end + 1, size // 2 + 2),
    ):
        cells = jnp.where((x == at_x) & (y == at_y), kind + thing(Type.UNSEEN, Color.GREEN), cells)
    return cells.astype(jnp.uint16)


def view(env: MiniGridMemory, state: State, params: EnvParams) -> jax.Array:
    """Return the frame of the whole grid, which shows everything; uint8 (32 · size, 32 · size, 3)."""
    return render.draw_grid(env.scene(state, params), _HUMAN_TILE_PX)


def valid_levels(env: MiniGridMemory, buffer: Any, _: EnvParams) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    longest = env.size - AFTER_END
    ends = buffer.hallway_end
    return {
        "hallway_end": (ends >= (SHORTEST_END if env.random_length else longest)) & (ends <= longest),
        "start_x": (buffer.start_x >= 1) & (buffer.start_x <= ends),
        "room_object": np.isin(buffer.room_object, _OBJECTS),
        "upper_object": np.isin(buffer.upper_object, _OBJECTS),
    }
