"""Level seeds and level buffers: two disjoint splits, and resets that draw only from the level buffer."""

import dataclasses
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.errors import LevelError, OptionError
from jaxgym.wrappers import FrameSkip, LastActionReward

GAME = "MortarMayhemB-Grid-v0"
HALF = 2**31


@pytest.fixture(scope="module")
def made() -> tuple[Any, Any]:
    return jaxgym.make(GAME, observation="symbolic", command_count=[2], max_commands=2)


@pytest.fixture(scope="module")
def buffer(made: tuple[Any, Any]) -> Any:
    return levels.make_level_buffer(*made, levels.train_seeds(64))


def contents(buffer: Any) -> list[tuple[Any, ...]]:
    """Return the levels of a level buffer as tuples of plain numbers."""
    columns = [np.asarray(leaf).reshape(len(leaf), -1).tolist() for leaf in jax.tree.leaves(buffer)]
    return [tuple(number for numbers in row for number in numbers) for row in zip(*columns, strict=True)]


# Seeds.


def test_the_splits_share_no_seed() -> None:
    last = levels.train_seeds(1, start=HALF - 1), levels.held_out_seeds(1, start=HALF - 1)
    assert levels.train_seeds(3).tolist() == [0, 1, 2]
    assert last[0].tolist() == [HALF - 1]
    assert levels.held_out_seeds(3).tolist() == [HALF, HALF + 1, HALF + 2]
    assert last[1].tolist() == [2**32 - 1]


def test_seeds_are_consecutive_uint32_from_the_start_on() -> None:
    for seeds, first in ((levels.train_seeds, 0), (levels.held_out_seeds, HALF)):
        assert seeds(4, start=10).tolist() == [first + n for n in range(10, 14)]
        assert seeds(4).dtype == np.uint32


@pytest.mark.parametrize(("count", "start"), [(1, -1), (2, HALF - 1), (1, HALF)])
@pytest.mark.parametrize("split", ["training", "held-out"])
def test_seeds_outside_of_their_split_are_rejected(split: str, count: int, start: int) -> None:
    seeds = levels.train_seeds if split == "training" else levels.held_out_seeds
    with pytest.raises(LevelError, match=f"^{split} seeds: expected .* start \\+ count <= {HALF}, got start={start}"):
        seeds(count, start)


@pytest.mark.parametrize("count", [0, -1])
def test_no_seeds_are_rejected_with_how_many_there_may_be(count: int) -> None:
    with pytest.raises(LevelError, match=rf"^training seeds: expected a count of at least 1, got {count}\.$"):
        levels.train_seeds(count)


@pytest.mark.parametrize("count", [None, True, 2.0, "2", [2]])
def test_a_count_of_seeds_that_is_no_integer_is_rejected(count: Any) -> None:
    with pytest.raises(LevelError, match=r"^training seeds: expected integers, got count=.* and start=0\.$"):
        levels.train_seeds(count)
    assert levels.train_seeds(np.array(2), start=jnp.int32(5)).tolist() == [5, 6]


# The level of a seed.


def test_a_level_buffer_holds_the_levels_of_its_seeds(made: tuple[Any, Any]) -> None:
    env, params = made
    seeds = np.concatenate([levels.train_seeds(3, start=7), levels.held_out_seeds(2)])
    buffer = levels.make_level_buffer(env, params, seeds)
    assert levels.num_levels(buffer) == 5
    for row, seed in enumerate(seeds.tolist()):
        level = levels.level_from_seed(env, seed, params)
        expected = jax.tree.map(lambda leaf, row=row: np.asarray(leaf[row]), buffer)
        chex.assert_trees_all_equal(level, expected)


def test_a_level_buffer_follows_from_seeds_and_parameters_alone(made: tuple[Any, Any], buffer: Any) -> None:
    env, params = made
    holding = dataclasses.replace(params, levels=levels.make_level_buffer(env, params, [5]))
    again = levels.make_level_buffer(env, holding, levels.train_seeds(64))
    assert contents(again) == contents(buffer)


def test_level_from_seed_uses_the_parameters_of_make_if_none_are_given() -> None:
    env, _ = jaxgym.make(GAME, observation="symbolic", command_count=[2], max_commands=2, explosion_delay=[9])
    assert levels.level_from_seed(env, 0).explosion_delay == 9


