"""The layouts of Mystery Path follow the rules, and are distributed as the original's.

The sample of the original is 600 consecutive seeds. Those recorded of the grid game are among them: both games draw
alike. Seeds are fixed, so a test either always passes or never; a p-value below 1e-4 is what one of 10 000 choices of
the seeds would show.
"""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxgym.envs.mystery_path import layout as mystery_layout
from jaxgym.envs.mystery_path.path_search import MAX_DRAWS, NUM_TILES, SIZE

TRACES = Path(__file__).parents[2] / "data" / "traces"
LEVELS = 20_000
SMALLEST_P = 1e-4
# Where in the recorded draws: side, start, goal, 16 inner walls, which number of outer walls, each of them, costs.
SIDE, INNER, COUNT, OUTER = 0, 3, 19, 20


def numbers(tiles: np.ndarray) -> np.ndarray:
    """Return the number of each tile, without padding."""
    tiles = tiles[(tiles >= 0).all(axis=-1)].astype(np.int32)
    return tiles[:, 0] * SIZE + tiles[:, 1]


@functools.cache
def recorded(game: str = "mp") -> list[dict[str, np.ndarray]]:
    with np.load(TRACES / f"layouts__{game}.npz") as archive:
        stacks = {name: archive[name] for name in archive.files}
    layouts = []
    for k, draws in enumerate(stacks["draws"]):
        layout = {name: numbers(stacks[name][k]) for name in ("path", "inner_walls", "outer_walls")}
        layouts.append({**layout, "draws": draws[~np.isnan(draws)].astype(np.int32)})
    return layouts


@functools.cache
def ours() -> dict[str, np.ndarray]:
    @jax.jit
    @jax.vmap
    def sample(key: jax.Array) -> dict[str, Any]:
        bits = jax.random.bits(key, (3 + mystery_layout.PATH_WORDS,), jnp.uint32)
        side, along = (bits[0] % 4).astype(jnp.int32), (bits[1:3] % SIZE).astype(jnp.int32)
        start, goal = mystery_layout.ends_of(side, *along)
        path, is_wall = mystery_layout.sample_path(start, goal, bits[3:])
        return {"start": start, "goal": goal, "path": path, "is_wall": is_wall}

    return jax.device_get(sample(jax.random.split(jax.random.key(0), LEVELS)))


def assert_same_distribution(first: np.ndarray, second: np.ndarray) -> None:
    """Check two samples of integers by the chi-square test of homogeneity; values that are rare in both are merged."""
    most = max(first.max(), second.max()) + 1
    counts = np.stack([np.bincount(sample, minlength=most) for sample in (first, second)])
    is_rare = counts.sum(axis=0) < 40
    counts = np.concatenate([counts[:, ~is_rare], counts[:, is_rare].sum(axis=1, keepdims=True)], axis=1)
    counts = counts[:, counts.sum(axis=0) > 0]
    assert counts.shape[1] > 1
    assert stats.chi2_contingency(counts, correction=False).pvalue > SMALLEST_P


# Rules.


@pytest.mark.parametrize(
    ("side", "start", "goal"), [(0, (0, 2), (6, 5)), (1, (6, 2), (0, 5)), (2, (2, 0), (5, 6)), (3, (2, 6), (5, 0))]
)
def test_the_goal_is_on_the_side_opposite_to_the_start(
    side: int, start: tuple[int, int], goal: tuple[int, int]
) -> None:
    ends = mystery_layout.ends_of(jnp.int32(side), jnp.int32(2), jnp.int32(5))
    assert [divmod(int(end), SIZE) for end in ends] == [start, goal]


def test_both_games_draw_alike() -> None:
    for free, grid in zip(recorded("mp"), recorded("mpg"), strict=False):
        assert all(np.array_equal(free[name], grid[name]) for name in free)


def test_the_recorded_draws_lead_to_the_recorded_ends_walls_and_path() -> None:
    layouts = recorded()
    draws = np.stack([layout["draws"][:OUTER] for layout in layouts])
    is_inner = draws[:, INNER:COUNT] < mystery_layout.WALL_PERCENT
    starts, goals = jax.vmap(mystery_layout.ends_of)(*jnp.asarray(draws[:, SIDE:INNER].T))
    candidates = np.asarray(jax.vmap(mystery_layout.may_be_outer_wall)(starts, goals, is_inner))
    is_outer = np.zeros_like(candidates)
    costs = np.ones((len(layouts), MAX_DRAWS), np.int32)
    for k, layout in enumerate(layouts):
        left = np.flatnonzero(candidates[k]).tolist()
        picks = min(len(left), mystery_layout.OUTER_WALL_COUNTS[draws[k, COUNT]])
        walls = [left.pop(index) for index in layout["draws"][OUTER : OUTER + picks]]
        assert mystery_layout.BORDER_TILES[walls].tolist() == layout["outer_walls"].tolist()
        assert mystery_layout.INNER_TILES[is_inner[k]].tolist() == layout["inner_walls"].tolist()
        is_outer[k, walls] = True
        used = layout["draws"][OUTER + picks :]
        costs[k, : len(used)] = used
    walls = jax.vmap(mystery_layout.walls_of)(is_inner, is_outer)
    paths = np.asarray(jax.jit(jax.vmap(mystery_layout.find_path))(starts, goals, walls, costs))
    for layout, path in zip(layouts, paths, strict=True):
        count = len(layout["path"])
        assert path[:count].tolist() == layout["path"].tolist()
        assert (path[count:] == -1).all()


