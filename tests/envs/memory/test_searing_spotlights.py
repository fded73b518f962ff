"""Rules of Searing Spotlights without recordings, its distributions, and two complete recordings."""

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.envs.searing_spotlights import bitplanes, double_float, free_cells, spotlights
from jaxgym.envs.searing_spotlights import endless as endless_searing_spotlights
from jaxgym.envs.searing_spotlights.health import HealthTables, lost_px
from jaxgym.envs.searing_spotlights.health import is_fatal as is_fatal_of
from jaxgym.errors import OptionError
from tests.parity import memory_gym
from tests.parity.recordings import Recording

TRACES = Path(__file__).parents[2] / "data" / "traces"


@pytest.fixture(scope="module")
def buffer() -> Any:
    env, params = jaxgym.make("SearingSpotlights-v0")
    return levels.make_level_buffer(env, params, levels.train_seeds(2000))


@pytest.mark.parametrize(
    "name", ["ss__fast_spots__s70__flee", pytest.param("ess__fast_spots__s17__random", marks=pytest.mark.slow)]
)
def test_a_recorded_episode_is_replayed_pixel_by_pixel(name: str) -> None:
    assert next(memory_gym.differences(Recording.load(TRACES / f"{name}.npz")), None) is None


def recorded(name: str) -> dict[str, np.ndarray]:
    with np.load(TRACES / f"layouts__{name}.npz") as archive:
        return dict(archive)


def chi_square_bound(samples: np.ndarray, theirs: np.ndarray, edges: np.ndarray) -> None:
    """Compare two samples of a distribution by bins; p = 0.001, 2 000 levels of ours against 300 recorded."""
    ours, theirs = np.histogram(samples, edges)[0], np.histogram(theirs, edges)[0]
    assert ours.sum() == samples.size
    scale = np.sqrt(theirs.sum() / ours.sum())
    used = ours + theirs > 0
    statistic = np.sum((ours * scale - theirs / scale)[used] ** 2 / (ours + theirs)[used])
    assert statistic < chi_square_quantile(used.sum() - 1)


def chi_square_quantile(freedom: int) -> float:
    """Return the quantile of 0.999, by Wilson and Hilferty; 3.09 is that of the normal distribution."""
    return freedom * (1 - 2 / (9 * freedom) + 3.09 * np.sqrt(2 / (9 * freedom))) ** 3


@pytest.mark.parametrize(
    ("ours", "theirs", "edges"),
    [
        (lambda buffer: buffer.tracks.radius_px, "spot_radius", np.arange(7, 15)),
        (lambda buffer: buffer.tracks.speed.high, "spot_speed", np.linspace(0.0025, 0.00750001, 11)),
        (lambda buffer: buffer.tracks.angles_deg[..., 0], "spot_angles", np.arange(0, 361, 30)),
        (lambda buffer: buffer.coins_px[..., 0], "coins", np.array([7, 8, 20, 35, 50, 65, 77, 78])),
        (lambda buffer: buffer.exit_px[..., 1], "exit_pos", np.array([7, 8, 20, 35, 50, 65, 77, 78])),
        (lambda buffer: buffer.start_px[..., 0], "start_pos", np.arange(2, 88, 12.15)),
    ],
)
def test_levels_are_distributed_as_the_recorded_ones(buffer: Any, ours: Any, theirs: str, edges: np.ndarray) -> None:
    array = recorded("ss")[theirs]
    part = {"spot_angles": array[..., 0], "coins": array[..., 0], "exit_pos": array[..., 1]}
    part["start_pos"] = array[..., 0] if array.ndim > 1 else array
    chi_square_bound(np.asarray(ours(buffer)).ravel(), part.get(theirs, array).ravel(), edges)


@pytest.fixture(scope="module")
def endless_buffer() -> Any:
    env, params = jaxgym.make("Endless-SearingSpotlights-v0")
    return levels.make_level_buffer(env, params, levels.train_seeds(2000))


