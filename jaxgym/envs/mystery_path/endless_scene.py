"""What is seen of Endless Mystery Path: the tiles just walked, the agent, ice and stamina, as a picture or as numbers.

The camera goes along with the agent, which stays at its x. Nine columns of tiles may be on the screen.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.memory_gym.agent import agent_sprites, sprite_center_px
from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX, agent_radius
from jaxgym.envs.mystery_path.scene import CROSS_CENTER_PX, TILE_PX, cross_picture
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet, stamp
from jaxgym.rendering.sprites import rectangle

NUM_ROWS = SCREEN_PX // TILE_PX
NUM_COLUMNS = NUM_ROWS + 2

# One pixel each, uint8 (1, 1, 3).
_BORDER, _TILE, _ICE, _STAMINA, _LOST_STAMINA = np.asarray(
    [(210, 210, 210), (255, 255, 255), (125, 177, 250), (0, 255, 0), (255, 0, 0)], np.uint8
)[:, None, None]
_BAR_LEFT_PX = SCREEN_PX - 4
_EDGE_PX = 2
_HALF = 0.5
_LARGEST_CAMERA_OFFSET = 5.5
_MOST_COLUMNS = 1 << 10
_BLACK = TILE_PX
# A smaller agent can't hide all that the screen shows of a tile.
_HIDING_RADIUS_PX = 8

_X = np.arange(SCREEN_PX, dtype=np.int32)
_ROW_OF = _X // TILE_PX
_IS_BORDER = (_X % TILE_PX == 0) | (_X % TILE_PX == TILE_PX - 1)


@struct.dataclass
class Camera:
    """Where the agent is on the screen.

    Attributes:
        offset_px: How far right of the left edge the start of the agent is shown, cut to whole px, int32 ().
        is_between: Whether something was cut, bool (): left of the screen's edge the cut goes the other way.
        cross_offset_px: The same for the cross, rounded, int32 ().
        past_columns: Columns back to which the past path is shown, int32 ().
    """

    offset_px: jax.Array | np.ndarray
    is_between: jax.Array | np.ndarray
    cross_offset_px: jax.Array | np.ndarray
    past_columns: jax.Array | np.ndarray

    def cut_px(self, place_px: jax.Array | int) -> jax.Array:
        """Returns a place in px, given without the camera's offset, as it is drawn: cut towards zero."""
        place = place_px + self.offset_px
        return jnp.asarray(place + ((place < 0) & self.is_between).astype(np.int32), dtype=jnp.int32)


@struct.dataclass
class EndlessMysteryPathScene:
    """What a viewer may know of Endless Mystery Path.

    Attributes:
        agent_px: Centre of the agent on the screen, int32 (2,).
        agent_heading: In eighths of a turn, int32 ().
        cross_x_px: Centre of the cross, int32 ().
        has_cross: Whether it is shown, bool ().
        path_columns: The path tiles shown, a bit for each row, int32 (9,): column by column.
        path_left_px: Left edge of each of these columns, int32 (9,).
        background_px: How far the ice has moved to the left, 0 … 11, or -1 where there is none, int32 ().
        lost_stamina_px: Red rows of the bar, or -1 where there is none, int32 ().
    """

    agent_px: jax.Array
    agent_heading: jax.Array
    cross_x_px: jax.Array
    has_cross: jax.Array
    path_columns: jax.Array
    path_left_px: jax.Array
    background_px: jax.Array
    lost_stamina_px: jax.Array


def camera_of(scale: float) -> Camera:
    """Returns the camera of a `camera_offset_scale`."""
    offset = TILE_PX * min(max(scale, 0.0), _LARGEST_CAMERA_OFFSET)
    columns = int(min(max(scale, -_MOST_COLUMNS), _MOST_COLUMNS))
    return Camera(
        offset_px=np.asarray(int(offset), np.int32),
        is_between=np.asarray(offset != int(offset)),
        cross_offset_px=np.asarray(math.floor(offset + _HALF), np.int32),
        past_columns=np.asarray(columns, np.int32),
    )


