"""Sprites of the agent, for all games of the family."""

import functools
import math

import numpy as np

from jaxgym.envs.memory_gym.arena import HEADING_DEGREES, NUM_HEADINGS, SCREEN_PX, agent_radius
from jaxgym.rendering import placements
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet
from jaxgym.rendering.sprites import disc, ring

_BODY = (250, 204, 153)
_HAND = (250, 250, 250)
_HAND_OUTLINE = (50, 50, 50)
_HAND_MARGIN_PX = 14


def _hand_radius(agent_scale: float) -> int:
    return int(10 * agent_scale)


def _side(agent_scale: float) -> int:
    return 2 * agent_radius(agent_scale) + _hand_radius(agent_scale) + _HAND_MARGIN_PX


def sprite_center_px(agent_scale: float) -> int:
    """Return the x of the agent's center in the original's square sprite, in px."""
    return _side(agent_scale) // 2


@functools.cache
def agent_sprites(agent_scale: float) -> SpriteSheet:
    """Return the agent's sprites for the eight headings: a body and two hands, rotated around its center."""
    radius, hand_radius, outline = agent_radius(agent_scale), _hand_radius(agent_scale), int(3 * agent_scale)
    side = _side(agent_scale)
    center = sprite_center_px(agent_scale)
    images = np.full((NUM_HEADINGS, side, side, 3), TRANSPARENT, dtype=np.uint8)
    hand_x, hand_y = int(18 * agent_scale), int(12 * agent_scale) + _HAND_MARGIN_PX // 2 - center
    for heading, image in enumerate(images):
        image[disc(side, (center, center), radius)] = _BODY
        cos, sin = _turn(heading)
        hands = [
            (int(x * cos - hand_y * sin + center), int(x * sin + hand_y * cos + center)) for x in (-hand_x, hand_x)
        ]
        if hand_radius == 0:
            continue
        for hand in hands:
            image[disc(side, hand, hand_radius)] = _HAND
        for hand in hands:
            image[ring(side, hand, hand_radius, outline)] = _HAND_OUTLINE
    return SpriteSheet.of(images, anchor=center)


def _turn(heading: int) -> tuple[float, float]:
    """Return cosine and sine of a heading's angle; quarter turns are exact, the rest rounds as in the original."""
    if heading % 2 == 0:
        return ((1.0, 0.0), (0.0, -1.0), (-1.0, 0.0), (0.0, 1.0))[heading // 2]
    # The direction of rotation matters: a hand lies a rounding error away from a whole pixel, and is truncated.
    angle = math.radians(360 - HEADING_DEGREES * heading)
    return math.cos(angle), math.sin(angle)


@functools.cache
def first_headings(agent_scale: float) -> np.ndarray:
    """Return the first heading with the same sprite as each heading, int32 (8,); tiny hands may be invisible."""
    first: dict[bytes, int] = {}
    images = agent_sprites(agent_scale).pixels
    return np.asarray(
        [first.setdefault(image.tobytes(), heading) for heading, image in enumerate(images)], dtype=np.int32
    )


@functools.cache
def first_placements(agent_scale: float, margin_px: int) -> np.ndarray:
    """Return the first placement with the same pixels as each placement of an agent that may leave the screen.

    In a corner of the screen so little of the agent is visible that nearby positions and headings give the same pixels.
    Its center is at most `margin_px` away from the screen.

    Returns:
        x, y (in px) and heading, int32 (N, N, 8, 3) with N = 84 + 2 · margin_px + 1; indexed by x and y, both from
        -margin_px, and heading.
    """
    places = range(-margin_px, SCREEN_PX + margin_px + 1)
    return placements.first_placements(agent_sprites(agent_scale), SCREEN_PX, places, places)
