"""Random draws of the original Mortar Mayhem and Endless Mortar Mayhem.

During an episode, the endless game draws only the next commands, so a level can list them in advance.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from jaxgym.envs.common.draws import Draws, by_seed, whole
from jaxgym.envs.common.episode_sequence import EpisodeSequence
from jaxgym.envs.mortar_mayhem import endless as endless_mortar_mayhem
from jaxgym.envs.mortar_mayhem import game as mortar_mayhem
from jaxgym.envs.mortar_mayhem import scene as seen
from jaxgym.envs.mortar_mayhem.commands import COMMAND_MOVES
from jaxgym.spec import Original

LISTED_COMMANDS = 64
"""Number of commands of an endless level. To show and execute all of them takes about 50 000 steps."""


def levels(env: mortar_mayhem.MortarMayhem, options: Mapping[str, Any], draws: Draws) -> mortar_mayhem.Level:
    """Draw a level of Mortar Mayhem for each stream."""
    size = int(options["arena_size"])
    start_tile = _tiles(draws.integers(0, size * size), size)
    has_offset = env.act_only and not env.grid
    offset = _offsets(draws) if has_offset else np.zeros_like(start_tile)
    count = draws.choice(options["command_count"])
    commands = _commands(draws, start_tile, count, env.max_commands, options)
    return mortar_mayhem.Level(
        start_tile=whole(start_tile),
        start_offset_px=whole(offset),
        command_count=whole(count),
        commands=whole(commands),
        **_durations(draws, options),
    )


def _commands(
    draws: Draws, tile: np.ndarray, count: np.ndarray, capacity: int, options: Mapping[str, Any]
) -> np.ndarray:
    """Draw commands that stay inside the arena, (n, capacity); -1 from `count` on."""
    commands = np.full((len(draws), capacity), -1)
    moves = COMMAND_MOVES[: options["allowed_commands"]]
    for index in range(count.max()):
        after = tile[:, None] + moves
        is_possible = ((after >= 0) & (after < options["arena_size"])).all(axis=-1)
        is_drawn = index < count
        rank = draws.integers(0, is_possible.sum(axis=-1), is_drawn)
        command = np.argmax(is_possible.cumsum(axis=-1) > rank[:, None], axis=-1)
        commands[:, index] = np.where(is_drawn, command, -1)
        tile = tile + moves[command]
    return commands


def endless_sizes(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the capacity of an endless level: `LISTED_COMMANDS`, or more for a longer first sequence."""
    return {"max_given_commands": max(LISTED_COMMANDS, options["initial_command_count"])}


def endless_sizes_of(buffer: Any) -> dict[str, int]:
    """Return the size with which `make` accepts a level buffer."""
    return (
        {"max_given_commands": buffer.commands.shape[-1]}
        if isinstance(buffer, endless_mortar_mayhem.EndlessMortarMayhemLevel)
        else {}
    )


def endless_levels(
    env: endless_mortar_mayhem.EndlessMortarMayhem, options: Mapping[str, Any], draws: Draws
) -> endless_mortar_mayhem.EndlessMortarMayhemLevel:
    """Draw a level of Endless Mortar Mayhem for each stream; its commands do not depend on the actions.

    From command number `max_given_commands` on, commands are drawn from the level's `seed`, unlike the original's.
    """
    start_tile = _tiles(draws.integers(0, seen.LARGEST_ARENA**2), seen.LARGEST_ARENA)
    offset = _offsets(draws)
    initial = options["initial_command_count"]
    first = [_endless_command(draws, options) for _ in range(initial)]
    durations = _durations(draws, options)
    draws.start_of_play = draws.places
    later = [_endless_command(draws, options) for _ in range(initial, env.max_given_commands)]
    return endless_mortar_mayhem.EndlessMortarMayhemLevel(
        start_tile=whole(start_tile),
        start_offset_px=whole(offset),
        command_count=whole(np.full(len(draws), initial)),
        commands=whole(np.stack([*first, *later], axis=1))[:, : env.max_given_commands],
        seed=whole(draws.seeds, np.uint32),
        **durations,
    )


def _endless_command(draws: Draws, options: Mapping[str, Any]) -> np.ndarray:
    return draws.integers(0, options["allowed_commands"])


def _num_later_commands(state: endless_mortar_mayhem.EndlessMortarMayhemState, options: Mapping[str, Any]) -> int:
    del options
    return int(state.sequence_length) - int(state.level.command_count)


def _tiles(number: np.ndarray, size: int) -> np.ndarray:
    return np.stack(np.divmod(number, size), axis=-1)


def _offsets(draws: Draws) -> np.ndarray:
    return np.stack(
        [draws.integers(mortar_mayhem.OFFSETS_PX[0], mortar_mayhem.OFFSETS_PX[1] + 1) for _ in range(2)], axis=-1
    )


def _durations(draws: Draws, options: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the durations of the game; those that it lacks are 0."""
    return {name: whole(draws.choice(options.get(name, [0]))) for name in mortar_mayhem.DURATIONS}


ORIGINAL = Original(by_seed(levels, num_words=16), partial(EpisodeSequence, levels=levels))
ENDLESS_ORIGINAL = Original(
    by_seed(endless_levels, num_words=48),
    partial(EpisodeSequence, levels=endless_levels, later=_endless_command, num_later=_num_later_commands),
    endless_sizes,
)
