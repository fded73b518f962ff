"""Checks of level buffers of both Searing Spotlights games; see `jaxgym.envs.memory_gym.fits`."""

from typing import Any

import numpy as np

from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX
from jaxgym.envs.memory_gym.fits import Fits, chosen, within
from jaxgym.envs.searing_spotlights import base

_SHIFTS_PX = (2, 3)
_ROUNDING = 1e-6
"""Share by which a sampled speed may exceed the largest one."""


def fits(_: Any, bank: Any, params: Any) -> Fits:
    """Return whether each level has spotlights and coins of the options; bool (n,) by field."""
    exits = base.PLACES_PX if params.use_exit else (0, SCREEN_PX)
    return {
        **_spotlights(bank, params),
        "num_coins": chosen(bank.num_coins, params.num_coins),
        "coins_px": _places(bank),
        "exit_px": within(bank.exit_px, *exits),
    }


def endless_fits(_: Any, bank: Any, params: Any) -> Fits:
    """Return whether each level has spotlights of the options, and a coin; bool (n,) by field."""
    return {
        **_spotlights(bank, params),
        "num_coins": within(bank.num_coins, 1, bank.coins_px.shape[1]),
        "coins_px": _places(bank),
    }


def _spotlights(bank: Any, params: Any) -> Fits:
    tracks, count = bank.tracks, bank.tracks.radius_px.shape[1]
    is_unused = np.arange(count) >= bank.num_tracks[:, None]
    radius, speed = tracks.radius_px, tracks.speed.high
    is_radius = (radius >= int(params.spot_min_radius)) & (radius <= int(params.spot_max_radius))
    is_speed = (speed >= params.spot_min_speed) & (speed <= params.spot_max_speed * (1 + _ROUNDING))
    center = SCREEN_PX // 2
    starts = (_SHIFTS_PX[0], SCREEN_PX - 1 + _SHIFTS_PX[1]) if params.sample_agent_position else (center, center)
    return {
        "heading": within(bank.heading, 0, NUM_HEADINGS - 1),
        "start_px": within(bank.start_px, *starts),
        "num_tracks": within(bank.num_tracks, int(params.initial_spawns), count),
        "tracks.radius_px": (is_radius | is_unused).all(axis=1),
        "tracks.speed.high": (is_speed | is_unused).all(axis=1),
    }


def _places(bank: Any) -> np.ndarray:
    low, high = base.PLACES_PX
    is_place = ((bank.coins_px >= low) & (bank.coins_px <= high)).all(axis=2)
    return (is_place | (np.arange(bank.coins_px.shape[1]) >= bank.num_coins[:, None])).all(axis=1)
