"""Recordings of Searing Spotlights: how they become levels, and which of their arrays our states have."""

import math
from typing import Any

import numpy as np

from jaxgym.envs.memory_gym import arena
from jaxgym.envs.searing_spotlights import endless as endless_searing_spotlights
from jaxgym.envs.searing_spotlights import game as searing_spotlights
from jaxgym.envs.searing_spotlights import spotlights
from jaxgym.envs.searing_spotlights.double_float import DoubleFloat
from tests.parity.recordings import Family, Recording


def lifetime_steps(speed: float) -> int:
    """Count the steps until the share of the track, added up in float64, reaches 1."""
    if speed < 1e-6:
        return 2**30
    share, steps = 0.0, 0
    while share < 1.0:
        share, steps = share + speed, steps + 1
    return steps


def tracks_of(recording: Recording, size: int) -> spotlights.Tracks:
    arrays = recording.arrays
    radius, angles = np.full(size, 7, np.int32), np.zeros((size, 3), np.int32)
    speed, lifetime = np.zeros(size, np.float64), np.ones(size, np.int32)
    count = len(arrays["spot_radius"])
    radius[:count], angles[:count], speed[:count] = arrays["spot_radius"], arrays["spot_angles"], arrays["spot_speed"]
    lifetime[:count] = [lifetime_steps(float(value)) for value in arrays["spot_speed"]]
    return spotlights.Tracks(radius_px=radius, angles_deg=angles, speed=DoubleFloat.of(speed), lifetime_steps=lifetime)


def common_fields(recording: Recording, env: Any) -> dict[str, Any]:
    return {
        "heading": np.int32(recording.meta["layout"]["start_rot"] // arena.HEADING_DEGREES),
        "start_px": recording.arrays["start_pos"].astype(np.int32),
        "tracks": tracks_of(recording, env.max_given_spotlights),
        "num_tracks": np.int32(len(recording.arrays["spot_radius"])),
        "seed": np.zeros(2, np.uint32),
    }


def level_of(recording: Recording, env: searing_spotlights.SearingSpotlights) -> searing_spotlights.Level:
    coins = np.zeros((env.max_coins, 2), np.int32)
    count = len(recording.arrays["coins"])
    coins[:count] = recording.arrays["coins"]
    return searing_spotlights.Level(
        **common_fields(recording, env),
        num_coins=np.int32(count),
        coins_px=coins,
        exit_px=recording.arrays["exit_pos"].astype(np.int32),
    )


def capacities_of(recording: Recording) -> dict[str, Any]:
    # Few sizes, so that recordings with the same options share a program.
    return {"max_given_spotlights": 40 * math.ceil(max(len(recording.arrays["spot_radius"]), 1) / 40)}


def leaks_of(recording: Recording) -> set[int]:
    """Return the first frame of a second episode without dimming, which shows the spotlights of the first."""
    return {0} if recording.meta["variant"] == "dim0_second_episode" else set()


def common_answers(state: Any) -> dict[str, Any]:
    return {
        "agent_pos": state.position_px,
        "agent_rot": state.heading * arena.HEADING_DEGREES,
        "light_alpha": state.alpha,
        "spawn_timer": state.spawn_timer,
        "hit": state.is_hit,
    }


def health_of(state: Any, params: Any) -> float:
    """Subtract the damage in float64, from the decimal number of the option."""
    health = float(params.agent_health)
    for _ in range(int(state.num_hits)):
        health -= round(float(params.spot_damage), 6)
    return health


def answers_of(_: Any, state: searing_spotlights.State, params: Any) -> dict[str, Any]:
    return {
        **common_answers(state),
        "health": health_of(state, params),
        "coins_collected": state.level.num_coins - np.sum(state.has_coin),
        "coin_present": state.has_coin[: int(state.level.num_coins)],
        "exit_open": state.exit_open,
        "spawns_left": params.initial_spawns + params.num_spawns - state.num_spawned,
    }


def endless_level_of(recording: Recording, env: Any) -> endless_searing_spotlights.EndlessSearingSpotlightsLevel:
    coins = np.zeros((env.max_given_coins, 2), np.int32)
    count = len(recording.arrays["coins"])
    coins[:count] = recording.arrays["coins"]
    return endless_searing_spotlights.EndlessSearingSpotlightsLevel(
        **common_fields(recording, env), coins_px=coins, num_coins=np.int32(count)
    )


def endless_capacities_of(recording: Recording) -> dict[str, Any]:
    return {**capacities_of(recording), "max_given_coins": 40 * math.ceil(len(recording.arrays["coins"]) / 40)}


def endless_answers_of(
    _: Any, state: endless_searing_spotlights.EndlessSearingSpotlightsState, params: Any
) -> dict[str, Any]:
    return {
        **common_answers(state),
        "health": health_of(state, params),
        "coins_collected": state.num_collected,
        "coin_pos": state.coin_px,
        "coin_t": state.coin_time,
    }


FAMILIES = {
    "ss": Family(level_of, answers_of, capacities_of, leaks_of),
    "ess": Family(endless_level_of, endless_answers_of, endless_capacities_of, leaks_of),
}
