"""Spotlights: their tracks, and the list of those that are alive.

A spotlight moves along a curve of three points, each just outside of the circle around the screen. Each step walks the
list once, in the order of creation; the walk after the end of a track removes the spotlight.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.searing_spotlights import double_float
from jaxgym.envs.searing_spotlights.double_float import DoubleFloat

SMALLEST_RADIUS_PX = 2
LARGEST_RADIUS_PX = 42
FULL_ALPHA = 255
"""Complete darkness."""

TRACK_WORDS = 5
"""Number of random words of a track."""

FULL_TURN_DEG = 360
HALF_TURN_DEG = 180
TARGET_SPREAD_DEG = 45
OFFSET_SPREAD_DEG = 135
CENTER_PX = SCREEN_PX // 2
SLOWEST = 2.0**-30
"""Speed below which a spotlight stays, because its lifetime would exceed int32."""
_WALK_DELAY_STEPS = 2
"""Largest number of steps between the end of a spotlight and the walk that removes it."""

_ANGLES = np.deg2rad(np.arange(FULL_TURN_DEG, dtype=np.float64))
_DIRECTIONS = (DoubleFloat.of(np.cos(_ANGLES)), DoubleFloat.of(np.sin(_ANGLES)))
_RIM_PX = DoubleFloat.of(SCREEN_PX * math.sqrt(2) / 2 + np.arange(LARGEST_RADIUS_PX + 1, dtype=np.float64))
"""Distance of the start of each radius's track from the center of the screen."""


@struct.dataclass
class Tracks:
    """Tracks of spotlights, with any leading shape.

    Attributes:
        radius_px: int32.
        angles_deg: Start, target and offset angle, int32 (…, 3).
        speed: Share of the track per step; float32 pair.
        lifetime_steps: Number of steps in which it is drawn, int32.
    """

    radius_px: jax.Array
    angles_deg: jax.Array
    speed: DoubleFloat
    lifetime_steps: jax.Array


@struct.dataclass
class Spotlights:
    """Spotlights that are alive, oldest first, in K slots; the first `count` are used.

    Attributes:
        count: int32 ().
        tracks: Track of each spotlight, `Tracks` of K.
        num_drawn: Number of times each was drawn, int32 (K,).
        center_px: Center where each was last drawn, int32 (K, 2).
        is_lit: Whether the last walk drew each, bool (K,).
    """

    count: jax.Array
    tracks: Tracks
    num_drawn: jax.Array
    center_px: jax.Array
    is_lit: jax.Array


def sample_tracks(bits: jax.Array, params: Any) -> Tracks:
    """Sample tracks from random words, uint32 (…, 5), with the radii and speeds of the parameters."""
    lowest = jnp.trunc(params.spot_min_radius).astype(jnp.int32)
    num_radii = jnp.maximum(jnp.trunc(params.spot_max_radius + 1.0).astype(jnp.int32) - lowest, 1)
    radius = lowest + (bits[..., 0] % num_radii.astype(jnp.uint32)).astype(jnp.int32)
    share = (bits[..., 1] >> 8).astype(jnp.float32) * np.float32(2.0**-24)
    # Pairs, since compilers fuse product and sum of plain numbers, which rounds differently than without jit.
    slowest, fastest, share = (
        DoubleFloat(jnp.full_like(share, value), jnp.zeros_like(share))
        for value in (params.spot_min_speed, params.spot_max_speed, share)
    )
    speed = double_float.add(slowest, double_float.multiply(share, double_float.subtract(fastest, slowest))).high
    start = _below(bits[..., 2], FULL_TURN_DEG)
    target = start + HALF_TURN_DEG + _below(bits[..., 3], 2 * TARGET_SPREAD_DEG) - TARGET_SPREAD_DEG
    offset = target + _below(bits[..., 4], 2 * OFFSET_SPREAD_DEG) - OFFSET_SPREAD_DEG
    return Tracks(
        radius_px=radius,
        angles_deg=jnp.stack([start, target, offset], axis=-1),
        speed=DoubleFloat(speed, jnp.zeros_like(speed)),
        lifetime_steps=jnp.ceil(1.0 / jnp.maximum(speed, SLOWEST)).astype(jnp.int32),
    )


