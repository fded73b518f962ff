"""Train agents with and without memory on BossFight, with and without spotlights.

    python examples/boss_fight_spotlights.py [STEPS]

Prints the mean return of training episodes for each of the four agents, and at the end a Markdown table. With the
spotlights, bullets are visible only now and then. STEPS is the number of environment steps for each agent. The example
needs `pip install -e ".[baselines]"` in a checkout, and a GPU.
"""

import dataclasses
import sys

import jax.numpy as jnp

from baselines.config import SCALES
from baselines.game import make_game
from baselines.ppo import make_init, make_setup, make_train_block, seeds_of
from jaxgym import levels
from jaxgym.wrappers import SpotlightPerturbation

STEPS = int(sys.argv[1]) if sys.argv[1:] else 50_000_000
BASE = dataclasses.replace(
    SCALES["throughput"],
    env="BossFight-v0",
    options=("distribution_mode=easy",),
    train_levels=0,
    total_steps=STEPS,
    decay_steps=STEPS,
    num_seeds=1,
)
LIGHTS = {"initial_spawns": 8, "light_dim_off_duration": 6}


def train(memory: str, *, has_spotlights: bool) -> float:
    """Return the mean return of the episodes of the last block of updates."""
    config = dataclasses.replace(BASE, memory=memory)
    game = make_game(config)
    if has_spotlights:
        env, params = SpotlightPerturbation.of(game.env, game.params, **LIGHTS)
        training, held_out = (
            levels.make_level_buffer(env, params, seeds(config.held_out_levels))
            for seeds in (levels.train_seeds, levels.held_out_seeds)
        )
        game = game._replace(env=env, params=params, training_levels=training, held_out_levels=held_out)
    setup = make_setup(config, game)
    state, block = make_init(setup)(seeds_of(setup), game.params), make_train_block(setup)
    steps_per_block = config.num_envs * config.num_steps * config.block_updates
    mean_return = 0.0
    for done in range(steps_per_block, max(STEPS, steps_per_block) + 1, steps_per_block):
        state, metrics = block(state, game.params)
        episodes = jnp.maximum(metrics["episodes"].sum(), 1)
        mean_return = float(metrics["return"].sum() / episodes)
        lights = "spotlights" if has_spotlights else "no spotlights"
        print(f"{memory}, {lights}, {done:,} steps: mean return {mean_return:.2f}", flush=True)
    return mean_return


def main() -> None:
    rows = {
        memory: [train(memory, has_spotlights=has_spotlights) for has_spotlights in (False, True)]
        for memory in ("gru", "none")
    }
    print("| memory | without spotlights | with spotlights |\n| --- | --- | --- |")
    for memory, (plain, lit) in rows.items():
        print(f"| {memory} | {plain:.2f} | {lit:.2f} |")


if __name__ == "__main__":
    main()
