"""Sampling for Learnability: choose the training levels that the agent solves in some of its episodes, but not in all.

Rutherford et al., *No Regrets*, 2024, arXiv 2408.15099. With p the share of solved episodes, the learnability of a
level is p (1 - p). Before each block of updates, the agent plays random training levels. The levels with the highest
learnability get half of the draws, and all levels share the other half. In the paper, the agent plays 5000 levels every
50 updates and keeps 1000; here it plays as many levels as there are environments, and keeps a fifth of them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import jaxgym  # it imports `levels` on first use, which starts a JAX backend
from baselines import curriculum
from baselines.evaluate import agents_of, make_player
from baselines.game import TrainingGame, check_success
from baselines.ppo import Setup, TrainState

_EPISODES = 4
"""Episodes of each level that the agent plays."""
_CHOSEN = 5
"""One of so many of these levels is chosen."""
_STREAM = 1 << 30

Chooser = Callable[[TrainState, Any], tuple[TrainState, dict[str, float]]]


def make_chooser(setup: Setup, game: TrainingGame) -> Chooser:
    """Return a function that chooses levels before a block of updates; it compiles on its first call.

    The function takes a train state and environment parameters. It returns the state with new weights of the training
    levels, and metrics: `curriculum_steps`, the number of environment steps that it took, which are not among the steps
    of the run. The weights follow from the state alone.

    Raises:
        ConfigError: if the episodes of the environment can't succeed.
    """
    check_success("--curriculum sfl", setup.config, game.env, game.params)
    count = jaxgym.levels.num_levels(game.params.levels)
    played = min(setup.config.num_envs, count)
    player = make_player(setup)

    @jax.jit
    def candidates_of(key: jax.Array, buffer: Any) -> tuple[jax.Array, Any]:
        chosen = jax.random.choice(key, count, (played,), replace=False).astype(jnp.int32)
        return chosen, jax.tree.map(lambda leaf: leaf[chosen], buffer)

    weights_of = jax.jit(partial(curriculum.learnable_weights, count, kept=max(1, played // _CHOSEN)))

    def choose(params: Any, update: int, seed: int, env_params: Any) -> tuple[jax.Array, int]:
        own = jax.random.fold_in(jax.random.key(seed), _STREAM)  # no key of the training itself
        key_levels, key = jax.random.split(jax.random.fold_in(own, update))
        candidates, chosen = candidates_of(key_levels, env_params.levels)
        episodes = [player(params, chosen, env_params, one) for one in jax.random.split(key, _EPISODES)]
        success = jnp.stack([jnp.where(own.is_whole, own.success, 0.0) for own in episodes]).mean(axis=0)
        return weights_of(candidates, success), sum(int(own.length.sum()) for own in episodes)

    def choose_levels(state: TrainState, env_params: Any) -> tuple[TrainState, dict[str, float]]:
        config, update = setup.config, int(state.update.max())
        seeds = range(config.seed, config.seed + config.num_seeds)
        chosen = [
            choose(agent, update, seed, env_params)
            for agent, seed in zip(agents_of(setup, state.params), seeds, strict=True)
        ]
        weights = jnp.stack([own for own, _ in chosen])
        scores = state.curriculum._replace(weights=weights if setup.seed_axis else weights[0])
        return state._replace(curriculum=scores), {"curriculum_steps": sum(steps for _, steps in chosen)}

    return choose_levels
