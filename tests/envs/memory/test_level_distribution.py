"""The levels of Mortar Mayhem, and the results of simple policies, are distributed as the original's.

The samples of the original are 300 consecutive seeds of each game. Seeds are fixed, so a test either always passes or
never; a p-value below 1e-4 is what one of about 100 tests would show in one of 100 choices of the seeds.
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
from jaxgym.levels import make_level_buffer, train_seeds

GAMES = {
    "mm": "MortarMayhem-v0",
    "mmg": "MortarMayhem-Grid-v0",
    "mmb": "MortarMayhemB-v0",
    "mmbg": "MortarMayhemB-Grid-v0",
}
MOVES = np.asarray([(1, 0), (0, 1), (-1, 0), (0, -1), (0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)])
TRACES = Path(__file__).parents[2] / "data" / "traces"
LEVELS, EPISODES = 20_000, 2_000
SMALLEST_P = 1e-4
LARGEST_Z = 4.0
ROLLOUT_STEPS = 274  # The longest episode of all.

all_games = pytest.mark.parametrize("game", GAMES)


@functools.cache
def ours(game: str) -> Any:
    return jax.device_get(make_level_buffer(*jaxgym.make(GAMES[game], observation="symbolic"), train_seeds(LEVELS)))


@functools.cache
def theirs(game: str) -> dict[str, np.ndarray]:
    with np.load(TRACES / f"layouts__{game}.npz") as archive:
        return {name: archive[name].astype(np.int64) for name in ("start_tile", "start_pos", "commands")}


def assert_same_distribution(first: np.ndarray, second: np.ndarray, categories: int) -> None:
    """Check two samples of integers in 0 … categories - 1 by the chi-square test of homogeneity."""
    counts = np.stack([np.bincount(sample, minlength=categories) for sample in (first, second)])
    occurring = counts[:, counts.sum(axis=0) > 0]
    assert stats.chi2_contingency(occurring, correction=False).pvalue > SMALLEST_P


def assert_uniform(sample: np.ndarray, categories: int) -> None:
    assert stats.chisquare(np.bincount(sample, minlength=categories)).pvalue > SMALLEST_P


def tile_number(tiles: np.ndarray) -> np.ndarray:
    return 5 * tiles[..., 0] + tiles[..., 1]


# Levels.


@all_games
def test_start_tiles_are_uniform_and_as_the_originals(game: str) -> None:
    starts = tile_number(ours(game).start_tile)
    assert_uniform(starts, 25)
    assert_same_distribution(starts, tile_number(theirs(game)["start_tile"]), 25)


@pytest.mark.parametrize("axis", [0, 1])
def test_start_offsets_are_uniform_and_as_the_originals(axis: int) -> None:
    centers = 7 + 14 * theirs("mmb")["start_tile"] + 7
    recorded = (theirs("mmb")["start_pos"] - centers)[:, axis] + 2
    sampled = ours("mmb").start_offset_px[:, axis] + 2
    assert_uniform(sampled, 4)
    assert_same_distribution(sampled, recorded, 4)


def test_both_start_offsets_and_the_start_tile_are_independent() -> None:
    x, y = (ours("mmb").start_offset_px + 2).T
    assert_uniform(4 * x + y, 16)
    counts = np.zeros((25, 16))
    np.add.at(counts, (tile_number(ours("mmb").start_tile), 4 * x + y), 1)
    assert stats.chi2_contingency(counts).pvalue > SMALLEST_P


@pytest.mark.parametrize("position", range(10))
@all_games
def test_the_commands_at_each_position_are_as_the_originals(game: str, position: int) -> None:
    assert_same_distribution(ours(game).commands[:, position], theirs(game)["commands"][:, position], 9)


@all_games
def test_the_first_command_given_the_start_is_uniform_over_what_stays_inside(game: str) -> None:
    allowed = 9 if game in ("mm", "mmb") else 5
    first, starts = ours(game).commands[:, 0], ours(game).start_tile
    observed, expected = [], []
    for column in range(5):
        for row in range(5):
            commands = first[(starts == (column, row)).all(axis=1)]
            targets = MOVES[:allowed] + np.asarray((column, row))
            inside = np.flatnonzero(((targets >= 0) & (targets < 5)).all(axis=1))
            assert set(commands) == set(inside)
            observed += [np.sum(commands == command) for command in inside]
            expected += [len(commands) / len(inside)] * len(inside)
    # One degree of freedom is lost for each tile.
    assert stats.chisquare(observed, expected, ddof=24).pvalue > SMALLEST_P


@all_games
def test_the_last_command_given_the_tile_before_it_is_uniform_over_what_stays_inside(game: str) -> None:
    allowed = 9 if game in ("mm", "mmb") else 5
    commands = ours(game).commands
    before = ours(game).start_tile + MOVES[commands[:, :-1]].sum(axis=1)
    inside = (before[:, None] + MOVES[:allowed] >= 0) & (before[:, None] + MOVES[:allowed] < 5)
    expected = (inside.all(axis=-1) / inside.all(axis=-1).sum(axis=1, keepdims=True)).sum(axis=0)
    assert stats.chisquare(np.bincount(commands[:, -1], minlength=allowed), expected).pvalue > SMALLEST_P


@all_games
def test_the_visited_tiles_are_as_the_originals(game: str) -> None:
    sampled = ours(game).start_tile + MOVES[ours(game).commands].sum(axis=1)
    recorded = theirs(game)["start_tile"] + MOVES[theirs(game)["commands"]].sum(axis=1)
    assert_same_distribution(tile_number(sampled), tile_number(recorded), 25)


# Policies: mean and standard deviation of 400 episodes of the original, as its statistics are given.

FARES = {
    ("mm", "random"): {
        "episode_return": (0.012, 0.035),
        "episode_length": (59.6, 6.3),
        "commands_completed": (0.006, None),
    },
    ("mm", "nothing"): {
        "episode_return": (0.020, 0.045),
        "episode_length": (62.7, 10.9),
        "commands_completed": (0.020, None),
    },
    ("mmg", "random"): {
        "episode_return": (0.022, 0.049),
        "episode_length": (47.5, 3.7),
        "commands_completed": (0.019, None),
    },
    ("mmg", "nothing"): {
        "episode_return": (0.041, 0.078),
        "episode_length": (49.3, 6.3),
        "commands_completed": (0.041, None),
    },
    ("mmb", "random"): {
        "episode_return": (0.019, 0.046),
        "episode_length": (21.5, 8.2),
        "commands_completed": (0.010, None),
    },
    ("mmb", "nothing"): {
        "episode_return": (0.025, 0.057),
        "episode_length": (25.0, 13.7),
        "commands_completed": (0.025, None),
    },
    ("mmbg", "random"): {
        "episode_return": (0.019, 0.050),
        "episode_length": (8.3, 3.7),
        "commands_completed": (0.015, None),
    },
    ("mmbg", "nothing"): {
        "episode_return": (0.041, 0.078),
        "episode_length": (10.3, 6.3),
        "commands_completed": (0.041, None),
    },
}
THEIR_EPISODES = 400
HALF_A_DIGIT = {"episode_return": 0.0005, "episode_length": 0.05, "commands_completed": 0.0005}


@functools.partial(jax.jit, static_argnames=("env",))
def play(env: Any, level: Any, params: Any, actions: jax.Array) -> dict[str, jax.Array]:
    """Return the last `info` of an episode with these actions."""

    def goes_on(carry: Any) -> jax.Array:
        return ~carry[0].terminated

    def step(carry: Any) -> Any:
        state, _ = carry
        _, state, _, _, info = env.step_env(jax.random.key(0), state, actions[state.time], params)
        return state, info

    state = env.initial_state(level, params)
    unplayed = {"episode_return": jnp.float32(0), "episode_length": jnp.int32(0)}
    unplayed |= {"success": jnp.int32(0), "commands_completed": jnp.float32(0)}
    return jax.lax.while_loop(goes_on, step, (state, unplayed))[1]


@functools.cache
def fare(game: str, policy: str) -> dict[str, np.ndarray]:
    env, params = jaxgym.make(GAMES[game], observation="symbolic")
    shape = (EPISODES, ROLLOUT_STEPS, *env.action_space(params).shape)
    actions = np.zeros(shape, np.int32)
    if policy == "random":
        actions = np.random.default_rng(0).integers(0, 4 if env.grid else 3, shape, dtype=np.int32)
    some = jax.tree.map(lambda leaf: leaf[:EPISODES], ours(game))
    return jax.device_get(jax.vmap(play, in_axes=(None, 0, None, 0))(env, some, params, actions))


@pytest.mark.parametrize("metric", ["episode_return", "episode_length", "commands_completed"])
@pytest.mark.parametrize(("game", "policy"), FARES)
def test_a_simple_policy_fares_as_in_the_original(game: str, policy: str, metric: str) -> None:
    found = fare(game, policy)[metric].astype(np.float64)
    mean, deviation = FARES[game, policy][metric]
    variance = np.var(found, ddof=1)
    error = np.sqrt(variance / EPISODES + (variance if deviation is None else deviation**2) / THEIR_EPISODES)
    assert abs(found.mean() - mean) < LARGEST_Z * error + HALF_A_DIGIT[metric]


@pytest.mark.parametrize(("game", "policy"), FARES)
def test_a_simple_policy_never_succeeds(game: str, policy: str) -> None:
    assert not fare(game, policy)["success"].any()
