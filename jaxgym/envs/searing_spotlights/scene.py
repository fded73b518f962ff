"""Scene of Searing Spotlights and its frame: floor, coins, exit, agent, darkness and the bar on top.

The pixels of each spotlight, and of each color of coins, exit and agent, are kept as bits. A pixel gets the color of
its topmost object in one pass, darkened outside of spotlights unless the object is above the darkness.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.memory_gym.agent import agent_sprites
from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX
from jaxgym.envs.searing_spotlights import bitplanes
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet
from jaxgym.rendering.sprites import disc, ring

HEALTH_BAR_PX = 42
"""Width of the health bar."""

FLOOR_BLUE, FLOOR_RED, FLOOR_WHITE, FLOOR_BLACK = range(4)
EXIT_CLOSED, EXIT_OPEN, NO_EXIT = range(3)
NOT_SHOWN = -1
"""Value for an action or a reward that the bar does not show."""

SQUARE_PX = 12
"""Width of a square of the floor."""

_UNROLLED_SPOTS = 16
_BLACK, _WHITE, RED, _GREEN, _BLUE = (0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255)
_YELLOW, _ORANGE, _GREY = (255, 255, 0), (255, 165, 0), (50, 50, 50)
_EXIT_FILLS = ((55, 55, 55), (48, 141, 70))
_EXIT_BORDER = (0, 0, 0)

BAR_PX = 4
"""Height of the bar on top."""

ACTION_COLORS = ((120, 120, 120), (116, 1, 113), (255, 94, 14))
SECOND_ACTION_PX = 63
REWARD_BOX_PX = (57, 67)
REWARD_COLORS = (_GREY, _YELLOW)
"""Colors in the bar by value; the second action starts at `SECOND_ACTION_PX`, the reward box covers these columns."""

# First column of each row of an exit with a size of twice (plus one) the index; the rows below start at 0.
_EXIT_CORNERS = (
    (),
    (),
    (1,),
    (2, 1),
    (3, 1),
    (3, 2, 1),
    (4, 3, 2, 1),
    (5, 3, 2, 1, 1),
    (6, 4, 3, 2, 1, 1),
    (7, 5, 3, 2, 2, 1, 1),
    (7, 5, 4, 3, 2, 1, 1),
)
# The same for the inside of the largest exit, whose border is two pixels wide; None for a row without inside.
_LARGEST_EXIT_INSIDE = (None, None, 8, 6, 5, 4, 3, 3)


@dataclasses.dataclass(frozen=True)
class RenderOptions:
    """Properties of the sprites.

    Attributes:
        agent_scale: Size of the agent.
        coin_scale: Size of coins.
        exit_scale: Size of the exit; None for a game without exit.
        blank: Color of the bar's right half if nothing is shown.
    """

    agent_scale: float
    coin_scale: float
    exit_scale: float | None
    blank: tuple[int, int, int] = _GREY


@struct.dataclass
class Scene:
    """Scene of Searing Spotlights.

    Attributes:
        floor: Index of the floor, int32 ().
        agent_position_px: Center of the agent, int32 (2,).
        agent_heading: Heading in eighths of a turn, int32 ().
        agent_visible: Whether the agent is above the darkness, bool ().
        coins_px: Centers of the coins, int32 (C, 2).
        has_coin: Whether each coin exists, bool (C,).
        coins_visible: Whether coins are above the darkness, bool ().
        exit_px: Center of the exit, int32 (2,).
        exit_kind: Closed, open or none, int32 ().
        exit_visible: Whether the exit is above the darkness, bool ().
        alpha: Darkness outside of spotlights, 0 to 255, int32 ().
        spots_px: Centers of the spotlights, int32 (K, 2).
        spots_radius_px: int32 (K,).
        is_lit: Whether each spotlight exists, bool (K,).
        has_rings: Whether spotlights have a white outline, bool ().
        lost_health_px: Red columns of the health bar, int32 ().
        shown_action: The two parts of the action in the bar; -1 for none, int32 (2,).
        shown_reward: Whether the bar shows a positive reward (1) or none (0); -1 for no box, int32 ().
    """

    floor: jax.Array
    agent_position_px: jax.Array
    agent_heading: jax.Array
    agent_visible: jax.Array
    coins_px: jax.Array
    has_coin: jax.Array
    coins_visible: jax.Array
    exit_px: jax.Array
    exit_kind: jax.Array
    exit_visible: jax.Array
    alpha: jax.Array
    spots_px: jax.Array
    spots_radius_px: jax.Array
    is_lit: jax.Array
    has_rings: jax.Array
    lost_health_px: jax.Array
    shown_action: jax.Array
    shown_reward: jax.Array


def packed(color: tuple[int, int, int]) -> int:
    """Return a color as 0xBBGGRR."""
    return color[0] | color[1] << 8 | color[2] << 16


# Colors of even and odd squares of each floor.
_FLOORS = np.asarray(
    [[packed(even), packed(odd)] for even, odd in ((_WHITE, _BLUE), (_WHITE, RED), (_WHITE,) * 2, (_BLACK,) * 2)],
    dtype=np.uint32,
)
_IS_ODD = np.indices((SCREEN_PX, SCREEN_PX)) // SQUARE_PX
_IS_ODD = (_IS_ODD.sum(axis=0) % 2 == 1).reshape(SCREEN_PX, bitplanes.NUM_WORDS, bitplanes.WORD_PX)
# This bit of a pixel, above its color, means that it is above the darkness.
_ABOVE = 1 << 24


def coin_radius_px(coin_scale: float) -> int:
    """Return the radius of a coin."""
    return int(10 * coin_scale)


@functools.cache
def coin_sprite(coin_scale: float) -> SpriteSheet:
    """Return the sprite of a coin."""
    radius, border = coin_radius_px(coin_scale), int(2 * coin_scale)
    side, center = 2 * radius + 2, (radius + 1, radius + 1)
    image = np.full((side, side, 3), TRANSPARENT, dtype=np.uint8)
    image[disc(side, center, radius)] = _YELLOW
    image[ring(side, center, radius, border)] = _ORANGE
    return SpriteSheet.of(image[None], anchor=center[0])


@functools.cache
def exit_sprites(exit_scale: float) -> SpriteSheet:
    """Return the sprites of the closed and the open exit: a door, round at the top."""
    side, border = int(20 * exit_scale), int(2 * exit_scale)
    corners = _EXIT_CORNERS[side // 2]
    # A margin of one pixel allows the border to be found from the neighbors.
    outside = np.ones((side + 2, side + 2), dtype=bool)
    outside[1:-1, 1:-1] = False
    for row, left in enumerate(corners):
        outside[1 + row, : 1 + left] = outside[1 + row, 1 + side - left :] = True
    door = ~outside[1:-1, 1:-1]
    inside = door & ~(outside[:-2, 1:-1] | outside[2:, 1:-1] | outside[1:-1, :-2] | outside[1:-1, 2:])
    if border == 0:
        inside[:] = False
    elif border > 1:
        inside[:] = False
        for row in range(side - border):
            left = _LARGEST_EXIT_INSIDE[row] if row < len(_LARGEST_EXIT_INSIDE) else border
            if left is not None:
                inside[row, left : side - left] = True
    images = np.full((2, side, side, 3), TRANSPARENT, dtype=np.uint8)
    for image, fill in zip(images, _EXIT_FILLS, strict=True):
        image[door] = _EXIT_BORDER
        image[inside] = fill
    return SpriteSheet.of(images, anchor=side // 2)


@functools.cache
def _runs(render_options: RenderOptions) -> bitplanes.Runs:
    """Return all sprites: the agent's eight, the coin, and the closed and the open exit, if there is one."""
    sheets = [agent_sprites(render_options.agent_scale), coin_sprite(render_options.coin_scale)]
    return bitplanes.Runs.of(
        sheets if render_options.exit_scale is None else [*sheets, exit_sprites(render_options.exit_scale)]
    )


