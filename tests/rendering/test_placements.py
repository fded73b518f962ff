"""Placements with the same pixels: the tables against the frames themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet, draw_sprite
from jaxgym.rendering.placements import first_placements, is_hidden

CANVAS = 8


def sheet_of(*drawings: str) -> SpriteSheet:
    """Make sprites of 4 × 4 px with the anchor at (1, 1); a letter is a color, a dot is transparent."""
    rows = np.asarray([[list(line) for line in drawing.split()] for drawing in drawings])
    gray = np.select([rows == "a", rows == "b"], [200, 90], TRANSPARENT).astype(np.uint8)
    return SpriteSheet.of(np.repeat(gray[..., None], 3, axis=-1), anchor=1)


SPRITES = sheet_of("a... .bb. .bb. ....", ".... .bb. .bb. ...a", ".... .bb. .bb. ....")
PLACES = range(-3, CANVAS + 3)


def test_placements_look_alike_if_and_only_if_they_share_an_entry() -> None:
    table = first_placements(SPRITES, CANVAS, PLACES, PLACES)
    places = np.stack(np.meshgrid(PLACES, PLACES, np.arange(3), indexing="ij"), axis=-1)
    assert table.shape == places.shape

    @jax.jit
    @jax.vmap
    def draw(place: jax.Array) -> jax.Array:
        return draw_sprite(jnp.zeros((CANVAS, CANVAS, 3), jnp.uint8), SPRITES, place[2], place[:2])

    frames = np.asarray(draw(places.reshape(-1, 3).astype(np.int32)))
    pairs = {(frame.tobytes(), look.tobytes()) for frame, look in zip(frames, table.reshape(-1, 3), strict=True)}
    assert len(pairs) == len({frame for frame, _ in pairs}) == len({look for _, look in pairs})
    assert len(pairs) < len(frames)


def test_the_entry_is_the_first_of_those_that_look_alike() -> None:
    table = first_placements(SPRITES, CANVAS, PLACES, PLACES)
    # Where its own corner is cut off, the first sprite is what the last one is; a whole one stands for itself.
    assert table[3, 3, 2].tolist() == table[3, 3, 0].tolist() == [0, 0, 0]
    assert table[7, 7, 0].tolist() == [4, 4, 0]
    assert table[7, 7, 2].tolist() == [4, 4, 2]


def hidden_squares(side_px: int) -> set[tuple[int, ...]]:
    """Return the squares that a sprite with its anchor at (4, 4) covers, as (index of the sprite, x, y)."""
    squares = np.stack(np.meshgrid(np.arange(3), PLACES, PLACES, indexing="ij"), axis=-1).reshape(-1, 3)

    @jax.jit
    @jax.vmap
    def covers(square: jax.Array) -> jax.Array:
        return is_hidden(SPRITES, square[0], jnp.full(2, 4), square[1:], side_px)

    return {tuple(square) for square in squares[np.asarray(covers(squares))].tolist()}


def test_a_sprite_hides_the_square_that_it_covers_whole() -> None:
    assert hidden_squares(2) == {(index, 4, 4) for index in range(3)}


@pytest.mark.parametrize("side_px", [3, 9])
def test_a_sprite_hides_no_square_that_is_too_large(side_px: int) -> None:
    assert not hidden_squares(side_px)
