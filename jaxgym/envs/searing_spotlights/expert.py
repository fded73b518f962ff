"""Scripted experts of both Searing Spotlights games, which simulate the next steps with the rules themselves.

For each direction, the expert simulates the next steps: all or only the first few in that direction, the others
straight to the next coin, or to the exit if no coin is left. It takes the direction with the least cost; a hit costs as
much as a long detour. See `jaxgym.envs.memory_gym.steering` for experts in general.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxgym.envs.memory_gym import arena
from jaxgym.envs.memory_gym.steering import as_action, toward
from jaxgym.envs.searing_spotlights.endless import EndlessSearingSpotlightsState

_LOOK_AHEAD_STEPS = 16
_FIRST_STEPS = (4, _LOOK_AHEAD_STEPS)
_HIT_COST = 20.0
_DEATH_COST = 1000.0
_THING_COST = 60.0
"""More steps than any path across the screen."""

_DIRECTIONS = np.stack(np.meshgrid([0, -1, 1], [0, -1, 1]), axis=-1).reshape(-1, 2).astype(np.int32)


def action(env: Any, state: Any, params: Any) -> jax.Array:
    """Return an action to the nearest coin, then to the exit, if there is one, around spotlights; int32 () or (2,)."""
    first = jnp.asarray(np.tile(_DIRECTIONS, (len(_FIRST_STEPS), 1)))
    num_first = jnp.repeat(jnp.asarray(_FIRST_STEPS, jnp.int32), len(_DIRECTIONS))
    costs = jax.vmap(partial(_cost, env, state, params))(first, num_first)
    return as_action(first[jnp.argmin(costs)], flat=env.flat_actions)


def _cost(env: Any, state: Any, params: Any, first: jax.Array, num_first: jax.Array) -> jax.Array:
    """Return the cost of starting with `num_first` steps in the direction `first`, float32 ()."""

    def play(carry: tuple[Any, jax.Array, jax.Array], step: jax.Array) -> tuple[Any, None]:
        state, is_over, is_lost = carry
        straight = toward(_target_px(state) - state.position_px, params.agent_speed)
        action = as_action(jnp.where(step < num_first, first, straight), flat=env.flat_actions)
        made = env.transition(dataclasses.replace(state, time=state.time + 1), action, params)
        is_win = made.metrics.get("success", jnp.int32(0)) > 0
        after = jax.tree.map(lambda old, new: jnp.where(is_over, old, new), state, made.state)
        is_lost = is_lost | (~is_over & made.terminated & ~is_win)
        return (after, is_over | made.terminated, is_lost), None

    no = jnp.bool_(False)
    (after, is_over, is_lost), _ = lax.scan(play, (state, no, no), jnp.arange(_LOOK_AHEAD_STEPS))
    away = jnp.abs(_target_px(after) - after.position_px).astype(jnp.float32)
    straight_px, diagonal_px = (
        jnp.maximum(arena.free_displacement_px(jnp.asarray(way, jnp.int32), params.agent_speed)[0], 1)
        for way in ((1, 0), (1, 1))
    )
    to_go = jnp.min(away) / diagonal_px.astype(jnp.float32)
    to_go += (jnp.max(away) - jnp.min(away)) / straight_px.astype(jnp.float32)
    to_go = jnp.where(is_over & ~is_lost, 0.0, to_go + _THING_COST * _num_left(after))
    # Steps cost too; otherwise an agent that will win anyway would wait forever.
    to_go += (after.time - state.time).astype(jnp.float32)
    return to_go + _HIT_COST * after.num_hits.astype(jnp.float32) + jnp.where(is_lost, _DEATH_COST, 0.0)


def _target_px(state: Any) -> jax.Array:
    """Return the center of the nearest coin, or of the exit if no coin is left, int32 (2,)."""
    if isinstance(state, EndlessSearingSpotlightsState):
        return state.coin_px
    away = jnp.sum(jnp.square(state.level.coins_px - state.position_px[None]), axis=-1)
    nearest = jnp.argmin(jnp.where(state.has_coin, away, 4 * arena.SCREEN_PX**2))
    return jnp.where(jnp.any(state.has_coin), state.level.coins_px[nearest], state.level.exit_px)


def _num_left(state: Any) -> jax.Array:
    """Return the number of remaining objects, up to a constant, float32 ()."""
    if isinstance(state, EndlessSearingSpotlightsState):
        return -state.num_collected.astype(jnp.float32)
    return jnp.sum(state.has_coin).astype(jnp.float32)
