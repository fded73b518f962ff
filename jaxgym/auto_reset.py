"""Levels of the episodes that follow in an auto-reset."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from jaxgym import levels

_LEAST_AT_ONCE, _SHARE_AT_ONCE = 8, 32  # levels sampled side by side: a 32nd of the batch, and at least 8


def following_level(env: Any, key: jax.Array, params: Any, ended: jax.Array, level: Any) -> tuple[Any, jax.Array]:
    """Return the level of the next episode if `ended`; otherwise, the caller does not use the result.

    Without a level buffer, a batch samples levels only for the episodes that ended. Most steps end few of them, and a
    level can need far more computations than a step. The levels are those of `levels.draw`.

    Args:
        env: The environment.
        key: A PRNG key; it is consumed.
        params: Parameters.
        ended: Whether the episode ended, bool ().
        level: A level of the environment, to return where no level is sampled.

    Returns:
        The level, and its index in the level buffer as `levels.draw` returns it.

    Raises:
        LevelError: If `params.levels` is not a level buffer of the environment.
    """
    if params.levels is not None:
        return levels.draw(env, key, params)

    @custom_vmap
    def sample(ended: jax.Array, level: Any, seed: jax.Array, params: Any) -> Any:
        return lax.cond(ended, lambda: levels.level_from_seed(env, seed, params), lambda: level)

    @sample.def_vmap
    def sample_some(size: int, is_batched: Any, ended: jax.Array, level: Any, *rest: Any) -> tuple[Any, Any]:
        ended, level = _batched(size, tuple(is_batched[:2]), (ended, level))
        is_batched = tuple(is_batched[2:])
        axes = jax.tree.map(lambda batched: 0 if batched else None, is_batched)
        at_once = max(min(size, _LEAST_AT_ONCE), size // _SHARE_AT_ONCE)
        # Indices of the ended episodes first, then ones out of range, which no write reaches.
        order = jnp.nonzero(ended, size=-(-size // at_once) * at_once, fill_value=size)[0]

        def sample_next(carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
            first, sampled = carry
            index = lax.dynamic_slice_in_dim(order, first, at_once)
            given = jax.tree.map(lambda batched, leaf: leaf[index] if batched else leaf, is_batched, rest)
            new = jax.vmap(partial(levels.level_from_seed, env), in_axes=axes, axis_size=at_once)(*given)
            return first + at_once, jax.tree.map(lambda old, new: old.at[index].set(new, mode="drop"), sampled, new)

        count = jnp.sum(ended)
        sampled = lax.while_loop(lambda carry: carry[0] < count, sample_next, (jnp.int32(0), level))[1]
        return sampled, jax.tree.map(lambda _: True, level)

    return sample(ended, level, levels.random_training_seed(key), params), jnp.asarray(levels.NO_INDEX)


def _batched(size: int, is_batched: Any, tree: Any) -> Any:
    """Return a tree whose leaves all have the batch axis."""
    return jax.tree.map(
        lambda batched, leaf: leaf if batched else jnp.broadcast_to(leaf, (size, *jnp.shape(leaf))), is_batched, tree
    )
