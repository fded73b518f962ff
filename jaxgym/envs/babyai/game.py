"""BabyAI: fulfill a mission in a grid of rooms, such as "pick up the red key, then open a door behind you".

Source: package minigrid 3.2.0, the 96 ids `BabyAI-*`. Levels, rules, missions, rewards, observations and frames are
equal, including these peculiarities:

- "go to" also succeeds in front of the place where the object was picked up, until the next drop.
- Opening an empty box destroys it, and may make a mission impossible.
- Places such as "on your left" are half planes at the start of the episode, within the room of the start.
- In the `Debug` ids, a clause fails on any wrong door or object. In `OpenDoorsOrderN2Debug` and
  `OpenDoorsOrderN4Debug`, missions of two clauses can't be fulfilled: in the step in which the first clause is
  fulfilled, its door is a wrong one for the second clause.
- In the `Carrying` ids, the first observation still shows the carried object on the floor.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition
from jaxgym.envs.babyai import sampling, verifier
from jaxgym.envs.babyai.classes import LevelClass
from jaxgym.envs.babyai.level import Level
from jaxgym.envs.babyai.mission import MISSION_LENGTH, WORDS, Mission, num_units, text_of
from jaxgym.envs.minigrid import render
from jaxgym.envs.minigrid.reward import reward_at
from jaxgym.envs.minigrid.view import SIZE, Visible, grid_of, symbolic_space, symbols, visible_in
from jaxgym.envs.minigrid.world import EMPTY, GridWorld, MiniGridAction, Type, act, number_of, type_of
from jaxgym.options import OBSERVATION, Integer, static
from jaxgym.spaces import Box, Dict, Discrete

_HUMAN_TILE_PX = 32


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        world: The grid and the agent.
        progress: The progress of the mission.
    """

    world: GridWorld
    progress: verifier.Progress


@struct.dataclass
class Scene:
    """Everything that may be rendered.

    Attributes:
        world: The grid and the agent.
        tokens: Tokens of the mission, uint8 (72,); see `mission.WORDS`.
    """

    world: GridWorld
    tokens: jax.Array


@struct.dataclass
class VisibleMission:
    """Facts that the agent sees, and its mission.

    Attributes:
        view: The facts that the agent sees.
        tokens: Tokens of the mission, int32 (72,).
    """

    view: Visible
    tokens: jax.Array