@struct.dataclass
class _Things:
    """Drawn objects, in drawing order; N coins, exits and agents.

    Attributes:
        sprite: Index into `_runs`, int32 (N,).
        position_px: int32 (N, 2).
        is_there: Whether it exists, bool (N,).
        is_above: Whether it is above the darkness, bool (N,).
        is_below_bar: bool (N,).
    """

    sprite: jax.Array
    position_px: jax.Array
    is_there: jax.Array
    is_above: jax.Array
    is_below_bar: jax.Array


def _things(scene: Scene, render_options: RenderOptions) -> _Things:
    """Return the drawn objects.

    Objects in the dark come first, those above the darkness last; each in the order coins, exit, agent. The bar covers
    all of them except a visible agent or exit. If both coins and exit are visible, it covers these too.
    """
    numbers = (len(scene.has_coin), int(render_options.exit_scale is not None), 1)
    kind = np.repeat(np.arange(len(numbers)), numbers)
    sprites = (jnp.int32(NUM_HEADINGS), NUM_HEADINGS + 1 + scene.exit_kind % NO_EXIT, scene.agent_heading)
    is_above = jnp.stack([scene.coins_visible, scene.exit_visible, scene.agent_visible])[kind]
    places = [scene.coins_px, scene.exit_px[None], scene.agent_position_px[None]]
    is_there = [scene.has_coin, (scene.exit_kind != NO_EXIT)[None], np.ones(1, dtype=bool)]
    things = _Things(
        sprite=jnp.stack(sprites)[kind],
        position_px=jnp.concatenate([place[:number] for place, number in zip(places, numbers, strict=True)]),
        is_there=jnp.concatenate([flags[:number] for flags, number in zip(is_there, numbers, strict=True)]),
        is_above=is_above,
        is_below_bar=~is_above | (kind == 0) | (scene.coins_visible & scene.exit_visible),
    )
    index = np.arange(len(kind))
    rank = jnp.where(is_above, len(kind), 0) + index
    place = jnp.sum(rank[None, :] < rank[:, None], axis=1)
    order = jnp.sum(jnp.where(place[None, :] == index[:, None], index[None, :], 0), axis=1)
    return jax.tree.map(lambda leaf: leaf[order], things)


