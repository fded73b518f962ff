"""The levels of Searing Spotlights, and the results of simple policies, are distributed as the original's.

Samples: 4 000 levels of ours; 300 consecutive seeds of the original. Seeds are fixed, so a test either always passes or
never; a p-value below 1e-4 is what one of about 30 tests would show in one of 300 choices of the seeds.
"""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxgym
from jaxgym import levels

TRACES = Path(__file__).parents[2] / "data" / "traces"
GAMES = {"ss": "SearingSpotlights-v0", "ess": "Endless-SearingSpotlights-v0"}
LEVELS, EPISODES = 4_000, 2_000
SMALLEST_P = 1e-4
LARGEST_Z = 4.0
SIDE_PX, BINS = 84, 7
SHIFTS_PX = (2, 3)
pytestmark = pytest.mark.slow
both_games = pytest.mark.parametrize("game", GAMES)


@functools.cache
def made(game: str) -> tuple[Any, Any, Any]:
    """Return the environment, its parameters, and levels that one program has sampled."""
    env, params = jaxgym.make(GAMES[game], levels="fresh", observation="symbolic")
    keys = jax.vmap(levels.level_key)(jnp.asarray(levels.train_seeds(LEVELS)))
    return env, params, jax.device_get(jax.jit(jax.vmap(env.sample_level, in_axes=(0, None)))(keys, params))


@functools.cache
def recorded(game: str) -> dict[str, np.ndarray]:
    with np.load(TRACES / f"layouts__{game}.npz") as archive:
        return dict(archive)


def shifted_pixels() -> np.ndarray:
    """Return the probability of each position if all pixels are free: a pixel, shifted by 2 or 3 along each axis."""
    along = np.zeros(SIDE_PX + max(SHIFTS_PX))
    for shift in SHIFTS_PX:
        along[shift : shift + SIDE_PX] += 1 / (2 * SIDE_PX)
    return along


# Levels.