def _below(bits: jax.Array, bound: int) -> jax.Array:
    return (bits % jnp.uint32(bound)).astype(jnp.int32)


def most_alive(initial: int, total: int | None, interval: int, min_speed: float) -> int:
    """Return an upper bound of the number of spotlights that are alive at the same time, on the host.

    Args:
        initial: Number of spotlights at reset.
        total: Number of spotlights of an episode, or None if it is unlimited.
        interval: Steps between two new spotlights.
        min_speed: Share of the track per step of the slowest spotlight.
    """
    lifetime = math.ceil(1.0 / max(min_speed, SLOWEST)) + 1
    bound = initial + (lifetime + _WALK_DELAY_STEPS) // max(interval, 1) + 1
    return bound if total is None else min(bound, total)


def start(tracks: Tracks, count: jax.Array, capacity: int) -> Spotlights:
    """Return the first `count` of N spotlights at the start of their tracks, in `capacity` slots of at least N."""
    unused = capacity - tracks.radius_px.shape[0]
    padded = jax.tree.map(lambda leaf: jnp.pad(leaf, [(0, unused), *[(0, 0)] * (leaf.ndim - 1)]), tracks)
    none = jnp.zeros(capacity, dtype=jnp.int32)
    return Spotlights(
        count=jnp.asarray(count, dtype=jnp.int32),
        tracks=padded,
        num_drawn=none,
        center_px=jnp.zeros((capacity, 2), dtype=jnp.int32),
        is_lit=none > 0,
    )


def append(spotlights: Spotlights, track: Tracks, is_due: jax.Array) -> Spotlights:
    """Append a spotlight to the list if it is due and a slot is free."""
    capacity = spotlights.num_drawn.shape[0]
    is_slot = is_due & (jnp.arange(capacity) == spotlights.count)

    def put(old: jax.Array, new: jax.Array) -> jax.Array:
        return jnp.where(is_slot.reshape(-1, *[1] * (old.ndim - 1)), new[None], old)

    return dataclasses.replace(
        spotlights,
        count=spotlights.count + (is_due & (spotlights.count < capacity)).astype(jnp.int32),
        tracks=jax.tree.map(put, spotlights.tracks, track),
        num_drawn=jnp.where(is_slot, 0, spotlights.num_drawn),
    )


def walk(spotlights: Spotlights, agent_px: jax.Array, agent_radius_px: int) -> tuple[Spotlights, jax.Array]:
    """Remove finished spotlights, move and draw the others; return the list, and whether one hits the agent.

    The spotlight after a removed one pauses for this step: it is not moved, not drawn and does not hit. `agent_px` is
    the center of the agent, int32 (2,).
    """
    tracks = spotlights.tracks
    index = jnp.arange(spotlights.num_drawn.shape[0])
    in_list = index < spotlights.count
    is_over = in_list & (spotlights.num_drawn >= tracks.lifetime_steps)
    removed = remove_every_other(is_over, in_list, index)
    is_lit = in_list & ~is_over & ~jnp.pad(removed, (1, 0))[:-1]
    position = positions(tracks, spotlights.num_drawn)
    away = [
        double_float.subtract(along, double_float.whole(jnp.full_like(index, agent)))
        for along, agent in zip(position, agent_px, strict=True)
    ]
    distance_squared = double_float.add(*(double_float.multiply(along, along) for along in away))
    reach = double_float.whole(jnp.square(tracks.radius_px + agent_radius_px))
    is_hit = double_float.is_at_most_zero(double_float.subtract(distance_squared, reach))
    center_px = jnp.stack([double_float.truncate(along) for along in position], axis=-1)
    walked = dataclasses.replace(
        spotlights,
        num_drawn=spotlights.num_drawn + is_lit.astype(jnp.int32),
        center_px=jnp.where(is_lit[:, None], center_px, spotlights.center_px),
        is_lit=is_lit,
    )
    return _compact(walked, in_list & ~removed), jnp.any(is_hit & is_lit)


