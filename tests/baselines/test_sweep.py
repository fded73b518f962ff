"""One compiled program trains with any learning rate, entropy coefficient and clip range, and with several at once."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines import ppo
from baselines.config import SCALES
from baselines.game import TrainingGame
from baselines.rates import rates_of, stack_rates

BASE = dataclasses.replace(
    SCALES["cpu"], num_envs=4, num_steps=6, minibatches=2, memory_size=8, hidden_size=8, block_updates=2
)
SETTINGS = [
    dataclasses.replace(BASE, learning_rate_start=1e-3, clip=0.1),
    dataclasses.replace(BASE, learning_rate_start=1e-3, clip=0.01),
    dataclasses.replace(BASE, learning_rate_start=2e-2, entropy_start=0.3),
]


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list with one entry for each trace of an update."""
    traced, collect = list[None](), ppo.collect

    def counted(*given: Any) -> Any:
        traced.append(None)
        return collect(*given)

    monkeypatch.setattr(ppo, "collect", counted)
    return traced


@pytest.mark.slow
def test_one_program_trains_all_settings_and_each_row_is_the_single_run(
    recall_game: Callable[..., TrainingGame], traces: list[None]
) -> None:
    game = recall_game()
    setup = ppo.make_setup(dataclasses.replace(BASE, num_seeds=len(SETTINGS)), game)
    seeds, init, block = jnp.zeros(len(SETTINGS), jnp.int32), ppo.make_init(setup), ppo.make_train_block(setup)
    together, metrics = block(init(seeds, game.params), game.params, stack_rates(SETTINGS))
    count = len(traces)
    block(init(seeds, game.params), game.params, stack_rates(SETTINGS[::-1]))
    block(init(seeds, game.params), game.params)
    assert len(traces) == count

    alone = ppo.make_setup(BASE, game)
    init, block = ppo.make_init(alone), ppo.make_train_block(alone)
    counts = list[int]()
    for row, config in enumerate(SETTINGS):
        state, single = block(init(jnp.int32(0), game.params), game.params, rates_of(config))
        counts.append(len(traces))
        own = jax.tree.map(lambda leaf: leaf[row], (together.params, metrics))  # noqa: B023
        for found, expected in zip(jax.tree.leaves(own), jax.tree.leaves((state.params, single)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    assert counts == counts[:1] * len(SETTINGS)
    finals = metrics["entropy"][:, -1].tolist()
    assert len(set(finals)) == len(SETTINGS)  # clip, learning rate and entropy coefficient have an effect
    np.testing.assert_allclose(metrics["learning_rate"][:, 0], [1e-3, 1e-3, 2e-2])
    np.testing.assert_allclose(metrics["entropy_coef"][:, 0], [BASE.entropy_start] * 2 + [0.3])


@pytest.mark.slow
def test_the_example_prints_a_score_for_each_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import runpy
    import sys

    monkeypatch.setattr(sys, "argv", ["sweep.py", "2"])
    runpy.run_path("examples/sweep.py", run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("update 2: ")
    assert [line.partition(":")[0] for line in lines[1:3]] == [
        "learning rate 0.0005, clip 0.1",
        "learning rate 0.0005, clip 0.2",
    ]
    assert len(lines) == 1 + 6
