"""Spotlights: their tracks, and the list of those alive.

A spotlight runs along a curve of three points, each just outside of the circle around the screen. The list is walked
once a step, in the order of creation; a spotlight that has reached its end is removed by the next walk.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.memory import pairs
from jaxgym.envs.memory.arena import SCREEN_PX
from jaxgym.envs.memory.pairs import Pair

SMALLEST_RADIUS_PX = 2
LARGEST_RADIUS_PX = 42
TRACK_WORDS = 5
"""Random words of a track."""

_FULL_TURN_DEG = 360
_HALF_TURN_DEG = 180
_TARGET_SPREAD_DEG = 45
_OFFSET_SPREAD_DEG = 135
_CENTER_PX = SCREEN_PX // 2
_SLOWEST = 2.0**-30
"""A slower spotlight stays: its lifetime would not fit an int32."""
_WALK_DELAY_STEPS = 2
"""How long the end of a spotlight may wait for the walk that removes it."""

_ANGLES = np.deg2rad(np.arange(_FULL_TURN_DEG, dtype=np.float64))
_DIRECTIONS = Pair.of(np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=-1))
_RIM_PX = Pair.of(SCREEN_PX * math.sqrt(2) / 2 + np.arange(LARGEST_RADIUS_PX + 1, dtype=np.float64))
"""How far from the centre of the screen the track of a spotlight of each radius begins."""


@struct.dataclass
class Tracks:
    """How spotlights run; any leading shape.

    Attributes:
        radius_px: int32.
        angles_deg: Start, target and offset angle, int32 (…, 3).
        speed: Share of the track per step; float32 pair.
        lifetime_steps: How many times it is drawn, int32.
    """

    radius_px: jax.Array
    angles_deg: jax.Array
    speed: Pair
    lifetime_steps: jax.Array


@struct.dataclass
class Spotlights:
    """The spotlights alive, oldest first, in K slots; the first `count` are used.

    Attributes:
        count: int32 ().
        radius_px: int32 (K,).
        speed: Share of the track per step; pair (K,).
        lifetime_steps: int32 (K,).
        num_drawn: How often each was drawn, int32 (K,).
        start: The point where the track starts; pair (K, 2).
        chord: From there to the target; pair (K, 2).
        bend: From the target to the offset point; pair (K, 2).
        center_px: Where each was last drawn, int32 (K, 2).
        is_lit: Whether the last walk drew it, bool (K,).
    """

    count: jax.Array
    radius_px: jax.Array
    speed: Pair
    lifetime_steps: jax.Array
    num_drawn: jax.Array
    start: Pair
    chord: Pair
    bend: Pair
    center_px: jax.Array
    is_lit: jax.Array


def sample_tracks(bits: jax.Array, params: Any) -> Tracks:
    """Samples tracks from random words, uint32 (…, 5), for the radii and speeds that the parameters allow."""
    lowest = jnp.trunc(params.spot_min_radius).astype(jnp.int32)
    num_radii = jnp.maximum(jnp.trunc(params.spot_max_radius + 1.0).astype(jnp.int32) - lowest, 1)
    radius = lowest + (bits[..., 0] % num_radii.astype(jnp.uint32)).astype(jnp.int32)
    share = (bits[..., 1] >> 8).astype(jnp.float32) * np.float32(2.0**-24)
    speed = params.spot_min_speed + share * (params.spot_max_speed - params.spot_min_speed)
    start = _below(bits[..., 2], _FULL_TURN_DEG)
    target = start + _HALF_TURN_DEG + _below(bits[..., 3], 2 * _TARGET_SPREAD_DEG) - _TARGET_SPREAD_DEG
    offset = target + _below(bits[..., 4], 2 * _OFFSET_SPREAD_DEG) - _OFFSET_SPREAD_DEG
    return Tracks(
        radius_px=radius,
        angles_deg=jnp.stack([start, target, offset], axis=-1),
        speed=Pair(speed, jnp.zeros_like(speed)),
        lifetime_steps=jnp.ceil(1.0 / jnp.maximum(speed, _SLOWEST)).astype(jnp.int32),
    )


def _below(bits: jax.Array, bound: int) -> jax.Array:
    return (bits % jnp.uint32(bound)).astype(jnp.int32)


def most_alive(initial: int, total: int | None, interval: int, min_speed: float) -> int:
    """Returns a number that spotlights alive at the same time never exceed, on the host.

    Args:
        initial: Spotlights at reset.
        total: All spotlights of an episode, or None if there is no end to them.
        interval: Steps between two new ones.
        min_speed: Share of the track per step of the slowest.
    """
    lifetime = math.ceil(1.0 / max(min_speed, _SLOWEST)) + 1
    bound = initial + (lifetime + _WALK_DELAY_STEPS) // max(interval, 1) + 1
    return bound if total is None else min(bound, total)


def place(tracks: Tracks) -> Spotlights:
    """Returns spotlights at the start of N tracks, one a slot, all slots used."""
    rim = _at(_RIM_PX, tracks.radius_px)
    rim = jax.tree.map(lambda part: part[..., None, None], rim)
    directions = _at(_DIRECTIONS, tracks.angles_deg % _FULL_TURN_DEG)
    rim = jax.tree.map(lambda part, like: jnp.broadcast_to(part, like.shape), rim, directions)
    center = pairs.whole(jnp.full_like(directions.high, _CENTER_PX))
    points = pairs.add(center, pairs.multiply(rim, directions))
    start, target, offset = points[..., 0, :], points[..., 1, :], points[..., 2, :]
    none = jnp.zeros_like(tracks.radius_px)
    return Spotlights(
        count=jnp.int32(none.size),
        radius_px=tracks.radius_px,
        speed=tracks.speed,
        lifetime_steps=tracks.lifetime_steps,
        num_drawn=none,
        start=start,
        chord=pairs.subtract(target, start),
        bend=pairs.subtract(offset, target),
        center_px=pairs.truncate(start),
        is_lit=none > 0,
    )


def _at(table: Pair, index: jax.Array) -> Pair:
    return jax.tree.map(lambda part: jnp.asarray(part)[index], table)


def pad(spotlights: Spotlights, count: jax.Array, capacity: int) -> Spotlights:
    """Returns the first `count` of the spotlights, in `capacity` slots."""
    slots = dataclasses.replace(spotlights, count=None)
    unused = capacity - spotlights.radius_px.shape[0]
    padded = jax.tree.map(lambda leaf: jnp.pad(leaf, [(0, unused), *[(0, 0)] * (leaf.ndim - 1)]), slots)
    return dataclasses.replace(padded, count=jnp.asarray(count, dtype=jnp.int32))


def append(spotlights: Spotlights, track: Tracks, is_due: jax.Array) -> Spotlights:
    """Returns the list with one more spotlight at its end, if it is due and a slot is left."""
    capacity = spotlights.radius_px.shape[0]
    added = place(jax.tree.map(lambda leaf: leaf[None], track))
    is_slot = is_due & (jnp.arange(capacity) == spotlights.count)

    def put(old: jax.Array, new: jax.Array) -> jax.Array:
        return jnp.where(is_slot.reshape(-1, *[1] * (old.ndim - 1)), new, old)

    slots, new_slot = (dataclasses.replace(lights, count=None) for lights in (spotlights, added))
    count = spotlights.count + jnp.any(is_slot).astype(jnp.int32)
    return dataclasses.replace(jax.tree.map(put, slots, new_slot), count=count)


def walk(spotlights: Spotlights, agent_px: jax.Array, agent_radius_px: int) -> tuple[Spotlights, jax.Array]:
    """Removes the spotlights that are done, moves and draws the others; returns the list, and whether one hits.

    The spotlight after a removed one stays as it is in this step: not moved, not drawn, no hit.

    Args:
        spotlights: The list.
        agent_px: Centre of the agent, int32 (2,).
        agent_radius_px: Radius of the agent.
    """
    in_list = jnp.arange(spotlights.radius_px.shape[0]) < spotlights.count
    removed, visited = walk_and_remove(in_list, spotlights.num_drawn >= spotlights.lifetime_steps)
    is_lit = visited & ~removed
    position = positions(spotlights)
    away = pairs.subtract(position, pairs.whole(jnp.broadcast_to(agent_px, position.high.shape)))
    squares = pairs.multiply(away, away)
    reach = pairs.whole(jnp.square(spotlights.radius_px + agent_radius_px))
    is_hit = pairs.is_at_most_zero(pairs.subtract(pairs.add(squares[..., 0], squares[..., 1]), reach))
    slots = dataclasses.replace(
        spotlights,
        count=None,
        num_drawn=spotlights.num_drawn + is_lit.astype(jnp.int32),
        center_px=jnp.where(is_lit[:, None], pairs.truncate(position), spotlights.center_px),
        is_lit=is_lit,
    )
    return _compact(slots, in_list & ~removed), jnp.any(is_hit & is_lit)


def positions(spotlights: Spotlights) -> Pair:
    """Returns where each spotlight is when it is drawn next, in px; pair (K, 2)."""
    done_share = pairs.multiply(pairs.whole(spotlights.num_drawn), spotlights.speed)
    share = jax.tree.map(lambda part: jnp.broadcast_to(part[:, None], (part.shape[0], 2)), done_share)
    ahead = pairs.add(spotlights.chord, pairs.multiply(share, spotlights.bend))
    return pairs.add(spotlights.start, pairs.multiply(share, ahead))


def walk_and_remove(in_list: jax.Array, is_unwanted: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Walks a list while removing from it, so that the element after a removed one is not visited.

    Args:
        in_list: Which of K elements are in the list, bool (K,).
        is_unwanted: Which of them are removed when visited, bool (K,).

    Returns:
        Which elements were removed and which were visited, bool (K,) each.
    """
    position = _counts(in_list)
    # In a run of unwanted elements every other one is removed, beginning with the first.
    index = jnp.arange(in_list.shape[0])
    is_before = index[None, :] < index[:, None]
    kept_before = jnp.max(jnp.where(is_before & (in_list & ~is_unwanted)[None, :], position[None, :], 0), axis=1)
    removed = in_list & is_unwanted & ((position - kept_before) % 2 == 1)
    follows = position[:, None] == position[None, :] + 1
    return removed, in_list & ~jnp.any(follows & removed[None, :], axis=1)


def _counts(flags: jax.Array) -> jax.Array:
    """Returns how many flags are set up to each, itself included, int32 (K,)."""
    index = jnp.arange(flags.shape[0])
    return jnp.sum((index[None, :] <= index[:, None]) & flags[None, :], axis=1, dtype=jnp.int32)


def _compact(slots: Spotlights, is_kept: jax.Array) -> Spotlights:
    """Moves the slots that are kept to the front, in their order."""
    kept = _counts(is_kept)
    source = jnp.sum(kept[None, :] <= jnp.arange(is_kept.shape[0])[:, None], axis=1, dtype=jnp.int32)
    gathered = jax.tree.map(lambda leaf: leaf.at[source].get(mode="clip"), slots)
    return dataclasses.replace(gathered, count=kept[-1])


def select_track(tracks: Tracks, index: jax.Array) -> Tracks:
    """Returns one of N tracks."""
    return jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, keepdims=False), tracks)
