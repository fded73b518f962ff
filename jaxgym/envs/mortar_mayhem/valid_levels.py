"""Checks of level buffers of both Mortar Mayhem games; see `jaxgym.envs.common.valid_levels`."""

from typing import Any

import numpy as np

from jaxgym.envs.common.valid_levels import Validity, chosen, within
from jaxgym.envs.mortar_mayhem import game
from jaxgym.envs.mortar_mayhem import scene as seen
from jaxgym.envs.mortar_mayhem.commands import COMMAND_MOVES


def valid_levels(env: game.MortarMayhem, buffer: Any, params: Any) -> Validity:
    """Return whether each level has valid positions in the arena, commands and choices; bool (n,) by field."""
    size, allowed = int(params.arena_size), int(params.allowed_commands)
    is_used = np.arange(env.max_commands) < buffer.command_count[:, None]
    is_command = (buffer.commands >= 0) & (buffer.commands < allowed)
    moves = np.where(is_used[..., None], COMMAND_MOVES[np.where(is_command, buffer.commands, 0)], 0)
    tiles = buffer.start_tile[:, None] + np.cumsum(moves, axis=1)
    offsets = game.OFFSETS_PX if env.act_only and not env.grid else (0, 0)
    return {
        "start_tile": within(buffer.start_tile, 0, size - 1),
        "start_offset_px": within(buffer.start_offset_px, *offsets),
        "command_count": chosen(buffer.command_count, params.command_count),
        "commands": np.where(is_used, is_command, buffer.commands == -1).all(axis=1) & within(tiles, 0, size - 1),
        **_durations(buffer, params),
    }


def endless_valid_levels(_: Any, buffer: Any, params: Any) -> Validity:
    """Return whether each level has valid tiles, commands and choices; bool (n,) by field."""
    return {
        "start_tile": within(buffer.start_tile, 0, seen.LARGEST_ARENA - 1),
        "start_offset_px": within(buffer.start_offset_px, *game.OFFSETS_PX),
        "command_count": np.equal(buffer.command_count, params.initial_command_count),
        "commands": within(buffer.commands, -1, int(params.allowed_commands) - 1),
        **_durations(buffer, params),
    }


def _durations(buffer: Any, params: Any) -> Validity:
    return {name: chosen(getattr(buffer, name), getattr(params, name)) for name in game.DURATIONS}
