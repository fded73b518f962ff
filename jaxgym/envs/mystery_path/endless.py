"""Endless Mystery Path: an invisible path without end; after a fall, the agent returns to the start of the path.

The path leads to the right through segments that are seven tiles high. An agent that leaves it starts again and has to
remember the path; only the last tiles of the current walk are shown. Stamina decreases on every step. A fall restores
it, and so does a path tile that is reached for the first time since the last fall. The episode ends when stamina is 0,
when the agent falls to the left of the rightmost column that it has reached, or when it falls on the same tile again.

Source: Pleines et al., Memory Gym (JMLR 26(6), 2025), package memory-gym 1.0.2. Rules and frames are reproduced
exactly, including these peculiarities:

- In about one of 1 100 segments, the path goes left at one place, where the agent cannot follow it.
- `show_origin` has no effect.
- The start tile restores stamina, but gives no reward.
- In the leftmost shown column of the past path, only the last tile of the path in this column is shown.

Differences: a time limit truncates; in the original it terminates. The path ends after `max_segments`, and its last
tile truncates; the original's path does not end. Segments are drawn from a buffer of 50 176 by start and end row, which
preserves their distribution; training and held-out levels consist of the same segments in different orders. A stamina
of 0 or less, with which the original crashes or never ends, is an error.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.mystery_path import endless_scene as seen
from jaxgym.envs.mystery_path import endless_segments as segments
from jaxgym.envs.mystery_path.endless_segments import EndlessMysteryPathLevel, direction_after, segment_at
from jaxgym.envs.mystery_path.endless_visible import EndlessMysteryPathVisible, endless_symbols, visible_in
from jaxgym.envs.mystery_path.scene import start_px
from jaxgym.options import OBSERVATION, Flag, Integer, Real, Static, static, traced
from jaxgym.spaces import Box, Discrete, frames_or_symbols

ACTIONS = ((0, 0), (1, 0), (0, -1), (0, 1))
"""Movement (dx, dy) of each action: nothing, right, up, down."""

NUM_DIRECTIONS = 3
"""Number of path directions: right, up, down."""

_DEFAULT_SEGMENTS, _MOST_SEGMENTS = 64, 10_000
# One word of rows per column, from the rightmost reached column on. Falls of the largest agent reach the tenth.
_FALL_COLUMNS = 10
_FIRST_FALL_ROW = -7
_ROW_BITS = 32
_SHOWN_BEHIND, _SHOWN_COLUMNS = 2, 9  # columns of the hidden path


@struct.dataclass(kw_only=True)
class EndlessMysteryPathState(EnvState):
    """Episode state.

    Attributes:
        position_px: Center of the agent in the world, int32 (2,).
        heading: Heading in eighths of a turn, int32 ().
        segment: Segment of the last path tile that the agent stood on, int32 ().
        place: Index of this tile in the segment's path, int32 ().
        next_direction: Direction of the path from this tile: 0 right, 1 up, 2 down, int32 ().
        rewarded: Tiles of each segment that were reached in this episode, one bit each, uint32 (S,).
        refreshed: Tiles of the current segment that were reached since the last fall, one bit each, uint32 ().
        is_off_path: Whether the next action is ignored and leads back to the start, bool ().
        falls: Tiles onto which the agent fell, uint32 (10,): a word of rows for each column from `max_x` on.
        num_fails: Number of falls, int32 ().
        stamina: Remaining steps, int32 ().
        max_x: Rightmost column reached on the path, int32 ().
        tiles_visited: Number of tiles reached in this episode, without the start tile, int32 ().
    """

    position_px: jax.Array
    heading: jax.Array
    segment: jax.Array = starts_at(0)
    place: jax.Array = starts_at(0)
    next_direction: jax.Array
    rewarded: jax.Array
    refreshed: jax.Array
    is_off_path: jax.Array = starts_at(False)
    falls: jax.Array
    num_fails: jax.Array = starts_at(0)
    stamina: jax.Array
    max_x: jax.Array = starts_at(0)
    tiles_visited: jax.Array = starts_at(0)


@struct.dataclass
class EndlessMysteryPathParams(EnvParams):
    """The traced options, and tables.

    Attributes:
        stamina_table: The stamina bar for the value of `stamina_level` that `make` was given.
        segments: The segment buffer.
    """

    SHARED: ClassVar[tuple[str, ...]] = ("levels", "level_weights", "segments")

    agent_speed: jax.Array = traced(arena.AGENT_SPEED)
    show_origin: jax.Array = traced(Flag(False, "no effect, as in the original"))
    show_past_path: jax.Array = traced(Flag(True, "show the tiles just walked"))
    show_background: jax.Array = traced(Flag(False, "show tiles of ice instead of black"))
    show_stamina: jax.Array = traced(Flag(False, "show stamina as a bar at the right edge"))
    visual_feedback: jax.Array = traced(Flag(True, "show a red cross when the agent is off the path"))
    camera_offset_scale: jax.Array = traced(
        Real(5.0, "number of columns visible behind the agent; the camera uses 0 to 5.5")
    )
    stamina_level: jax.Array = traced(Integer(20, "steps without a new tile that end the episode", low=1))
    reward_fall_off: jax.Array = traced(Real(0.0, "reward of a fall"))
    reward_path_progress: jax.Array = traced(Real(0.1, "reward of a tile reached for the first time"))
    reward_step: jax.Array = traced(Real(0.0, "reward of every step"))
    stamina_table: seen.StaminaTable = dataclasses.field(kw_only=True)
    segments: jax.Array = dataclasses.field(kw_only=True)

    @property
    def camera(self) -> seen.Camera:
        """Position of the camera."""
        return seen.Camera.of(jnp.asarray(self.camera_offset_scale))

    def lost_stamina_px(self, stamina: jax.Array) -> jax.Array:
        """Return the red rows of the stamina bar, int32 ()."""
        return self.stamina_table.lost_px(stamina, self.stamina_level)


@dataclasses.dataclass(unsafe_hash=True)
class EndlessMysteryPath(
    Environment[
        EndlessMysteryPathLevel, EndlessMysteryPathState, EndlessMysteryPathParams, seen.EndlessMysteryPathScene
    ]
):
    """Endless Mystery Path.

    Observation:
        uint8 (84, 84, 3): row, column, channel. With `observation="symbolic"`, a float32 vector instead (see
        `jaxgym.envs.mystery_path.endless_visible.endless_symbols`).
    Action:
        0 nothing, 1 right, 2 up, 3 down. Ignored on the step after a fall, which leads back to the start.
    Start:
        On the first tile of the path, in a random row at the left edge, heading right.
    Reward:
        `reward_path_progress` for each tile reached for the first time in the episode, `reward_fall_off` for each fall,
        `reward_step` on every step.
    End:
        Terminated when stamina is 0, when the agent falls to the left of the rightmost column that it has reached, or
        when it falls on the same tile again. Truncated after `max_steps`, if it is set, and on the last tile of segment
        `max_segments`.
    Info:
        `reward` and `length` so far, `num_fails` (falls), `max_x` (rightmost column reached), `tiles_visited` (tiles
        reached, without the start tile), `ground_truth` (whether the path leads right, up, down from the last path tile
        that the agent stood on, float32 (3,)).
    Versions:
        v0: as memory-gym 1.0.2.
    """

    metric: ClassVar[str] = "tiles_visited"

    agent_scale: float = static(arena.AGENT_SCALE)
    max_segments: int = static(
        Static(
            _DEFAULT_SEGMENTS,
            "segments of eight columns after which an episode is truncated",
            low=2,
            high=_MOST_SEGMENTS,
            none=f"{_DEFAULT_SEGMENTS}",
        )
    )
    max_given_segments: int = static(
        Static(
            None,
            "number of segments that a level stores; the seed of the level determines the later ones",
            low=1,
            high=_MOST_SEGMENTS,
            none="that of the level buffer, or 0 without one",
        )
    )
    observation: str = static(OBSERVATION)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the numbers of segments, the table of the stamina bar, and the segment buffer."""
        return {
            "max_segments": values["max_segments"] or _DEFAULT_SEGMENTS,
            "max_given_segments": values["max_given_segments"] or 0,
            "stamina_table": seen.StaminaTable.of(values["stamina_level"]),
            "segments": segments.make_segment_buffer(),
        }

    def action_space(self, params: EndlessMysteryPathParams | None = None) -> Discrete:
        """Return the space of four actions."""
        return Discrete(len(ACTIONS))

    def observation_space(self, params: EndlessMysteryPathParams | None = None) -> Box:
        """Return the space of the observation in the class docstring."""
        return frames_or_symbols(self, params, low=-1, high=2)

    def sample_level(self, key: jax.Array, params: EndlessMysteryPathParams) -> EndlessMysteryPathLevel:
        """Sample the row of the start, and the seed of the segments."""
        row, seed = jax.random.bits(key, (2,), jnp.uint32)
        given = None
        if self.max_given_segments:
            given = jnp.full((self.max_given_segments, segments.MAX_TILES), segments.NO_TILE, jnp.uint8)
        return EndlessMysteryPathLevel(
            start_row=(row % jnp.uint32(segments.NUM_ROWS)).astype(jnp.int32), seed=seed, segments=given
        )

    def initial_state(
        self, level: EndlessMysteryPathLevel, params: EndlessMysteryPathParams
    ) -> EndlessMysteryPathState:
        """Place the agent on the first tile, which counts as reached, heading right."""
        zero = jnp.int32(0)
        first = segment_at(level, zero, params.segments)
        return EndlessMysteryPathState(
            level=level,
            position_px=self.start_px(level),
            heading=jnp.int32(arena.Heading.RIGHT),
            next_direction=direction_after(first, zero, zero),
            rewarded=jnp.zeros(self.max_segments, jnp.uint32).at[0].set(1),
            refreshed=jnp.uint32(0),
            falls=jnp.zeros(_FALL_COLUMNS, jnp.uint32),
            stamina=jnp.asarray(params.stamina_level, dtype=jnp.int32),
        )

    def start_px(self, level: EndlessMysteryPathLevel) -> jax.Array:
        """Return the agent's start position, int32 (2,)."""
        return start_px(jnp.stack([jnp.int32(0), jnp.asarray(level.start_row)]), self.agent_scale)

    def transition(
        self, state: EndlessMysteryPathState, action: jax.Array, params: EndlessMysteryPathParams
    ) -> Transition:
        """Move the agent, or put it back to the start; then it stands on the path or falls."""
        moved = self.move(state, action, params)
        tile = moved.position_px // seen.TILE_PX
        number = tile[0] // segments.NUM_COLUMNS
        segment = segment_at(state.level, number, params.segments)
        place, on_path = segments.find(segment, tile[0] - segments.NUM_COLUMNS * number, tile[1])
        stood, is_first = stand(moved, tile, number, place, segment, params)
        fallen, is_over = fall(moved, tile, params)
        after = jax.tree.map(partial(jnp.where, on_path), stood, fallen)
        after = dataclasses.replace(after, stamina=after.stamina - 1)
        reward = jnp.where(on_path, jnp.where(is_first, params.reward_path_progress, 0.0), params.reward_fall_off)
        metrics = {
            "num_fails": after.num_fails,
            "max_x": after.max_x,
            "tiles_visited": after.tiles_visited,
            "ground_truth": self.ground_truth(after),
        }
        reward = jnp.asarray(reward + params.reward_step, dtype=jnp.float32)
        return Transition(after, reward, (~on_path & is_over) | (after.stamina == 0), metrics)

    def ground_truth(self, state: EndlessMysteryPathState) -> jax.Array:
        """Return whether the path leads right, up or down, float32 (3,)."""
        return jax.nn.one_hot(state.next_direction, NUM_DIRECTIONS, dtype=jnp.float32)

    def move(
        self, state: EndlessMysteryPathState, action: jax.Array, params: EndlessMysteryPathParams
    ) -> EndlessMysteryPathState:
        """Move the agent by whole px; after a fall, move it to the start with the same heading."""
        is_action = (action >= 0) & (action < len(ACTIONS)) & ~state.is_off_path
        direction = jnp.asarray(ACTIONS, jnp.int32)[jnp.where(is_action, action, 0)]
        moved = state.position_px + arena.free_displacement_px(direction, params.agent_speed)
        return dataclasses.replace(
            state,
            position_px=jnp.where(state.is_off_path, self.start_px(state.level), moved),
            heading=arena.heading_of(direction, state.heading),
        )

    def is_truncated(self, state: EndlessMysteryPathState, params: EndlessMysteryPathParams) -> jax.Array:
        """Return whether the time limit or the end of the last segment is reached."""
        return super().is_truncated(state, params) | (state.max_x >= segments.NUM_COLUMNS * self.max_segments - 1)

    def scene(self, state: EndlessMysteryPathState, params: EndlessMysteryPathParams) -> seen.EndlessMysteryPathScene:
        """Return the scene: the agent, the past path, and what the options show."""
        walked_px = state.position_px[0] - arena.agent_radius(self.agent_scale)
        tiles, is_shown = past_tiles(state, params)
        camera = params.camera
        path_columns, path_left_px = seen.columns_of(tiles, is_shown & params.show_past_path, walked_px, camera)
        return seen.EndlessMysteryPathScene(
            agent_px=jnp.stack([seen.agent_x_px(self.agent_scale, camera), state.position_px[1]]),
            agent_heading=state.heading,
            cross_x_px=arena.agent_radius(self.agent_scale) + camera.cross_offset_px,
            has_cross=state.is_off_path & params.visual_feedback,
            path_columns=path_columns,
            path_left_px=path_left_px,
            background_px=jnp.where(params.show_background, moved_ground_px(walked_px, params), -1),
            lost_stamina_px=jnp.where(params.show_stamina, params.lost_stamina_px(state.stamina), -1),
        )

    def hidden(self, state: EndlessMysteryPathState, params: EndlessMysteryPathParams) -> facts.Facts:
        """Return the path from two columns to the left of the agent to six to its right, and where it leads."""
        column = state.position_px[0] // seen.TILE_PX
        numbers = column // segments.NUM_COLUMNS + jnp.asarray([-1, 0, 1])
        cells = jax.vmap(lambda number: segment_at(state.level, number, params.segments))(numbers).astype(jnp.int32)
        across = cells // segments.NUM_ROWS + segments.NUM_COLUMNS * numbers[:, None] - column + _SHOWN_BEHIND
        is_tile = (cells != segments.NO_TILE) & (numbers[:, None] >= 0) & (across >= 0)
        places = jnp.where(is_tile, across * segments.NUM_ROWS + cells % segments.NUM_ROWS, -1).reshape(1, -1)
        shown = jnp.arange(_SHOWN_COLUMNS * segments.NUM_ROWS)[:, None]
        return {
            "path": facts.flags((places == shown).any(axis=1)),
            "next_direction": facts.Fact(state.next_direction, NUM_DIRECTIONS, ("right", "up", "down")),
        }

    def visible(self, scene: seen.EndlessMysteryPathScene) -> EndlessMysteryPathVisible:
        """Return the facts that the frame of a scene shows."""
        return visible_in(scene, self.agent_scale)

    def observe_scene(self, scene: seen.EndlessMysteryPathScene) -> jax.Array:
        """Return the frame or the symbols."""
        if self.observation == "symbolic":
            return endless_symbols(self.visible(scene))
        return seen.draw(scene, self.agent_scale)