def test_other_seeds_give_other_levels(buffer: Any) -> None:
    # 25 starts and at least 3 · 3 sequences of two commands: of 64 levels most differ.
    assert levels.num_distinct(buffer) > 40


def test_a_level_buffer_longer_than_a_batch_keeps_order_and_length(
    made: tuple[Any, Any], buffer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "_BUFFER_BATCH", 10)
    assert contents(levels.make_level_buffer(*made, levels.train_seeds(64))) == contents(buffer)


@pytest.mark.parametrize("seeds", [[], [[1, 2]], 3])
def test_a_level_buffer_needs_one_axis_of_seeds(made: tuple[Any, Any], seeds: Any) -> None:
    with pytest.raises(
        LevelError, match=r"^make_level_buffer: expected a list of at least one seed, got shape \(.*\)\.$"
    ):
        levels.make_level_buffer(*made, seeds)


# Resets.


@pytest.fixture(scope="module")
def starts(made: tuple[Any, Any]) -> Callable[[Any, int], list[tuple[Any, ...]]]:
    """Return a function that returns the contents of the levels of many resets."""
    env, _ = made
    reset = jax.jit(jax.vmap(lambda key, params: env.reset(key, params)[1].level, in_axes=(0, None)))

    def levels_of(params: Any, count: int) -> list[tuple[Any, ...]]:
        return contents(jax.device_get(reset(jax.random.split(jax.random.key(4), count), params)))

    return levels_of


def test_resets_draw_every_level_of_the_level_buffer_and_no_other(
    made: tuple[Any, Any], buffer: Any, starts: Any
) -> None:
    _, params = made
    small = jax.tree.map(lambda leaf: leaf[:12], buffer)
    drawn = starts(dataclasses.replace(params, levels=small), 400)
    assert set(drawn) == set(contents(small))


def test_resets_draw_each_level_as_often(made: tuple[Any, Any], starts: Any) -> None:
    env, params = made
    seeds = levels.train_seeds(200)
    wanted = contents(levels.make_level_buffer(env, params, seeds))
    four = np.asarray([wanted.index(content) for content in list(dict.fromkeys(wanted))[:4]])
    drawn = starts(dataclasses.replace(params, levels=levels.make_level_buffer(env, params, seeds[four])), 400)
    counts = [drawn.count(wanted[row]) for row in four]
    # 100 each, with a standard deviation of 8.7.
    assert sum(counts) == 400
    assert max(abs(count - 100) for count in counts) < 5 * 8.7


def test_level_weights_are_relative_probabilities_and_a_weight_of_0_is_never_drawn(
    made: tuple[Any, Any], starts: Any
) -> None:
    env, params = made
    seeds = levels.train_seeds(200)
    wanted = contents(levels.make_level_buffer(env, params, seeds))
    five = np.asarray([wanted.index(content) for content in list(dict.fromkeys(wanted))[:5]])
    weights = jnp.asarray([0.0, 6.0, 0.0, 2.0, 0.0])
    buffer = levels.make_level_buffer(env, params, seeds[five])
    drawn = starts(dataclasses.replace(params, levels=buffer, level_weights=weights), 400)
    counts = [drawn.count(wanted[row]) for row in five]
    # 300 and 100, with a standard deviation of 8.7.
    assert sum(counts) == counts[1] + counts[3] == 400
    assert abs(counts[1] - 300) < 5 * 8.7


def test_other_levels_and_weights_do_not_compile_again(made: tuple[Any, Any], buffer: Any) -> None:
    env, params = made
    chex.clear_trace_counter()
    reset = jax.jit(chex.assert_max_traces(lambda key, params: env.reset(key, params)[1].level_index, n=1))
    for index in (3, 1):
        rows = jax.tree.map(lambda leaf, index=index: leaf[index : index + 4], buffer)
        weights = jnp.zeros(4).at[index].set(1.0)
        given = dataclasses.replace(params, levels=rows, level_weights=weights)
        assert reset(jax.random.key(index), given) == index


