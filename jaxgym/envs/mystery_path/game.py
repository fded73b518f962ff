"""Mystery Path: find an invisible path and remember it; each step off the path leads back to its start.

The agent has to walk from a tile on one side of a 7 × 7 grid to a tile on the opposite side. The path between them is
winding and invisible. On any other tile the agent falls: a red cross is shown, and the next step puts the agent back to
the start, whatever the action.

Source: Pleines et al., Memory Gym (ICLR 2023; JMLR 26(6), 2025), package memory-gym 1.0.2. Rules and frames are
reproduced exactly, including these peculiarities:

- The path is not the shortest one (see `jaxgym.envs.mystery_path.path_search`), and the walls that bend it exclude
column and row 5 (see `jaxgym.envs.mystery_path.layout`).
- A fall costs two steps, and the agent keeps its heading.
- Rewarded tiles stay rewarded after a fall.
- From an `agent_scale` of 0.48 on, the agent is too large to reach the outermost tiles on the left and at the top; from
0.52 on, it cannot reach any outermost tile, so also not the goal. Large agents start beside their tile.
- `agent_scale` has no effect in the grid game.

Differences: the time limit truncates; in the original it terminates. Frames are row first; the original's are column
first.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts, levels
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.mystery_path import layout as mystery_layout
from jaxgym.envs.mystery_path import scene as seen
from jaxgym.envs.mystery_path.path_search import SIZE
from jaxgym.envs.mystery_path.visible import Visible, farthest_px, symbols, visible_in
from jaxgym.options import OBSERVATION, Choices, Flag, IntegerList, Real, static, traced
from jaxgym.spaces import Box, Discrete, MultiDiscrete, frames_or_symbols

DEFAULT_LEVELS = 100_000
"""Number of training levels in the default level buffer."""

_SIDES = 4
_BITS = 32
_SET_WORDS = 2
_TILES = np.stack(np.divmod(np.arange(SIZE * SIZE, dtype=np.int32), SIZE), axis=1)
_TILE_NAMES = tuple(f"({column},{row})" for column, row in (_TILES + 1).tolist())
_STEPS = np.asarray([[1, 0], [0, 1], [-1, 0], [0, -1]], np.int32)


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        start_tile: Column and row, int32 (2,).
        goal_tile: Column and row, int32 (2,).
        path: Tiles of the path, including start and goal, uint32 (2,), see `tile_set`.
    """

    start_tile: jax.Array
    goal_tile: jax.Array
    path: jax.Array


