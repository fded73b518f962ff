"""Endless Mystery Path: an invisible path that never ends, and a fall that leads back to its start.

The path runs to the right, segment after segment, seven tiles high. Whoever leaves it starts again and has to remember
the way; only the tiles that were just walked are shown. Stamina runs out unless tiles are reached again, and the
episode ends with a fall where the way was known already, or where the agent fell before.

Source: Pleines et al., Memory Gym (JMLR 26(6), 2025), package memory-gym 1.0.2, whose rules and pictures this
environment reproduces, oddities included:

- About one segment in 1 100 needs a step to the left, which is impossible.
- `show_origin` does nothing.
- The first tile refreshes stamina, but pays no reward.
- What is shown of the past path is cut off at a column, at whichever tile of it the path was left.

What differs: a time limit truncates; the original's terminates. The path ends after `max_segments`, and whoever
reaches its last tile is truncated; the original's goes on. Segments are drawn from a bank of 50 176 by start and end
row, which leaves their distribution as it is; training levels and held-out ones are made of the same segments in other
orders. A stamina of 0 or less, with which the original crashes or never tires, is refused.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from jaxgym.environment import Environment, EnvParams, EnvState, Transition
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.mystery_path import endless_scene as seen
from jaxgym.envs.mystery_path import endless_segments as segments
from jaxgym.envs.mystery_path.endless_segments import EndlessMysteryPathLevel, direction_after, segment_at
from jaxgym.envs.mystery_path.endless_visible import EndlessMysteryPathVisible, visible_in
from jaxgym.envs.mystery_path.scene import start_px
from jaxgym.envs.mystery_path.symbols import endless_symbols
from jaxgym.options import OBSERVATION, Flag, Integer, Real, Static, static, traced
from jaxgym.spaces import Box, Discrete

ACTIONS = ((0, 0), (1, 0), (0, -1), (0, 1))
"""The movement (dx, dy) of each action: nothing, right, up, down."""

NUM_DIRECTIONS = 3
"""Ways that lead on: right, up, down."""

_DEFAULT_SEGMENTS, _MOST_SEGMENTS = 64, 10_000
# From the furthest column reached on, one word of rows each: with the largest agent and speed it falls into the tenth.
_FALL_COLUMNS = 10
_FIRST_FALL_ROW = -7
_ROW_BITS = 32


@struct.dataclass
class EndlessMysteryPathState(EnvState):
    """The state of an episode.

    Attributes:
        position_px: Centre of the agent in the world, int32 (2,).
        heading: In eighths of a turn, int32 ().
        segment: Number of the segment of the last path tile stood on, int32 ().
        place: Where in that segment this tile is, in the order of the path, int32 ().
        next_direction: Where the path goes on from there: 0 right, 1 up, 2 down, int32 ().
        rewarded: For each segment the tiles that were reached in this episode, one bit each, uint32 (S,).
        refreshed: The tiles of the current segment that were reached since the last fall, one bit each, uint32 ().
        is_off_path: Whether the next action is ignored, and leads back to the start, bool ().
        falls: Where the agent fell, uint32 (10,): a word of rows for each column from `max_x` on.
        num_fails: Falls, int32 ().
        stamina: Steps left, int32 ().
        max_x: The furthest column reached on the path, int32 ().
        tiles_visited: Tiles reached in this episode, the first one apart, int32 ().
    """

    position_px: jax.Array
    heading: jax.Array
    segment: jax.Array
    place: jax.Array
    next_direction: jax.Array
    rewarded: jax.Array
    refreshed: jax.Array
    is_off_path: jax.Array
    falls: jax.Array
    num_fails: jax.Array
    stamina: jax.Array
    max_x: jax.Array
    tiles_visited: jax.Array


@struct.dataclass
class EndlessMysteryPathParams(EnvParams):
    """The traced options, and what follows from them in float64.

    Attributes:
        camera: Place of the camera, from `camera_offset_scale`.
        stamina_rows: Largest stamina with which each row of the bar is red, from `stamina_level`, int32 (84,).
        segments: The bank of segments.
    """

    SHARED: ClassVar[tuple[str, ...]] = ("levels", "segments")

    agent_speed: jax.Array = traced(arena.AGENT_SPEED)
    show_origin: jax.Array = traced(Flag(False, "does nothing, as in the original"))
    show_past_path: jax.Array = traced(Flag(True, "show the tiles just walked"))
    show_background: jax.Array = traced(Flag(False, "show tiles of ice instead of black"))
    show_stamina: jax.Array = traced(Flag(False, "show stamina as a bar at the right edge"))
    visual_feedback: jax.Array = traced(Flag(True, "show a red cross off the path"))
    camera_offset_scale: jax.Array = traced(Real(5.0, "tiles seen behind the agent; moved into 0 … 5.5 for the camera"))
    stamina_level: jax.Array = traced(Integer(20, "steps without a new tile that end the episode", low=1))
    reward_fall_off: jax.Array = traced(Real(0.0, "reward of a fall"))
    reward_path_progress: jax.Array = traced(Real(0.1, "reward of a tile reached for the first time"))
    reward_step: jax.Array = traced(Real(0.0, "reward of every step"))
    camera: seen.Camera = dataclasses.field(kw_only=True)
    stamina_rows: jax.Array = dataclasses.field(kw_only=True)
    segments: jax.Array = dataclasses.field(kw_only=True)


@dataclasses.dataclass(unsafe_hash=True)
class EndlessMysteryPath(
    Environment[
        EndlessMysteryPathLevel, EndlessMysteryPathState, EndlessMysteryPathParams, seen.EndlessMysteryPathScene
    ]
):
    """Endless Mystery Path.

    Observation:
        uint8 (84, 84, 3), row first. With `observation="symbolic"`, a float32 vector instead (see
        `jaxgym.envs.mystery_path.symbols.endless_symbols`).
    Action:
        0 nothing, 1 right, 2 up, 3 down. Ignored on the step after a fall, which leads back to the start.
    Start:
        On the first tile of the path, in a random row at the left edge, heading right.
    Reward:
        `reward_path_progress` for each tile reached for the first time in the episode, `reward_fall_off` for each fall,
        `reward_step` on every step.
    End:
        Terminated when stamina is used up, when the agent falls left of the furthest column that it reached, and when
        it falls onto a tile that it fell onto before. Truncated after `max_steps`, if that is given, and on the last
        tile of segment `max_segments`.
    Info:
        `reward` and `length` so far, `num_fails` (falls), `max_x` (the furthest column reached), `tiles_visited` (tiles
        reached, the first one apart), `ground_truth` (whether the path goes on right, up, down from the last tile of
        it that the agent stood on, float32 (3,)).
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
            "segments that a level can prescribe; the rest follows from its seed",
            low=1,
            high=_MOST_SEGMENTS,
            none="those of the bank",
        )
    )
    observation: str = static(OBSERVATION)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the numbers of segments, the camera, the rows of the stamina bar, and the bank of segments."""
        del env_id
        return {
            "max_segments": values["max_segments"] or _DEFAULT_SEGMENTS,
            "max_given_segments": values["max_given_segments"] or 0,
            "camera": seen.camera_of(values["camera_offset_scale"]),
            "stamina_rows": seen.stamina_rows(values["stamina_level"]),
            "segments": segments.make_bank(),
        }

    def action_space(self, params: EndlessMysteryPathParams | None = None) -> Discrete:
        """Four actions."""
        del params
        return Discrete(len(ACTIONS))

    def observation_space(self, params: EndlessMysteryPathParams | None = None) -> Box:
        """The space of the observation in the class docstring."""
        if self.observation == "symbolic":
            params = self.default_params if params is None else params
            shape = jax.eval_shape(partial(self.reset_env, params=params), jax.random.key(0))[0].shape
            return Box(low=-1, high=2, shape=shape, dtype=jnp.float32)
        return arena.frame_space()

    def sample_level(self, key: jax.Array, params: EndlessMysteryPathParams) -> EndlessMysteryPathLevel:
        """Samples the row of the start, and the seed of the segments."""
        del params
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
        """Puts the agent on the first tile, which counts as reached, heading right."""
        zero, no = jnp.int32(0), jnp.bool_(False)
        first = segment_at(level, zero, params.segments)
        return EndlessMysteryPathState(
            time=zero,
            level=level,
            episode_return=jnp.float32(0.0),
            terminated=no,
            position_px=self.start_px(level),
            heading=jnp.int32(arena.Heading.RIGHT),
            segment=zero,
            place=zero,
            next_direction=direction_after(first, zero, zero),
            rewarded=jnp.zeros(self.max_segments, jnp.uint32).at[0].set(1),
            refreshed=jnp.uint32(0),
            is_off_path=no,
            falls=jnp.zeros(_FALL_COLUMNS, jnp.uint32),
            num_fails=zero,
            stamina=jnp.asarray(params.stamina_level, dtype=jnp.int32),
            max_x=zero,
            tiles_visited=zero,
        )

    def start_px(self, level: EndlessMysteryPathLevel) -> jax.Array:
        """Returns where the agent starts, int32 (2,)."""
        return start_px(jnp.stack([jnp.int32(0), jnp.asarray(level.start_row)]), self.agent_scale)

    def transition(
        self, state: EndlessMysteryPathState, action: jax.Array, params: EndlessMysteryPathParams
    ) -> Transition:
        """Moves the agent, or puts it back to the start; then it stands on the path, or falls."""
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
        """Returns whether the path goes on right, up or down, float32 (3,)."""
        return jax.nn.one_hot(state.next_direction, NUM_DIRECTIONS, dtype=jnp.float32)

    def move(
        self, state: EndlessMysteryPathState, action: jax.Array, params: EndlessMysteryPathParams
    ) -> EndlessMysteryPathState:
        """Moves the agent by whole px; after a fall, back to the start, where it keeps its heading."""
        is_action = (action >= 0) & (action < len(ACTIONS)) & ~state.is_off_path
        direction = jnp.asarray(ACTIONS, jnp.int32)[jnp.where(is_action, action, 0)]
        moved = state.position_px + arena.free_displacement_px(direction, params.agent_speed)
        return dataclasses.replace(
            state,
            position_px=jnp.where(state.is_off_path, self.start_px(state.level), moved),
            heading=arena.heading_of(direction, state.heading),
        )

    def is_truncated(self, state: EndlessMysteryPathState, params: EndlessMysteryPathParams) -> jax.Array:
        """Whether the time limit or the end of the last segment is reached."""
        return super().is_truncated(state, params) | (state.max_x >= segments.NUM_COLUMNS * self.max_segments - 1)

    def scene(self, state: EndlessMysteryPathState, params: EndlessMysteryPathParams) -> seen.EndlessMysteryPathScene:
        """Returns the agent, the tiles just walked, and what the options show."""
        walked_px = state.position_px[0] - arena.agent_radius(self.agent_scale)
        tiles, is_shown = past_tiles(state, params)
        path_columns, path_left_px = seen.columns_of(tiles, is_shown & params.show_past_path, walked_px, params.camera)
        red = jnp.sum(state.stamina <= params.stamina_rows, dtype=jnp.int32)
        return seen.EndlessMysteryPathScene(
            agent_px=jnp.stack([seen.agent_x_px(self.agent_scale, params.camera), state.position_px[1]]),
            agent_heading=state.heading,
            cross_x_px=arena.agent_radius(self.agent_scale) + jnp.asarray(params.camera.cross_offset_px),
            has_cross=state.is_off_path & params.visual_feedback,
            path_columns=path_columns,
            path_left_px=path_left_px,
            background_px=jnp.where(params.show_background, moved_ground_px(walked_px, params), -1),
            lost_stamina_px=jnp.where(params.show_stamina, red, -1),
        )

    def visible(self, scene: seen.EndlessMysteryPathScene) -> EndlessMysteryPathVisible:
        """Return the facts that the frame of a scene shows."""
        return visible_in(scene, self.agent_scale)

    def observe_scene(self, scene: seen.EndlessMysteryPathScene) -> jax.Array:
        """Returns the picture or the symbols."""
        if self.observation == "symbolic":
            return endless_symbols(self.visible(scene))
        return seen.draw(scene, self.agent_scale)


def moved_ground_px(walked_px: jax.Array, params: EndlessMysteryPathParams) -> jax.Array:
    """Returns how far the ground has moved to the left: by each step, and back when it has moved by a tile or more."""
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
    """Returns the state of an agent on a path tile, and whether the tile was reached for the first time."""
    bit = jnp.uint32(1) << place.astype(jnp.uint32)
    is_first = (state.rewarded.at[number].get(mode="fill", fill_value=0) & bit) == 0
    is_segment = jnp.arange(state.rewarded.shape[0]) == number
    gained = jnp.maximum(tile[0] - state.max_x, 0)
    # A segment is entered from the one before, or at the start after a fall: no marks of it are left then.
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
    """Returns the state of an agent that falls onto a tile, and whether the fall ends the episode."""
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
    """Returns the tiles of two segments in the order of the path, int32 (64, 2), and which of them are shown.

    Those are the tiles before the last one stood on, back to the first whose column is at the camera's limit.
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