def test_an_auto_reset_draws_with_the_level_weights_of_its_environment(made: tuple[Any, Any], buffer: Any) -> None:
    env, params = made
    weights = jnp.eye(3)[jnp.asarray([2, 0])]
    params = dataclasses.replace(params, levels=jax.tree.map(lambda leaf: leaf[:3], buffer), max_steps_in_episode=1)
    axes = dataclasses.replace(jax.tree.map(lambda _: None, params), level_weights=0)
    params = dataclasses.replace(params, level_weights=weights)
    _, state = jax.vmap(env.reset, in_axes=(0, axes))(jax.random.split(jax.random.key(0)), params)
    assert state.level_index.tolist() == [2, 0]
    step = jax.vmap(env.step, in_axes=(0, 0, None, axes))
    _, state, *_ = step(jax.random.split(jax.random.key(1)), state, jnp.int32(0), params)
    assert state.level_index.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("rows", "weights", "message"),
    [
        (3, jnp.ones(2), r"expected params.level_weights of shape \(3,\), one for each level, got \(2,\)"),
        (3, 1.0, r"expected params.level_weights of shape \(3,\), one for each level, got \(\)"),
        (0, jnp.ones(2), "expected params.levels with a level buffer for params.level_weights, got None"),
    ],
)
def test_level_weights_need_a_level_each(
    made: tuple[Any, Any], buffer: Any, rows: int, weights: Any, message: str
) -> None:
    env, params = made
    levels_of = jax.tree.map(lambda leaf: leaf[:rows], buffer) if rows else None
    with pytest.raises(LevelError, match=f"^{GAME}: {message}"):
        env.reset(jax.random.key(0), dataclasses.replace(params, levels=levels_of, level_weights=weights))


def test_fresh_resets_give_levels_of_training_seeds(made: tuple[Any, Any], starts: Any) -> None:
    env, params = made
    fresh = starts(params, 400)
    assert len(set(fresh)) > 150
    # A seed from the upper half would be held out: `draw` shifts it away.
    key = jax.random.key(11)
    seed = int(jax.random.bits(jax.random.clone(key), (), jnp.uint32)) // 2
    assert seed < HALF
    level, _ = jax.device_get(levels.draw(env, key, params))
    chex.assert_trees_all_equal(level, levels.level_from_seed(env, seed, params))


def test_an_auto_reset_draws_from_the_level_buffer_too(made: tuple[Any, Any], buffer: Any) -> None:
    env, params = made
    params = dataclasses.replace(params, levels=jax.tree.map(lambda leaf: leaf[:3], buffer), max_steps_in_episode=1)
    step = jax.vmap(env.step, in_axes=(0, None, None, None))
    _, state = env.reset(jax.random.key(0), params)
    _, state, _, _, truncated, _ = step(jax.random.split(jax.random.key(1), 50), state, jnp.int32(0), params)
    assert truncated.all()
    assert set(contents(jax.device_get(state.level))) == set(contents(params.levels))


# The index of the level in a level buffer.


def play_to_the_ends(env: Any, params: Any, steps: int) -> tuple[Any, Any, Any]:
    """Play 32 environments by random actions; return the level before each step, `info`, and the last state."""

    def step(state: Any, key: jax.Array) -> tuple[Any, Any]:
        key_action, key_step = jax.random.split(key)
        actions = jax.vmap(env.action_space(params).sample)(jax.random.split(key_action, 32))
        keys = jax.random.split(key_step, 32)
        _, after, _, _, _, info = jax.vmap(env.step, (0, 0, 0, None))(keys, state, actions, params)
        return after, (state.level, {name: info[name] for name in ("level_index", "terminated", "truncated")})

    _, state = jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.key(2), 32), params)
    state, played = jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(jax.random.key(3), steps)))(state)
    return *jax.device_get(played), state


@pytest.mark.parametrize(
    "wrap", [lambda env: env, lambda env: LastActionReward(FrameSkip(env, 2))], ids=["bare", "wrapped"]
)
def test_info_has_the_index_of_the_level_of_the_episode_that_ended(
    made: tuple[Any, Any], buffer: Any, wrap: Callable[[Any], Any]
) -> None:
    env, params = made
    params = dataclasses.replace(params, levels=buffer, max_steps_in_episode=3)
    played, info, _ = play_to_the_ends(wrap(env), params, 12)
    ended = info["terminated"] | info["truncated"]
    index = info["level_index"]
    chex.assert_shape(index, (12, 32))
    chex.assert_type(index, np.int32)
    assert ended.sum() >= 32
    assert len(set(index[ended].tolist())) > 8
    expected = jax.tree.map(lambda leaf: np.asarray(leaf)[index[ended]], buffer)
    chex.assert_trees_all_equal(jax.tree.map(lambda leaf: leaf[ended], played), expected)
    # The same on every step of an episode: it changes after an ending alone.
    assert (index[1:][~ended[:-1]] == index[:-1][~ended[:-1]]).all()


