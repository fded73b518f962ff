"""Success on the levels that an agent solves least often: the conditional value at risk (CVaR) of the success.

Rutherford et al., 2024 (arXiv 2408.15099), evaluate curricula in this way on 10 000 levels with ten episodes each. An
agent that fails on a tenth of the levels has a high mean and a CVaR near 0.

The worst levels are chosen by some episodes and scored by others. If the same episodes did both, levels with bad luck
would be chosen, and the result would be too low.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SHARE = 0.1
"""Share of the levels that count as the worst."""
LEVELS, REPEATS = 10_000, 10
"""Default numbers of levels, and of episodes on each of them."""


def worst_levels(
    player: Callable[..., Any], agents: Sequence[Any], levels: Any, env_params: Any, *, repeats: int, seed: int
) -> dict[str, Any]:
    """Return the mean success on all levels and on the worst ones.

    Args:
        player: Function of `baselines.evaluate.make_player`.
        agents: Network parameters of each agent.
        levels: Levels, leaves (N, ...).
        env_params: Parameters of the environment.
        repeats: Number of episodes on each level to choose the worst ones, and again on these to score them.
        seed: Seed of the sampled actions.

    Returns:
        `levels`, `worst_levels`, `episodes_per_level`, the means `success` and `cvar_success` over the agents, and
        both for each agent, `success_by_seed` and `cvar_success_by_seed`.
    """
    count = jax.tree.leaves(levels)[0].shape[0]
    kept = math.ceil(SHARE * count)
    results: dict[str, list[float]] = {"success": [], "cvar_success": []}
    for agent, key in zip(agents, jax.random.split(jax.random.key(seed), len(agents)), strict=True):
        keys = jax.random.split(key, 2 * repeats)
        success = _success(player, agent, levels, env_params, keys[:repeats])
        worst = np.argsort(success, kind="stable")[:kept]
        chosen = jax.tree.map(lambda leaf: leaf[worst], levels)  # noqa: B023 — called at once
        again = _success(player, agent, chosen, env_params, keys[repeats:])
        results["success"].append(float(success.mean()))
        results["cvar_success"].append(float(again.mean()))
    means = {name: float(np.mean(values)) for name, values in results.items()}
    by_seed = {f"{name}_by_seed": values for name, values in results.items()}
    return {"levels": count, "worst_levels": kept, "episodes_per_level": repeats} | means | by_seed


def _success(player: Callable[..., Any], agent: Any, levels: Any, env_params: Any, keys: jax.Array) -> np.ndarray:
    """Return the share of successful episodes on each level, float64 (N,), with one episode for each key."""
    played = (player(agent, levels, env_params, key) for key in keys)
    return np.mean([np.asarray(jnp.where(own.is_whole, own.success, 0.0), np.float64) for own in played], axis=0)


def describe_worst(result: dict[str, Any]) -> str:
    """Format a result of `worst_levels` as one line."""
    return (
        f"held-out levels ({result['levels']}): success {result['success']:.3f}, "
        f"on the worst {SHARE:.0%} ({result['worst_levels']} levels) {result['cvar_success']:.3f}"
    )
