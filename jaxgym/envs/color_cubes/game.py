"""Color-Cubes: go to cubes of given colors, whose places are shown only when something has changed.

At the start of a phase, the color of the target and the places of all cubes are shown once. When the agent reaches the
target, the cube teleports and the next phase begins. Other cubes teleport at random; then the places of all cubes are
shown once more, with `hide_colors` without their colors.

Source: the text of arXiv 2601.15086 (AAMAS 2026), whose code is not public. docs/environments/color_cubes.md lists the
rules that the text leaves open.
"""

import dataclasses
import enum
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.color_cubes.scene import COLORS, UNKNOWN, Scene, draw, symbols_of
from jaxgym.envs.common.valid_levels import within
from jaxgym.options import OBSERVATION, Flag, Integer, Real, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Discrete, frames_or_symbols

SMALLEST, LARGEST = 4, 12
MOST_PHASES = 1024


class CubeMove(enum.IntEnum):
    """Actions."""

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3


STEPS = np.asarray([[-1, 0], [1, 0], [0, -1], [0, 1]], np.int32)
"""Change of row and column by each action."""


class Shown(enum.IntEnum):
    """Parts of the state that an observation shows beside the agent."""

    NOTHING = 0
    PLACES = 1
    COLORS = 2
    TARGET = 3