def test_the_index_is_minus_one_for_a_level_that_is_not_from_a_level_buffer(made: tuple[Any, Any], buffer: Any) -> None:
    env, params = made
    _, info, state = play_to_the_ends(env, dataclasses.replace(params, levels=None, max_steps_in_episode=3), 4)
    assert (info["level_index"] == -1).all()
    level = jax.tree.map(lambda leaf: leaf[5], buffer)
    _, given = env.reset_to_level(jax.random.key(0), level, dataclasses.replace(params, levels=buffer))
    assert given.level_index == -1
    assert jax.tree.map(lambda leaf: leaf[0], state).level_index.dtype == jnp.int32


def test_a_game_that_builds_its_state_anew_keeps_the_index(made: tuple[Any, Any], buffer: Any) -> None:
    env, params = made

    class Rebuilt(type(env)):
        def transition(self, state: Any, action: jax.Array, params: Any) -> Any:
            moved = super().transition(state, action, params)
            return dataclasses.replace(moved, state=dataclasses.replace(moved.state, level_index=np.int32(-1)))

    rebuilt = Rebuilt(**{field.name: getattr(env, field.name) for field in dataclasses.fields(env)})
    _, info, _ = play_to_the_ends(rebuilt, dataclasses.replace(params, levels=buffer), 3)
    assert (info["level_index"] >= 0).all()


def test_a_level_buffer_of_100_000_levels_works_under_jit_and_vmap(
    made: tuple[Any, Any], buffer: Any, starts: Any
) -> None:
    _, params = made
    # 64 different levels over and over, but for the very last one.
    large = jax.tree.map(lambda leaf: np.resize(np.asarray(leaf), (100_000, *leaf.shape[1:])), buffer)
    large.explosion_delay[-1] = 77
    assert levels.num_levels(large) == 100_000
    assert levels.num_distinct(large) == levels.num_distinct(buffer) + 1
    assert set(starts(dataclasses.replace(params, levels=large), 400)) <= set(contents(large))


@pytest.mark.parametrize("row", [0, 63])
def test_reset_to_level_starts_in_the_given_level(made: tuple[Any, Any], buffer: Any, row: int) -> None:
    env, params = made
    level = jax.tree.map(lambda leaf: leaf[row], buffer)
    _, state = env.reset_to_level(jax.random.key(0), level, params)
    chex.assert_trees_all_equal(state.level, level)


# Contents.


def test_num_distinct_counts_contents_not_rows(buffer: Any) -> None:
    assert levels.num_distinct(buffer) == len(set(contents(buffer)))
    twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), buffer)
    assert levels.num_levels(twice) == 128
    assert levels.num_distinct(twice) == levels.num_distinct(buffer)


@pytest.mark.parametrize("field", ["start_tile", "commands", "explosion_delay", "explosion_duration", "command_count"])
def test_levels_that_differ_in_one_number_are_distinct(buffer: Any, field: str) -> None:
    pair = jax.tree.map(lambda leaf: jnp.stack([leaf[0], leaf[0]]), buffer)
    assert levels.num_distinct(pair) == 1
    changed = np.array(getattr(pair, field))
    changed[1] += 1
    assert levels.num_distinct(dataclasses.replace(pair, **{field: changed})) == 2


def test_exclude_drops_equal_contents_whatever_their_seeds_and_keeps_the_order(made: tuple[Any, Any]) -> None:
    env, params = made
    ours = levels.make_level_buffer(env, params, levels.train_seeds(200))
    others = levels.make_level_buffer(env, params, levels.held_out_seeds(200))
    left = contents(levels.exclude(ours, others))
    taken = set(contents(others))
    assert 0 < len(left) < 200
    assert left == [content for content in contents(ours) if content not in taken]


def test_excluding_every_level_is_rejected(buffer: Any) -> None:
    some = jax.tree.map(lambda leaf: leaf[:5], buffer)
    with pytest.raises(LevelError, match=r"got 0 of 5: the other buffer \(64 levels\) contains all"):
        levels.exclude(some, buffer)


# `make` and its levels.