def stamina_rows(level: int) -> np.ndarray:
    """Returns for each row of the bar, from the top, the largest stamina with which it is red, int32 (84,)."""

    def red_px(stamina: int) -> int:
        return int(SCREEN_PX * (1 - stamina / level))

    rows = []
    for row in range(SCREEN_PX):
        # Rounding moves the exact solution by at most one.
        stamina = level - level * (row + 1) // SCREEN_PX + 1
        while red_px(stamina) <= row:
            stamina -= 1
        rows.append(stamina)
    return np.asarray(rows, dtype=np.int32)


def agent_x_px(agent_scale: float, camera: Camera) -> jax.Array:
    """Returns the x of the agent's centre on the screen: its sprite's left edge is cut to whole px."""
    center = sprite_center_px(agent_scale)
    return camera.cut_px(agent_radius(agent_scale) - center) + center


def columns_near(walked_px: jax.Array, camera: Camera) -> jax.Array:
    """Returns the columns of the world of which something may be on the screen, int32 (9,); see `columns_of`."""
    # The first of the nine columns is seen only where a cut draws it on the screen.
    return (walked_px - camera.offset_px) // TILE_PX - 1 + jnp.arange(NUM_COLUMNS)


def columns_of(
    tiles: jax.Array, is_shown: jax.Array, walked_px: jax.Array, camera: Camera
) -> tuple[jax.Array, jax.Array]:
    """Returns `path_columns` and `path_left_px` of a scene.

    Args:
        tiles: Tiles of the world (column, row), int32 (N, 2).
        is_shown: Which of them are shown, bool (N,).
        walked_px: How far the agent is from its start, int32 ().
        camera: The camera.
    """
    columns = columns_near(walked_px, camera)
    is_there = is_shown[None] & (tiles[None, :, 0] == columns[:, None])
    bits = jnp.where(is_there, 1 << tiles[None, :, 1], 0)
    return jnp.bitwise_or.reduce(bits, axis=1), camera.cut_px(TILE_PX * columns - walked_px)


def _spans(scene: EndlessMysteryPathScene) -> tuple[jax.Array, jax.Array]:
    """Returns which x each column of tiles covers, and where its left or right border is, bool (9, 84) each."""
    left = scene.path_left_px[:, None]
    covers = (left <= _X[None]) & (left + TILE_PX > _X[None])
    # Where the edge of the screen leaves two px of a tile, both are border.
    is_edge = (left + TILE_PX == _EDGE_PX) | (left == SCREEN_PX - _EDGE_PX)
    return covers, covers & ((left == _X[None]) | (left + TILE_PX - 1 == _X[None]) | is_edge)


@functools.cache
def _cross() -> SpriteSheet:
    return SpriteSheet.of(cross_picture()[None], anchor=CROSS_CENTER_PX)


@functools.cache
def _grounds() -> np.ndarray:
    """Returns the pictures of an empty world, uint8 (13, 84, 84, 3): the ice moved by 0 … 11 px, and black."""
    ice = np.tile(rectangle(TILE_PX, TILE_PX, _ICE[0, 0], _BORDER[0, 0]), (NUM_ROWS, NUM_ROWS + 1, 1))
    moved = [ice[:, offset : offset + SCREEN_PX] for offset in range(TILE_PX)]
    return np.stack([*moved, np.zeros_like(moved[0])])


def draw(scene: EndlessMysteryPathScene, agent_scale: float) -> jax.Array:
    """Returns the picture of a scene, uint8 (84, 84, 3), row first."""
    covers, is_side = _spans(scene)
    is_border = jnp.any(is_side, axis=0)[None] | _IS_BORDER[:, None]
    tile = jnp.where(is_border[..., None], _BORDER, _TILE)
    canvas = jnp.where(_is_tile(scene, covers)[..., None], tile, ground(scene))
    return with_things(canvas, scene, agent_scale)


def is_tile(scene: EndlessMysteryPathScene) -> jax.Array:
    """Returns where path tiles are shown, bool (84, 84), row first."""
    return _is_tile(scene, _spans(scene)[0])


