"""Drawing sprites on a canvas. The sprite of these tests is an L of 3 × 3 px with a hole:

1 2 .
3 . .
4 5 6
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet, draw_sprite

T = TRANSPARENT
L_SHAPE = np.asarray([[10, 20, T], [30, T, T], [40, 50, 60]], dtype=np.uint8)
DOT = np.asarray([[T, T, T], [T, 99, T], [T, T, T]], dtype=np.uint8)
HEIGHT, WIDTH = 8, 10


def colored(image: np.ndarray) -> np.ndarray:
    return np.repeat(image[..., None], 3, axis=-1)


def make_sheet(*images: np.ndarray, anchor: int = 1) -> SpriteSheet:
    return SpriteSheet.of(colored(np.stack(images)), anchor=anchor)


SHEET = make_sheet(L_SHAPE, DOT)


@functools.partial(jax.jit, static_argnames=("keep",))
def draw_it(canvas: jax.Array, index: jax.Array, position: jax.Array, keep: int | None = None) -> jax.Array:
    return draw_sprite(canvas, SHEET, index, position, keep=keep)


def drawn(x: int, y: int, *, index: int = 0, canvas: np.ndarray | None = None, keep: int | None = None) -> np.ndarray:
    canvas = np.zeros((HEIGHT, WIDTH), np.uint8) if canvas is None else canvas
    result = draw_it(colored(canvas), jnp.int32(index), jnp.asarray([x, y], jnp.int32), keep=keep)
    assert result.dtype == jnp.uint8
    assert np.array_equal(result[..., 0], result[..., 2])
    return np.asarray(result[..., 0])


def expected_at(x: int, y: int, canvas: np.ndarray) -> np.ndarray:
    """Draw pixel by pixel; the anchor is the middle of the sprite."""
    result = canvas.copy()
    for row in range(3):
        for column in range(3):
            to_x, to_y = x - 1 + column, y - 1 + row
            if L_SHAPE[row, column] != T and 0 <= to_x < WIDTH and 0 <= to_y < HEIGHT:
                result[to_y, to_x] = L_SHAPE[row, column]
    return result


def test_the_anchor_lies_on_the_position_and_the_transparent_part_shows_what_is_below() -> None:
    canvas = np.full((HEIGHT, WIDTH), 7, np.uint8)
    result = drawn(4, 2, canvas=canvas)
    assert result[1:4, 3:6].tolist() == [[10, 20, 7], [30, 7, 7], [40, 50, 60]]
    assert (result == 7).sum() == HEIGHT * WIDTH - 6


def test_the_index_chooses_the_sprite() -> None:
    result = drawn(4, 2, index=1)
    assert result[2, 4] == 99
    assert (result == 0).sum() == HEIGHT * WIDTH - 1


@pytest.mark.parametrize(
    ("x", "y", "visible"),
    [
        (0, 4, [20, 50, 60]),  # its first column is cut off at the left edge
        (WIDTH - 1, 4, [10, 20, 30, 40, 50]),  # its last column at the right
        (5, 0, [30, 40, 50, 60]),  # its first row at the top
        (5, HEIGHT - 1, [10, 20, 30]),  # its last row at the bottom
        (-1, -1, [60]),
        (WIDTH, -1, [40]),
        (-1, HEIGHT, []),
        (WIDTH, HEIGHT, [10]),
        (-3, 4, []),
        (5, HEIGHT + 3, []),
    ],
)
def test_what_lies_outside_of_the_canvas_is_cut_off(x: int, y: int, visible: list[int]) -> None:
    result = drawn(x, y)
    assert sorted(result[result > 0].tolist()) == visible
    assert np.array_equal(result, expected_at(x, y, np.zeros_like(result)))


@given(x=st.integers(-3, WIDTH + 2), y=st.integers(-3, HEIGHT + 2), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_a_sprite_is_right_at_every_place_on_every_canvas(x: int, y: int, seed: int) -> None:
    canvas = np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH)).astype(np.uint8)
    assert np.array_equal(drawn(x, y, canvas=canvas), expected_at(x, y, canvas))


def test_what_is_to_be_kept_lies_above_the_sprite() -> None:
    canvas = np.zeros((HEIGHT, WIDTH), np.uint8)
    canvas[1, 3] = canvas[3, 5] = 255
    canvas[1, 4] = 254
    result = drawn(4, 2, canvas=canvas, keep=255)
    assert result[1:4, 3:6].tolist() == [[255, 20, 0], [30, 0, 0], [40, 50, 255]]


def test_without_anything_to_keep_the_sprite_lies_above_all() -> None:
    canvas = np.full((HEIGHT, WIDTH), 255, np.uint8)
    assert drawn(4, 2, canvas=canvas)[1:4, 3:6].tolist() == [[10, 20, 255], [30, 255, 255], [40, 50, 60]]


def test_a_sheet_is_cropped_to_what_is_visible_in_any_sprite_and_keeps_the_anchor_in_place() -> None:
    large = np.full((2, 9, 9), T, np.uint8)
    large[0, 4, 5] = 80
    large[1, 5, 3] = 90
    sheet = make_sheet(*large, anchor=4)
    assert sheet.side == 3
    place = jnp.asarray([5, 5], jnp.int32)
    canvas = colored(np.zeros((HEIGHT, WIDTH), np.uint8))
    first, second = (np.asarray(draw_sprite(canvas, sheet, jnp.int32(index), place))[..., 0] for index in (0, 1))
    assert (first[5, 6], second[6, 4]) == (80, 90)
    assert (first > 0).sum() == (second > 0).sum() == 1