def test_make_takes_a_number_of_training_levels(buffer: Any) -> None:
    _, params = jaxgym.make(GAME, observation="symbolic", command_count=[2], max_commands=2, levels=64)
    assert contents(params.levels) == contents(buffer)


def test_make_takes_a_level_buffer(buffer: Any) -> None:
    _, params = jaxgym.make(GAME, command_count=[2], max_commands=2, levels=buffer)
    assert params.levels is buffer


def test_make_samples_fresh_levels_by_default() -> None:
    assert jaxgym.make(GAME)[1].levels is jaxgym.make(GAME, levels="fresh")[1].levels is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("frsh", "expected 'fresh', a number of training levels or a level buffer, got 'frsh'"),
        (
            [1, 2],
            "expected a level buffer of this environment, got another type. Make it with jaxgym.levels.make_level",
        ),
        (0, r"levels: expected a number of levels from 1 to 2\^31, got 0\."),
        (2**31 + 1, r"levels: expected a number of levels from 1 to 2\^31, got 2147483649\."),
        (np.int64(-3), r"levels: expected a number of levels from 1 to 2\^31, got -3\."),
        (np.array(0.5), "expected 'fresh', a number of training levels or a level buffer, got 0.5"),
    ],
)
def test_make_rejects_other_levels(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jaxgym.make(GAME, levels=given)


def test_make_rejects_a_level_buffer_of_other_shapes(buffer: Any) -> None:
    with pytest.raises(
        LevelError, match=r"whose commands is int32 \(64, 10\), got int32 \(64, 2\)\. Make it with the same options"
    ):
        jaxgym.make(GAME, levels=buffer)


def test_make_rejects_a_level_that_is_no_level_buffer(buffer: Any) -> None:
    one = jax.tree.map(lambda leaf: leaf[0], buffer)
    with pytest.raises(
        LevelError, match=f"^{GAME}: expected a level buffer with at least one level, got Level with arrays of shape"
    ):
        jaxgym.make(GAME, command_count=[2], max_commands=2, levels=one)


# Parameters with a leading axis.


def stacked(*many: Any) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *many)


DIFFICULTIES = (
    {"command_count": [1], "arena_size": 2, "explosion_delay": [2], "explosion_duration": [1], "agent_speed": 2.5},
    {"command_count": [2, 4], "arena_size": 4, "explosion_delay": [3], "explosion_duration": [2], "agent_speed": 4.0},
    {"command_count": [5], "arena_size": 6, "explosion_delay": [5], "explosion_duration": [4], "agent_speed": 5.0},
)


def test_each_environment_of_vmapped_parameters_plays_its_own_difficulty() -> None:
    made = [
        jaxgym.make("MortarMayhemB-v0", observation="symbolic", max_commands=5, max_steps=n, **options)
        for n, options in enumerate(DIFFICULTIES, start=20)
    ]
    env = made[0][0]
    assert all(other == env for other, _ in made)
    params = stacked(*(params for _, params in made))
    axes = levels.params_axes(params)
    keys_reset, keys_step, keys_alone = jax.random.split(jax.random.key(2), (3, 3))
    _, state = jax.vmap(env.reset, in_axes=(0, axes))(keys_reset, params)
    level = jax.device_get(state.level)
    assert level.command_count[0] == 1
    assert level.command_count[1] in (2, 4)
    assert level.command_count[2] == 5
    assert level.explosion_delay.tolist() == [2, 3, 5]
    assert level.explosion_duration.tolist() == [1, 2, 4]
    assert (level.start_tile < [[2], [4], [6]]).all()

    step = jax.vmap(env.step, in_axes=(0, 0, 0, axes))
    # One step from the middle of the screen, right along a row: 2, 4 and 5 px.
    state = dataclasses.replace(state, position_px=jnp.full((3, 2), 42, jnp.int32))
    rightwards = jnp.tile(jnp.asarray([[2, 0]], jnp.int32), (3, 1))
    _, after, *_ = step(keys_step, state, rightwards, params)
    assert after.position_px.tolist() == [[44, 42], [46, 42], [47, 42]]
    # What one environment does, it does alone too.
    for env_index, (_, alone) in enumerate(made):
        single = jax.tree.map(lambda leaf, env_index=env_index: leaf[env_index], state)
        _, after_alone, *_ = env.step(keys_alone[env_index], single, rightwards[env_index], alone)
        expected = jax.tree.map(lambda leaf, env_index=env_index: leaf[env_index], after)
        chex.assert_trees_all_equal(after_alone, expected)