@struct.dataclass(kw_only=True)
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        position_px: Center of the agent, int32 (2,).
        heading: Heading in eighths of a turn, counter-clockwise from up, int32 ().
        is_off_path: Whether the agent has fallen: the next action is ignored, bool ().
        unrewarded: Path tiles that were not visited yet, uint32 (2,).
        num_fails: Number of falls, int32 ().
    """

    position_px: jax.Array
    heading: jax.Array
    is_off_path: jax.Array = starts_at(False)
    unrewarded: jax.Array
    num_fails: jax.Array = starts_at(0)


@struct.dataclass
class Params(EnvParams):
    """The traced options."""

    agent_speed: jax.Array = traced(arena.AGENT_SPEED)
    cardinal_origin_choice: Choices = traced(
        IntegerList(
            list(range(_SIDES)), "sides where the agent may start: 0 left, 1 right, 2 top, 3 bottom", high=_SIDES - 1
        )
    )
    show_origin: jax.Array = traced(Flag(False, "paint the start tile blue"))
    show_goal: jax.Array = traced(Flag(False, "paint the goal tile green"))
    visual_feedback: jax.Array = traced(Flag(True, "show a red cross when the agent is off the path"))
    reward_goal: jax.Array = traced(Real(1.0, "reward of the goal"))
    reward_fall_off: jax.Array = traced(Real(0.0, "reward of a fall"))
    reward_path_progress: jax.Array = traced(
        Real(0.1, "reward of the first visit of a path tile other than start and goal")
    )
    reward_step: jax.Array = traced(Real(0.0, "reward of every step"))


def default_level_buffer(params: Params) -> Level:
    """Return the default level buffer: the first 100 000 training levels.

    It depends only on the list of start sides, and each process makes it once per list, on first use.
    """
    sides = params.cardinal_origin_choice
    return _buffer_of(tuple(np.asarray(sides.values)[: int(sides.count)].tolist()))


@functools.cache
def _buffer_of(sides: tuple[int, ...]) -> Level:
    params = Params(cardinal_origin_choice=Choices.of(sides))
    env = MysteryPath("MysteryPath-v0", params, grid=False)
    with jax.ensure_compile_time_eval():
        return levels.make_level_buffer(env, params, levels.train_seeds(DEFAULT_LEVELS))


@dataclasses.dataclass(unsafe_hash=True)
class MysteryPath(Environment[Level, State, Params, seen.Scene]):
    """Mystery Path with free or grid movement.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (53,), see
        `jaxgym.envs.mystery_path.visible.symbols`.
    Action:
        Free: horizontal (0 stay, 1 left, 2 right) and vertical (0 stay, 1 up, 2 down), or with `flat_actions` one
        number 3 · horizontal + vertical. Grid: 0 nothing, 1 turn left, 2 turn right, 3 forward. Ignored in the step
        after a fall.
    Start:
        On a tile of a random side, heading up.
    Reward:
        `reward_goal` at the goal, `reward_path_progress` for the first visit of each other path tile except the start,
        `reward_fall_off` for each fall, `reward_step` for every step.
    End:
        Terminated at the goal. Truncated after `max_steps`: 512 steps, 128 in the grid game.
    Info:
        `reward` and `length` so far, `success` (0 or 1), `num_fails` (falls so far).
    Versions:
        v0: as memory-gym 1.0.2.
    """

    grid: bool
    agent_scale: float = static(arena.AGENT_SCALE, help="size of the agent; no effect with movement on a grid")
    observation: str = static(OBSERVATION)
    flat_actions: bool = static(arena.FLAT_ACTIONS)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the size of the agent in the grid game."""
        return {"agent_scale": arena.AGENT_SCALE.default} if values["grid"] else {}

    def action_space(self, params: Params | None = None) -> Discrete | MultiDiscrete:
        """Return the space of four actions in the grid game, else of three times three."""
        if self.grid:
            return Discrete(len(arena.GridAction))
        return arena.free_space(flat=self.flat_actions)

    def observation_space(self, params: Params | None = None) -> Box:
        """Return the space of the observation in the class docstring."""
        return frames_or_symbols(self, params, high=max(1.0, farthest_px(self.agent_scale) / arena.SCREEN_PX))

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample the ends of the path, the walls, and the path between the walls."""
        bits = jax.random.bits(key, (3 + mystery_layout.PATH_WORDS,), jnp.uint32)
        along = (bits[1:3] % jnp.uint32(SIZE)).astype(jnp.int32)
        start, goal = mystery_layout.ends_of(params.cardinal_origin_choice.pick(bits[0]), *along)
        path, _ = mystery_layout.sample_path(start, goal, bits[3:])
        return Level(start_tile=tile_of(start), goal_tile=tile_of(goal), path=tile_set(path))

    def initial_state(self, level: Level, params: Params) -> State:
        """Place the agent on the start tile, heading up; start and goal count as visited."""
        return State(
            level=level,
            position_px=seen.start_px(level.start_tile, self.agent_scale),
            heading=jnp.int32(arena.Heading.UP),
            unrewarded=level.path & ~end_tiles(level),
        )

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Move the agent, or put a fallen one back to the start; then it is at the goal, on the path, or falls."""
        moved = self.move(state, action, params)
        tile = moved.position_px // seen.TILE_PX
        here = only(tile)
        is_goal = jnp.all(tile == state.level.goal_tile)
        is_first = jnp.any(state.unrewarded & here != 0)
        is_off_path = ~jnp.any(state.level.path & here != 0)
        after = dataclasses.replace(
            moved,
            is_off_path=is_off_path,
            unrewarded=state.unrewarded & ~here,
            num_fails=state.num_fails + is_off_path.astype(jnp.int32),
        )
        reward = (
            jnp.where(is_goal, params.reward_goal, 0.0)
            + jnp.where(is_first, params.reward_path_progress, 0.0)
            + jnp.where(is_off_path, params.reward_fall_off, 0.0)
            + params.reward_step
        )
        metrics = {"success": is_goal.astype(jnp.int32), "num_fails": after.num_fails}
        return Transition(after, jnp.asarray(reward, dtype=jnp.float32), is_goal, metrics)

    def move(self, state: State, action: jax.Array, params: Params) -> State:
        """Move the agent by tiles or freely, within the screen; put a fallen one back with the same heading."""
        start = seen.start_px(state.level.start_tile, self.agent_scale)
        position = jnp.where(state.is_off_path, start, state.position_px)
        if self.grid:
            action = jnp.where(state.is_off_path, arena.GridAction.NOTHING, action)
            heading = arena.turn(state.heading, action)
            tile = arena.step_forward(position // seen.TILE_PX, heading, action, jnp.int32(SIZE))
            position = seen.start_px(tile, self.agent_scale)
        else:
            direction = arena.direction_of(arena.free_action(action) if self.flat_actions else action)
            direction = jnp.where(state.is_off_path, 0, direction)
            heading, radius = arena.heading_of(direction, state.heading), arena.agent_radius(self.agent_scale)
            position = position + arena.free_displacement_px(direction, params.agent_speed)
            position = arena.clamp_px(position, radius, arena.SCREEN_PX - radius)
        return dataclasses.replace(state, heading=heading, position_px=position)

    def scene(self, state: State, params: Params) -> seen.Scene:
        """Return the scene: the agent, its cross, and the ends of the path that the options show."""
        return seen.Scene(
            agent_position_px=state.position_px,
            agent_heading=state.heading,
            has_cross=state.is_off_path & params.visual_feedback,
            origin_tile=jnp.where(params.show_origin, state.level.start_tile, seen.HIDDEN),
            goal_tile=jnp.where(params.show_goal, state.level.goal_tile, seen.HIDDEN),
        )

    def hidden(self, state: State, params: Params) -> facts.Facts:
        """Return the path, its ends, its unvisited tiles, and the directions that lead to one of these or the goal."""
        level, tiles = state.level, jnp.asarray(_TILES)
        ahead = state.unrewarded | only(level.goal_tile)
        beside = (state.position_px // seen.TILE_PX)[None] + jnp.asarray(_STEPS)
        return {
            "path": facts.flags(has(level.path, tiles), _TILE_NAMES),
            **facts.tile(level.start_tile, SIZE, SIZE, "start"),
            **facts.tile(level.goal_tile, SIZE, SIZE, "goal"),
            "unvisited": facts.flags(has(state.unrewarded, tiles), _TILE_NAMES),
            "way": facts.flags(has(ahead, beside), ("right", "down", "left", "up")),
        }

    def visible(self, scene: seen.Scene) -> Visible:
        """Return the facts that the frame of a scene shows."""
        return visible_in(scene, self.agent_scale)

    def observe_scene(self, scene: seen.Scene) -> jax.Array:
        """Return the frame or the symbols."""
        if self.observation == "symbolic":
            return symbols(self.visible(scene))
        return seen.draw(scene, self.agent_scale)


def tile_of(number: jax.Array) -> jax.Array:
    """Return column and row of a tile's number, int32 (2,)."""
    return jnp.stack([number // SIZE, number % SIZE])


def tile_set(numbers: jax.Array | np.ndarray) -> jax.Array:
    """Return a set of tiles, uint32 (2,): bit `number % 32` of word `number // 32` for each tile.

    Args:
        numbers: Tiles, column · 7 + row, int32 (N,); negative ones are ignored.
    """
    word, bit = numbers[:, None] // _BITS, (numbers[:, None] % _BITS).astype(jnp.uint32)
    return jnp.bitwise_or.reduce(jnp.where(word == jnp.arange(_SET_WORDS)[None], jnp.uint32(1) << bit, 0), axis=0)


def has(tiles: jax.Array, places: jax.Array) -> jax.Array:
    """Return which places (column, row), int32 (N, 2), are in a set of tiles, bool (N,)."""
    return jax.vmap(lambda place: jnp.any(tiles & only(place) != 0))(places)


def end_tiles(level: Level) -> jax.Array:
    """Return the set of start and goal, uint32 (2,)."""
    return only(level.start_tile) | only(level.goal_tile)


def only(tile: jax.Array) -> jax.Array:
    """Return the set of one tile (column, row), uint32 (2,); it is empty for a tile outside of the grid."""
    is_inside = jnp.all((tile >= 0) & (tile < SIZE))
    return tile_set(jnp.where(is_inside, tile[0] * SIZE + tile[1], -1)[None])
