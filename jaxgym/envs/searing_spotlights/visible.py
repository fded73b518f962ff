"""Facts that a frame of Searing Spotlights shows, as integers, for the symbolic observation and the text.

They are read from the frame's pixels, so they never reveal more than the frame; only the positions to read are the
scene's.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.memory_gym.agent import agent_sprites, first_headings
from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX, AxisMove
from jaxgym.envs.searing_spotlights import scene as scenes
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet

SQUARES = SCREEN_PX // scenes.SQUARE_PX
"""Squares of the floor per side."""

_OPAQUE = 255
_FARTHEST_PX = SCREEN_PX + 4
"""Upper bound of an object's coordinates."""


def _light_units() -> np.ndarray:
    brightest = np.full((SQUARES, SQUARES), _OPAQUE * scenes.SQUARE_PX**2, dtype=np.float32)
    brightest[0] = _OPAQUE * scenes.SQUARE_PX * (scenes.SQUARE_PX - scenes.BAR_PX)  # the bar covers the rest
    return np.float32(1) / brightest.reshape(-1)


LIGHT_UNITS = _light_units()
"""Value of 1 in `Visible.light` as a share of the light of a white square, float32 (49,).

Symbols and text multiply by it, because a division would round differently on the host and in a compiled program.
"""


@struct.dataclass
class Visible:
    """Facts that a frame of Searing Spotlights shows.

    An object is listed only if all of its pixels are on the screen and have the object's own color, so that nothing
    covers it: neither darkness nor the bar nor another object. All numbers of an object that is not listed are 0.

    Attributes:
        has_agent: Whether the agent is listed, bool ().
        agent_px: Center of the agent, int32 (2,).
        agent_heading: Heading in eighths of a turn, int32 (); the first of the headings with the same sprite.
        has_coin: Whether each coin is listed, bool (C,): listed ones first, row by row.
        coins_px: Centers of the coins, int32 (C, 2).
        has_exit: Whether the exit is listed, bool (); None in a game without exit, as are its other fields.
        exit_px: Center of the exit, int32 (2,).
        is_open: Whether the exit is listed and open, bool ().
        light: For each of 7 × 7 squares of the floor, row by row, the sum of the brightest channel of its pixels below
            the bar, int32 (49,).
        has_blue: Whether anything below the bar is blue, bool ().
        has_red: Whether anything below the bar is red, bool ().
        lost_health_px: Red pixels of the health bar, int32 ().
        action: The two parts of the action in the bar, int32 (2,); -1 for none.
        reward: Reward in the bar, 1 if positive, else 0, int32 (); -1 for none.
    """

    has_agent: jax.Array
    agent_px: jax.Array
    agent_heading: jax.Array
    has_coin: jax.Array
    coins_px: jax.Array
    has_exit: Any
    exit_px: Any
    is_open: Any
    light: jax.Array
    has_blue: jax.Array
    has_red: jax.Array
    lost_health_px: jax.Array
    action: jax.Array
    reward: jax.Array


def visible_in(scene: scenes.Scene, render_options: scenes.RenderOptions) -> Visible:
    """Return the facts that the frame of a scene shows."""
    pixels = scenes.pixels_of(scene, render_options)
    has_agent = _is_whole(
        pixels, agent_sprites(render_options.agent_scale), scene.agent_heading, scene.agent_position_px
    )
    heading = jnp.asarray(first_headings(render_options.agent_scale))[scene.agent_heading]
    coin = functools.partial(_is_whole, pixels, scenes.coin_sprite(render_options.coin_scale), jnp.int32(0))
    has_coin, coins_px = _in_reading_order(scene.coins_px, jax.vmap(coin)(scene.coins_px) & scene.has_coin)
    has_exit = exit_px = is_open = None
    if render_options.exit_scale is not None:
        door, is_open = scenes.exit_sprites(render_options.exit_scale), scene.exit_kind == scenes.EXIT_OPEN
        has_exit = _is_whole(pixels, door, is_open.astype(jnp.int32), scene.exit_px)
        has_exit &= scene.exit_kind != scenes.NO_EXIT
        exit_px, is_open = jnp.where(has_exit, scene.exit_px, 0), has_exit & is_open
    has_blue, has_red = _hues(pixels)
    lost_health_px, action, reward = _bar(pixels[: scenes.BAR_PX])
    return Visible(
        has_agent=has_agent,
        agent_px=jnp.where(has_agent, scene.agent_position_px, 0),
        agent_heading=jnp.where(has_agent, heading, 0),
        has_coin=has_coin,
        coins_px=coins_px,
        has_exit=has_exit,
        exit_px=exit_px,
        is_open=is_open,
        light=_light(pixels),
        has_blue=has_blue,
        has_red=has_red,
        lost_health_px=lost_health_px,
        action=action,
        reward=reward,
    )


def _sprite_pixels(sheet: SpriteSheet) -> tuple[np.ndarray, np.ndarray]:
    """Return the sprites of a sheet with their margin, as 0xBBGGRR, and the drawn pixels."""
    channels = sheet.pixels.astype(np.uint32)
    return channels[..., 0] | channels[..., 1] << 8 | channels[..., 2] << 16, sheet.pixels[..., 0] != TRANSPARENT


