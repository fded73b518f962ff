"""The screen as bits: pixels covered by a color, a sprite or a spotlight, 28 pixels per word.

A plane is uint32 (3, 84): bit b of word w of row r is the pixel in column 28 · w + b. Rows are the inner axis, so that
compilers vectorize over them. Functions with a number of rows or words also make planes of other screen sizes.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet

WORD_PX = 28
NUM_WORDS = SCREEN_PX // WORD_PX

_BITS = np.uint32(1) << np.arange(WORD_PX, dtype=np.uint32)
# Row 0 of the screen in a table of runs, for a sprite at row 0.
_ORIGIN_PX = 2 * SCREEN_PX


def kept(words: jax.Array) -> jax.Array:
    """Return words unchanged, but computed only once: XLA recomputes anything but a reduction for each reader."""
    is_first = np.asarray([True, False]).reshape(2, *[1] * words.ndim)
    twice = jnp.where(is_first, words[None], jnp.zeros((), words.dtype))
    return lax.reduce(twice, np.zeros((), words.dtype), lax.bitwise_or, (0,))


def left_of(edge: jax.Array, num_words: int = NUM_WORDS) -> jax.Array:
    """Return the pixels of each row that are left of an edge, uint32 (…, 3, 84), from int32 (…, 84)."""
    first_px = np.arange(0, num_words * WORD_PX, WORD_PX, dtype=np.int32)
    count = jnp.clip(edge[..., None, :] - first_px.reshape(*[1] * (edge.ndim - 1), num_words, 1), 0, WORD_PX)
    return lax.shift_left(jnp.uint32(1), count.astype(jnp.uint32)) - jnp.uint32(1)


def spread(plane: jax.Array) -> jax.Array:
    """Return whether each pixel is in a plane, bool (84, 3, 28)."""
    return (plane.T[:, :, None] & _BITS[None, None, :]) != 0


def disc_half_widths(y_px: jax.Array, radius_px: jax.Array, num_rows: int = SCREEN_PX) -> tuple[jax.Array, jax.Array]:
    """Return the half widths of a disc in each row of the screen, and those of its inside (without the ring).

    `jaxgym.rendering.sprites.disc_half_widths` computes the same by the midpoint circle. Rows outside the disc have 0.

    Args:
        y_px: Row of the center, int32 ().
        radius_px: From 2 to 512, int32 (); 0 for no disc.
        num_rows: Rows of the screen.

    Returns:
        int32 (84,) each; that of the inside may be negative.
    """
    away = np.arange(num_rows, dtype=np.int32) - y_px
    row = jnp.where(away < 0, -1 - away, away)

    def half_width(row: jax.Array) -> jax.Array:
        # No root is close to the whole number at which it is truncated, so an approximate one suffices.
        flat = jnp.square(radius_px) - jnp.square(row + 1)
        steep = jnp.square(radius_px) - row * (row + 1) - 1
        widths = (
            jnp.sqrt(jnp.maximum(flat, 0).astype(jnp.float32)) + np.float32(0.5),
            jnp.sqrt(jnp.maximum(steep, 0).astype(jnp.float32) + np.float32(0.5)),
        )
        return jnp.where(row < radius_px, jnp.maximum(*widths).astype(jnp.int32), 0)

    half = half_width(row)
    return half, jnp.minimum(half - 1, half_width(row + 1))


def interval(x_px: jax.Array, half: jax.Array, num_words: int = NUM_WORDS) -> jax.Array:
    """Return the plane with the pixels x - half … x + half - 1 of each row, from int32 () and int32 (84,)."""
    return left_of(x_px + half, num_words) & ~left_of(x_px - half, num_words)


@dataclasses.dataclass(frozen=True)
class Runs:
    """Sprites as runs of equal pixels.

    Attributes:
        edges: Start and end of the runs of each color, relative to the anchor, int8 (N, C, E, 336), for N sprites of at
            most C colors with at most E edges in a row; unused edges are 0. Row 168 is that of the anchor.
        colors: 0xBBGGRR, uint32 (N, C).
    """

    edges: np.ndarray
    colors: np.ndarray

    @classmethod
    def of(cls, sheets: Sequence[SpriteSheet]) -> "Runs":
        """Find the runs of all sprites of some sheets, one sheet after the other."""
        sprites = [_colored_edges(sheet, index) for sheet in sheets for index in range(len(sheet.pixels))]
        num_colors = max(len(sprite) for sprite in sprites)
        num_edges = max(len(row) for sprite in sprites for rows in sprite.values() for row in rows.values())
        edges = np.zeros((len(sprites), num_colors, num_edges, 2 * _ORIGIN_PX), dtype=np.int8)
        colors = np.zeros((len(sprites), num_colors), dtype=np.uint32)
        for index, sprite in enumerate(sprites):
            for place, (color, rows) in enumerate(sprite.items()):
                colors[index, place] = color
                for row, found in rows.items():
                    edges[index, place, : len(found), _ORIGIN_PX + row] = found
        return cls(edges, colors)

    def planes(self, index: jax.Array, position_px: jax.Array) -> jax.Array:
        """Return the plane of each color of a sprite at a position, uint32 (C, 3, 84).

        Args:
            index: Index of the sprite, int32 ().
            position_px: Position of its anchor, (x, y), int32 (2,); outside of the screen by at most its size.
        """
        _, num_colors, num_edges, _ = self.edges.shape
        start = (index, jnp.zeros_like(index), jnp.zeros_like(index), _ORIGIN_PX - position_px[1])
        edges = lax.dynamic_slice(jnp.asarray(self.edges), start, (1, num_colors, num_edges, SCREEN_PX))[0]
        edges = edges.astype(jnp.int32) + position_px[0]
        planes = left_of(edges[:, 0])
        for edge in range(1, num_edges):
            planes ^= left_of(edges[:, edge])
        return planes


def _colored_edges(sheet: SpriteSheet, index: int) -> dict[int, dict[int, list[int]]]:
    """Return the edges of the runs in each row for each color of a sprite, relative to the anchor."""
    whole = slice(sheet.side, 2 * sheet.side)
    image = sheet.pixels[index, whole, whole].astype(np.uint32)
    packed = image[..., 0] | image[..., 1] << 8 | image[..., 2] << 16
    is_drawn = image[..., 0] != TRANSPARENT
    found: dict[int, dict[int, list[int]]] = {}
    for color in np.unique(packed[is_drawn]):
        is_inside = np.pad(is_drawn & (packed == color), [(0, 0), (1, 1)])
        rows, columns = np.nonzero(is_inside[:, 1:] != is_inside[:, :-1])
        edges = found.setdefault(int(color), {})
        for row, column in zip(rows - sheet.anchor, columns - sheet.anchor, strict=True):
            edges.setdefault(int(row), []).append(int(column))
    return found