def light(scene: Scene) -> tuple[jax.Array, jax.Array]:
    """Return the pixels in spotlights, and their white outlines, planes of `bitplanes`."""
    radius = jnp.where(scene.is_lit, scene.spots_radius_px, 0)
    halves, insides = jax.vmap(bitplanes.disc_half_widths)(scene.spots_px[:, 1], radius)

    # A later spotlight erases outlines of earlier ones.
    def add(planes: tuple[jax.Array, jax.Array], spot: tuple[jax.Array, jax.Array, jax.Array]) -> Any:
        (lit, outline), (x, half, inside) = planes, spot
        disc_plane = bitplanes.interval(x, half)
        ring_plane = disc_plane & ~bitplanes.interval(x, jnp.maximum(inside, 0))
        return (lit | disc_plane, (outline & ~disc_plane) | ring_plane), None

    none = jnp.zeros((bitplanes.NUM_WORDS, SCREEN_PX), dtype=jnp.uint32)
    spots = (scene.spots_px[:, 0], halves, insides)
    lit, outline = lax.scan(add, (none, none), spots, unroll=min(len(radius), _UNROLLED_SPOTS))[0]
    return bitplanes.kept(lit), bitplanes.kept(jnp.where(scene.has_rings, outline, jnp.uint32(0)))


def _darkened(pixels: jax.Array, lit: jax.Array, outline: jax.Array, alpha: jax.Array) -> jax.Array:
    """Blend the darkness and the outlines of spotlights over pixels 0xBBGGRR."""
    # Blending with white is blending the negative with black.
    negative = jnp.where(outline, jnp.uint32(0xFFFFFF), jnp.uint32(0))
    return darkened(pixels ^ negative, lit & ~outline, alpha) ^ negative


