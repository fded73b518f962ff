"""The cells that can be reached are those that a breadth-first search reaches."""

import jax
import numpy as np
import pytest

from jaxgym.envs.babyai.flood import columns_of_bits, flood

NUM_GRIDS = 500


def cells_of(columns: np.ndarray, height: int) -> np.ndarray:
    """Return columns of bits as cells, bool (..., W, H)."""
    return (columns[..., None] >> np.arange(height, dtype=np.uint32)) & 1 == 1


def search(start: tuple[int, int], passable: np.ndarray) -> np.ndarray:
    """Return the cells that a breadth-first search reaches, bool (W, H)."""
    reached, queue = np.zeros_like(passable), [start]
    while queue:
        x, y = queue.pop(0)
        if passable[x, y] and not reached[x, y]:
            reached[x, y] = True
            queue += [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
    return reached


@pytest.mark.parametrize(("width", "height"), [(8, 8), (22, 19)])
def test_flood_reaches_what_a_search_reaches(width: int, height: int) -> None:
    generator = np.random.default_rng(width)
    passable = generator.random((NUM_GRIDS, width, height)) < generator.uniform(0.4, 0.9, (NUM_GRIDS, 1, 1))
    passable[:, [0, -1]] = passable[:, :, [0, -1]] = False
    starts = generator.integers(1, (width - 1, height - 1), (NUM_GRIDS, 2))
    passable[np.arange(NUM_GRIDS), *starts.T] = True
    masks = np.zeros_like(passable)
    masks[np.arange(NUM_GRIDS), *starts.T] = True
    reached = jax.jit(jax.vmap(lambda start, free: flood(columns_of_bits(start), columns_of_bits(free))))(
        masks, passable
    )
    expected = np.stack([search(tuple(start), free) for start, free in zip(starts.tolist(), passable, strict=True)])
    np.testing.assert_array_equal(cells_of(np.asarray(reached), height), expected)


def test_flood_follows_a_winding_corridor() -> None:
    passable = np.zeros((9, 8), np.bool_)
    passable[1::2, 1:7] = True
    passable[2::4, 6] = passable[4::4, 1] = True
    passable[8] = False
    start = np.zeros_like(passable)
    start[1, 1] = True
    reached = np.asarray(flood(columns_of_bits(start), columns_of_bits(passable)))
    np.testing.assert_array_equal(cells_of(reached, 8), passable)