def _is_whole(pixels: jax.Array, sheet: SpriteSheet, index: jax.Array, position_px: jax.Array) -> jax.Array:
    """Return whether the frame shows all of a sprite at a position, bool ()."""
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


def _in_reading_order(coins_px: jax.Array, is_listed: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the listed coins and their positions in reading order, so that only the frame determines the order."""
    index = np.arange(len(coins_px))
    rank = jnp.where(is_listed, coins_px[:, 1] * SCREEN_PX + coins_px[:, 0], SCREEN_PX**2)
    is_before = (rank[None, :] < rank[:, None]) | ((rank[None, :] == rank[:, None]) & (index[None, :] < index[:, None]))
    place = jnp.sum(is_before, axis=1)
    listed = jnp.where(is_listed[:, None], coins_px, 0)
    return jnp.zeros_like(is_listed).at[place].set(is_listed), jnp.zeros_like(coins_px).at[place].set(listed)


def _channels(pixels: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(((pixels >> shift) & jnp.uint32(_OPAQUE)).astype(jnp.int32) for shift in (0, 8, 16))


def _light(pixels: jax.Array) -> jax.Array:
    is_below_bar = (np.arange(SCREEN_PX) >= scenes.BAR_PX)[:, None]
    brightest = jnp.where(is_below_bar, functools.reduce(jnp.maximum, _channels(pixels)), 0)
    squares = brightest.reshape(SQUARES, scenes.SQUARE_PX, SQUARES, scenes.SQUARE_PX)
    return jnp.sum(squares, axis=(1, 3), dtype=jnp.int32).reshape(-1)


def _hues(pixels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return whether anything below the bar is blue, and whether anything is red, bool ()."""
    red, green, blue = _channels(pixels[scenes.BAR_PX :])
    no_green = green == 0
    return jnp.any((blue > 0) & (red == 0) & no_green), jnp.any((red > 0) & (blue == 0) & no_green)


def _bar(rows: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return lost health in px, the parts of the action, and the reward, from the rows of the bar, uint32 (4, 84)."""

    def shown(colors: tuple[tuple[int, int, int], ...], first: int, end: int) -> jax.Array:
        flags = jnp.stack([jnp.any(rows[:, first:end] == jnp.uint32(scenes.packed(color))) for color in colors])
        return jnp.where(jnp.any(flags), jnp.argmax(flags).astype(jnp.int32), -1)

    is_red = rows[:, : scenes.HEALTH_BAR_PX] == jnp.uint32(scenes.packed(scenes.RED))
    first, end = scenes.REWARD_BOX_PX
    parts = [shown(scenes.ACTION_COLORS, *part) for part in ((scenes.HEALTH_BAR_PX, first), (end, SCREEN_PX))]
    lost = jnp.sum(jnp.any(is_red, axis=0), dtype=jnp.int32)
    return lost, jnp.stack(parts), shown(scenes.REWARD_COLORS, first, end)


def symbols(seen: Visible) -> jax.Array:
    """Return the facts of a frame as numbers, float32 (n,), each from 0 to 1.

    All numbers of an object that is not listed are 0; see `Visible`. Coordinates are divided by 88.

    In order: the agent (listed, x, y, heading one-hot: 11); each coin (listed, x, y), row by row, unlisted ones last;
    the exit, if the game has one (listed, x, y, open: 4); for each of 7 × 7 squares of the floor, row by row, the mean
    of the brightest channel of its pixels below the bar, divided by 255 (49); whether anything is blue, and whether
    anything is red (2); lost health (1); the two parts of the action in the bar, one-hot (6), and its reward, one-hot
    (2), zeros if the bar shows none.
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    heading = one_hot(jnp.where(seen.has_agent, seen.agent_heading, -1), NUM_HEADINGS)
    parts = [_place(seen.has_agent, seen.agent_px), heading, jax.vmap(_place)(seen.has_coin, seen.coins_px).reshape(-1)]
    if seen.has_exit is not None:
        parts += [_place(seen.has_exit, seen.exit_px), seen.is_open[None]]
    parts += [
        seen.light.astype(jnp.float32) * LIGHT_UNITS,
        jnp.stack([seen.has_blue, seen.has_red]),
        (seen.lost_health_px.astype(jnp.float32) / np.float32(scenes.HEALTH_BAR_PX))[None],
        one_hot(seen.action, len(AxisMove)).reshape(-1),
        one_hot(seen.reward, len(scenes.REWARD_COLORS)),
    ]
    return jnp.concatenate([part.astype(jnp.float32) for part in parts])


def _place(is_listed: jax.Array, position_px: jax.Array) -> jax.Array:
    numbers = jnp.append(jnp.float32(1.0), position_px.astype(jnp.float32) / np.float32(_FARTHEST_PX))
    return jnp.where(is_listed, numbers, 0.0)
