"""Train several settings in parallel: one compiled program, one row of metrics per setting.

    python examples/sweep.py [UPDATES]

Learning rate, entropy coefficient and clip range are traced, so other values do not recompile. A run of S seeds takes S
values of each; here all runs have the same seed and differ only in their settings. The example needs
`pip install -e ".[baselines]"` in a checkout.
"""

import dataclasses
import sys

import jax.numpy as jnp

from baselines.config import SCALES
from baselines.game import make_game
from baselines.ppo import make_init, make_setup, make_train_block
from baselines.rates import stack_rates

UPDATES = int(sys.argv[1]) if sys.argv[1:] else 200
BASE = dataclasses.replace(
    SCALES["cpu"],
    env="MortarMayhemB-Grid-v0",
    options=("command_count=[3]", "observation=symbolic"),
    memory_size=64,
    hidden_size=64,
    block_updates=min(20, UPDATES),
    decay_steps=1_000_000,
)
SETTINGS = [
    dataclasses.replace(BASE, learning_rate_start=learning_rate, clip=clip)
    for learning_rate in (5e-4, 1.5e-3, 5e-3)
    for clip in (0.1, 0.2)
]


def main() -> None:
    config = dataclasses.replace(BASE, num_seeds=len(SETTINGS))
    game = make_game(config)
    setup = make_setup(config, game)
    state = make_init(setup)(jnp.zeros(len(SETTINGS), jnp.int32), game.params)
    block, rates = make_train_block(setup), stack_rates(SETTINGS)
    for done in range(config.block_updates, UPDATES + 1, config.block_updates):
        state, metrics = block(state, game.params, rates)
        returns = metrics["normalized_return"].sum(axis=1) / jnp.maximum(metrics["episodes"].sum(axis=1), 1)
        print(f"update {done}: " + ", ".join(f"{normalized_return:.3f}" for normalized_return in returns))
    for setting, normalized_return in zip(SETTINGS, returns.tolist(), strict=True):
        print(f"learning rate {setting.learning_rate_start}, clip {setting.clip}: {normalized_return:.3f}")


if __name__ == "__main__":
    main()
