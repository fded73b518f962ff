"""Level seeds and banks: two splits that share no seed, and resets that draw from the bank and from nowhere else."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.errors import LevelError, OptionError

GAME = "MortarMayhemB-Grid-v0"
HALF = 2**31


@pytest.fixture(scope="module")
def made() -> tuple[Any, Any]:
    return jaxgym.make(GAME, observation="symbolic", command_count=[2], max_commands=2)


@pytest.fixture(scope="module")
def bank(made: tuple[Any, Any]) -> Any:
    return levels.make_bank(*made, levels.train_seeds(64))


def contents(bank: Any) -> list[tuple[Any, ...]]:
    """The levels of a bank as tuples of plain numbers."""
    columns = [np.asarray(leaf).reshape(len(leaf), -1).tolist() for leaf in jax.tree.leaves(bank)]
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


@pytest.mark.parametrize(("count", "start"), [(0, 0), (-1, 0), (1, -1), (2, HALF - 1), (1, HALF)])
@pytest.mark.parametrize("split", ["training", "held-out"])
def test_seeds_outside_of_their_split_are_refused(split: str, count: int, start: int) -> None:
    seeds = levels.train_seeds if split == "training" else levels.held_out_seeds
    with pytest.raises(LevelError, match=f"^{split} seeds {start} to .*; there are {HALF}: give a count from 1 and"):
        seeds(count, start)


# The level of a seed.


def test_a_bank_holds_the_levels_of_its_seeds(made: tuple[Any, Any]) -> None:
    env, params = made
    seeds = np.concatenate([levels.train_seeds(3, start=7), levels.held_out_seeds(2)])
    bank = levels.make_bank(env, params, seeds)
    assert levels.num_levels(bank) == 5
    for row, seed in enumerate(seeds.tolist()):
        level = levels.level_from_seed(env, seed, params)
        expected = jax.tree.map(lambda leaf, row=row: np.asarray(leaf[row]), bank)
        assert jax.tree.all(jax.tree.map(np.array_equal, level, expected))


def test_a_bank_follows_from_seeds_and_parameters_alone(made: tuple[Any, Any], bank: Any) -> None:
    env, params = made
    holding = dataclasses.replace(params, levels=levels.make_bank(env, params, [5]))
    again = levels.make_bank(env, holding, levels.train_seeds(64))
    assert contents(again) == contents(bank)


def test_level_from_seed_uses_the_parameters_of_make_if_none_are_given() -> None:
    env, _ = jaxgym.make(GAME, observation="symbolic", command_count=[2], max_commands=2, explosion_delay=[9])
    assert levels.level_from_seed(env, 0).explosion_delay == 9


def test_other_seeds_give_other_levels(bank: Any) -> None:
    # 25 starts and at least 3 · 3 sequences of two commands: of 64 levels most differ.
    assert levels.num_distinct(bank) > 40


def test_a_bank_longer_than_a_batch_keeps_order_and_length(
    made: tuple[Any, Any], bank: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "_BANK_BATCH", 10)
    assert contents(levels.make_bank(*made, levels.train_seeds(64))) == contents(bank)


@pytest.mark.parametrize("seeds", [[], [[1, 2]], 3])
def test_a_bank_needs_one_axis_of_seeds(made: tuple[Any, Any], seeds: Any) -> None:
    with pytest.raises(
        LevelError, match=r"^make_bank was given seeds of shape \(.*\); give one axis with at least one"
    ):
        levels.make_bank(*made, seeds)


# Resets.


@pytest.fixture(scope="module")
def starts(made: tuple[Any, Any]) -> Callable[[Any, int], list[tuple[Any, ...]]]:
    """A function that returns the contents of the levels of many resets."""
    env, _ = made
    reset = jax.jit(jax.vmap(lambda key, params: env.reset(key, params)[1].level, in_axes=(0, None)))

    def levels_of(params: Any, count: int) -> list[tuple[Any, ...]]:
        return contents(jax.device_get(reset(jax.random.split(jax.random.key(4), count), params)))

    return levels_of


def test_resets_draw_every_level_of_the_bank_and_no_other(made: tuple[Any, Any], bank: Any, starts: Any) -> None:
    _, params = made
    small = jax.tree.map(lambda leaf: leaf[:12], bank)
    drawn = starts(dataclasses.replace(params, levels=small), 400)
    assert set(drawn) == set(contents(small))


def test_resets_draw_each_level_as_often(made: tuple[Any, Any], starts: Any) -> None:
    env, params = made
    seeds = levels.train_seeds(200)
    wanted = contents(levels.make_bank(env, params, seeds))
    four = np.asarray([wanted.index(content) for content in list(dict.fromkeys(wanted))[:4]])
    drawn = starts(dataclasses.replace(params, levels=levels.make_bank(env, params, seeds[four])), 400)
    counts = [drawn.count(wanted[row]) for row in four]
    # 100 each, with a standard deviation of 8.7.
    assert sum(counts) == 400
    assert max(abs(count - 100) for count in counts) < 5 * 8.7


def test_fresh_resets_give_levels_of_training_seeds(made: tuple[Any, Any], starts: Any) -> None:
    env, params = made
    fresh = starts(params, 400)
    assert len(set(fresh)) > 150
    # A seed from the upper half would be held out: `draw` shifts it away.
    key = jax.random.key(11)
    seed = int(jax.random.bits(jax.random.clone(key), (), jnp.uint32)) // 2
    assert seed < HALF
    level = jax.device_get(levels.draw(env, key, params))
    assert jax.tree.all(jax.tree.map(np.array_equal, level, levels.level_from_seed(env, seed, params)))


def test_an_auto_reset_draws_from_the_bank_too(made: tuple[Any, Any], bank: Any) -> None:
    env, params = made
    params = dataclasses.replace(params, levels=jax.tree.map(lambda leaf: leaf[:3], bank), max_steps_in_episode=1)
    step = jax.vmap(env.step, in_axes=(0, None, None, None))
    _, state = env.reset(jax.random.key(0), params)
    _, state, _, _, truncated, _ = step(jax.random.split(jax.random.key(1), 50), state, jnp.int32(0), params)
    assert truncated.all()
    assert set(contents(jax.device_get(state.level))) == set(contents(params.levels))


def test_a_bank_of_100_000_levels_works_under_jit_and_vmap(made: tuple[Any, Any], bank: Any, starts: Any) -> None:
    _, params = made
    # 64 different levels over and over, but for the very last one.
    large = jax.tree.map(lambda leaf: np.resize(np.asarray(leaf), (100_000, *leaf.shape[1:])), bank)
    large.explosion_delay[-1] = 77
    assert levels.num_levels(large) == 100_000
    assert levels.num_distinct(large) == levels.num_distinct(bank) + 1
    assert set(starts(dataclasses.replace(params, levels=large), 400)) <= set(contents(large))


@pytest.mark.parametrize("row", [0, 63])
def test_reset_to_level_starts_in_the_given_level(made: tuple[Any, Any], bank: Any, row: int) -> None:
    env, params = made
    level = jax.tree.map(lambda leaf: leaf[row], bank)
    _, state = env.reset_to_level(jax.random.key(0), level, params)
    assert jax.tree.all(jax.tree.map(np.array_equal, state.level, level))


# Contents.


def test_num_distinct_counts_contents_not_rows(bank: Any) -> None:
    assert levels.num_distinct(bank) == len(set(contents(bank)))
    twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), bank)
    assert levels.num_levels(twice) == 128
    assert levels.num_distinct(twice) == levels.num_distinct(bank)


@pytest.mark.parametrize("field", ["start_tile", "commands", "explosion_delay", "explosion_duration", "command_count"])
def test_levels_that_differ_in_one_number_are_distinct(bank: Any, field: str) -> None:
    pair = jax.tree.map(lambda leaf: jnp.stack([leaf[0], leaf[0]]), bank)
    assert levels.num_distinct(pair) == 1
    changed = np.array(getattr(pair, field))
    changed[1] += 1
    assert levels.num_distinct(dataclasses.replace(pair, **{field: changed})) == 2


def test_exclude_drops_equal_contents_whatever_their_seeds_and_keeps_the_order(made: tuple[Any, Any]) -> None:
    env, params = made
    ours = levels.make_bank(env, params, levels.train_seeds(200))
    others = levels.make_bank(env, params, levels.held_out_seeds(200))
    left = contents(levels.exclude(ours, others))
    taken = set(contents(others))
    assert 0 < len(left) < 200
    assert left == [content for content in contents(ours) if content not in taken]


def test_excluding_every_level_is_refused(bank: Any) -> None:
    some = jax.tree.map(lambda leaf: leaf[:5], bank)
    with pytest.raises(LevelError, match=r"^all 5 levels of the bank are also among the 64 to exclude: .* or choose"):
        levels.exclude(some, bank)


# `make` and its levels.


def test_make_takes_a_number_of_training_levels(bank: Any) -> None:
    _, params = jaxgym.make(GAME, observation="symbolic", command_count=[2], max_commands=2, levels=64)
    assert contents(params.levels) == contents(bank)


def test_make_takes_a_bank(bank: Any) -> None:
    _, params = jaxgym.make(GAME, command_count=[2], max_commands=2, levels=bank)
    assert params.levels is bank


def test_make_samples_fresh_levels_by_default() -> None:
    assert jaxgym.make(GAME)[1].levels is jaxgym.make(GAME, levels="fresh")[1].levels is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("frsh", "was given levels='frsh'; give 'fresh', a number of training levels, or a bank"),
        ([1, 2], "was given levels of type list; give 'fresh', a number of training levels, or a bank that"),
        (0, "training seeds 0 to -1 were asked for"),
    ],
)
def test_make_refuses_other_levels(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jaxgym.make(GAME, levels=given)


def test_make_refuses_a_bank_of_other_shapes(bank: Any) -> None:
    with pytest.raises(
        LevelError, match=r"whose levels have arrays of shape .*\(2,\).*make the bank with the same opt"
    ):
        jaxgym.make(GAME, levels=bank)


def test_make_refuses_a_level_that_is_no_bank(bank: Any) -> None:
    one = jax.tree.map(lambda leaf: leaf[0], bank)
    with pytest.raises(LevelError, match="whose levels have arrays of shape"):
        jaxgym.make(GAME, command_count=[2], max_commands=2, levels=one)


# Parameters with a leading axis.


def stacked(*many: Any) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *many)


DIFFICULTIES = (
    {"command_count": [1], "arena_size": 2, "explosion_delay": [2], "explosion_duration": [1], "agent_speed": 2.5},
    {"command_count": [2, 4], "arena_size": 4, "explosion_delay": [3], "explosion_duration": [2], "agent_speed": 4.0},
    {"command_count": [5], "arena_size": 6, "explosion_delay": [5], "explosion_duration": [4], "agent_speed": 5.0},
)


def test_each_lane_of_vmapped_parameters_plays_its_own_difficulty() -> None:
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
    # What one lane does, it does alone too.
    for lane, (_, alone) in enumerate(made):
        single = jax.tree.map(lambda leaf, lane=lane: leaf[lane], state)
        _, after_alone, *_ = env.step(keys_alone[lane], single, rightwards[lane], alone)
        expected = jax.tree.map(lambda leaf, lane=lane: leaf[lane], after)
        assert jax.tree.all(jax.tree.map(np.array_equal, after_alone, expected))


def test_lanes_share_one_bank(made: tuple[Any, Any], bank: Any) -> None:
    env, params = made
    params = dataclasses.replace(params, levels=bank)
    limits = np.asarray([1, 2, 0], np.int32)
    many = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (3, *np.shape(leaf))), params)
    many = dataclasses.replace(many, levels=bank, max_steps_in_episode=limits)
    axes = levels.params_axes(many)
    assert axes.levels is None
    assert set(jax.tree.leaves(axes)) == {0}
    keys_reset, keys_step = jax.random.split(jax.random.key(3), (2, 3))
    _, state = jax.vmap(env.reset, in_axes=(0, axes))(keys_reset, many)
    assert set(contents(jax.device_get(state.level))) <= set(contents(bank))
    step = jax.vmap(env.step, in_axes=(0, 0, 0, axes))
    _, state, _, _, truncated, _ = step(keys_step, state, jnp.zeros(3, jnp.int32), many)
    assert truncated.tolist() == [True, False, False]
    assert set(contents(jax.device_get(state.level))) <= set(contents(bank))


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5])
def test_a_seed_that_is_no_uint32_is_refused(seed: float) -> None:
    env, params = jaxgym.make("MortarMayhem-Grid-v0", observation="symbolic")
    for make in (
        lambda: levels.level_from_seed(env, seed, params),
        lambda: levels.make_bank(env, params, [seed]),
    ):
        with pytest.raises(LevelError, match="give integers from 0 to 4294967295"):
            make()


def test_a_level_with_other_shapes_is_refused_at_reset() -> None:
    env, params = jaxgym.make("MortarMayhem-Grid-v0", observation="symbolic")
    longer, longer_params = jaxgym.make("MortarMayhem-Grid-v0", observation="symbolic", max_commands=12)
    level = levels.level_from_seed(longer, 0, longer_params)
    with pytest.raises(LevelError, match="make it with the same options"):
        env.reset_to_level(jax.random.key(0), level, params)


@pytest.mark.parametrize("given", [True, 1.5, "banked"])
def test_levels_that_are_no_levels_are_refused(given: object) -> None:
    with pytest.raises(OptionError, match="give 'fresh', a number of training levels, or a bank"):
        jaxgym.make("MortarMayhem-Grid-v0", levels=given)
