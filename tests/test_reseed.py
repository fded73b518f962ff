"""New chance events: `Environment.reseed` replaces them, and nothing else.

. . G      a lake without holes; on slippery ice, the seed of the slips is all that is left to chance
S . .
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnax
import jax
import numpy as np
import pytest

import jaxgym
from jaxgym import wrappers


def blank(env: Any, params: Any) -> Any:
    """Return a state of zeros."""
    state = jax.eval_shape(lambda key: env.reset_env(key, params)[1], jax.random.key(0))
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), state)


def changed(before: Any, after: Any) -> set[str]:
    """Return the paths of the arrays that differ."""
    pairs = zip(jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after), strict=True)
    return {jax.tree_util.keystr(path) for (path, old), new in pairs if not np.array_equal(old, new)}


def lake() -> tuple[Any, Any]:
    return jaxgym.make("FrozenLake-v0", map_name="4x4", is_slippery=True)


@pytest.mark.parametrize(
    "env_id",
    [
        "FrozenLake-v0",
        "SearingSpotlights-v0",
        "Endless-SearingSpotlights-v0",
        "MemoryCards-v0",
        "T-Maze-Lamp-v0",
        "Passive-VisualMatch-v0",
        "BossFight-v0",
        "KeyToDoor-v0",
        "ColorCubes-v0",
    ],
)
def test_a_reseeded_state_has_the_shapes_of_a_state(env_id: str, get_key: Callable[[], jax.Array]) -> None:
    env, params = jaxgym.make(env_id, levels="fresh")
    state = blank(env, params)
    reseeded = env.reseed(state, get_key())
    assert jax.tree.structure(reseeded) == jax.tree.structure(state)
    assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(reseeded)] == [
        (leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state)
    ]


def test_a_game_without_chance_events_keeps_its_state(get_key: Callable[[], jax.Array]) -> None:
    env, params = jaxgym.make("Sudoku-v0")
    state = blank(env, params)
    assert env.reseed(state, get_key()) is state


def test_a_lake_gets_other_slips(get_key: Callable[[], jax.Array]) -> None:
    env, params = lake()
    state = blank(env, params)
    assert changed(state, env.reseed(state, get_key())) == {".level.slip_seed"}


def test_cards_to_come_are_replaced_and_the_shown_card_stays(get_key: Callable[[], jax.Array]) -> None:
    env, params = jaxgym.make("MemoryCards-v0", num_pairs=2, num_draws=4000)
    reseeded = env.reseed(blank(env, params), get_key())
    assert changed(blank(env, params), reseeded) == {".level.draws"}
    counts = np.bincount(reseeded.level.draws, minlength=4)
    assert len(counts) == 4
    assert counts.min() > 840  # each card has a probability of 1/4: the deviation of a count is 27


def test_a_lamp_gets_other_random_numbers_except_the_shown_one(get_key: Callable[[], jax.Array]) -> None:
    env, params = jaxgym.make("T-Maze-Lamp-v0", noise_length=3000)
    state = dataclasses.replace(blank(env, params), time=np.int32(3007))
    noise = np.zeros(3000, np.int8)
    noise[7] = 5  # no number that is sampled
    state = dataclasses.replace(state, level=dataclasses.replace(state.level, noise=noise))
    reseeded = env.reseed(state, get_key())
    assert changed(state, reseeded) == {".level.noise"}
    assert reseeded.level.noise[7] == 5
    counts = np.bincount(np.delete(reseeded.level.noise, 7) + 1, minlength=3)
    assert len(counts) == 3
    assert counts.min() > 870  # each number has a probability of 1/3: the deviation of a count is 26


def test_rewards_of_apples_to_come_are_replaced(get_key: Callable[[], jax.Array]) -> None:
    env, params = jaxgym.make("Passive-VisualMatch-v0", num_draws=4000)
    state = blank(env, params)
    reseeded = env.reseed(state, get_key())
    assert changed(state, reseeded) == {".level.apple_draws"}
    draws = np.asarray(reseeded.level.apple_draws)
    assert 0 <= draws.min() < 0.01 < 0.99 < draws.max() < 1
    assert abs(draws.mean() - 0.5) < 0.03  # the deviation of the mean is 0.005


def test_a_wrapper_reseeds_the_inner_environment(get_key: Callable[[], jax.Array]) -> None:
    env, params = wrappers.FrameSkip(lake()[0], 2), lake()[1]
    state = blank(env, params)
    assert changed(state, env.reseed(state, get_key())) == {".level.slip_seed"}


def test_spotlights_over_a_lake_are_reseeded_with_it(get_key: Callable[[], jax.Array]) -> None:
    env, params = wrappers.SpotlightPerturbation.of(*lake())
    state = blank(env, params)
    assert changed(state, env.reseed(state, get_key())) == {".level.inner.slip_seed", ".level.seed"}


def test_an_environment_of_gymnax_gets_another_key(get_key: Callable[[], jax.Array]) -> None:
    env = wrappers.FromGymnax(gymnax.make("CartPole-v1")[0])
    state = blank(env, env.default_params)
    assert changed(state, env.reseed(state, get_key())) == {".level"}


def test_spotlights_and_coins_that_a_level_lists_are_replaced_too(get_key: Callable[[], jax.Array]) -> None:
    env, params = jaxgym.make("Endless-SearingSpotlights-v0", max_given_spotlights=9, max_given_coins=5)
    state = blank(env, params)
    level = dataclasses.replace(state.level, num_tracks=np.int32(9), num_coins=np.int32(5))
    state = dataclasses.replace(state, level=level, num_spawned=np.int32(4), num_collected=np.int32(1))
    reseeded = env.reseed(state, get_key())
    assert changed(state, reseeded) == {".level.seed", ".level.num_tracks", ".level.num_coins"}
    assert (int(reseeded.level.num_tracks), int(reseeded.level.num_coins)) == (4, 2)  # coin 1 is on the board
