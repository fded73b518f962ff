"""Which levels of a bank the options of a game can make, as `Spec.fits` asks: on the host, field by field.

It tells a bank of other options, or of a game with levels of the same form, by values that these options never give. A
bank may still differ in what no value shows, such as how often each occurs.
"""

from typing import Any

import numpy as np

from jaxgym.envs.memory import mortar_mayhem, spotlight_game
from jaxgym.envs.memory import mortar_mayhem_scene as seen
from jaxgym.envs.memory.arena import NUM_HEADINGS, SCREEN_PX
from jaxgym.envs.memory.commands import COMMAND_MOVES
from jaxgym.envs.memory.endless_mystery_path_segments import NUM_ROWS
from jaxgym.envs.memory.path_search import SIZE
from jaxgym.options import Choices

Fits = dict[str, np.ndarray]

_DURATIONS = ("command_show_duration", "command_show_delay", "explosion_duration", "explosion_delay")
_OFFSETS_PX = (-2, 1)
_SHIFTS_PX = (2, 3)
_ROUNDING = 1e-6
"""The share by which a sampled speed may be above the largest."""


def mortar_mayhem_fits(env: mortar_mayhem.MortarMayhem, bank: Any, params: Any) -> Fits:
    """Whether each level keeps to the arena, the commands allowed and the choices; bool (n,) by field."""
    size, allowed = int(params.arena_size), int(params.allowed_commands)
    is_used = np.arange(env.max_commands) < bank.command_count[:, None]
    is_command = (bank.commands >= 0) & (bank.commands < allowed)
    moves = np.where(is_used[..., None], COMMAND_MOVES[np.where(is_command, bank.commands, 0)], 0)
    tiles = bank.start_tile[:, None] + np.cumsum(moves, axis=1)
    offsets = _OFFSETS_PX if env.act_only and not env.grid else (0, 0)
    return {
        "start_tile": _within(bank.start_tile, 0, size - 1),
        "start_offset_px": _within(bank.start_offset_px, *offsets),
        "command_count": _chosen(bank.command_count, params.command_count),
        "commands": np.where(is_used, is_command, bank.commands == -1).all(axis=1) & _within(tiles, 0, size - 1),
        **_durations(bank, params),
    }


def endless_mortar_mayhem_fits(_: Any, bank: Any, params: Any) -> Fits:
    """Whether each level keeps to the tiles, the commands allowed and the choices; bool (n,) by field."""
    return {
        "start_tile": _within(bank.start_tile, 0, seen.LARGEST_ARENA - 1),
        "start_offset_px": _within(bank.start_offset_px, *_OFFSETS_PX),
        "command_count": np.equal(bank.command_count, params.initial_command_count),
        "commands": _within(bank.commands, -1, int(params.allowed_commands) - 1),
        **_durations(bank, params),
    }


def _durations(bank: Any, params: Any) -> Fits:
    return {name: _chosen(getattr(bank, name), getattr(params, name)) for name in _DURATIONS}


def mystery_path_fits(_: Any, bank: Any, params: Any) -> Fits:
    """Whether each level leads from an allowed side to the opposite one; bool (n,) by field."""
    last = SIZE - 1
    is_near, is_far = bank.start_tile == 0, bank.start_tile == last
    is_near, is_far = is_near & (bank.goal_tile == last), is_far & (bank.goal_tile == 0)
    sides = np.stack([is_near[:, 0], is_far[:, 0], is_near[:, 1], is_far[:, 1]], axis=1)
    chosen = sides[:, np.unique(params.cardinal_origin_choice.values)].any(axis=1)
    return {"start_tile": chosen & _within(bank.start_tile, 0, last), "goal_tile": _within(bank.goal_tile, 0, last)}


def endless_mystery_path_fits(_env: Any, bank: Any, _params: Any) -> Fits:
    """Whether each level starts in a row; no option decides more. bool (n,) by field."""
    return {"start_row": _within(bank.start_row, 0, NUM_ROWS - 1)}


def searing_spotlights_fits(_: Any, bank: Any, params: Any) -> Fits:
    """Whether each level has the spotlights and coins of the options; bool (n,) by field."""
    exits = spotlight_game.PLACES_PX if params.use_exit else (0, SCREEN_PX)
    return {
        **_spotlights(bank, params),
        "num_coins": _chosen(bank.num_coins, params.num_coins),
        "coins_px": _places(bank),
        "exit_px": _within(bank.exit_px, *exits),
    }


def endless_searing_spotlights_fits(_: Any, bank: Any, params: Any) -> Fits:
    """Whether each level has the spotlights of the options, and a coin; bool (n,) by field."""
    return {
        **_spotlights(bank, params),
        "num_coins": _within(bank.num_coins, 1, bank.coins_px.shape[1]),
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
        "heading": _within(bank.heading, 0, NUM_HEADINGS - 1),
        "start_px": _within(bank.start_px, *starts),
        "num_tracks": _within(bank.num_tracks, int(params.initial_spawns), count),
        "tracks.radius_px": (is_radius | is_unused).all(axis=1),
        "tracks.speed.high": (is_speed | is_unused).all(axis=1),
    }


def _places(bank: Any) -> np.ndarray:
    low, high = spotlight_game.PLACES_PX
    is_place = ((bank.coins_px >= low) & (bank.coins_px <= high)).all(axis=2)
    return (is_place | (np.arange(bank.coins_px.shape[1]) >= bank.num_coins[:, None])).all(axis=1)


def _within(values: Any, low: int, high: int) -> np.ndarray:
    """Whether all numbers of each level are in a closed range; from (n, …) to bool (n,)."""
    return ((values >= low) & (values <= high)).reshape(len(values), -1).all(axis=1)


def _chosen(values: Any, choices: Choices) -> np.ndarray:
    return np.isin(values, choices.values)
