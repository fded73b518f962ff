"""Shapes made once on the host, against the half widths of the original's drawing library.

A disc of radius r has its center on the corner between four pixels; row k = 0 … r - 1 below and above the center covers
x from -w(k) to w(k) - 1. Radius 2, w = 2 1:

        . # # .
        # # # #
        # # # #
        . # # .
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgym.rendering.sprites import bitmap, disc, disc_half_widths, paint, rectangle, ring

# Radius: w(0) … w(r - 1). The library fills a radius of 1 as a square of 2 × 2.
HALF_WIDTHS = """
 1: 1
 2: 2 1
 3: 3 2 1
 4: 4 3 3 1
 5: 5 5 4 3 2
 6: 6 6 5 4 3 2
 7: 7 7 6 6 5 4 2
 8: 8 8 7 7 6 5 4 2
 9: 9 9 8 8 7 7 6 4 2
10: 10 10 10 9 9 8 7 6 5 3
11: 11 11 11 10 10 9 8 8 6 5 3
12: 12 12 12 11 11 10 10 9 8 7 5 3
13: 13 13 13 12 12 12 11 10 9 8 7 6 3
14: 14 14 14 13 13 13 12 11 11 10 9 7 6 3
15: 15 15 15 14 14 14 13 13 12 11 10 9 8 6 3
16: 16 16 16 15 15 15 14 14 13 12 12 11 9 8 6 3
17: 17 17 17 17 16 16 15 15 14 14 13 12 11 10 8 6 4
18: 18 18 18 18 17 17 17 16 16 15 14 13 12 11 10 9 7 4
19: 19 19 19 19 18 18 18 17 17 16 15 15 14 13 12 10 9 7 4
20: 20 20 20 20 19 19 19 18 18 17 17 16 15 14 13 12 11 9 7 4
21: 21 21 21 21 20 20 20 19 19 18 18 17 16 16 15 14 12 11 9 7 4
22: 22 22 22 22 21 21 21 20 20 20 19 18 18 17 16 15 14 13 11 10 7 4
23: 23 23 23 23 22 22 22 22 21 21 20 20 19 18 17 17 16 14 13 12 10 8 4
24: 24 24 24 24 23 23 23 23 22 22 21 21 20 19 19 18 17 16 15 13 12 10 8 4
25: 25 25 25 25 24 24 24 24 23 23 22 22 21 21 20 19 18 17 16 15 14 12 10 8 4
26: 26 26 26 26 26 25 25 25 24 24 24 23 23 22 21 20 20 19 18 17 15 14 13 11 8 5
27: 27 27 27 27 27 26 26 26 25 25 25 24 24 23 22 22 21 20 19 18 17 16 14 13 11 8 5
28: 28 28 28 28 28 27 27 27 27 26 26 25 25 24 24 23 22 21 21 20 19 17 16 15 13 11 9 5
29: 29 29 29 29 29 28 28 28 28 27 27 26 26 25 25 24 23 23 22 21 20 19 18 16 15 13 11 9 5
30: 30 30 30 30 30 29 29 29 29 28 28 27 27 27 26 25 25 24 23 22 21 20 19 18 17 15 14 11 9 5
"""
WIDTHS = {
    int(radius): [int(width) for width in widths.split()]
    for radius, widths in (line.split(":") for line in HALF_WIDTHS.strip().splitlines())
}


def drawing(mask: np.ndarray) -> list[str]:
    return ["".join(".#"[int(pixel)] for pixel in row) for row in mask]


def test_the_table_is_whole() -> None:
    assert sorted(WIDTHS) == list(range(1, 31))
    assert all(len(widths) == radius for radius, widths in WIDTHS.items())


@pytest.mark.parametrize("radius", WIDTHS)
def test_the_half_widths_of_a_disc_are_those_of_the_table(radius: int) -> None:
    assert disc_half_widths(radius).tolist() == WIDTHS[radius]


def test_a_disc_of_radius_1_is_a_square_of_2_px() -> None:
    assert drawing(disc(4, (2, 2), 1)) == ["....", ".##.", ".##.", "...."]


def test_a_disc_is_given_by_column_then_row() -> None:
    assert drawing(disc(6, (2, 4), 2)) == ["......", "......", ".##...", "####..", "####..", ".##..."]


@pytest.mark.parametrize("radius", WIDTHS)
def test_a_disc_is_mirrored_at_its_centre_lines_and_as_wide_as_high(radius: int) -> None:
    mask = disc(2 * radius, (radius, radius), radius)
    assert np.array_equal(mask, mask[::-1])
    assert np.array_equal(mask, mask[:, ::-1])
    assert mask.any(axis=0).all()
    assert mask.sum() == 4 * sum(WIDTHS[radius])


@given(x=st.integers(-8, 16), y=st.integers(-8, 16), radius=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_a_disc_that_sticks_out_is_cut_off(x: int, y: int, radius: int) -> None:
    whole = disc(40, (x + 16, y + 16), radius)
    assert np.array_equal(disc(8, (x, y), radius), whole[16:24, 16:24])


@pytest.mark.parametrize("radius", [2, 3, 5, 6, 10, 12])
def test_a_ring_of_width_1_is_what_has_a_neighbour_outside_of_the_disc(radius: int) -> None:
    side = 2 * radius + 4
    filled, outline = (shape(side, (radius + 2, radius + 2), radius, *width) for shape, *width in ((disc,), (ring, 1)))
    for y in range(1, side - 1):
        for x in range(1, side - 1):
            neighbors = filled[y - 1, x], filled[y + 1, x], filled[y, x - 1], filled[y, x + 1]
            assert outline[y, x] == (filled[y, x] and not all(neighbors))


def test_a_ring_of_width_0_is_filled() -> None:
    assert np.array_equal(ring(20, (9, 9), 5, 0), disc(20, (9, 9), 5))


@pytest.mark.parametrize(("radius", "width"), [(6, 2), (7, 2), (8, 2), (9, 2), (10, 3)])
def test_a_thick_ring_is_the_disc_but_for_a_mirrored_hole_in_its_middle(radius: int, width: int) -> None:
    filled, outline = disc(24, (12, 12), radius), ring(24, (12, 12), radius, width)
    assert not (outline & ~filled).any()
    assert (ring(24, (12, 12), radius, 1) <= outline).all()
    hole = filled & ~outline
    assert np.array_equal(hole, hole[::-1])
    assert np.array_equal(hole, hole[:, ::-1])
    # Along the center line the ring is as thick as asked for, on both sides.
    assert outline[12].sum() == 2 * width


def test_a_rectangle_has_a_border_of_1_px_around_its_fill() -> None:
    image = rectangle(3, 5, (1, 2, 3), (7, 8, 9))
    assert image.dtype == np.uint8
    is_border = np.ones((3, 5), dtype=bool)
    is_border[1, 1:4] = False
    assert (image[is_border] == (7, 8, 9)).all()
    assert (image[~is_border] == (1, 2, 3)).all()


def test_a_bitmap_has_a_row_for_each_line() -> None:
    mask = bitmap("""
#..
.##
""")
    assert mask.tolist() == [[True, False, False], [False, True, True]]


def test_painting_sets_the_masked_pixels_and_no_others() -> None:
    image = np.zeros((2, 2, 3), dtype=np.uint8)
    paint(image, np.asarray([[False, True], [False, False]]), (4, 5, 6))
    assert image.tolist() == [[[0, 0, 0], [4, 5, 6]], [[0, 0, 0], [0, 0, 0]]]