def test_headings_are_uniform() -> None:
    # Only the finite game records them. Chi-square: 8 cells of 500 each.
    sampled = np.bincount(made("ss")[2].heading, minlength=8)
    assert stats.chisquare(sampled).pvalue > SMALLEST_P
    theirs = np.bincount((recorded("ss")["start_rot"] // 45).astype(int), minlength=8)
    assert stats.chi2_contingency([sampled, theirs], correction=False).pvalue > SMALLEST_P
    assert stats.chisquare(np.bincount(made("ess")[2].heading, minlength=8)).pvalue > SMALLEST_P


@both_games
def test_the_agent_starts_on_any_pixel_alike(game: str) -> None:
    # Chi-square against the exact probabilities of 7 x 7 squares, 82 levels each.
    edges = np.linspace(0, SIDE_PX + max(SHIFTS_PX), BINS + 1)
    along = np.histogram(np.arange(SIDE_PX + max(SHIFTS_PX)), edges, weights=shifted_pixels())[0]
    starts = made(game)[2].start_px
    found = np.histogram2d(*starts.T, bins=(edges, edges))[0]
    assert stats.chisquare(found.ravel(), LEVELS * np.outer(along, along).ravel()).pvalue > SMALLEST_P
    assert (starts.min(), starts.max()) == (min(SHIFTS_PX), SIDE_PX - 1 + max(SHIFTS_PX))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("game", "thing"), [("ss", "coins"), ("ss", "exit_pos"), ("ess", "coins")])
def test_coins_and_exits_lie_where_the_originals_do(game: str, thing: str, axis: int) -> None:
    # Kolmogorov and Smirnov, 4 000 against 300.
    level = made(game)[2]
    places = {"coins": level.coins_px[:, 0], "exit_pos": getattr(level, "exit_px", level.coins_px[:, 0])}[thing]
    theirs = recorded(game)[thing].reshape(-1, 2)
    assert stats.ks_2samp(places[:, axis], theirs[:, axis]).pvalue > SMALLEST_P
    assert (places.min(), places.max()) == (7, 77)


@pytest.mark.parametrize(
    ("pair", "blocked_px"), [(("coins", "exit_pos"), 21), (("start_pos", "coins"), 28), (("start_pos", "exit_pos"), 28)]
)
def test_the_agent_the_coin_and_the_exit_are_as_far_apart_as_in_the_original(
    pair: tuple[str, str], blocked_px: float
) -> None:
    # Kolmogorov and Smirnov, 4 000 against 300. Shifts and clamps bring things nearer by 10 px along an axis at most.
    level, theirs = made("ss")[2], recorded("ss")
    ours = {"start_pos": level.start_px, "coins": level.coins_px[:, 0], "exit_pos": level.exit_px}
    apart, their_apart = (
        np.linalg.norm((places[pair[0]].reshape(-1, 2) - places[pair[1]].reshape(-1, 2)).astype(float), axis=-1)
        for places in (ours, {name: theirs[name].astype(int) for name in pair})
    )
    assert stats.ks_2samp(apart, their_apart).pvalue > SMALLEST_P
    for smallest in (apart.min(), their_apart.min()):
        assert smallest >= blocked_px - 10 * np.sqrt(2)


@both_games
def test_the_tracks_of_the_first_spotlights_are_as_the_originals(game: str) -> None:
    # Chi-square of uniform integers, and Kolmogorov and Smirnov against a uniform speed; 12 000 spotlights or more.
    level, params = made(game)[2], made(game)[1]
    count = int(params.initial_spawns)
    radius, angles = level.tracks.radius_px[:, :count].ravel(), level.tracks.angles_deg[:, :count].reshape(-1, 3)
    assert stats.chisquare(np.bincount(radius - 7, minlength=7)).pvalue > SMALLEST_P
    turns = (angles[:, 0], angles[:, 1] - angles[:, 0] - 135, angles[:, 2] - angles[:, 1] + 135)
    for turn, choices in zip(turns, (360, 90, 270), strict=True):
        assert stats.chisquare(np.bincount(turn, minlength=choices)).pvalue > SMALLEST_P
    speed = level.tracks.speed.high[:, :count].ravel().astype(float)
    assert stats.kstest(speed, stats.uniform(0.0025, 0.005).cdf).pvalue > SMALLEST_P
    lifetimes = level.tracks.lifetime_steps[:, :count].ravel()
    assert (lifetimes >= 134).all()
    assert (lifetimes <= 401).all()
    assert abs(np.corrcoef(speed, radius)[0, 1]) < LARGEST_Z / np.sqrt(len(speed))


# Policies: mean and standard deviation of 400 episodes of the original, as its statistics are given.

FARES: dict[tuple[str, str], dict[str, tuple[float, float | None]]] = {
    ("ss", "random"): {
        "episode_return": (0.009, 0.047),
        "episode_length": (81.6, 46.7),
        "agent_health": (0.012, None),
        "coins_collected": (0.037, None),
    },
    ("ss", "nothing"): {"episode_return": (0.0, 0.0), "episode_length": (96.0, 64.9), "agent_health": (0.063, None)},
    ("ess", "random"): {
        "episode_return": (0.058, 0.118),
        "episode_length": (99.4, 48.5),
        "agent_health": (0.129, None),
        "coins_collected": (0.23, None),
    },
    ("ess", "nothing"): {
        "episode_return": (0.009, 0.047),
        "episode_length": (102.4, 45.5),
        "agent_health": (0.231, None),
        "coins_collected": (0.037, None),
    },
}
THEIR_EPISODES = 400
HALF_A_DIGIT = {"episode_return": 0.0005, "episode_length": 0.05, "agent_health": 0.0005, "coins_collected": 0.005}


@functools.cache
def fare(game: str, policy: str) -> dict[str, np.ndarray]:
    """Return the last `info` of 2 000 episodes."""
    env, params, buffer = made(game)

    def play(level: Any, number: jax.Array) -> Any:
        def goes_on(carry: Any) -> jax.Array:
            return ~carry[0].terminated & ~env.is_truncated(carry[0], params)

        def step(carry: Any) -> Any:
            state, _ = carry
            key = jax.random.fold_in(jax.random.key(number), state.time)
            action = jax.random.randint(key, (2,), 0, 3, jnp.int32) * jnp.int32(policy == "random")
            _, after, _, _, info = env.step_env(jax.random.key(0), state, action, params)
            return after, {name: info[name] for name in metrics}

        state = env.initial_state(level, params)
        metrics = ["episode_return", "episode_length", "agent_health", "coins_collected"] + ["success"] * (game == "ss")
        shapes = jax.eval_shape(step, (state, None))[1]
        none = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
        return jax.lax.while_loop(goes_on, step, (state, none))[1]

    some = jax.tree.map(lambda leaf: leaf[:EPISODES], buffer)
    return jax.device_get(jax.jit(jax.vmap(play))(some, jnp.arange(EPISODES, dtype=jnp.uint32)))


@pytest.mark.parametrize(("game", "policy"), FARES)
def test_a_simple_policy_fares_as_in_the_original(game: str, policy: str) -> None:
    found = fare(game, policy)
    for metric, (mean, deviation) in FARES[game, policy].items():
        values = found[metric].astype(np.float64)
        variance = np.var(values, ddof=1)
        error = np.sqrt(variance / EPISODES + (variance if deviation is None else deviation**2) / THEIR_EPISODES)
        assert abs(values.mean() - mean) <= LARGEST_Z * error + HALF_A_DIGIT[metric], metric


@pytest.mark.parametrize("policy", ["random", "nothing"])
def test_a_simple_policy_hardly_ever_succeeds(policy: str) -> None:
    # None of 400 episodes of the original did; with a share of 1 % that would have a probability of 2 %.
    assert fare("ss", policy)["success"].mean() < 0.01