@jax.debug_key_reuse(False)  # the test uses the keys of the step again, to compare the levels
@pytest.mark.parametrize("num_ended", [0, 1, 3, 40], ids="{} ended".format)
def test_the_episodes_that_end_start_on_fresh_levels_and_the_others_go_on(num_ended: int) -> None:
    env, params = jaxgym.make("MortarMayhemB-Grid-v0", observation="symbolic", command_count=[2], max_commands=2)
    keys = jax.random.split(jax.random.key(4), 40)
    _, state = jax.vmap(env.reset, in_axes=(0, None))(keys[::-1], params)
    order = np.random.default_rng(0).permutation(40)
    limits = np.where(order < num_ended, 1, 0).astype(np.int32)
    many = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (40, *np.shape(leaf))), params)
    many = dataclasses.replace(many, max_steps_in_episode=limits)
    step = jax.vmap(env.step, in_axes=(0, 0, 0, 0))
    _, after, _, terminated, truncated, _ = step(keys, state, jnp.zeros(40, jnp.int32), many)
    ended = np.asarray(terminated | truncated)
    assert ended[limits == 1].all()
    fresh = jax.vmap(lambda key: levels.draw(env, key, params)[0])(keys)
    expected = jax.tree.map(
        lambda new, old: jnp.where(ended.reshape(-1, *[1] * (new.ndim - 1)), new, old), fresh, state.level
    )
    chex.assert_trees_all_equal(after.level, expected)
    # The same keys give the same levels in a batch of batches, and one by one.
    pairs = jax.tree.map(
        lambda leaf: leaf.reshape(20, 2, *leaf.shape[1:]), (keys, state, jnp.zeros(40, jnp.int32), many)
    )
    _, nested, *_ = jax.vmap(step)(*pairs)
    chex.assert_trees_all_equal(jax.tree.map(lambda leaf: leaf.reshape(40, *leaf.shape[2:]), nested), after)
    for index in (int(order.argmin()), int(order.argmax())):
        one = jax.tree.map(lambda leaf, index=index: leaf[index], (keys, state, jnp.zeros(40, jnp.int32), many))
        _, alone, *_ = env.step(*one)
        chex.assert_trees_all_equal(alone, jax.tree.map(lambda leaf, index=index: leaf[index], after))


@jax.debug_key_reuse(False)  # the test uses one key for all environments
def test_one_key_for_all_environments_starts_the_same_level_in_each() -> None:
    env, params = jaxgym.make("MortarMayhemB-Grid-v0", observation="symbolic", command_count=[2], max_steps=1)
    _, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(jax.random.key(4), 3), params)
    key = jax.random.key(5)
    _, after, _, _, truncated, _ = jax.vmap(env.step, in_axes=(None, 0, None, None))(key, state, 0, params)
    assert truncated.all()
    expected = jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), levels.draw(env, key, params)[0])
    chex.assert_trees_all_equal(after.level, expected)


def test_environments_share_one_level_buffer(made: tuple[Any, Any], buffer: Any) -> None:
    env, params = made
    params = dataclasses.replace(params, levels=buffer)
    limits = np.asarray([1, 2, 0], np.int32)
    many = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (3, *np.shape(leaf))), params)
    many = dataclasses.replace(many, levels=buffer, max_steps_in_episode=limits)
    axes = levels.params_axes(many)
    assert axes.levels is None
    assert set(jax.tree.leaves(axes)) == {0}
    keys_reset, keys_step = jax.random.split(jax.random.key(3), (2, 3))
    _, state = jax.vmap(env.reset, in_axes=(0, axes))(keys_reset, many)
    assert set(contents(jax.device_get(state.level))) <= set(contents(buffer))
    step = jax.vmap(env.step, in_axes=(0, 0, 0, axes))
    _, state, _, _, truncated, _ = step(keys_step, state, jnp.zeros(3, jnp.int32), many)
    assert truncated.tolist() == [True, False, False]
    assert set(contents(jax.device_get(state.level))) <= set(contents(buffer))


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5])
def test_a_seed_that_is_no_uint32_is_rejected(seed: float) -> None:
    env, params = jaxgym.make("MortarMayhem-Grid-v0", observation="symbolic")
    for make in (
        lambda: levels.level_from_seed(env, seed, params),
        lambda: levels.make_level_buffer(env, params, [seed]),
    ):
        with pytest.raises(LevelError, match="expected integers from 0 to 4294967295"):
            make()


