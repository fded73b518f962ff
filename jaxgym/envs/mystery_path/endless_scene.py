"""Scene of Endless Mystery Path and its frame: the past path, the agent, ice and stamina.

The camera follows the agent, whose x on the screen is constant. Up to nine columns of tiles are on the screen.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.memory_gym.agent import agent_sprites, sprite_center_px
from jaxgym.envs.memory_gym.arena import SCREEN_PX, agent_radius
from jaxgym.envs.mystery_path.scene import CROSS_CENTER_PX, TILE_PX, cross_image
from jaxgym.rendering.canvas import SpriteSheet, draw_sprite
from jaxgym.rendering.sprites import rectangle

NUM_ROWS = SCREEN_PX // TILE_PX
NUM_COLUMNS = NUM_ROWS + 2

# One pixel each, uint8 (1, 1, 3).
_BORDER, _TILE, _ICE, _STAMINA, _LOST_STAMINA = np.asarray(
    [(210, 210, 210), (255, 255, 255), (125, 177, 250), (0, 255, 0), (255, 0, 0)], np.uint8
)[:, None, None]
BAR_LEFT_PX = SCREEN_PX - 4
_EDGE_PX = 2
_LARGEST_CAMERA_OFFSET = 5.5
_MOST_COLUMNS = 1 << 10
_BLACK = TILE_PX

X = np.arange(SCREEN_PX, dtype=np.int32)
_ROW_OF = X // TILE_PX
IS_BORDER = (X % TILE_PX == 0) | (X % TILE_PX == TILE_PX - 1)


@struct.dataclass
class Camera:
    """Position of the agent's start on the screen.

    Attributes:
        offset_px: Distance of the agent's start from the left edge, truncated to whole px, int32 ().
        is_between: Whether something was truncated, bool (); left of the screen's edge, truncation goes the other way.
        cross_offset_px: Distance of the cross, rounded, int32 ().
        past_columns: Number of columns of the past path to show, int32 ().
    """

    offset_px: jax.Array
    is_between: jax.Array
    cross_offset_px: jax.Array
    past_columns: jax.Array

    @classmethod
    def of(cls, scale: jax.Array) -> "Camera":
        """Return the camera of a `camera_offset_scale`, float32 ()."""
        offset = TILE_PX * jnp.clip(scale, 0.0, _LARGEST_CAMERA_OFFSET)
        whole = jnp.trunc(offset)
        return cls(
            offset_px=whole.astype(jnp.int32),
            is_between=offset != whole,
            cross_offset_px=((2 * offset).astype(jnp.int32) + 1) // 2,
            past_columns=jnp.clip(scale, -_MOST_COLUMNS, _MOST_COLUMNS).astype(jnp.int32),
        )

    def cut_px(self, place_px: jax.Array | int) -> jax.Array:
        """Return the drawn position of a position in px without the camera's offset: truncated towards zero."""
        place = place_px + self.offset_px
        return jnp.asarray(place + ((place < 0) & self.is_between).astype(np.int32), dtype=jnp.int32)


@struct.dataclass
class StaminaTable:
    """The stamina bar for one value of `stamina_level`.

    Attributes:
        stamina_level: int32 ().
        rows: Largest stamina at which each row of the bar is red, from the top, int32 (84,).
    """

    stamina_level: jax.Array | np.ndarray
    rows: jax.Array | np.ndarray

    @classmethod
    def of(cls, level: int) -> "StaminaTable":
        """Return the table for a `stamina_level`, from float64 as in the original."""

        def red_px(stamina: int) -> int:
            return int(SCREEN_PX * (1 - stamina / level))

        rows = []
        for row in range(SCREEN_PX):
            # Rounding changes the exact solution by at most one.
            stamina = level - level * (row + 1) // SCREEN_PX + 1
            while red_px(stamina) <= row:
                stamina -= 1
            rows.append(stamina)
        return cls(stamina_level=np.asarray(level, np.int32), rows=np.asarray(rows, np.int32))

    def lost_px(self, stamina: jax.Array, level: jax.Array) -> jax.Array:
        """Return the red rows of the bar for a `stamina_level`, int32 (); not from the table if it has another one."""
        row = np.arange(1, SCREEN_PX + 1, dtype=np.float32)
        full = jnp.asarray(level).astype(jnp.float32)
        computed = SCREEN_PX * (full - stamina.astype(jnp.float32)) >= row * full
        return jnp.sum(jnp.where(level == self.stamina_level, stamina <= self.rows, computed), dtype=jnp.int32)


@struct.dataclass
class EndlessMysteryPathScene:
    """Scene of Endless Mystery Path.

    Attributes:
        agent_px: Center of the agent on the screen, int32 (2,).
        agent_heading: Heading in eighths of a turn, int32 ().
        cross_x_px: Center of the cross, int32 ().
        has_cross: Whether the cross is shown, bool ().
        path_columns: Shown path tiles, one bit per row, int32 (9,): column by column.
        path_left_px: Left edge of each of these columns, int32 (9,).
        background_px: Shift of the ice to the left, 0 … 11, or -1 without ice, int32 ().
        lost_stamina_px: Red rows of the bar, or -1 without a bar, int32 ().
    """

    agent_px: jax.Array
    agent_heading: jax.Array
    cross_x_px: jax.Array
    has_cross: jax.Array
    path_columns: jax.Array
    path_left_px: jax.Array
    background_px: jax.Array
    lost_stamina_px: jax.Array