@pytest.mark.parametrize("axis", [0, 1])
def test_the_first_endless_coin_and_start_are_distributed_as_the_recorded_ones(endless_buffer: Any, axis: int) -> None:
    theirs = recorded("ess")
    places = np.array([7, 8, 20, 35, 50, 65, 77, 78])
    chi_square_bound(np.asarray(endless_buffer.coins_px)[..., axis].ravel(), theirs["coins"][..., axis].ravel(), places)
    starts = np.arange(2, 88, 12.15)
    chi_square_bound(np.asarray(endless_buffer.start_px)[:, axis], theirs["start_pos"][:, axis], starts)


@pytest.mark.parametrize("name", ["ss", "ess"])
def test_tracks_turn_as_the_recorded_ones(buffer: Any, endless_buffer: Any, name: str) -> None:
    ours = np.asarray({"ss": buffer, "ess": endless_buffer}[name].tracks.angles_deg).reshape(-1, 3)
    theirs = recorded(name)["spot_angles"].astype(np.int32).reshape(-1, 3)
    for angles in (ours, theirs):
        assert (np.abs(angles[:, 1] - angles[:, 0] - 180 + 0.5) < 45).all()
        assert (np.abs(angles[:, 2] - angles[:, 1] + 0.5) < 135).all()
    # 2 000 levels of ours against 300 recorded; sizes as of the bins below: 9 of 10 and 10 of 27 degrees.
    chi_square_bound(ours[:, 1] - ours[:, 0], theirs[:, 1] - theirs[:, 0], np.arange(135, 226, 10))
    chi_square_bound(ours[:, 2] - ours[:, 1], theirs[:, 2] - theirs[:, 1], np.arange(-135, 136, 27))


def test_spotlights_of_an_episode_are_distributed_as_the_recorded_ones(endless_buffer: Any) -> None:
    env, params = jaxgym.make("Endless-SearingSpotlights-v0")
    spawned = jax.jit(jax.vmap(lambda level: env.next_track(env.initial_state(level, params), params)))(endless_buffer)
    theirs = recorded("ess")
    angles, their_angles = np.asarray(spawned.angles_deg), theirs["spot_angles"].astype(np.int32).reshape(-1, 3)
    chi_square_bound(np.asarray(spawned.radius_px), theirs["spot_radius"].ravel(), np.arange(7, 15))
    chi_square_bound(np.asarray(spawned.speed.high), theirs["spot_speed"].ravel(), np.linspace(0.0025, 0.00750001, 11))
    chi_square_bound(angles[:, 0], their_angles[:, 0], np.arange(0, 361, 30))
    chi_square_bound(angles[:, 1] - angles[:, 0], their_angles[:, 1] - their_angles[:, 0], np.arange(135, 226, 10))
    chi_square_bound(angles[:, 2] - angles[:, 1], their_angles[:, 2] - their_angles[:, 1], np.arange(-135, 136, 27))


def test_a_later_endless_coin_appears_on_any_free_pixel_alike() -> None:
    # 4 000 draws against the exact probabilities of 49 squares; p = 0.001.
    before = np.array([30, 50])
    words = np.random.default_rng(0).integers(0, 2**32, (4000, 3), dtype=np.uint32)
    drawn = jax.jit(jax.vmap(endless_searing_spotlights.next_place, in_axes=(0, None)))(words, jnp.asarray(before))
    y, x = np.mgrid[:84, :84]
    is_free = (x - before[0]) ** 2 + (y - before[1]) ** 2 >= 28**2
    edges = np.array([7, 8, 20, 35, 50, 65, 77, 78])
    expected = np.zeros((7, 7))
    for shift_x in (2, 3):
        for shift_y in (2, 3):
            places = np.clip([x[is_free] + shift_x, y[is_free] + shift_y], 7, 77)
            expected += np.histogram2d(*places, bins=(edges, edges))[0]
    expected *= 4000 / expected.sum()
    ours = np.histogram2d(*np.asarray(drawn).T, bins=(edges, edges))[0]
    used = expected > 0
    assert not ours[~used].any()
    statistic = np.sum((ours - expected)[used] ** 2 / expected[used])
    assert statistic < chi_square_quantile(used.sum() - 1)


