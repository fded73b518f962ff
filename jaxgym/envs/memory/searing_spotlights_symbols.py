"""Searing Spotlights as numbers: what is uncovered, and how much light falls on each square of the floor."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxgym.envs.memory import searing_spotlights_scene as seen
from jaxgym.envs.memory.agent import heading_looks
from jaxgym.envs.memory.arena import NUM_HEADINGS, SCREEN_PX, agent_radius

_SQUARE_PX = 12
_SQUARES = SCREEN_PX // _SQUARE_PX
_FLOORS = 4
_ACTIONS = 3
_HAND_PX = 3
"""How far an agent's hands may stick out of its body."""
_FARTHEST_PX = SCREEN_PX + 4
"""Above every coordinate of a thing."""


def symbols(scene: seen.Scene, look: seen.Look) -> jax.Array:
    """Returns a scene of Searing Spotlights as numbers, float32 (n,), each from 0 to 1.

    A thing is uncovered if it lies above the darkness, if no darkness is there, or if the whole square around it is in
    spotlights; else all of its numbers are 0. Coordinates are over 88.

    In order: the agent (uncovered, x, y, its heading one-hot: 11); each coin (uncovered, x, y); the exit (uncovered, x,
    y, open: 4); for each of 7 × 7 squares of the floor, row by row, whether it is dark, partly lit or lit (147); alpha
    of the darkness over 255 (1); the floor one-hot (4); lost health (1); the action in the bar, two one-hots (6), and
    the reward, one-hot (2), all zero where the bar shows none.
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    lit, _ = seen.light(scene)
    agent_px = agent_radius(look.agent_scale) + _HAND_PX
    coin_px, exit_px = seen.coin_radius_px(look.coin_scale), int(10 * look.exit_scale) + 1
    agent = _uncovered(scene, lit, scene.agent_position_px, agent_px, scene.agent_visible)
    heading = one_hot(jnp.asarray(heading_looks(look.agent_scale))[scene.agent_heading], NUM_HEADINGS)
    parts = [_place(scene.agent_position_px, agent), jnp.where(agent, heading, 0.0)]
    for position, has_coin in zip(scene.coins_px, scene.has_coin, strict=True):
        coin = has_coin & _uncovered(scene, lit, position, coin_px, scene.coins_visible)
        parts.append(_place(position, coin))
    has_exit = scene.exit_kind != seen.NO_EXIT
    exit_ = has_exit & _uncovered(scene, lit, scene.exit_px, exit_px, scene.exit_visible)
    parts += [_place(scene.exit_px, exit_), (exit_ & (scene.exit_kind == seen.EXIT_OPEN))[None].astype(jnp.float32)]
    squares = lit.reshape(_SQUARES, _SQUARE_PX, _SQUARES, _SQUARE_PX)
    level = jnp.any(squares, axis=(1, 3)).astype(jnp.int32) + jnp.all(squares, axis=(1, 3)).astype(jnp.int32)
    parts += [
        one_hot(level, 3).reshape(-1),
        scene.alpha.astype(jnp.float32)[None] / np.float32(255),
        one_hot(scene.floor, _FLOORS),
        scene.lost_health_px.astype(jnp.float32)[None] / np.float32(seen.HEALTH_BAR_PX),
        one_hot(scene.shown_action, _ACTIONS).reshape(-1),
        one_hot(scene.shown_reward, 2),
    ]
    return jnp.concatenate(parts)


def _uncovered(
    scene: seen.Scene, lit: jax.Array, position_px: jax.Array, reach_px: int, is_above: jax.Array
) -> jax.Array:
    """Whether a thing that reaches so far from its centre is wholly uncovered, bool ()."""
    # What lies outside of the picture can't be dark.
    padded = jnp.pad(lit, reach_px + SCREEN_PX // 4, constant_values=True)
    corner = position_px + SCREEN_PX // 4
    window = lax.dynamic_slice(padded, (corner[1], corner[0]), (2 * reach_px, 2 * reach_px))
    return is_above | (scene.alpha == 0) | jnp.all(window)


def _place(position_px: jax.Array, is_uncovered: jax.Array) -> jax.Array:
    numbers = jnp.append(jnp.float32(1.0), position_px.astype(jnp.float32) / np.float32(_FARTHEST_PX))
    return jnp.where(is_uncovered, numbers, 0.0)
