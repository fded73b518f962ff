"""What is seen of Searing Spotlights: floor, coins, exit, agent, darkness and the bar on top.

The floor is one of a few whole pictures; coins, exit and agent are stamped on it, below the darkness if they are
hidden and above it if they are not. The darkness is one pass over the picture: what is lit is kept as bits, which are
closed-form discs.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.memory import bitrows
from jaxgym.envs.memory.agent import agent_sprites
from jaxgym.envs.memory.arena import SCREEN_PX
from jaxgym.envs.memory.spotlights import LARGEST_RADIUS_PX, SMALLEST_RADIUS_PX
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet, stamp
from jaxgym.rendering.sprites import disc, disc_half_widths, ring

HEALTH_BAR_PX = 42
"""Width of the health bar."""

FLOOR_BLUE, FLOOR_RED, FLOOR_WHITE, FLOOR_BLACK = range(4)
EXIT_CLOSED, EXIT_OPEN, NO_EXIT = range(3)
NOT_SHOWN = -1
"""Stands for an action or a reward that the bar does not show."""

_SQUARE_PX = 12
_OPAQUE = 255
_BLACK, _WHITE, _RED, _GREEN, _BLUE = (0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255)
_YELLOW, _ORANGE, _GREY = (255, 255, 0), (255, 165, 0), (50, 50, 50)
_EXIT_FILLS = ((55, 55, 55), (48, 141, 70))
_EXIT_BORDER = (0, 0, 0)

_BAR_PX = 4
_ACTION_COLORS = ((120, 120, 120), (116, 1, 113), (255, 94, 14))
_SECOND_ACTION_PX = 63
_REWARD_BOX_PX = (57, 67)
_REWARD_COLORS = (_GREY, _YELLOW)

# First column of each row of an exit whose side is twice or twice plus one the index; the rows below begin at 0.
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
# The same of the inside of the largest exit, whose border is two pixels wide; None where a row has no inside.
_LARGEST_EXIT_INSIDE = (None, None, 8, 6, 5, 4, 3, 3)


@dataclasses.dataclass(frozen=True)
class Look:
    """What fixes sprites.

    Attributes:
        agent_scale: Size of the agent.
        coin_scale: Size of coins.
        exit_scale: Size of the exit.
        blank: Colour of the bar's right half where nothing is shown.
    """

    agent_scale: float
    coin_scale: float
    exit_scale: float
    blank: tuple[int, int, int] = _GREY


@struct.dataclass
class Scene:
    """What a viewer may know of Searing Spotlights.

    Attributes:
        floor: Which floor, int32 ().
        agent_position_px: Centre of the agent, int32 (2,).
        agent_heading: In eighths of a turn, int32 ().
        agent_visible: Whether the agent is above the darkness, bool ().
        coins_px: Centres of the coins, int32 (C, 2).
        has_coin: Which of them are there, bool (C,).
        coins_visible: Whether coins are above the darkness, bool ().
        exit_px: Centre of the exit, int32 (2,).
        exit_kind: Closed, open or none, int32 ().
        exit_visible: Whether the exit is above the darkness, bool ().
        alpha: How dark it is where no spotlight is, 0 to 255, int32 ().
        spots_px: Centres of the spotlights, int32 (K, 2).
        spots_radius_px: int32 (K,).
        is_lit: Which of them are there, bool (K,).
        has_rings: Whether spotlights have a white outline, bool ().
        lost_health_px: Columns of the health bar that are red, int32 ().
        shown_action: The two parts of the action in the bar; -1 where there is none, int32 (2,).
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


@functools.cache
def _floors() -> np.ndarray:
    """Returns the floors, uint8 (4, 84, 84, 3): two chessboards, white and black."""
    squares = np.arange(SCREEN_PX) // _SQUARE_PX
    is_odd = (squares[:, None] + squares[None, :]) % 2 == 1
    floors = np.full((4, SCREEN_PX, SCREEN_PX, 3), _OPAQUE, dtype=np.uint8)
    floors[FLOOR_BLUE][is_odd] = _BLUE
    floors[FLOOR_RED][is_odd] = _RED
    floors[FLOOR_BLACK] = _BLACK
    return floors