def darkened(pixels: jax.Array, lit: jax.Array, alpha: jax.Array) -> jax.Array:
    """Blend a darkness of `alpha`, 0 to 255, over pixels 0xBBGGRR that are not lit."""
    strength = jnp.where(lit, jnp.uint32(0), alpha.astype(jnp.uint32))
    red_blue, green = pixels & jnp.uint32(0xFF00FF), (pixels >> 8) & jnp.uint32(0xFF)

    # This is product // 255 for every product of two bytes, two of them at a time.
    def share(channels: jax.Array) -> jax.Array:
        product = channels * strength
        return ((product + jnp.uint32(0x10001) + ((product >> 8) & jnp.uint32(0xFF00FF))) >> 8) & jnp.uint32(0xFF00FF)

    return (red_blue - share(red_blue)) | ((green - (share(green) & jnp.uint32(0xFF))) << 8)


def _bar(scene: Scene, blank: tuple[int, int, int]) -> jax.Array:
    """Return one row of the bar on top, 0xBBGGRR, uint32 (84,)."""
    x = np.arange(SCREEN_PX, dtype=np.int32)

    def of(color: tuple[int, int, int]) -> jax.Array:
        return jnp.uint32(packed(color))

    row = jnp.where(x < HEALTH_BAR_PX, jnp.where(x < scene.lost_health_px, of(RED), of(_GREEN)), of(blank))
    choice = jnp.where(x < SECOND_ACTION_PX, scene.shown_action[0], scene.shown_action[1])
    for value, color in enumerate(ACTION_COLORS):
        row = jnp.where((x >= HEALTH_BAR_PX) & (choice == value), of(color), row)
    has_action = scene.shown_action[0] != NOT_SHOWN
    first, end = (jnp.where(has_action, edge, whole) for edge, whole in zip(REWARD_BOX_PX, (42, 84), strict=True))
    for value, color in enumerate(REWARD_COLORS):
        row = jnp.where((x >= first) & (x < end) & (scene.shown_reward == value), of(color), row)
    return row


def draw(scene: Scene, render_options: RenderOptions) -> jax.Array:
    """Return the frame of a scene of Searing Spotlights, uint8 (84, 84, 3), row first."""
    shifts = np.asarray([[[0, 8, 16]]], dtype=np.uint32)
    return (pixels_of(scene, render_options)[..., None] >> shifts).astype(jnp.uint8)


def pixels_of(scene: Scene, render_options: RenderOptions) -> jax.Array:
    """Return the same frame as 0xBBGGRR, uint32 (84, 84)."""
    things, runs = _things(scene, render_options), _runs(render_options)
    planes = jax.vmap(runs.planes)(things.sprite, things.position_px)
    is_bar = np.arange(SCREEN_PX) < BAR_PX
    hidden = ~things.is_there[:, None] | (things.is_below_bar[:, None] & is_bar[None, :])
    planes = bitplanes.kept(jnp.where(hidden[:, None, None, :], jnp.uint32(0), planes))
    is_above = jnp.where(things.is_above, jnp.uint32(_ABOVE), jnp.uint32(0))
    colors = bitplanes.kept(jnp.asarray(runs.colors)[things.sprite] | is_above[:, None])
    floor = bitplanes.kept(jnp.asarray(_FLOORS)[scene.floor])
    bar = bitplanes.kept(_bar(scene, render_options.blank)).reshape(1, bitplanes.NUM_WORDS, bitplanes.WORD_PX)
    pixels = jnp.where(is_bar[:, None, None], bar | jnp.uint32(_ABOVE), jnp.where(_IS_ODD, floor[1], floor[0]))
    for thing_planes, thing_colors in zip(planes, colors, strict=True):
        for plane, color in zip(thing_planes, thing_colors, strict=True):
            pixels = jnp.where(bitplanes.spread(plane), color, pixels)
    lit, outline = light(scene)
    above = pixels >= _ABOVE
    pixels = _darkened(pixels, bitplanes.spread(lit) | above, bitplanes.spread(outline) & ~above, scene.alpha)
    return bitplanes.kept(pixels).reshape(SCREEN_PX, SCREEN_PX)
