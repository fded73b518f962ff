"""Checks of level buffers of both Mortar Mayhem games; see `jaxgym.envs.memory_gym.fits`."""

from typing import Any

import numpy as np

from jaxgym.envs.memory_gym.fits import Fits, chosen, within
from jaxgym.envs.mortar_mayhem import game
from jaxgym.envs.mortar_mayhem import scene as seen
from jaxgym.envs.mortar_mayhem.commands import COMMAND_MOVES

_DURATIONS = ("command_show_duration", "command_show_delay", "explosion_duration", "explosion_delay")
_OFFSETS_PX = (-2, 1)


def fits(env: game.MortarMayhem, bank: Any, params: Any) -> Fits:
    """Return whether each level has valid positions in the arena, commands and choices; bool (n,) by field."""
    size, allowed = int(params.arena_size), int(params.allowed_commands)
    is_used = np.arange(env.max_commands) < bank.command_count[:, None]
    is_command = (bank.commands >= 0) & (bank.commands < allowed)
    moves = np.where(is_used[..., None], COMMAND_MOVES[np.where(is_command, bank.commands, 0)], 0)
    tiles = bank.start_tile[:, None] + np.cumsum(moves, axis=1)
    offsets = _OFFSETS_PX if env.act_only and not env.grid else (0, 0)
    return {
        "start_tile": within(bank.start_tile, 0, size - 1),
        "start_offset_px": within(bank.start_offset_px, *offsets),
        "command_count": chosen(bank.command_count, params.command_count),
        "commands": np.where(is_used, is_command, bank.commands == -1).all(axis=1) & within(tiles, 0, size - 1),
        **_durations(bank, params),
    }


def endless_fits(_: Any, bank: Any, params: Any) -> Fits:
    """Return whether each level has valid tiles, commands and choices; bool (n,) by field."""
    return {
        "start_tile": within(bank.start_tile, 0, seen.LARGEST_ARENA - 1),
        "start_offset_px": within(bank.start_offset_px, *_OFFSETS_PX),
        "command_count": np.equal(bank.command_count, params.initial_command_count),
        "commands": within(bank.commands, -1, int(params.allowed_commands) - 1),
        **_durations(bank, params),
    }


def _durations(bank: Any, params: Any) -> Fits:
    return {name: chosen(getattr(bank, name), getattr(params, name)) for name in _DURATIONS}
