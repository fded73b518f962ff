"""Levels that are sampled in a jitted program have the distribution of the original's levels."""

import functools
import json
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest

from jaxgym.envs.babyai import original, sampling, table
from jaxgym.envs.babyai.level import Level
from jaxgym.envs.babyai.mission import text_of
from jaxgym.envs.common.draws import Draws, Stream
from jaxgym.envs.minigrid.world import Type, type_of
from tests.parity import babyai

FOLDER = Path(__file__).parents[2] / "data" / "babyai"
QUICK = ("GoToLocalS5N2-v0",)
NUM_LEVELS, NUM_SEEDS = 2000, 500
MOST_DEVIATION = 5.0
"""Largest deviation of a chi-square statistic from its mean, in standard deviations."""


@functools.cache
def sampled(name: str) -> Level:
    """Return sampled levels, stacked, on the host."""
    level_class = table.LEVELS[name]
    sample = jax.jit(jax.vmap(lambda key: sampling.sample(key, level_class)))
    return jax.device_get(sample(jax.random.split(jax.random.key(1), NUM_LEVELS)))


@functools.cache
def recorded() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(FOLDER / "layouts.npz") as archive:
        arrays = {key: archive[key] for key in archive.files}
    return json.loads(str(arrays.pop("table"))), arrays


def deviation(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return how far the chi-square statistic of two histograms is above its mean, in standard deviations."""
    ours, theirs = (np.asarray(each, float).reshape(-1) for each in (ours, theirs))
    occurs = ours + theirs > 0
    ratio = np.sqrt(ours.sum() / theirs.sum())
    square = ((ours / ratio - theirs * ratio) ** 2)[occurs] / (ours + theirs)[occurs]
    freedom = max(occurs.sum() - 1, 1)
    return (square.sum() - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in table.LEVELS]
)
def test_sampled_levels_have_the_statistics_of_the_originals(name: str) -> None:
    levels, (facts, arrays) = sampled(name), recorded()
    env_id, places = f"BabyAI-{name}", arrays[f"BabyAI-{name}/pos"].astype(int)
    floors = levels.cells
    if table.LEVELS[name].starts_carrying:
        floors = np.stack([babyai.floor_of(*each) for each in zip(levels.cells, levels.mission.matches, strict=True)])
    kind = type_of(floors)
    starts = np.zeros(kind.shape[1:], int)
    np.add.at(starts, tuple(levels.position.T), 1)
    assert deviation(starts, places[..., 4]) < MOST_DEVIATION
    assert deviation(np.bincount(levels.direction, minlength=4), arrays[f"{env_id}/dirs"]) < MOST_DEVIATION
    for channel, each in enumerate((Type.DOOR, Type.KEY, Type.BALL, Type.BOX)):
        ours, theirs = (kind == each).sum(axis=0), places[..., channel]
        # As many of them, in the same places.
        assert abs(ours.sum() / NUM_LEVELS - theirs.sum() / NUM_SEEDS) < 0.1 + 0.05 * theirs.sum() / NUM_SEEDS
        assert not theirs.any() or deviation(ours, theirs) < MOST_DEVIATION
    counted = dict[str, int]()
    for tokens in levels.mission.tokens:
        for word in text_of(tokens).replace(",", "").split():
            counted[word] = counted.get(word, 0) + 1
    words = facts[env_id]["words"]
    vocabulary = sorted(counted | words)
    pair = (np.asarray([count.get(word, 0) for word in vocabulary]) for count in (counted, words))
    assert deviation(*pair) < MOST_DEVIATION


def test_the_statistics_notice_another_class() -> None:
    """A grid of the same size with three objects in place of two."""
    kind = type_of(sampled(QUICK[0]).cells)
    ours = (kind == Type.BALL).sum(axis=0)
    shifted = np.roll(ours, 1, axis=0)
    assert deviation(ours, shifted) > MOST_DEVIATION


@pytest.mark.parametrize("name", QUICK)
def test_missions_of_sampled_levels_are_resolved_as_on_the_host(name: str) -> None:
    """The programs with JAX and NumPy arrays agree on equal levels."""
    levels = sampled(name)
    assert len({text_of(tokens) for tokens in levels.mission.tokens}) > 20
    for index in range(20):
        level = jax.tree.map(lambda leaf: leaf[index], levels)  # noqa: B023
        first = level.mission.descriptions[0, 0]
        fits = (type_of(level.cells) == first[0]) & (level.cells >> 4 & 7 == first[1])
        assert text_of(level.mission.tokens).split()[2] == ("a" if fits.sum() > 1 else "the")


def test_the_original_makes_levels_of_the_same_shape() -> None:
    for name in QUICK:
        level, _ = original.draw_level(table.LEVELS[name], Stream(Draws.of([0], 256), 0))
        for ours, theirs in zip(jax.tree.leaves(sampled(name)), jax.tree.leaves(level), strict=True):
            assert (ours.shape[1:], ours.dtype) == (theirs.shape, theirs.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", table.LEVELS)
def test_every_class_is_sampled_with_the_shapes_of_the_original(name: str) -> None:
    level_class = table.LEVELS[name]
    ours = jax.eval_shape(lambda: sampling.sample(jax.random.key(0), level_class))
    theirs, _ = original.draw_level(level_class, Stream(Draws.of([0], 256), 0))
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)


@pytest.mark.slow
def test_tries_side_by_side_sample_the_same_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    level_class, keys = table.LEVELS["GoToLocalS5N2-v0"], jax.random.split(jax.random.key(2), 256)
    one_by_one = jax.jit(jax.vmap(lambda key: sampling.sample(key, level_class)))(keys)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    side_by_side = jax.jit(jax.vmap(lambda key: sampling.sample(key, level_class)))(keys)
    chex.assert_trees_all_equal(side_by_side, one_by_one)