@pytest.mark.slow
def test_every_path_leads_from_start_to_goal_by_neighbours_that_are_no_walls() -> None:
    sampled = ours()
    path, levels = sampled["path"], np.arange(LEVELS)
    lengths = (path >= 0).sum(axis=1)
    np.testing.assert_array_equal(path[:, 0], sampled["start"])
    np.testing.assert_array_equal(path[levels, lengths - 1], sampled["goal"])
    steps = np.abs(np.diff(np.stack(np.divmod(path, SIZE)), axis=2)).sum(axis=0)
    is_step = np.arange(NUM_TILES - 1) < lengths[:, None] - 1
    assert (steps[is_step] == 1).all()
    assert not sampled["is_wall"][levels[:, None], path][path >= 0].any()
    assert (np.sort(path, axis=1)[:, 1:] > np.sort(path, axis=1)[:, :-1])[np.sort(path, axis=1)[:, :-1] >= 0].all()


def test_outer_walls_touch_no_inner_wall_and_no_end_and_are_up_to_four_or_eight() -> None:
    sampled = ours()
    walls = sampled["is_wall"]
    is_inner = walls[:, mystery_layout.INNER_TILES]
    allowed = np.asarray(
        jax.jit(jax.vmap(mystery_layout.may_be_outer_wall))(sampled["start"], sampled["goal"], is_inner)
    )
    is_outer = walls[:, mystery_layout.BORDER_TILES]
    assert not (is_outer & ~allowed).any()
    counts, room = is_outer.sum(axis=1), allowed.sum(axis=1)
    assert set(counts[room >= 8].tolist()) == {4, 8}
    assert ((counts == 4) | (counts == np.minimum(room, 8)))[room >= 4].all()
    assert (counts == room)[room < 4].all()
    assert (is_inner.sum(axis=1) + counts == walls.sum(axis=1)).all()


# Distributions: 20 000 levels of ours against 600 of the original's.


def test_the_lengths_of_paths_are_distributed_as_the_originals() -> None:
    theirs = np.asarray([len(layout["path"]) for layout in recorded()])
    assert_same_distribution((ours()["path"] >= 0).sum(axis=1), theirs)


@pytest.mark.parametrize(
    ("kind", "tiles"), [("inner_walls", mystery_layout.INNER_TILES), ("outer_walls", mystery_layout.BORDER_TILES)]
)
def test_the_numbers_of_walls_are_distributed_as_the_originals(kind: str, tiles: np.ndarray) -> None:
    theirs = np.asarray([len(layout[kind]) for layout in recorded()])
    assert_same_distribution(ours()["is_wall"][:, tiles].sum(axis=1), theirs)


def test_the_ends_of_paths_are_distributed_as_the_originals() -> None:
    theirs = np.stack([layout["path"][[0, -1]] for layout in recorded()])
    for k, name in enumerate(("start", "goal")):
        assert_same_distribution(ours()[name], theirs[:, k])


def test_the_tiles_of_paths_and_of_outer_walls_are_distributed_as_the_originals() -> None:
    # One random tile of each level, since the tiles of one level depend on one another.
    generator = np.random.default_rng(0)
    theirs = [generator.choice(layout["path"][1:-1]) for layout in recorded()]
    lengths = (ours()["path"] >= 0).sum(axis=1)
    mine = ours()["path"][np.arange(LEVELS), generator.integers(1, lengths - 1)]
    assert_same_distribution(mine, np.asarray(theirs))
    theirs = [generator.choice(layout["outer_walls"]) for layout in recorded() if len(layout["outer_walls"])]
    is_outer = ours()["is_wall"][:, mystery_layout.BORDER_TILES]
    picked = np.where(is_outer, generator.random(is_outer.shape), -1.0).argmax(axis=1)
    assert_same_distribution(mystery_layout.BORDER_TILES[picked[is_outer.any(axis=1)]], np.asarray(theirs))