@dataclasses.dataclass(unsafe_hash=True)
class BabyAI(Environment[Level, State, EnvParams, Scene]):
    """BabyAI on the levels of a class.

    Observation:
        A dict of `image`, `direction`, int32 (), and `mission`, its tokens, uint8 (72,).
        `observation` selects the image. `"symbolic"`: type, color and state of each cell of the view, column first,
        uint8 (7, 7, 3). `"one_hot"`: the same, one-hot, uint8 (7, 7, 20). `"pixels"`: the frame of the view of 7 × 7
        cells, uint8 (56, 56, 3), row first. `"full_pixels"`: the frame of the whole grid, uint8 (8 · H, 8 · W, 3).
        With `observability="full"`, frames show the whole grid, and symbols have it as the entry `grid`, column first,
        with the agent as type 10.
    Action:
        0 turn left, 1 turn right, 2 forward, 3 pick up, 4 drop, 5 toggle (open, close or unlock), 6 done (no effect).
    Start:
        As the level class draws it.
    Reward:
        1 - 0.9 · steps / limit when the mission is fulfilled (1 without a limit), else 0.
    End:
        Terminated when the mission is fulfilled, or when a strict clause fails. Truncated after the time limit.
    Info:
        `reward` and `length` so far, `success` (1 when the mission is fulfilled).
    Versions:
        v0 and v1: as minigrid 3.2.0.
    """

    level_class: LevelClass
    observation: str = static(OBSERVATION, values=("symbolic", "one_hot", "pixels", "full_pixels"))
    tile_size: int = static(Integer(render.TILE_PX, "side of a cell in px, for frames", low=1, high=64))

    def action_space(self, params: EnvParams | None = None) -> Discrete:
        """Return the space of minigrid's seven actions."""
        del params
        return Discrete(len(MiniGridAction))

    def observation_space(self, params: EnvParams | None = None) -> Dict:
        """Return the space of the observation in the class docstring."""
        del params
        parts = dict(symbolic_space(is_one_hot=self.observation == "one_hot").spaces)
        if "pixels" in self.observation:
            rooms = self.level_class.rooms
            rows, columns = (SIZE, SIZE) if self.observation == "pixels" else (rooms.height, rooms.width)
            shape = (self.tile_size * rows, self.tile_size * columns, 3)
            parts["image"] = Box(low=0, high=255, shape=shape, dtype=jnp.uint8)
        elif self.observability == "full":
            parts["grid"] = parts["image"]  # with the same bounds; its own shape follows from the observation
        return Dict({**parts, "mission": Box(low=0, high=len(WORDS), shape=(MISSION_LENGTH,), dtype=jnp.uint8)})

    def sample_level(self, key: jax.Array, params: EnvParams) -> Level:
        """Sample the rooms, the objects, the start and the mission."""
        del params
        return sampling.sample(key, self.level_class)

    def mission_of(self, level: Level) -> str:
        """Return the mission of a level on the host."""
        return text_of(level.mission.tokens)

    def initial_state(self, level: Level, params: EnvParams) -> State:
        """Place the agent at the start."""
        del params
        progress = verifier.first_progress(level.cells, level.mission)
        world = GridWorld(level.cells, level.position, level.direction, jnp.uint16(EMPTY))
        if self.level_class.starts_carrying:
            world = with_object_in_hand(world, level.mission)
        return State(level=level, world=world, progress=progress)

    def transition(self, state: State, action: jax.Array, params: EnvParams) -> Transition:
        """Apply the action, then check the mission."""
        mission = state.level.mission
        world = act(state.world, action, state.level.content[None])
        progress, is_success, is_failure = verifier.check(
            mission, state.progress, world, action, self.level_class.num_strict
        )
        reward = jnp.where(is_success, reward_at(state.time, self.time_limit(state.level, params)), 0.0)
        after = dataclasses.replace(state, world=world, progress=progress)
        return Transition(after, reward, is_success | is_failure, {"success": is_success.astype(jnp.int32)})

    def time_limit(self, level: Level, params: EnvParams) -> jax.Array:
        """Return the time limit of a level, int32 (); 0 for none.

        It is `max_steps`, or that of the mission if this is shorter and depends on the mission.
        """
        limit = jnp.asarray(params.max_steps_in_episode)
        if not self.level_class.is_per_unit:
            return limit
        own = self.level_class.steps * num_units(level.mission.verbs)
        return jnp.where(limit > 0, jnp.minimum(limit, own), 0)

    def is_truncated(self, state: State, params: EnvParams) -> jax.Array:
        """Return whether the time limit is reached, bool (); False without a limit."""
        limit = self.time_limit(state.level, params)
        return (limit > 0) & (state.time >= limit)

    def scene(self, state: State, params: EnvParams) -> Scene:
        """Return the grid, the agent and the mission."""
        del params
        world = state.world
        if self.level_class.starts_carrying:
            is_first = state.time == 0
            world = dataclasses.replace(
                world,
                cells=jnp.where(is_first, state.level.cells, world.cells),
                carrying=jnp.where(is_first, jnp.uint16(EMPTY), world.carrying),
            )
        return Scene(world, state.level.mission.tokens)

    def hidden(self, state: State, params: EnvParams) -> facts.Facts:
        """Return the agent's place; the observation of `observability="full"` also has the whole grid."""
        del params
        width, height = state.world.cells.shape
        return facts.tile(state.world.position, width, height, "agent")

    def visible(self, scene: Scene) -> VisibleMission:
        """Return the facts that the agent sees, and its mission."""
        return VisibleMission(visible_in(scene.world), scene.tokens.astype(jnp.int32))

    def observe_scene(self, scene: Scene) -> Any:
        """Return the observation in the class docstring."""
        if "pixels" in self.observation:
            is_whole = self.observation == "full_pixels" or self.observability == "full"
            draw = render.draw_grid if is_whole else render.draw_view
            seen = {"image": draw(scene.world, self.tile_size), "direction": scene.world.direction}
        else:
            is_one_hot = self.observation == "one_hot"
            seen = symbols(visible_in(scene.world), is_one_hot=is_one_hot)
            if self.observability == "full":
                seen["grid"] = grid_of(scene.world, is_one_hot=is_one_hot)
        return {**seen, "mission": scene.tokens}


def with_object_in_hand(world: GridWorld, mission: Mission) -> GridWorld:
    """Return the world in which the agent has taken the object of the mission's first description from the floor."""
    bits = mission.matches.at[number_of(world.cells)].get(mode="clip")
    is_carried = (type_of(world.cells) >= Type.DOOR) & (bits & 1 > 0)
    carrying = jnp.max(jnp.where(is_carried, world.cells, 0)).astype(jnp.uint16)
    return dataclasses.replace(world, cells=jnp.where(is_carried, jnp.uint16(EMPTY), world.cells), carrying=carrying)


def view(env: BabyAI, state: State, params: EnvParams) -> jax.Array:
    """Return the frame of the whole grid, uint8 (32 · H, 32 · W, 3)."""
    return render.draw_grid(env.scene(state, params).world, _HUMAN_TILE_PX)


def valid_levels(env: BabyAI, buffer: Any, _: EnvParams) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    num_walls = len(env.level_class.rooms.walls)
    is_door = type_of(buffer.cells) == Type.DOOR
    return {"cells": np.all(~is_door | (number_of(buffer.cells) < num_walls), axis=(1, 2))}