def _is_tile(scene: EndlessMysteryPathScene, covers: jax.Array) -> jax.Array:
    columns = jnp.bitwise_or.reduce(jnp.where(covers, scene.path_columns[:, None], 0), axis=0)
    return (columns[None] >> _ROW_OF[:, None]) & 1 == 1


def ground(scene: EndlessMysteryPathScene) -> jax.Array:
    """Returns the ice or the black without path tiles and things, uint8 (84, 84, 3), row first."""
    moved = jnp.where(scene.background_px < 0, _BLACK, scene.background_px)
    return lax.dynamic_index_in_dim(jnp.asarray(_grounds()), moved, keepdims=False)


def with_things(canvas: jax.Array, scene: EndlessMysteryPathScene, agent_scale: float) -> jax.Array:
    """Returns a canvas, uint8 (84, 84, 3), with agent, bar and cross over it, in this order."""
    sprites = agent_sprites(agent_scale)
    # What is far outside of the screen is as if it were just outside.
    y = jnp.clip(scene.agent_px[1], sprites.anchor - sprites.side, sprites.anchor + SCREEN_PX)
    canvas = stamp(canvas, sprites, scene.agent_heading, jnp.stack([scene.agent_px[0], y]))
    is_lost = scene.lost_stamina_px > _X[:, None, None]
    bar = jnp.where(is_lost, _LOST_STAMINA, _STAMINA)
    bar = jnp.where(scene.lost_stamina_px >= 0, bar, canvas[:, _BAR_LEFT_PX:])
    canvas = canvas.at[:, _BAR_LEFT_PX:].set(bar)
    cross = _cross()
    y = jnp.clip(scene.agent_px[1], cross.anchor - cross.side, cross.anchor + SCREEN_PX)
    # A cross that is not there is stamped outside of the screen.
    y = jnp.where(scene.has_cross, y, cross.anchor - cross.side)
    return stamp(canvas, cross, jnp.int32(0), jnp.stack([scene.cross_x_px, y]))