def test_a_level_with_other_shapes_is_rejected_at_reset() -> None:
    env, params = jaxgym.make("MortarMayhem-Grid-v0", observation="symbolic")
    longer, longer_params = jaxgym.make("MortarMayhem-Grid-v0", observation="symbolic", max_commands=12)
    level = levels.level_from_seed(longer, 0, longer_params)
    with pytest.raises(LevelError, match=r"whose commands is int32 \(10,\), got int32 \(12,\)\. Make it with the same"):
        env.reset_to_level(jax.random.key(0), level, params)


@pytest.mark.parametrize("given", [True, 1.5, "buffered"])
def test_levels_that_are_no_levels_are_rejected(given: object) -> None:
    with pytest.raises(OptionError, match="expected 'fresh', a number of training levels or a level buffer"):
        jaxgym.make("MortarMayhem-Grid-v0", levels=given)


GRID = "MortarMayhem-Grid-v0"


@pytest.fixture(scope="module")
def grid() -> tuple[Any, Any]:
    return jaxgym.make(GRID, observation="symbolic", command_count=[3])


@pytest.fixture(scope="module")
def grid_buffer(grid: tuple[Any, Any]) -> Any:
    return levels.make_level_buffer(*grid, levels.train_seeds(8))


@pytest.mark.parametrize(
    ("env_id", "options", "field"),
    [
        (GRID, {}, "command_count"),
        (GRID, {"command_count": [2, 4]}, "command_count"),
        (GRID, {"command_count": [3], "arena_size": 2}, "start_tile"),
        (GRID, {"command_count": [3], "allowed_commands": 4}, "commands"),
        (GRID, {"command_count": [3], "explosion_delay": [7]}, "explosion_delay"),
        ("MortarMayhem-v0", {"command_count": [3]}, "explosion_duration"),
        ("MortarMayhemB-Grid-v0", {"command_count": [3]}, "command_show_duration"),
    ],
)
def test_make_rejects_a_level_buffer_of_another_game_or_of_other_options(
    grid_buffer: Any, env_id: str, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(
        LevelError,
        match=f"^{env_id}: expected a level buffer .*, got {field}=.* in level \\d\\. Make the buffer with the same id",
    ):
        jaxgym.make(env_id, levels=grid_buffer, **options)


def test_make_rejects_a_level_buffer_whose_commands_lead_out_of_the_arena(grid_buffer: Any) -> None:
    # To the right, over and over.
    commands = jnp.where(grid_buffer.commands >= 0, 0, -1)
    outside = dataclasses.replace(grid_buffer, start_tile=jnp.full_like(grid_buffer.start_tile, 4), commands=commands)
    with pytest.raises(LevelError, match=r"of these options, got commands=\[0, 0, 0, -1, .*\] in level 0\."):
        jaxgym.make(GRID, command_count=[3], levels=outside)


@pytest.mark.parametrize(
    ("env_id", "ours", "theirs", "field"),
    [
        ("MysteryPath-Grid-v0", {"cardinal_origin_choice": [0]}, {"cardinal_origin_choice": [2, 3]}, "start_tile"),
        ("SearingSpotlights-v0", {"num_coins": [2]}, {"num_coins": [1], "max_coins": 2}, "num_coins"),
        ("SearingSpotlights-v0", {"spot_max_radius": 9.0}, {"spot_min_radius": 10.0}, "tracks.radius_px"),
        ("SearingSpotlights-v0", {}, {"spot_min_speed": 0.006}, "tracks.speed.high"),
        ("SearingSpotlights-v0", {}, {"sample_agent_position": False}, "start_px"),
        ("Endless-SearingSpotlights-v0", {"max_given_spotlights": 9}, {"spot_max_radius": 8.0}, "tracks.radius_px"),
        ("Endless-MortarMayhem-v0", {"initial_command_count": 2}, {}, "command_count"),
    ],
)
def test_make_takes_its_own_level_buffers_and_those_of_the_original_and_rejects_those_of_other_options(
    env_id: str, ours: dict[str, Any], theirs: dict[str, Any], field: str
) -> None:
    buffer = levels.make_level_buffer(*jaxgym.make(env_id, levels="fresh", **ours), levels.train_seeds(8))
    original = levels.original(env_id, range(8), **ours)
    for made in (buffer, original):
        assert jaxgym.make(env_id, levels=made, **ours)[1].levels is made
        with pytest.raises(LevelError, match=f"^{env_id}: expected a level buffer of these options, got {field}="):
            jaxgym.make(env_id, levels=made, **theirs)


def test_a_level_buffer_of_levels_with_other_fields_is_rejected(grid: tuple[Any, Any], grid_buffer: Any) -> None:
    env, params = grid
    other = jaxgym.make("Endless-MortarMayhem-v0", levels=2, observation="symbolic")[1].levels
    with pytest.raises(LevelError, match=f"^{GRID}: expected a level buffer of this environment, got another type"):
        jaxgym.make(GRID, levels=other)
    for buffered in (
        other,
        5,
        "fresh",
        jax.tree.map(np.float32, grid_buffer),
        jax.tree.map(lambda leaf: leaf[0], grid_buffer),
    ):
        with pytest.raises(LevelError, match=r"^MortarMayhem-Grid-v0: expected .*, got "):
            env.reset(jax.random.key(0), dataclasses.replace(params, levels=buffered))


def test_a_traced_level_buffer_is_taken(grid_buffer: Any) -> None:
    def count_of(buffer: Any) -> Any:
        return jaxgym.make(GRID, command_count=[3], levels=buffer)[1].levels.command_count

    assert jax.eval_shape(count_of, grid_buffer).shape == (8,)


@pytest.mark.parametrize(
    "change",
    [
        lambda level: jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), level),
        lambda level: dataclasses.replace(level, commands="right"),
        lambda _: 5,
        lambda _: None,
    ],
    ids=["dtype", "text", "number", "none"],
)
def test_a_level_of_other_arrays_is_rejected_at_reset(grid: tuple[Any, Any], grid_buffer: Any, change: Any) -> None:
    env, params = grid
    level = change(jax.tree.map(lambda leaf: leaf[0], grid_buffer))
    with pytest.raises(LevelError, match=rf"^{GRID}: expected a level .*, got .*\. (Use|Make)"):
        env.reset_to_level(jax.random.key(0), level, params)


