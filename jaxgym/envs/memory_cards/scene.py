"""Scene of Memory Cards and its frame."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.common.tiles import MARGIN, SCREEN_PX, Color, Tile, stack
from jaxgym.envs.common.tiles import draw as draw_tiles

MOST_PAIRS = 32
NUM_BITS = 6
"""Dots of a card, which show its number as a binary number."""

_BACK, _FRONT, _MARK, _DOT = (70, 104, 176), (236, 232, 220), (250, 222, 84), (40, 40, 48)
_ROWS, _COLUMNS = 2, 3
_CARD, _DOT_SIZE = 0.88, 0.2


@struct.dataclass
class Scene:
    """Scene of Memory Cards.

    Attributes:
        faces: For each card 0 if it lies face down, its number if it is shown, N + 1 if it is removed, int32 (2 N,).
    """

    faces: jax.Array


def num_columns(num_cards: int) -> int:
    """Return the number of cards in a row."""
    return math.ceil(math.sqrt(num_cards))


@functools.cache
def _sprites(num_pairs: int, side: int) -> np.ndarray:
    """Return the sprites of each face, then of a shown card of each number on a marked ground."""
    tile = Tile(side)
    card = tile.box(-_CARD, -_CARD, _CARD, _CARD)

    def front(number: int, color: Color) -> np.ndarray:
        parts = [(card, color)]
        for bit in range(NUM_BITS):
            row, column = divmod(NUM_BITS - 1 - bit, _COLUMNS)
            x, y = (2 * column + 1) / _COLUMNS - 1, (2 * row + 1) / _ROWS - 1
            if number >> bit & 1:
                size = _DOT_SIZE
                parts.append((tile.box(0.8 * x - size, 0.8 * y - size, 0.8 * x + size, 0.8 * y + size), _DOT))
        return tile.sprite(MARGIN, *parts)

    numbers = range(1, num_pairs + 1)
    faces = [
        tile.sprite(MARGIN, (card, _BACK)),
        *(front(number, _FRONT) for number in numbers),
        tile.sprite(MARGIN),
    ]
    return stack([*faces, *(front(number, _MARK) for number in numbers)])


def draw(faces: jax.Array, shown: jax.Array | None = None) -> jax.Array:
    """Return the frame, uint8 (84, 84, 3), row first; the card with the index `shown` is marked."""
    num_cards = len(faces)
    columns = num_columns(num_cards)
    rows = -(-num_cards // columns)
    if shown is not None:
        is_marked = (np.arange(num_cards, dtype=np.int32) == shown) & (faces <= num_cards // 2)
        faces = jnp.where(is_marked, faces + num_cards // 2 + 1, faces)
    empty = num_cards // 2 + 1
    tiles = jnp.pad(faces, (0, rows * columns - num_cards), constant_values=empty).reshape(rows, columns)
    return draw_tiles(tiles, _sprites(num_cards // 2, SCREEN_PX // columns))
