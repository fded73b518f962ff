"""Searing Spotlights as numbers: what the picture shows whole, and how bright each square of the floor is.

The numbers are read off the picture, so that they never tell more than it does; only where to look is the scene's.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxgym.envs.memory_gym.agent import agent_sprites, heading_looks
from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX
from jaxgym.envs.searing_spotlights import scene as seen
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet

_SQUARES = SCREEN_PX // seen.SQUARE_PX
_OPAQUE = 255
_FARTHEST_PX = SCREEN_PX + 4
"""Above every coordinate of a thing."""


def symbols(scene: seen.Scene, look: seen.Look) -> jax.Array:
    """Returns a scene of Searing Spotlights as numbers, float32 (n,), each from 0 to 1.

    A thing is listed only if every pixel of it is on the screen and has the thing's own colour: nothing covers it,
    neither darkness nor the bar nor another thing. All numbers of a thing that is not listed are 0. Coordinates are
    over 88.

    In order: the agent (listed, x, y, its heading one-hot: 11); each coin (listed, x, y), row by row, those that are
    not listed last; the exit, if the game has one (listed, x, y, open: 4); for each of 7 × 7 squares of the floor, row
    by row, the brightest channel of its pixels below the bar, on average, over 255 (49); whether anything is blue, and
    whether anything is red (2); lost health (1); the two parts of the action in the bar, one-hot (6), and its reward,
    one-hot (2), all zero where the bar shows none.
    """
    pixels = seen.pixels_of(scene, look)
    agent = _is_whole(pixels, agent_sprites(look.agent_scale), scene.agent_heading, scene.agent_position_px)
    looks = jnp.asarray(heading_looks(look.agent_scale))[scene.agent_heading]
    heading = (looks == np.arange(NUM_HEADINGS)) & agent
    coin = functools.partial(_is_whole, pixels, seen.coin_sprite(look.coin_scale), jnp.int32(0))
    coins = _in_reading_order(scene.coins_px, jax.vmap(coin)(scene.coins_px) & scene.has_coin)
    parts = [_place(scene.agent_position_px, agent), heading, coins]
    if look.exit_scale is not None:
        door, is_open = seen.exit_sprites(look.exit_scale), scene.exit_kind == seen.EXIT_OPEN
        exit_ = _is_whole(pixels, door, is_open.astype(jnp.int32), scene.exit_px) & (scene.exit_kind != seen.NO_EXIT)
        parts += [_place(scene.exit_px, exit_), (exit_ & is_open)[None]]
    parts += [_brightness(pixels), _hues(pixels), _bar(pixels[: seen.BAR_PX])]
    return jnp.concatenate([part.astype(jnp.float32) for part in parts])


def _sprite_pixels(sheet: SpriteSheet) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sprites of a sheet with their margin, as 0xBBGGRR, and which pixels are drawn."""
    channels = sheet.pixels.astype(np.uint32)
    return channels[..., 0] | channels[..., 1] << 8 | channels[..., 2] << 16, sheet.pixels[..., 0] != TRANSPARENT


def _is_whole(pixels: jax.Array, sheet: SpriteSheet, index: jax.Array, position_px: jax.Array) -> jax.Array:
    """Whether the picture shows all of a sprite at a position, bool ()."""
    sprites, is_drawn = _sprite_pixels(sheet)
    corner = position_px - sheet.anchor
    start = jnp.clip(corner, 0, SCREEN_PX - sheet.side)
    offset = sheet.side + start - corner
    size = (sheet.side, sheet.side)
    window = lax.dynamic_slice(pixels, (start[1], start[0]), size)
    at = (index, offset[1], offset[0])
    is_same = lax.dynamic_slice(jnp.asarray(sprites), at, (1, *size))[0] == window
    is_same &= lax.dynamic_slice(jnp.asarray(is_drawn), at, (1, *size))[0]
    return jnp.sum(is_same, dtype=jnp.int32) == jnp.asarray(is_drawn.sum(axis=(1, 2), dtype=np.int32))[index]


def _place(position_px: jax.Array, is_listed: jax.Array) -> jax.Array:
    numbers = jnp.append(jnp.float32(1.0), position_px.astype(jnp.float32) / np.float32(_FARTHEST_PX))
    return jnp.where(is_listed, numbers, 0.0)


def _in_reading_order(coins_px: jax.Array, is_listed: jax.Array) -> jax.Array:
    """Returns the numbers of all coins, float32 (3 · C,), so that the picture alone tells their order."""
    index = np.arange(len(coins_px))
    rank = jnp.where(is_listed, coins_px[:, 1] * SCREEN_PX + coins_px[:, 0], SCREEN_PX**2)
    is_before = (rank[None, :] < rank[:, None]) | ((rank[None, :] == rank[:, None]) & (index[None, :] < index[:, None]))
    place = jnp.sum(is_before, axis=1)
    return jnp.zeros((len(index), 3), jnp.float32).at[place].set(jax.vmap(_place)(coins_px, is_listed)).reshape(-1)


def _channels(pixels: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(((pixels >> shift) & jnp.uint32(_OPAQUE)).astype(jnp.int32) for shift in (0, 8, 16))


def _brightness(pixels: jax.Array) -> jax.Array:
    """Returns the numbers of the squares of the floor, float32 (49,)."""
    is_below_bar = (np.arange(SCREEN_PX) >= seen.BAR_PX)[:, None]
    brightest = jnp.where(is_below_bar, functools.reduce(jnp.maximum, _channels(pixels)), 0)
    squares = brightest.reshape(_SQUARES, seen.SQUARE_PX, _SQUARES, seen.SQUARE_PX)
    full = np.full((_SQUARES, 1), _OPAQUE * seen.SQUARE_PX**2, dtype=np.float32)
    full[0] = _OPAQUE * seen.SQUARE_PX * (seen.SQUARE_PX - seen.BAR_PX)
    return (jnp.sum(squares, axis=(1, 3)).astype(jnp.float32) / full).reshape(-1)


def _hues(pixels: jax.Array) -> jax.Array:
    """Whether anything below the bar is blue, and whether anything is red, bool (2,)."""
    red, green, blue = _channels(pixels[seen.BAR_PX :])
    no_green = green == 0
    return jnp.stack([jnp.any((blue > 0) & (red == 0) & no_green), jnp.any((red > 0) & (blue == 0) & no_green)])


def _bar(rows: jax.Array) -> jax.Array:
    """Returns what the rows of the bar, uint32 (4, 84), show of health, action and reward, float32 (9,)."""

    def shows(color: tuple[int, int, int], first: int, end: int) -> jax.Array:
        return jnp.any(rows[:, first:end] == jnp.uint32(seen.packed(color)))

    lost = jnp.sum(jnp.any(rows[:, : seen.HEALTH_BAR_PX] == jnp.uint32(seen.packed(seen.RED)), axis=0), dtype=jnp.int32)
    columns = ((seen.HEALTH_BAR_PX, seen.REWARD_BOX_PX[0]), (seen.REWARD_BOX_PX[1], SCREEN_PX))
    flags = [shows(color, *part) for part in columns for color in seen.ACTION_COLORS]
    flags += [shows(color, *seen.REWARD_BOX_PX) for color in seen.REWARD_COLORS]
    health = lost.astype(jnp.float32) / np.float32(seen.HEALTH_BAR_PX)
    return jnp.append(health, jnp.stack(flags).astype(jnp.float32))
