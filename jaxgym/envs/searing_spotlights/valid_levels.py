"""Checks of level buffers of both Searing Spotlights games; see `jaxgym.envs.common.valid_levels`."""

from typing import Any

import numpy as np

from jaxgym.envs.common.valid_levels import Validity, chosen, within
from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX
from jaxgym.envs.searing_spotlights import base, free_cells, spotlights

_ROUNDING = 1e-6
"""Share by which a sampled speed may exceed the largest one."""


def valid_levels(_: Any, buffer: Any, params: Any) -> Validity:
    """Return whether each level has spotlights and coins of the options; bool (n,) by field."""
    exits = base.PLACES_PX if params.use_exit else (0, SCREEN_PX)
    return {
        **_spotlights(buffer, params),
        "num_coins": chosen(buffer.num_coins, params.num_coins),
        "coins_px": _places(buffer),
        "exit_px": within(buffer.exit_px, *exits),
    }


def endless_valid_levels(_: Any, buffer: Any, params: Any) -> Validity:
    """Return whether each level has spotlights of the options, and a coin; bool (n,) by field."""
    return {
        **_spotlights(buffer, params),
        "num_coins": within(buffer.num_coins, 1, buffer.coins_px.shape[1]),
        "coins_px": _places(buffer),
    }


def _spotlights(buffer: Any, params: Any) -> Validity:
    tracks, count = buffer.tracks, buffer.tracks.radius_px.shape[1]
    is_unused = np.arange(count) >= buffer.num_tracks[:, None]
    radius, speed = tracks.radius_px, tracks.speed.high
    is_radius = (radius >= int(params.spot_min_radius)) & (radius <= int(params.spot_max_radius))
    is_speed = (speed >= params.spot_min_speed) & (speed <= params.spot_max_speed * (1 + _ROUNDING))
    shift = free_cells.SHIFTS_PX
    sampled, center = (shift[0], SCREEN_PX - 1 + shift[1]), (spotlights.CENTER_PX, spotlights.CENTER_PX)
    return {
        "heading": within(buffer.heading, 0, NUM_HEADINGS - 1),
        "start_px": within(buffer.start_px, *(sampled if params.sample_agent_position else center)),
        "num_tracks": within(buffer.num_tracks, int(params.initial_spawns), count),
        "tracks.radius_px": (is_radius | is_unused).all(axis=1),
        "tracks.speed.high": (is_speed | is_unused).all(axis=1),
    }


def _places(buffer: Any) -> np.ndarray:
    low, high = base.PLACES_PX
    is_place = ((buffer.coins_px >= low) & (buffer.coins_px <= high)).all(axis=2)
    return (is_place | (np.arange(buffer.coins_px.shape[1]) >= buffer.num_coins[:, None])).all(axis=1)