def moved_ground_px(walked_px: jax.Array, params: EndlessMysteryPathParams) -> jax.Array:
    """Return the shift of the ground to the left: by each step, and back when it reaches a tile."""
    speed = jnp.maximum(jnp.trunc(params.agent_speed).astype(jnp.int32), 1)
    return walked_px % (-(-seen.TILE_PX // speed) * speed)


def stand(
    state: EndlessMysteryPathState,
    tile: jax.Array,
    number: jax.Array,
    place: jax.Array,
    segment: jax.Array,
    params: EndlessMysteryPathParams,
) -> tuple[EndlessMysteryPathState, jax.Array]:
    """Return the state of an agent on a path tile, and whether the tile was reached for the first time."""
    bit = jnp.uint32(1) << place.astype(jnp.uint32)
    is_first = (state.rewarded.at[number].get(mode="fill", fill_value=0) & bit) == 0
    is_segment = jnp.arange(state.rewarded.shape[0]) == number
    gained = jnp.maximum(tile[0] - state.max_x, 0)
    # A segment is entered from the previous one, or at the start after a fall, so it has no marks at that time.
    refreshed = jnp.where(number == state.segment, state.refreshed, jnp.uint32(0))
    stood = dataclasses.replace(
        state,
        segment=number,
        place=place,
        next_direction=direction_after(segment, place, state.next_direction),
        rewarded=jnp.where(is_segment, state.rewarded | bit, state.rewarded),
        refreshed=refreshed | bit,
        stamina=jnp.where((refreshed & bit) == 0, params.stamina_level, state.stamina),
        is_off_path=jnp.bool_(False),
        falls=state.falls.at[jnp.arange(_FALL_COLUMNS) + gained].get(mode="fill", fill_value=0),
        max_x=state.max_x + gained,
        tiles_visited=state.tiles_visited + is_first.astype(jnp.int32),
    )
    return stood, is_first


def fall(
    state: EndlessMysteryPathState, tile: jax.Array, params: EndlessMysteryPathParams
) -> tuple[EndlessMysteryPathState, jax.Array]:
    """Return the state of an agent that falls onto a tile, and whether the fall ends the episode."""
    column = tile[0] - state.max_x
    row = jnp.clip(tile[1] - _FIRST_FALL_ROW, 0, _ROW_BITS - 1).astype(jnp.uint32)
    marks = jnp.where(jnp.arange(_FALL_COLUMNS) == column, jnp.uint32(1) << row, jnp.uint32(0))
    fallen = dataclasses.replace(
        state,
        refreshed=jnp.uint32(0),
        is_off_path=jnp.bool_(True),
        falls=state.falls | marks,
        num_fails=state.num_fails + 1,
        stamina=jnp.asarray(params.stamina_level, dtype=jnp.int32),
    )
    return fallen, (column < 0) | jnp.any((state.falls & marks) != 0)


def past_tiles(state: EndlessMysteryPathState, params: EndlessMysteryPathParams) -> tuple[jax.Array, jax.Array]:
    """Return the tiles of two segments in the order of the path, int32 (64, 2), and which of them are shown.

    These are the tiles before the current path tile, back to the first one whose column is at the camera's limit.
    """
    numbers = state.segment + jnp.asarray([-1, 0])
    cells = jax.vmap(lambda number: segment_at(state.level, number, params.segments))(numbers).astype(jnp.int32)
    columns = (cells // segments.NUM_ROWS + segments.NUM_COLUMNS * numbers[:, None]).reshape(-1)
    tiles = jnp.stack([columns, (cells % segments.NUM_ROWS).reshape(-1)], axis=-1)
    order = jnp.arange(2 * segments.MAX_TILES)
    is_tile = (cells != segments.NO_TILE) & (numbers[:, None] >= 0)
    is_past = is_tile.reshape(-1) & (order < segments.MAX_TILES + state.place)
    column = state.position_px[0] // seen.TILE_PX - 1
    limit = jnp.maximum(column - params.camera.past_columns, 0)
    last = jnp.max(jnp.where(is_past & (columns <= limit), order, -1))
    return tiles, is_past & (order >= last) & (column >= limit)
