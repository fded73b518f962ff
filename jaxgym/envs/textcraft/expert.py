"""Expert for TextCraft: it gathers all materials of the goal, then crafts from the bottom up."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.textcraft.game import MOST_GATHERED, State, Verb
from jaxgym.envs.textcraft.world import NUM_INPUTS, world


@functools.cache
def plan() -> tuple[np.ndarray, np.ndarray]:
    """Return the way with the fewest actions for each of N items, as if no two inputs shared materials, int32 (N,).

    Return also the length of the longest chain of ways below each item, int32 (N,). Both are 0 for gathered items.
    """
    whole, ways = world(), world().ways
    num_items = len(whole.names)
    options: list[list[int]] = [[] for _ in range(num_items)]
    for way, output in enumerate(ways.outputs.tolist()):
        options[output].append(way)
    best, costs, heights = np.zeros((3, num_items), np.int32)

    @functools.cache
    def visit(item: int) -> None:
        priced = list[tuple[int, int, int]]()
        for way in options[item]:
            cost, height = 1, 0
            for source, count in zip(ways.inputs[way, :NUM_INPUTS].tolist(), ways.counts[way].tolist(), strict=True):
                if count:
                    visit(source)
                    runs = -(-count // int(ways.amounts[best[source]])) if heights[source] else 1
                    cost += int(costs[source]) + runs - 1
                    height = max(height, int(heights[source]) + 1)
            priced.append((cost, way, height))
        costs[item], best[item], heights[item] = min(priced, default=(1, 0, 0))

    for item in range(num_items):
        visit(item)
    return best, heights


def textcraft_action(env: Any, state: State, params: Any) -> jax.Array:
    """Return an action towards the goal, int32 (3,)."""
    del env, params
    ways, (chosen, heights) = world().ways, plan()
    inputs, counts = jnp.asarray(ways.inputs[chosen]), jnp.asarray(ways.counts[chosen])
    amounts, bag = jnp.asarray(ways.amounts[chosen]), state.inventory
    items = jnp.arange(len(world().names))
    needed = jnp.where(items == state.level.goal, bag + 1, 0)
    runs = jnp.zeros_like(needed)
    for height in range(int(heights.max()), 0, -1):
        missing = jnp.where(jnp.asarray(heights == height), jnp.maximum(needed - bag, 0), 0)
        these = -(-missing // amounts)
        runs += these
        needed = needed.at[inputs].add(these[:, None] * counts)
    missing = jnp.where(jnp.asarray(heights == 0), jnp.maximum(needed - bag, 0), 0)
    has_inputs = jnp.all((counts == 0) | (bag[inputs] >= counts), axis=1)
    gathered, crafted = jnp.argmax(missing > 0), jnp.argmax((runs > 0) & has_inputs)
    amount = jnp.clip(missing[gathered], 1, MOST_GATHERED) - 1
    get = jnp.stack([jnp.int32(Verb.GET), gathered.astype(jnp.int32), amount])
    craft = jnp.stack([jnp.int32(Verb.CRAFT), jnp.asarray(chosen)[crafted], jnp.int32(0)])
    return jnp.where(jnp.any(missing > 0), get, craft)