def agent_x_px(agent_scale: float, camera: Camera) -> jax.Array:
    """Return the x of the agent's center on the screen: the left edge of its sprite is truncated to whole px."""
    center = sprite_center_px(agent_scale)
    return camera.cut_px(agent_radius(agent_scale) - center) + center


def columns_near(walked_px: jax.Array, camera: Camera) -> jax.Array:
    """Return the columns of the world that may be on the screen, int32 (9,); see `columns_of`."""
    # The first of the nine columns is visible only if truncation draws it on the screen.
    return (walked_px - camera.offset_px) // TILE_PX - 1 + jnp.arange(NUM_COLUMNS)


def columns_of(
    tiles: jax.Array, is_shown: jax.Array, walked_px: jax.Array, camera: Camera
) -> tuple[jax.Array, jax.Array]:
    """Return `path_columns` and `path_left_px` of a scene, whose agent is `walked_px` from its start.

    `tiles` are (column, row) in the world, int32 (N, 2); `is_shown` selects the shown ones, bool (N,).
    """
    columns = columns_near(walked_px, camera)
    is_there = is_shown[None] & (tiles[None, :, 0] == columns[:, None])
    bits = jnp.where(is_there, 1 << tiles[None, :, 1], 0)
    return jnp.bitwise_or.reduce(bits, axis=1), camera.cut_px(TILE_PX * columns - walked_px)


def spans(scene: EndlessMysteryPathScene) -> tuple[jax.Array, jax.Array]:
    """Return the x range of each column of tiles, and its left and right borders, bool (9, 84) each."""
    left = scene.path_left_px[:, None]
    covers = (left <= X[None]) & (left + TILE_PX > X[None])
    # If the screen's edge leaves two px of a tile, both are border.
    is_edge = (left + TILE_PX == _EDGE_PX) | (left == SCREEN_PX - _EDGE_PX)
    return covers, covers & ((left == X[None]) | (left + TILE_PX - 1 == X[None]) | is_edge)


@functools.cache
def cross_sheet() -> SpriteSheet:
    """Return the sprite of the cross."""
    return SpriteSheet.of(cross_image()[None], anchor=CROSS_CENTER_PX)


@functools.cache
def _grounds() -> np.ndarray:
    """Return the backgrounds, uint8 (13, 84, 84, 3): ice shifted by 0 … 11 px, and black."""
    ice = np.tile(rectangle(TILE_PX, TILE_PX, _ICE[0, 0], _BORDER[0, 0]), (NUM_ROWS, NUM_ROWS + 1, 1))
    moved = [ice[:, offset : offset + SCREEN_PX] for offset in range(TILE_PX)]
    return np.stack([*moved, np.zeros_like(moved[0])])


def draw(scene: EndlessMysteryPathScene, agent_scale: float) -> jax.Array:
    """Return the frame of a scene, uint8 (84, 84, 3), row first."""
    covers, is_side = spans(scene)
    is_border = jnp.any(is_side, axis=0)[None] | IS_BORDER[:, None]
    tile = jnp.where(is_border[..., None], _BORDER, _TILE)
    canvas = jnp.where(_is_tile(scene, covers)[..., None], tile, ground(scene))
    return with_things(canvas, scene, agent_scale)


def is_tile(scene: EndlessMysteryPathScene) -> jax.Array:
    """Return the pixels of shown path tiles, bool (84, 84), row first."""
    return _is_tile(scene, spans(scene)[0])


def _is_tile(scene: EndlessMysteryPathScene, covers: jax.Array) -> jax.Array:
    columns = jnp.bitwise_or.reduce(jnp.where(covers, scene.path_columns[:, None], 0), axis=0)
    return (columns[None] >> _ROW_OF[:, None]) & 1 == 1


def ground(scene: EndlessMysteryPathScene) -> jax.Array:
    """Return the background without path tiles and objects, uint8 (84, 84, 3), row first."""
    moved = jnp.where(scene.background_px < 0, _BLACK, scene.background_px)
    return lax.dynamic_index_in_dim(jnp.asarray(_grounds()), moved, keepdims=False)


def with_things(canvas: jax.Array, scene: EndlessMysteryPathScene, agent_scale: float) -> jax.Array:
    """Draw agent, bar and cross on a canvas, uint8 (84, 84, 3), in this order."""
    sprites = agent_sprites(agent_scale)
    # Positions far outside of the screen are clamped to just outside.
    y = jnp.clip(scene.agent_px[1], sprites.anchor - sprites.side, sprites.anchor + SCREEN_PX)
    canvas = draw_sprite(canvas, sprites, scene.agent_heading, jnp.stack([scene.agent_px[0], y]))
    is_lost = scene.lost_stamina_px > X[:, None, None]
    bar = jnp.where(is_lost, _LOST_STAMINA, _STAMINA)
    bar = jnp.where(scene.lost_stamina_px >= 0, bar, canvas[:, BAR_LEFT_PX:])
    canvas = canvas.at[:, BAR_LEFT_PX:].set(bar)
    cross = cross_sheet()
    y = jnp.clip(scene.agent_px[1], cross.anchor - cross.side, cross.anchor + SCREEN_PX)
    # A missing cross is drawn outside of the screen.
    y = jnp.where(scene.has_cross, y, cross.anchor - cross.side)
    return draw_sprite(canvas, cross, jnp.int32(0), jnp.stack([scene.cross_x_px, y]))