@pytest.mark.parametrize(
    "seed",
    [jnp.int32(-1), jnp.float32(3.7), "7", None, 10**30, True, [[1], [2, 3]], jax.random.key(0)],
    ids=["negative", "real", "text", "none", "large", "bool", "ragged", "key"],
)
def test_a_seed_in_an_array_is_checked_as_any_other(grid: tuple[Any, Any], seed: Any) -> None:
    with pytest.raises(LevelError, match=r"(?s)^level seed: expected integers from 0 to 4294967295, got .*\.$"):
        levels.level_from_seed(grid[0], seed, grid[1])


def test_a_traced_seed_is_taken_if_it_is_an_integer(grid: tuple[Any, Any]) -> None:
    env, params = grid

    def start_of(seed: Any) -> Any:
        return levels.level_from_seed(env, seed, params).start_tile

    assert jax.eval_shape(jax.vmap(start_of), jnp.arange(3, dtype=jnp.uint32)).shape == (3, 2)
    with pytest.raises(LevelError, match="expected integers from 0"):
        jax.eval_shape(start_of, jnp.float32(3))


def test_one_level_is_of_one_seed(grid: tuple[Any, Any]) -> None:
    with pytest.raises(LevelError, match=r"^level_from_seed: expected one seed, got shape \(2,\)\."):
        levels.level_from_seed(grid[0], [1, 2], grid[1])


@pytest.mark.parametrize("buffer", [None, 5, "buffer", (np.zeros(3), np.zeros(2)), np.zeros((0, 4))])
def test_what_is_no_level_buffer_has_no_number_of_levels(buffer: Any) -> None:
    for count in (levels.num_levels, levels.num_distinct, lambda buffer: levels.exclude(buffer, buffer)):
        with pytest.raises(LevelError, match=r"^expected a level buffer with at least one level, got \w+ with arrays"):
            count(buffer)


def test_levels_of_another_form_can_not_be_excluded(buffer: Any, grid_buffer: Any) -> None:
    with pytest.raises(LevelError, match="two level buffers with the same arrays, got different ones"):
        levels.exclude(buffer, grid_buffer)