def coin_radius_px(coin_scale: float) -> int:
    """Returns the radius of a coin."""
    return int(10 * coin_scale)


@functools.cache
def _coin_sprite(coin_scale: float) -> SpriteSheet:
    radius, border = coin_radius_px(coin_scale), int(2 * coin_scale)
    side, center = 2 * radius + 2, (radius + 1, radius + 1)
    picture = np.full((side, side, 3), TRANSPARENT, dtype=np.uint8)
    picture[disc(side, center, radius)] = _YELLOW
    picture[ring(side, center, radius, border)] = _ORANGE
    return SpriteSheet.of(picture[None], anchor=center[0])


@functools.cache
def _exit_sprites(exit_scale: float) -> SpriteSheet:
    """Returns the closed and the open exit: a door, round at the top."""
    side, border = int(20 * exit_scale), int(2 * exit_scale)
    corners = _EXIT_CORNERS[side // 2]
    # A margin of one lets the border be found from the neighbours.
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
    pictures = np.full((2, side, side, 3), TRANSPARENT, dtype=np.uint8)
    for picture, fill in zip(pictures, _EXIT_FILLS, strict=True):
        picture[door] = _EXIT_BORDER
        picture[inside] = fill
    return SpriteSheet.of(pictures, anchor=side // 2)


# Where the row of a half width lies in the table below, for a centre at row 0.
_TABLE_ROW_PX = 4 * SCREEN_PX // 2


@functools.cache
def _half_widths() -> np.ndarray:
    """Returns the half widths of discs and of their insides (without the ring), int32 (43, 336, 2).

    Entry (radius, 168 + dy) is that of the row dy px below the centre; where the disc has no such row, it is 0.
    """
    table = np.zeros((LARGEST_RADIUS_PX + 1, 2 * _TABLE_ROW_PX, 2), dtype=np.int32)
    for radius in range(SMALLEST_RADIUS_PX, LARGEST_RADIUS_PX + 1):
        widths = disc_half_widths(radius)
        insides = np.minimum(widths - 1, np.append(widths[1:], 0))
        for k, half in enumerate(zip(widths, insides, strict=True)):
            table[radius, _TABLE_ROW_PX + k] = table[radius, _TABLE_ROW_PX - 1 - k] = half
    return table


def _disc_rows(center_px: jax.Array, radius_px: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns a spotlight's disc, and its inside, as bits, uint32 (84, 3) each."""
    start = (radius_px, _TABLE_ROW_PX - center_px[1], jnp.zeros_like(radius_px))
    half = lax.dynamic_slice(jnp.asarray(_half_widths()), start, (1, SCREEN_PX, 2))[0]
    rows = bitrows.interval(center_px[0] - half, center_px[0] + half)
    return rows[:, 0], rows[:, 1]


def light(scene: Scene) -> tuple[jax.Array, jax.Array]:
    """Returns which pixels are in a spotlight, and which are in the white outline of one, bool (84, 84) each."""
    radius = jnp.where(scene.is_lit, scene.spots_radius_px, 0)
    discs, insides = lax.optimization_barrier(jax.vmap(_disc_rows)(scene.spots_px, radius))
    outline = jnp.zeros_like(discs[0])
    for one, inside in zip(discs, insides, strict=True):
        outline = (outline & ~one) | (one & ~inside)
    lit = lax.reduce(discs, jnp.uint32(0), lax.bitwise_or, (0,))
    lit, outline = lax.optimization_barrier((lit, outline))
    return bitrows.unpack(lit), bitrows.unpack(outline) & scene.has_rings


def _darken(frame: jax.Array, scene: Scene) -> jax.Array:
    """Lays the darkness, and the outlines of spotlights, over a picture."""
    lit, outline = light(scene)
    lit, outline = lit[..., None], outline[..., None]
    alpha = scene.alpha.astype(jnp.uint16)
    below = frame.astype(jnp.uint16)
    distance = jnp.where(outline, jnp.uint16(_OPAQUE) - below, below) * alpha
    # This is distance // 255 for every product of two bytes.
    change = (distance + jnp.uint16(1) + (distance >> 8)) >> 8
    blended = jnp.where(outline, below + change, below - change).astype(jnp.uint8)
    return jnp.where(lit & ~outline, frame, blended)


def _bar(scene: Scene, blank: tuple[int, int, int]) -> jax.Array:
    """Returns one row of the bar on top, uint8 (84, 3)."""
    x = np.arange(SCREEN_PX, dtype=np.int32)[:, None]
    colors = [jnp.asarray(color, dtype=jnp.uint8)[None, :] for color in (_RED, _GREEN, blank)]
    row = jnp.where(x < HEALTH_BAR_PX, jnp.where(x < scene.lost_health_px, colors[0], colors[1]), colors[2])
    choice = jnp.where(x < _SECOND_ACTION_PX, scene.shown_action[0], scene.shown_action[1])
    is_right = x >= HEALTH_BAR_PX
    for value, color in enumerate(_ACTION_COLORS):
        row = jnp.where(is_right & (choice == value), jnp.asarray(color, dtype=jnp.uint8)[None, :], row)
    has_action = scene.shown_action[0] != NOT_SHOWN
    first, end = (jnp.where(has_action, edge, whole) for edge, whole in zip(_REWARD_BOX_PX, (42, 84), strict=True))
    is_box = (x >= first) & (x < end)
    for value, color in enumerate(_REWARD_COLORS):
        row = jnp.where(is_box & (scene.shown_reward == value), jnp.asarray(color, dtype=jnp.uint8)[None, :], row)
    return row


def _stamp_if(
    frame: jax.Array, sheet: SpriteSheet, index: jax.Array, position_px: jax.Array, is_there: jax.Array
) -> jax.Array:
    # A sprite that is not there is stamped just outside of the picture.
    return stamp(frame, sheet, index, jnp.where(is_there, position_px, sheet.anchor - sheet.side))


def draw(scene: Scene, look: Look) -> jax.Array:
    """Returns the picture of a scene of Searing Spotlights, uint8 (84, 84, 3), row first.

    What is hidden lies below the darkness. Above it are the coins, the exit and the agent, as far as they are visible;
    the bar comes last but for an agent or an exit that is visible while the coins are hidden, and for a visible agent
    while the exit is hidden.
    """
    bar = jnp.broadcast_to(_bar(scene, look.blank)[None], (_BAR_PX, SCREEN_PX, 3))

    def with_coins(frame: jax.Array, is_level: jax.Array) -> jax.Array:
        for coin_px, has_coin in zip(scene.coins_px, scene.has_coin, strict=True):
            frame = _stamp_if(frame, _coin_sprite(look.coin_scale), jnp.int32(0), coin_px, has_coin & is_level)
        return frame

    def with_exit(frame: jax.Array, is_level: jax.Array) -> jax.Array:
        is_there = is_level & (scene.exit_kind != NO_EXIT)
        return _stamp_if(frame, _exit_sprites(look.exit_scale), scene.exit_kind % NO_EXIT, scene.exit_px, is_there)

    def with_agent(frame: jax.Array, is_level: jax.Array) -> jax.Array:
        sprites = agent_sprites(look.agent_scale)
        return _stamp_if(frame, sprites, scene.agent_heading, scene.agent_position_px, is_level)

    def with_bar(frame: jax.Array, is_level: jax.Array) -> jax.Array:
        return frame.at[:_BAR_PX].set(jnp.where(is_level, bar, frame[:_BAR_PX]))

    always = jnp.bool_(True)
    bar_is_last = scene.coins_visible & scene.exit_visible
    frame = lax.dynamic_index_in_dim(jnp.asarray(_floors()), scene.floor, keepdims=False)
    frame = with_coins(frame, ~scene.coins_visible)
    frame = with_exit(frame, ~scene.exit_visible)
    frame = with_agent(frame, ~scene.agent_visible)
    frame = _darken(frame, scene)
    frame = with_coins(frame, scene.coins_visible)
    frame = with_bar(frame, always)
    frame = with_exit(frame, scene.exit_visible)
    frame = with_agent(frame, scene.agent_visible)
    return with_bar(frame, bar_is_last)