@pytest.mark.parametrize(
    ("env_id", "steps"),
    [("SearingSpotlights-v0", (40, 80, 120)), ("Endless-SearingSpotlights-v0", (50, 100, 150))],
)
@pytest.mark.slow
def test_spotlights_spawn_at_equal_intervals(env_id: str, steps: tuple[int, ...]) -> None:
    env, params = jaxgym.make(env_id, agent_health=10_000.0)
    _, state = env.reset(jax.random.key(3), params)
    transition = jax.jit(lambda state, params: env.transition(state, jnp.array([0, 0]), params).state)
    counts = [int(state.num_spawned)]
    for _ in range(steps[-1] + 1):
        state = transition(state, params)
        counts.append(int(state.num_spawned))
    assert counts[0] == params.initial_spawns
    assert tuple(np.nonzero(np.diff(counts))[0] + 1) == steps
    assert counts[-1] == counts[0] + len(steps)


def test_the_free_pixels_are_those_of_the_full_mask() -> None:
    blocked = free_cells.block(free_cells.block(free_cells.nothing(), jnp.array([3, 80]), 28), jnp.array([40, 41]), 21)
    y, x = np.mgrid[:84, :84]
    mask = ((x - 3) ** 2 + (y - 80) ** 2 < 28**2) | ((x - 40) ** 2 + (y - 41) ** 2 < 21**2)
    np.testing.assert_array_equal(bitplanes.spread(blocked).reshape(84, 84), mask)
    cumulative = jnp.cumsum(jnp.asarray((~mask).sum(axis=1)))
    rows, columns = np.nonzero(~mask)
    index = jnp.arange(len(rows), dtype=jnp.int32)
    found = jax.vmap(lambda number: free_cells.pixel_at(blocked, cumulative.astype(jnp.int32), number))(index)
    np.testing.assert_array_equal(found, np.stack([columns, rows], axis=1))


@pytest.mark.parametrize(("health", "damage", "fatal"), [(5.0, 1.0, 5), (10.0, 0.1, 101), (1.0, 0.3, 4)])
def test_hits_are_counted_as_float64_counts_them(health: float, damage: float, fatal: int) -> None:
    assert HealthTables.of(health, damage).fatal_hits == fatal


def test_the_bar_is_cut_as_float64_cuts_it() -> None:
    bar = HealthTables.of(3.0, 1.0).bar_hits
    assert [(bar <= hits).sum() for hits in (1, 2, 3)] == [int(42 * (1 - 2 / 3)), int(42 * (1 - 1 / 3)), 42]


@pytest.mark.parametrize(("health", "damage"), [(200.0, 1.0), (7.0, 2.0), (2.5, 0.5), (5.0, 0.0)])
def test_hits_count_for_the_health_and_damage_that_are_set_in_the_parameters(health: float, damage: float) -> None:
    _, params = jaxgym.make("SearingSpotlights-v0", spot_damage=3)
    params = dataclasses.replace(params, agent_health=health, spot_damage=damage)
    hits = np.arange(1, 250)
    left = np.maximum(health - damage * hits, 0)
    is_fatal, red = jax.vmap(lambda count: (is_fatal_of(count, params), lost_px(count, params)))(jnp.asarray(hits))
    np.testing.assert_array_equal(is_fatal, left <= 0)
    np.testing.assert_array_equal(
        red, [int(Fraction(42) * Fraction(health - rest) / Fraction(health)) for rest in left]
    )


def test_after_a_removed_element_the_next_is_not_visited() -> None:
    in_list = jnp.array([True, False, True, True, True, True])
    unwanted = jnp.array([True, True, True, True, False, True])
    removed = spotlights.walk_and_remove(in_list, unwanted)
    np.testing.assert_array_equal(removed, [True, False, False, True, False, True])


def test_pairs_keep_what_float32_loses() -> None:
    a, b = np.random.default_rng(0).uniform(1.0, 100.0, (2, 1000))
    product = jax.jit(double_float.multiply)(double_float.DoubleFloat.of(a), double_float.DoubleFloat.of(b))
    exact = np.asarray(product.high, np.float64) + np.asarray(product.low, np.float64)
    assert np.abs(exact / (a * b) - 1).max() < 1e-9


@pytest.fixture(scope="module")
def quiet() -> Any:
    """Return options without spotlights, exit and coins, so that one step decides."""
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


def test_more_coins_than_fit_are_rejected() -> None:
    with pytest.raises(OptionError, match=r"Set max_coins=3\."):
        jaxgym.make("SearingSpotlights-v0", num_coins=[1, 3], max_coins=2)
