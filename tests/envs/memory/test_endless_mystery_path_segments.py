"""The segments of Endless Mystery Path, and the results of simple policies, are distributed as the original's.

The sample of the original is 600 consecutive seeds, three segments each. Seeds are fixed, so a test either always
passes or never; a p-value below 1e-4 is what one of about 100 tests would show in one of 100 choices of the seeds.
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
from jaxgym.envs.mystery_path import endless_segments as segments

LAYOUTS = Path(__file__).parents[2] / "data" / "traces" / "layouts__emp.npz"
LEVELS, FIRST_SEGMENTS, EPISODES, STEPS = 4000, 3, 2000, 200
SMALLEST_P = 1e-4
LARGEST_Z = 4.0


@functools.cache
def ours() -> np.ndarray:
    """Return all segments of the buffer, int (50 176, 32), -1 after the last tile."""
    buffer = np.asarray(segments.make_segment_buffer()).reshape(-1, segments.MAX_TILES).astype(np.int64)
    return np.where(buffer == segments.NO_TILE, -1, buffer)


@functools.cache
def theirs() -> np.ndarray:
    """Return the recorded segments in the same form, int (1800, 32)."""
    with np.load(LAYOUTS) as archive:
        paths = archive["path"].astype(np.int64)
    found = []
    for path in paths:
        for number in range(FIRST_SEGMENTS):
            tiles = path[path[:, 0] == number, 1:] - [segments.NUM_COLUMNS * number, 0]
            packed = segments.pack(tiles).astype(np.int64)
            found.append(np.where(packed == segments.NO_TILE, -1, packed))
    return np.stack(found)


def assert_same_distribution(first: np.ndarray, second: np.ndarray) -> None:
    """Check two samples of small integers by the chi-square test of homogeneity; rare values are merged."""
    size = int(max(first.max(), second.max())) + 1
    counts = np.stack([np.bincount(sample, minlength=size) for sample in (first, second)])
    is_rare = counts[1] < 5
    counts = np.concatenate([counts[:, ~is_rare], counts[:, is_rare].sum(axis=1, keepdims=True)], axis=1)
    assert stats.chi2_contingency(counts[:, counts.sum(axis=0) > 0], correction=False).pvalue > SMALLEST_P


def lengths(sample: np.ndarray) -> np.ndarray:
    return (sample >= 0).sum(axis=1)


def rises(sample: np.ndarray) -> np.ndarray:
    """Return the distance of the end from the start, in rows."""
    return np.abs(sample.max(axis=1) % segments.NUM_ROWS - sample[:, 0])


@pytest.mark.slow
def test_every_segment_of_the_level_buffer_leads_from_its_start_row_to_its_end_row_tile_by_tile() -> None:
    buffer = np.asarray(segments.make_segment_buffer())
    assert buffer.shape == (7, 7, segments.SEGMENTS_PER_PAIR, segments.MAX_TILES)
    start, end = np.divmod(np.arange(49), 7)
    assert (ours()[:, 0].reshape(49, -1) == start[:, None]).all()
    last = np.take_along_axis(ours(), lengths(ours())[:, None] - 1, axis=1)[:, 0]
    assert (last.reshape(49, -1) == 49 + end[:, None]).all()
    tiles = np.stack(np.divmod(ours(), 7), axis=-1)
    steps = np.abs(np.diff(tiles, axis=1)).sum(axis=-1)
    assert (steps[ours()[:, 1:] >= 0] == 1).all()
    assert lengths(ours()).max() < segments.MAX_TILES


def test_lengths_are_as_the_originals() -> None:
    # The mean is 11.1 tiles.
    assert abs(lengths(ours()).mean() - 11.1) < 0.05
    assert_same_distribution(lengths(ours()), lengths(theirs()))


@pytest.mark.parametrize("rise", range(7))
def test_lengths_given_the_rise_are_as_the_originals(rise: int) -> None:
    assert_same_distribution(lengths(ours()[rises(ours()) == rise]), lengths(theirs()[rises(theirs()) == rise]))


def test_tiles_are_used_as_often_as_the_originals() -> None:
    used = [(sample[:, :, None] == np.arange(49)).any(axis=1).mean(axis=0) for sample in (ours(), theirs())]
    pooled = np.clip(used[0], 1e-9, 1 - 1e-9)
    z = (used[1] - used[0]) / np.sqrt(pooled * (1 - pooled) / len(theirs()))
    assert np.abs(z).max() < LARGEST_Z


def test_about_one_segment_in_five_hundred_needs_a_step_to_the_left() -> None:
    tiles = np.stack(np.divmod(ours(), 7), axis=-1)
    is_left = ((np.diff(tiles[..., 0], axis=1) < 0) & (ours()[:, 1:] >= 0)).any(axis=1)
    assert 0.001 < is_left.mean() < 0.003


@functools.cache
def game() -> tuple[Any, Any]:
    return jaxgym.make("Endless-MysteryPath-v0", observation="symbolic")


def test_the_rows_of_start_and_ends_are_uniform_and_independent() -> None:
    env, params = game()

    def rows(key: jax.Array) -> jax.Array:
        level = env.sample_level(key, params)
        return jax.vmap(lambda number: segments.end_row_at(level, number))(jnp.arange(-1, FIRST_SEGMENTS))

    sampled = np.asarray(jax.jit(jax.vmap(rows))(jax.random.split(jax.random.key(1), LEVELS)))
    for column in sampled.T:
        assert stats.chisquare(np.bincount(column, minlength=7)).pvalue > SMALLEST_P
    for before, after in zip(sampled.T[:-1], sampled.T[1:], strict=True):
        assert stats.chisquare(np.bincount(7 * before + after, minlength=49)).pvalue > SMALLEST_P


def test_segments_join_and_are_those_of_the_seed() -> None:
    env, params = game()

    def first(key: jax.Array) -> jax.Array:
        level = env.sample_level(key, params)
        return jax.vmap(lambda number: segments.segment_at(level, number, params.segments))(jnp.arange(FIRST_SEGMENTS))

    found = np.asarray(jax.jit(jax.vmap(first))(jax.random.split(jax.random.key(2), LEVELS))).astype(np.int64)
    ends = np.where(found == segments.NO_TILE, 0, found).max(axis=-1) % segments.NUM_ROWS
    assert (found[:, 1:, 0] == ends[:, :-1]).all()
    # Many short paths are found more than once.
    assert len(np.unique(found.reshape(-1, segments.MAX_TILES), axis=0)) > 3000


@functools.cache
def random_episodes() -> dict[str, np.ndarray]:
    """Return the last info of episodes with random actions."""
    env, params = game()

    def episode(key: jax.Array) -> Any:
        key_reset, key_actions = jax.random.split(key)
        actions = jax.random.randint(key_actions, (STEPS,), 0, 4)
        state = env.initial_state(env.sample_level(key_reset, params), params)

        def advance(carry: Any, action: jax.Array) -> Any:
            state, ended = carry
            _, after, _, terminated, _ = env.step_env(key_reset, state, action, params)
            after = jax.tree.map(lambda old, new: jnp.where(ended, old, new), state, after)
            return (after, ended | terminated), None

        (state, ended), _ = jax.lax.scan(advance, (state, jnp.bool_(False)), actions)
        return {
            "reward": state.episode_return,
            "length": state.time,
            "num_fails": state.num_fails,
            "max_x": state.max_x,
            "tiles_visited": state.tiles_visited,
            "ended": ended,
        }

    with jax.debug_key_reuse(False):
        return jax.device_get(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(3), EPISODES)))


@pytest.mark.slow
def test_random_episodes_fare_as_the_originals() -> None:
    episodes = random_episodes()
    assert episodes["ended"].all()
    # Mean and deviation of 400 episodes of the original; where it gives no deviation, ours.
    for name, mean, deviation in (
        ("reward", 0.111, 0.108),
        ("length", 27.7, 17.2),
        ("num_fails", 2.43, None),
        ("max_x", 0.80, None),
        ("tiles_visited", 1.11, 1.08),
    ):
        ours = episodes[name]
        spread = ours.std() if deviation is None else deviation
        error = np.sqrt(spread**2 / 400 + ours.var() / EPISODES)
        assert abs(ours.mean() - mean) < LARGEST_Z * error, name
