"""The rules of Searing Spotlights that recordings do not show, its distributions, and two whole recordings."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.envs.memory import free_cells, pairs, spotlight_game, spotlights
from jaxgym.envs.memory.bitrows import unpack
from jaxgym.errors import OptionError
from tests.parity import memory_gym
from tests.parity.recordings import Recording

TRACES = Path(__file__).parents[2] / "data" / "traces"


@pytest.fixture(scope="module")
def bank() -> Any:
    env, params = jaxgym.make("SearingSpotlights-v0")
    return levels.make_bank(env, params, levels.train_seeds(2000))


@pytest.mark.parametrize("name", ["ss__fast_spots__s70__flee", "ess__fast_spots__s17__random"])
def test_a_recorded_episode_is_replayed_pixel_by_pixel(name: str) -> None:
    assert next(memory_gym.differences(Recording.load(TRACES / f"{name}.npz")), None) is None


def chi_square_bound(samples: np.ndarray, recorded: np.ndarray, edges: np.ndarray) -> None:
    """Compare two samples of a distribution by bins; p = 0.001, 2 000 levels of ours against 300 recorded."""
    ours, theirs = np.histogram(samples, edges)[0], np.histogram(recorded, edges)[0]
    assert ours.sum() == samples.size
    scale = np.sqrt(theirs.sum() / ours.sum())
    used = ours + theirs > 0
    statistic = np.sum((ours * scale - theirs / scale)[used] ** 2 / (ours + theirs)[used])
    freedom = used.sum() - 1
    # Wilson and Hilferty; 3.09 is the normal quantile of 0.999.
    bound = freedom * (1 - 2 / (9 * freedom) + 3.09 * np.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < bound


@pytest.mark.parametrize(
    ("ours", "theirs", "edges"),
    [
        (lambda bank: bank.tracks.radius_px, "spot_radius", np.arange(7, 15)),
        (lambda bank: bank.tracks.speed.high, "spot_speed", np.linspace(0.0025, 0.00750001, 11)),
        (lambda bank: bank.tracks.angles_deg[..., 0], "spot_angles", np.arange(0, 361, 30)),
        (lambda bank: bank.coins_px[..., 0], "coins", np.array([7, 8, 20, 35, 50, 65, 77, 78])),
        (lambda bank: bank.exit_px[..., 1], "exit_pos", np.array([7, 8, 20, 35, 50, 65, 77, 78])),
        (lambda bank: bank.start_px[..., 0], "start_pos", np.arange(2, 88, 12.15)),
    ],
)
def test_levels_are_distributed_as_the_recorded_ones(bank: Any, ours: Any, theirs: str, edges: np.ndarray) -> None:
    with np.load(TRACES / "layouts__ss.npz") as archive:
        recorded = archive[theirs]
    part = {"spot_angles": recorded[..., 0], "coins": recorded[..., 0], "exit_pos": recorded[..., 1]}
    part["start_pos"] = recorded[..., 0] if recorded.ndim > 1 else recorded
    chi_square_bound(np.asarray(ours(bank)).ravel(), part.get(theirs, recorded).ravel(), edges)


def test_the_free_pixels_are_those_of_the_full_mask() -> None:
    blocked = free_cells.block(free_cells.block(free_cells.nothing(), jnp.array([3, 80]), 28), jnp.array([40, 41]), 21)
    y, x = np.mgrid[:84, :84]
    mask = ((x - 3) ** 2 + (y - 80) ** 2 < 28**2) | ((x - 40) ** 2 + (y - 41) ** 2 < 21**2)
    np.testing.assert_array_equal(unpack(blocked), mask)
    cumulative = jnp.cumsum(jnp.asarray((~mask).sum(axis=1)))
    rows, columns = np.nonzero(~mask)
    index = jnp.arange(len(rows), dtype=jnp.int32)
    found = jax.vmap(lambda number: free_cells.pixel_at(blocked, cumulative.astype(jnp.int32), number))(index)
    np.testing.assert_array_equal(found, np.stack([columns, rows], axis=1))


@pytest.mark.parametrize(("health", "damage", "fatal"), [(5.0, 1.0, 5), (10.0, 0.1, 101), (1.0, 0.3, 4)])
def test_hits_are_counted_as_float64_counts_them(health: float, damage: float, fatal: int) -> None:
    assert spotlight_game.health_tables(health, damage)["fatal_hits"] == fatal


def test_the_bar_is_cut_as_float64_cuts_it() -> None:
    bar = spotlight_game.health_tables(3.0, 1.0)["bar_hits"]
    assert [(bar <= hits).sum() for hits in (1, 2, 3)] == [int(42 * (1 - 2 / 3)), int(42 * (1 - 1 / 3)), 42]


def test_after_a_removed_element_the_next_is_not_visited() -> None:
    in_list = jnp.array([True, False, True, True, True, True])
    unwanted = jnp.array([True, True, True, True, False, True])
    removed = spotlights.walk_and_remove(in_list, unwanted)
    np.testing.assert_array_equal(removed, [True, False, False, True, False, True])


def test_pairs_keep_what_float32_loses() -> None:
    a, b = np.random.default_rng(0).uniform(1.0, 100.0, (2, 1000))
    product = jax.jit(pairs.multiply)(pairs.Pair.of(a), pairs.Pair.of(b))
    exact = np.asarray(product.high, np.float64) + np.asarray(product.low, np.float64)
    assert np.abs(exact / (a * b) - 1).max() < 1e-9


@pytest.fixture(scope="module")
def quiet() -> Any:
    """Without spotlights, exit and coins; one step decides."""
    env, params = jaxgym.make("SearingSpotlights-v0", initial_spawns=0, num_spawns=0, max_steps=3)
    return env, params, jax.jit(env.step)


def test_the_time_limit_truncates(quiet: Any) -> None:
    env, params, step = quiet
    level = dataclasses.replace(
        levels.level_from_seed(env, 0), start_px=jnp.array([20, 20]), coins_px=jnp.array([[70, 70]])
    )
    _, state = env.reset_to_level(jax.random.key(0), level, params)
    for _ in range(3):
        _, state, _, terminated, truncated, _ = step(jax.random.key(0), state, jnp.array([0, 0]), params)
    assert truncated
    assert not terminated


def test_without_exit_the_last_coin_ends_the_game(quiet: Any) -> None:
    env, params, step = quiet
    params = dataclasses.replace(params, use_exit=np.asarray(False))
    level = dataclasses.replace(
        levels.level_from_seed(env, 0), start_px=jnp.array([20, 20]), coins_px=jnp.array([[20, 29]])
    )
    _, state = env.reset_to_level(jax.random.key(0), level, params)
    _, _, reward, terminated, _, info = step(jax.random.key(0), state, jnp.array([0, 0]), params)
    assert terminated
    assert reward == 0.25
    assert info["success"] == 1


def test_more_coins_than_fit_are_refused() -> None:
    with pytest.raises(OptionError, match="max_coins=3 or more"):
        jaxgym.make("SearingSpotlights-v0", num_coins=[1, 3], max_coins=2)
