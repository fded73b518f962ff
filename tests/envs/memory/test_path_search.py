"""The path search finds the recorded paths for the recorded draws."""

from pathlib import Path

import jax
import numpy as np
import pytest

from jaxgym.envs.mystery_path import path_search

TRACES = Path(__file__).parents[2] / "data" / "traces"
# Side, two coordinates, 16 inner walls, the number of outer walls.
DRAWS_BEFORE_OUTER_WALLS = 20


def numbers(tiles: np.ndarray) -> np.ndarray:
    """Return the number of each tile, without padding."""
    tiles = tiles[(tiles >= 0).all(axis=-1)].astype(np.int32)
    return tiles[:, 0] * path_search.SIZE + tiles[:, 1]


@pytest.mark.parametrize("game", ["mp", "mpg"])
def test_the_recorded_draws_lead_to_the_recorded_path(game: str) -> None:
    with np.load(TRACES / f"layouts__{game}.npz") as archive:
        layouts = {name: archive[name] for name in archive.files}
    count = len(layouts["seed"])
    starts, goals = numbers(layouts["start"]), numbers(layouts["goal"])
    is_wall = np.zeros((count, path_search.NUM_TILES), dtype=bool)
    costs = np.ones((count, path_search.MAX_DRAWS), dtype=np.int32)
    for level in range(count):
        outer = numbers(layouts["outer_walls"][level])
        is_wall[level, numbers(layouts["inner_walls"][level])] = True
        is_wall[level, outer] = True
        draws = layouts["draws"][level]
        drawn = draws[~np.isnan(draws)][DRAWS_BEFORE_OUTER_WALLS + len(outer) :]
        costs[level, : len(drawn)] = drawn
    predecessors = np.asarray(jax.jit(jax.vmap(path_search.search))(starts, goals, is_wall, costs)[0])
    for level in range(count):
        recorded = numbers(layouts["path"][level])
        assert predecessors[level, recorded[1:]].tolist() == recorded[:-1].tolist()
        assert (recorded[0], recorded[-1]) == (starts[level], goals[level])