@struct.dataclass
class Level:
    """Sampled parts of an episode. Cube i has color i; cells are numbered row by row.

    Attributes:
        start: Cell of the agent, int32 ().
        cells: Cell of each cube, int32 (N,).
        targets: Cube to reach in each phase, int32 (K,).
        chances: Random numbers from 0 to 1 that decide whether a cube teleports, float32 (`num_draws`,).
        movers: Random numbers from 0 to 1 that choose this cube, float32 (`num_draws`,).
        destinations: Random numbers from 0 to 1 that choose a free cell, float32 (`num_draws`,).
    """

    start: jax.Array
    cells: jax.Array
    targets: jax.Array
    chances: jax.Array
    movers: jax.Array
    destinations: jax.Array


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        position: Row and column of the agent, int32 (2,).
        cells: Cell of each cube, int32 (N,).
        phase: Number of targets that were reached, int32 ().
        shown: What the observation shows, a `Shown`, int32 ().
    """

    position: jax.Array
    cells: jax.Array
    phase: jax.Array = starts_at(0)
    shown: jax.Array = starts_at(int(Shown.TARGET))


@struct.dataclass
class Params(EnvParams):
    """The traced options."""

    teleport_probability: jax.Array = traced(
        Real(0.1, "probability in each step that a cube other than the target teleports", low=0.0, high=1.0)
    )
    hide_colors: jax.Array = traced(Flag(False, "do not show the colors of cubes after such a teleport"))


@dataclasses.dataclass(unsafe_hash=True)
class ColorCubes(Environment[Level, State, Params, Scene]):
    """Color-Cubes.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (3 + G²,): row and column of the agent; 1
        plus the color of the target, or 0; for each cell 1 plus the color of its cube, 9 for a cube of unknown color,
        or 0. Cubes and target are 0 in observations that do not show them.
    Action:
        0 up, 1 down, 2 left, 3 right.
    Start:
        In a cell without a cube. The target and all cubes are shown.
    Reward:
        1 for reaching the target, else 0.
    End:
        Terminated when the target of the last phase is reached. Truncated after `max_steps`, 100.
    Info:
        `reward` and `length` so far, `success` (1 after the last phase), `targets_reached`.
    Versions:
        v0: the text of arXiv 2601.15086, with the choices on the page of the environment.
    """

    size: int = static(Integer(5, "rows and columns G of the grid", low=SMALLEST, high=LARGEST))
    num_cubes: int = static(Integer(3, "number N of cubes", low=1, high=len(COLORS)))
    num_phases: int = static(Integer(5, "number K of phases", low=1, high=MOST_PHASES))
    num_draws: int = static(Integer(128, "number of random numbers for teleports; they repeat", low=1, high=10**5))
    observation: str = static(OBSERVATION)

    def action_space(self, params: Params | None = None) -> Discrete:
        """Return the space of the four directions."""
        return Discrete(len(CubeMove))

    def observation_space(self, params: Params | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        return frames_or_symbols(self, params, high=float(max(self.size - 1, UNKNOWN)))

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample different cells for agent and cubes, the targets, and numbers for teleports."""
        key_cells, key_targets, key_draws = jax.random.split(key, 3)
        cells = jax.random.permutation(key_cells, jnp.arange(self.size**2, dtype=jnp.int32))
        return Level(
            start=cells[0],
            cells=cells[1 : 1 + self.num_cubes],
            targets=jax.random.randint(key_targets, (self.num_phases,), 0, self.num_cubes, jnp.int32),
            **self._sample_draws(key_draws),
        )

    def _sample_draws(self, key: jax.Array) -> dict[str, jax.Array]:
        draws = jax.random.uniform(key, (3, self.num_draws), jnp.float32)
        return dict(zip(("chances", "movers", "destinations"), draws, strict=True))

    def reseed(self, state: State, key: jax.Array) -> State:
        """Replace the teleports to come; the targets stay."""
        return dataclasses.replace(state, level=dataclasses.replace(state.level, **self._sample_draws(key)))

    def initial_state(self, level: Level, params: Params) -> State:
        """Place the agent and the cubes."""
        position = jnp.stack([jnp.asarray(level.start) // self.size, jnp.asarray(level.start) % self.size])
        return State(level=level, position=position.astype(jnp.int32), cells=level.cells)

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Move the agent; teleport a target that is reached, or another cube."""
        level, slot = state.level, (state.time - 1) % self.num_draws
        is_action = (action >= 0) & (action < len(CubeMove))
        step = jnp.asarray(STEPS)[jnp.clip(action, 0, len(CubeMove) - 1)]
        position = jnp.clip(state.position + jnp.where(is_action, step, 0), 0, self.size - 1)
        here, target = position[0] * self.size + position[1], self.target(state)
        is_reached = state.cells[target] == here
        is_last = state.phase == self.num_phases - 1
        has_others = self.num_cubes > 1
        teleports = ~is_reached & (level.chances[slot] < params.teleport_probability) & has_others
        other = _chosen(level.movers[slot], jnp.int32(max(self.num_cubes - 1, 1)))
        other = jnp.where(other >= target, other + 1, other)
        mover = jnp.where(is_reached, target, other)
        is_moved = (np.arange(self.num_cubes, dtype=np.int32) == mover) & (is_reached | teleports)
        cells = jnp.where(is_moved, self._free_cell(state.cells, here, level.destinations[slot]), state.cells)
        update = jnp.where(params.hide_colors, int(Shown.PLACES), int(Shown.COLORS))
        shown = jnp.where(teleports, update, int(Shown.NOTHING))
        phase = jnp.where(is_reached, state.phase + 1, state.phase)
        state = dataclasses.replace(
            state,
            position=position,
            cells=cells,
            phase=phase,
            shown=jnp.where(is_reached & ~is_last, int(Shown.TARGET), shown).astype(jnp.int32),
        )
        is_over = is_reached & is_last
        metrics = {"success": is_over.astype(jnp.int32), "targets_reached": phase}
        return Transition(state, is_reached.astype(jnp.float32), is_over, metrics)

    def target(self, state: State) -> jax.Array:
        """Return the cube to reach, int32 ()."""
        return state.level.targets[jnp.minimum(state.phase, self.num_phases - 1)]

    def _free_cell(self, cells: jax.Array, here: jax.Array, draw_: jax.Array) -> jax.Array:
        """Return the cell without cube and agent that a random number from 0 to 1 chooses, int32 ()."""
        numbers = np.arange(self.size**2, dtype=np.int32)
        is_free = (numbers[:, None] != cells[None]).all(axis=1) & (numbers != here)
        rank = _chosen(draw_, is_free.sum(dtype=jnp.int32))
        return jnp.argmax(jnp.cumsum(is_free, dtype=jnp.int32) > rank).astype(jnp.int32)

    def scene(self, state: State, params: Params) -> Scene:
        """Return the agent, and what the observation shows of cubes and target."""
        return self.scene_of(state, state.shown)

    def scene_of(self, state: State, shown: jax.Array | int) -> Scene:
        """Return the scene that shows some parts of a state."""
        numbers = np.arange(1, self.num_cubes + 1, dtype=np.int32)
        is_here = np.arange(self.size**2, dtype=np.int32)[:, None] == state.cells[None]
        colors = jnp.where(jnp.asarray(shown) >= int(Shown.COLORS), numbers, UNKNOWN)
        cubes = jnp.where(is_here & (jnp.asarray(shown) >= int(Shown.PLACES)), colors[None], 0).sum(axis=1)
        target = jnp.where(jnp.asarray(shown) == int(Shown.TARGET), self.target(state) + 1, 0)
        return Scene(state.position, cubes.reshape(self.size, self.size).astype(jnp.int32), target.astype(jnp.int32))

    def hidden(self, state: State, params: Params) -> facts.Facts:
        """Return the color of the target, and row and column of each cube in the order of the colors."""
        places = jnp.stack([state.cells % self.size, state.cells // self.size], axis=-1)
        colors = tuple(COLORS)[: self.num_cubes]
        return {
            "target": facts.Fact(self.target(state), self.num_cubes, colors),
            **facts.tile(places, self.size, self.size, "cube"),
        }

    def visible(self, scene: Scene) -> Scene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: Scene) -> jax.Array:
        """Return the frame or the symbols."""
        return symbols_of(scene) if self.observation == "symbolic" else draw(scene)

    def normalized_return(self, info: Mapping[str, jax.Array], state: State, params: Params) -> jax.Array:
        """Return the share of targets that were reached, float32 ()."""
        return info["targets_reached"] / np.float32(self.num_phases)


def _chosen(draw_: jax.Array, count: jax.Array) -> jax.Array:
    """Return the integer below `count` that a random number from 0 to 1 chooses, int32 ()."""
    return jnp.minimum((draw_ * count.astype(jnp.float32)).astype(jnp.int32), count - 1)


def expert_action(env: ColorCubes, state: State, _: Params) -> jax.Array:
    """Return a move to the target, first up or down, then left or right; int32 ()."""
    cell = state.cells[env.target(state)]
    row, column = cell // env.size, cell % env.size
    down = jnp.where(row < state.position[0], CubeMove.UP, CubeMove.DOWN)
    aside = jnp.where(column < state.position[1], CubeMove.LEFT, CubeMove.RIGHT)
    return jnp.where(row == state.position[0], aside, down).astype(jnp.int32)


def view(env: ColorCubes, state: State, _: Params) -> jax.Array:
    """Return the frame with all cubes and the target, enlarged four times, uint8 (336, 336, 3)."""
    return enlarged(draw(env.scene_of(state, int(Shown.TARGET))))


def valid_levels(env: ColorCubes, buffer: Level, params: Params) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    del params
    places = np.sort(np.concatenate([np.asarray(buffer.start)[:, None], np.asarray(buffer.cells)], axis=1), axis=1)
    is_different = (np.diff(places, axis=1) > 0).all(axis=1)
    return {
        "cells": is_different & within(places, 0, env.size**2 - 1),
        "targets": within(buffer.targets, 0, env.num_cubes - 1),
    }
