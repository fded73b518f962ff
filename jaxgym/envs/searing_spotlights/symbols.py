"""Symbolic observation of both Searing Spotlights games."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX, AxisMove
from jaxgym.envs.searing_spotlights import scene as scenes
from jaxgym.envs.searing_spotlights.visible import LIGHT_UNITS, Visible

_FARTHEST_PX = SCREEN_PX + 4
"""Upper bound of an object's coordinates."""


def symbols(seen: Visible) -> jax.Array:
    """Return the facts of a frame as numbers, float32 (n,), each from 0 to 1.

    All numbers of an object that is not listed are 0; see `Visible`. Coordinates are divided by 88.

    In order: the agent (listed, x, y, heading one-hot: 11); each coin (listed, x, y), row by row, unlisted ones last;
    the exit, if the game has one (listed, x, y, open: 4); for each of 7 × 7 squares of the floor, row by row, the mean
    of the brightest channel of its pixels below the bar, divided by 255 (49); whether anything is blue, and whether
    anything is red (2); lost health (1); the two parts of the action in the bar, one-hot (6), and its reward, one-hot
    (2), zeros if the bar shows none.
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    heading = one_hot(jnp.where(seen.has_agent, seen.agent_heading, -1), NUM_HEADINGS)
    parts = [_place(seen.has_agent, seen.agent_px), heading, jax.vmap(_place)(seen.has_coin, seen.coins_px).reshape(-1)]
    if seen.has_exit is not None:
        parts += [_place(seen.has_exit, seen.exit_px), seen.is_open[None]]
    parts += [
        seen.light.astype(jnp.float32) * LIGHT_UNITS,
        jnp.stack([seen.has_blue, seen.has_red]),
        (seen.lost_health_px.astype(jnp.float32) / np.float32(scenes.HEALTH_BAR_PX))[None],
        one_hot(seen.action, len(AxisMove)).reshape(-1),
        one_hot(seen.reward, len(scenes.REWARD_COLORS)),
    ]
    return jnp.concatenate([part.astype(jnp.float32) for part in parts])


def _place(is_listed: jax.Array, position_px: jax.Array) -> jax.Array:
    numbers = jnp.append(jnp.float32(1.0), position_px.astype(jnp.float32) / np.float32(_FARTHEST_PX))
    return jnp.where(is_listed, numbers, 0.0)
