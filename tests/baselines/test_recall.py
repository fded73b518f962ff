"""Agents trained on Recall (see conftest.py): those with a memory solve it, the one without cannot."""

import dataclasses
from collections.abc import Callable

import pytest

from baselines import ppo
from baselines.config import SCALES
from baselines.evaluate import evaluate
from baselines.game import TrainingGame

CONFIG = dataclasses.replace(
    SCALES["cpu"],
    **dict(num_envs=32, num_steps=10, minibatches=4, block_updates=60, total_steps=19_200),
    **dict(memory_size=16, memory_window=8, hidden_size=16),
)
SOLVED, GUESSED = (0.95, 1.0), (0.0, 0.6)
MEMORIES = ("ffm", "gated_deltanet", "gtrxl", "lru", "lstm", "mingru", "mlstm", "s5", "trxl")
BLOCKS = {"s5": 2}  # its inputs start with the small weights of its step sizes
CASES = [
    pytest.param("gru", SOLVED),
    pytest.param("none", GUESSED, marks=pytest.mark.slow),
    *(pytest.param(memory, SOLVED, marks=pytest.mark.slow) for memory in MEMORIES),
]


@pytest.mark.parametrize(("memory", "expected"), CASES)
def test_only_an_agent_with_memory_recalls(
    recall_game: Callable[..., TrainingGame], memory: str, expected: tuple[float, float]
) -> None:
    game = recall_game()
    steps = CONFIG.total_steps * BLOCKS.get(memory, 1)
    setup = ppo.make_setup(dataclasses.replace(CONFIG, memory=memory, total_steps=steps), game)
    state = ppo.make_init(setup)(ppo.seeds_of(setup), game.params)
    train = ppo.make_train_block(setup)
    for _ in range(BLOCKS.get(memory, 1)):
        state, _ = train(state, game.params)
    results = evaluate(setup, game, state.params, repeats=30, seed=0)
    low, high = expected
    assert low <= results["held_out"]["normalized_return"] <= high
    assert results["held_out"]["levels"] == 3
    assert results["held_out"]["length"] == 4
    assert results["held_out"]["share_truncated"] == 0