def positions(tracks: Tracks, num_drawn: jax.Array) -> tuple[DoubleFloat, DoubleFloat]:
    """Return x and y of each of K spotlights after `num_drawn` steps, int32 (K,), in px; pairs (K,)."""
    rim = _at(_RIM_PX, tracks.radius_px)
    center = double_float.whole(jnp.full_like(num_drawn, CENTER_PX))
    share = double_float.multiply(double_float.whole(num_drawn), tracks.speed)
    angles = tracks.angles_deg % FULL_TURN_DEG

    # One axis at a time: on slices of an array of both axes, XLA on CPUs computes each of these sums many times.
    def along(directions: DoubleFloat) -> DoubleFloat:
        first, target, offset = (
            double_float.add(center, double_float.multiply(rim, _at(directions, angles[:, point])))
            for point in range(3)
        )
        ahead = double_float.add(
            double_float.subtract(target, first), double_float.multiply(share, double_float.subtract(offset, target))
        )
        return double_float.add(first, double_float.multiply(share, ahead))

    return along(_DIRECTIONS[0]), along(_DIRECTIONS[1])


def _at(table: DoubleFloat, index: jax.Array) -> DoubleFloat:
    return jax.tree.map(lambda part: jnp.asarray(part)[index], table)


def walk_and_remove(in_list: jax.Array, is_unwanted: jax.Array) -> jax.Array:
    """Walk a list while removing unwanted elements, so that the element after a removed one is skipped.

    Arguments and result are flags of K elements, bool (K,); the result says which were removed.
    """
    return remove_every_other(in_list & is_unwanted, in_list, _counts(in_list) - 1)


def remove_every_other(is_unwanted: jax.Array, in_list: jax.Array, position: jax.Array) -> jax.Array:
    """Return every other element of each run of unwanted ones of a list, starting with its first, bool (K,).

    `position` is the index in the list of each element in it, int32 (K,).
    """
    index = jnp.arange(in_list.shape[0])
    is_wanted_before = (index[None, :] < index[:, None]) & (in_list & ~is_unwanted)[None, :]
    run_start = jnp.max(jnp.where(is_wanted_before, position[None, :] + 1, 0), axis=1)
    return is_unwanted & ((position - run_start) % 2 == 0)


def _counts(flags: jax.Array) -> jax.Array:
    """Return the number of set flags up to and including each, int32 (K,)."""
    # XLA keeps the result of a product with a triangle, but recomputes every term of a sum for each reader.
    triangle = np.triu(np.ones((flags.shape[0], flags.shape[0]), dtype=np.float32))
    return jnp.dot(flags.astype(jnp.float32), triangle).astype(jnp.int32)


def _compact(spotlights: Spotlights, is_kept: jax.Array) -> Spotlights:
    """Move the kept slots to the front, in order."""
    kept = _counts(is_kept)
    index = jnp.arange(is_kept.shape[0])
    source = jnp.sum(kept[None, :] <= index[:, None], axis=1, dtype=jnp.int32)
    slots = dataclasses.replace(spotlights, count=None)
    moved = jax.tree.map(lambda leaf: leaf.at[source].get(mode="clip"), slots)
    return dataclasses.replace(moved, count=kept[-1])


def select_track(tracks: Tracks, index: jax.Array) -> Tracks:
    """Return one of N tracks."""
    return jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, keepdims=False), tracks)


def dimmed(alpha: jax.Array, params: Any) -> jax.Array:
    """Return the darkness of the next step, for `light_dim_off_duration` and `light_threshold` of the parameters."""
    duration = jnp.asarray(params.light_dim_off_duration)
    slower = jnp.minimum(alpha + FULL_ALPHA // jnp.maximum(duration, 1), FULL_ALPHA)
    darker = jnp.where(duration > 0, slower, params.light_threshold)
    return jnp.where(alpha <= params.light_threshold, darker, alpha)