def symbols(scene: EndlessMysteryPathScene, agent_scale: float) -> jax.Array:
    """Returns a scene as numbers, float32 (104,); equal vectors and equal pictures go together.

    In order: agent centre x and y over 84 (2), its heading one-hot (8; headings that look alike share an entry), its
    row of tiles one-hot (7), whether the cross is shown (1), the path tiles shown, column by column (9 · 7), the left
    edge of these columns in tiles (9; zero where a column has none), how far the ice has moved one-hot (12; zero for no
    ice), whether stamina is shown (1), its lost share (1). An agent outside of the screen is all zero; of the places
    and headings that look alike at the rim, the first stands for all. A tile of which nothing is seen is left out.

    One exception: a large agent that the right edge cuts may be told apart from others that look alike while it is also
    nearly outside above or below.
    """
    looks = jnp.asarray(_looks(agent_scale))
    reach = (looks.shape[1] - SCREEN_PX) // 2
    y = jnp.clip(scene.agent_px[1] + reach, 0, looks.shape[1] - 1)
    y, heading, is_seen, has_cross = looks[scene.has_cross.astype(jnp.int32), y, scene.agent_heading]
    seen = _seen_tiles(scene, agent_scale)
    left = jnp.where(jnp.any(seen, axis=1), scene.path_left_px, 0).astype(jnp.float32) / np.float32(TILE_PX)
    numbers = jnp.stack([scene.agent_px[0], y]).astype(jnp.float32) / np.float32(SCREEN_PX)
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    agent = jnp.concatenate([numbers, one_hot(heading, NUM_HEADINGS), one_hot(y // TILE_PX, NUM_ROWS)])
    lost = jnp.maximum(scene.lost_stamina_px, 0).astype(jnp.float32) / np.float32(SCREEN_PX)
    return jnp.concatenate(
        [
            jnp.where(is_seen == 1, agent, jnp.float32(0.0)),
            has_cross.astype(jnp.float32)[None],
            seen.astype(jnp.float32).reshape(-1),
            left,
            one_hot(scene.background_px, TILE_PX),
            jnp.stack([(scene.lost_stamina_px >= 0).astype(jnp.float32), lost]),
        ]
    )


@functools.cache
def _looks(agent_scale: float) -> np.ndarray:
    """Returns the first placement that looks like each placement of agent and cross, by cross, y and heading.

    An agent may be partly outside of the screen, or be hidden by the cross.

    Returns:
        y (in px), heading, whether anything is seen, whether the cross is; int32 (2, N, 8, 4), the second axis
        counted from -(N - 84) / 2 on.
    """
    sprites, cross = agent_sprites(agent_scale), _cross()
    reach = max(sprites.side, cross.side)
    high = np.full((SCREEN_PX + 4 * reach, 2 * reach, 3), TRANSPARENT, dtype=np.uint8)
    looks = np.zeros((2, SCREEN_PX + 2 * reach, NUM_HEADINGS, 4), dtype=np.int32)
    first: dict[bytes, tuple[int, int, int, int]] = {}
    blank = high[:SCREEN_PX].tobytes()
    for has_cross, row, heading in np.ndindex(*looks.shape[:-1]):
        picture = high.copy()
        for sheet, index in [(sprites, heading), (cross, 0)][: 1 + has_cross]:
            whole = slice(sheet.side, 2 * sheet.side)
            sprite = sheet.pixels[index, whole, whole]
            top, left = row + reach - sheet.anchor, reach - sheet.anchor
            window = picture[top : top + sheet.side, left : left + sheet.side]
            np.copyto(window, sprite, where=(sprite != TRANSPARENT).any(axis=-1, keepdims=True))
        visible = picture[2 * reach : 2 * reach + SCREEN_PX]
        look = visible.tobytes()
        is_crossed = has_cross and bool((visible == cross_picture()[0, 0]).all(axis=-1).any())
        looks[has_cross, row, heading] = first.setdefault(look, (row - reach, heading, look != blank, is_crossed))
    return looks


def _seen_tiles(scene: EndlessMysteryPathScene, agent_scale: float) -> jax.Array:
    """Returns the path tiles of which something is seen that differs from the ground, bool (9, 7)."""
    covers, is_side = _spans(scene)
    has_ice = scene.background_px >= 0
    ice = (scene.background_px + _X) % TILE_PX
    looks_alike = has_ice & is_side & ((ice == 0) | (ice == TILE_PX - 1))[None]
    differs = covers & ~looks_alike
    tiles = (scene.path_columns[:, None] >> np.arange(NUM_ROWS)[None]) & 1 == 1
    # Cut places overlap by one px at the left edge: a tile of which no more is left lies under its neighbour.
    left = scene.path_left_px
    is_under = (left[:-1] + TILE_PX - 1 == 0) & (left[1:] == 0)
    tiles = tiles.at[:-1].set(tiles[:-1] & ~(is_under[:, None] & tiles[1:]))
    if agent_radius(agent_scale) < _HIDING_RADIUS_PX:
        end = jnp.where(scene.lost_stamina_px >= 0, _BAR_LEFT_PX, SCREEN_PX)
        return tiles & jnp.any(differs & (end > _X[None]), axis=1)[:, None]
    empty = jnp.full((SCREEN_PX, SCREEN_PX, 3), TRANSPARENT, jnp.uint8)
    is_open = jnp.all(with_things(empty, scene, agent_scale) == TRANSPARENT, axis=-1)
    # The ice has the same border above and below as a tile.
    in_border, inside = (
        jnp.any((is_open & rows[:, None]).reshape(NUM_ROWS, TILE_PX, SCREEN_PX), axis=1)
        for rows in (_IS_BORDER, ~_IS_BORDER)
    )
    is_seen = (differs[:, None] & inside[None]) | (covers[:, None] & in_border[None] & ~has_ice)
    return tiles & jnp.any(is_seen, axis=-1)
