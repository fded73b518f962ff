"""Text interfaces of Mortar Mayhem and Endless Mortar Mayhem."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgym.envs.memory_gym.agent import first_headings
from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.memory_gym.text import (
    FrameTextInterface,
    action_set_of,
    actions_option,
    free_speed,
    heading_names,
    number,
    one_of,
    tile_name,
)
from jaxgym.envs.mortar_mayhem.commands import COMMANDS, NO_COMMAND
from jaxgym.envs.mortar_mayhem.scene import LARGEST_ARENA, TILE_PX, Scene, arena_corner_px
from jaxgym.envs.mortar_mayhem.visible import Visible
from jaxgym.spec import TextSpec

_STRAIGHT_COMMANDS = 5
_DIAGONALS = "; a diagonal one, such as right-down, to the tile that touches the corner"


def build(env: Any, values: Mapping[str, Any]) -> "MortarMayhemTextInterface":
    """Make the text interface of one of the four games, or of the endless one."""
    return MortarMayhemTextInterface(env.env_id, env, action_set_of(env, values))


@dataclasses.dataclass(frozen=True)
class MortarMayhemTextInterface(FrameTextInterface[Scene]):
    """Text interface of Mortar Mayhem, with clue phase, act-only or endless."""

    @property
    def _is_endless(self) -> bool:
        return not hasattr(self.env, "act_only")

    @property
    def _is_grid(self) -> bool:
        return not self._is_endless and self.env.grid

    def rules(self, params: Any) -> str:
        """Return the rules and the legend."""
        return "\n".join([*self._commands_rules(params), *self._steps_rules(params), *self._legend(params)])

    def _commands_rules(self, params: Any) -> list[str]:
        size = LARGEST_ARENA if self._is_endless else int(params.arena_size)
        first = f"You are in an arena of {size} x {size} tiles and have to carry out commands in their order."
        if self._is_endless:
            torus = "The arena has no rim: beyond one side it goes on at the opposite one, for you and for commands."
            grows = (
                f"At first the sequence shown has length {int(params.initial_command_count)}. Whenever it is carried "
                "out, one more command is shown, and the whole sequence starts again, from the tile where you are "
                "then. Remember it: each command is shown once."
            )
            return [f"{first} {torus}", grows, self._showing(params)]
        count = one_of(params.command_count)
        if self.env.act_only:
            return [f"{first} Their number is {count}, and they are always listed."]
        return [
            f"{first} First they are shown, one at a time, once; remember them. Their number is {count}.",
            self._showing(params),
        ]

    def _showing(self, params: Any) -> str:
        shown, blank = one_of(params.command_show_duration), one_of(params.command_show_delay)
        return (
            f"Each command is shown for {shown} step(s), then none for {blank}. Meanwhile your actions do nothing; "
            "wait until the last one was shown."
        )

    def _steps_rules(self, params: Any) -> list[str]:
        allowed = int(params.allowed_commands)
        diagonals = _DIAGONALS if allowed > _STRAIGHT_COMMANDS else ""
        lines = [
            "A command leads one tile to the right, down, left or up (from above, whatever way you face); stay leads "
            f"to the same tile{diagonals}. It counts from the tile of the command before, the first from your start.",
            f"For each command you have {one_of(params.explosion_delay)} steps. When they are over you must be on its "
            f"tile: all others become deadly for {one_of(params.explosion_duration)} steps, in which you must not "
            f"leave it. Then the time for the next command starts.",
            f"Each tile reached in time gives a reward of {number(params.reward_command_success)}.",
        ]
        ends = "A command that fails, or leaving the tile while others are deadly, ends the episode"
        lines.append(f"{ends}." if self._is_endless else f"{ends}; so does the last command.")
        return lines

    def _legend(self, params: Any) -> list[str]:
        if self._is_grid:
            lines = ["Rows count from 1 at the top, columns from 1 at the left. Forward moves you one tile ahead."]
        else:
            size = LARGEST_ARENA if self._is_endless else int(params.arena_size)
            corner = int(arena_corner_px(size))
            lines = [
                f"Positions are px of a screen of {SCREEN_PX} x {SCREEN_PX}, x to the right and y down. A tile has "
                f"{TILE_PX} px a side; the arena begins at x {corner}, y {corner}. Rows count from 1 at the top, "
                "columns from 1 at the left.",
                free_speed(params),
            ]
        if bool(params.visual_feedback):
            lines.append("Deadly tiles are red.")
        return lines

    def describe_visible(self, seen: Visible) -> list[str]:
        """Return the texts of the command, the agent's position and heading, and the tiles."""
        places = zip(seen.agent_px.tolist(), seen.agent_tile.tolist(), seen.agent_heading.tolist(), strict=True)
        if self._is_grid:
            who = [f"{tile_name(row, column)}{self._facing[heading]}" for _, (column, row), heading in places]
        else:
            who = [
                f"x {x}, y {y} ({tile_name(row, column)}){self._facing[heading]}"
                for (x, y), (column, row), heading in places
            ]
        arenas = zip(seen.arena_size.tolist(), seen.is_red.tolist(), *seen.safe_tile.T.tolist(), strict=True)
        commands = map(_command, seen.command.tolist()) if seen.commands is None else _lists(seen.commands)
        return [
            f"{command}\nYou: {you}\n{_tiles(*arena)}"
            for command, you, arena in zip(commands, who, arenas, strict=True)
        ]

    @functools.cached_property
    def _facing(self) -> list[str]:
        return heading_names(first_headings(self.env.agent_scale))


def _command(command: int) -> str:
    return f"Command shown: {'none' if command == NO_COMMAND else COMMANDS[command]}"


@functools.cache
def _tiles(side: int, is_red: bool, column: int, row: int) -> str:
    if not is_red:
        return f"Tiles ({side} x {side}): none is red"
    safe = f"all but {tile_name(row, column)}" if row >= 0 else "all that can be seen"
    return f"Tiles ({side} x {side}): {safe} are red"


def _lists(commands: np.ndarray) -> list[str]:
    """Return the listed commands of B frames, int32 (B, N), as text."""
    names = (", ".join(COMMANDS[command] for command in row if command >= 0) for row in commands.tolist())
    return [f"Commands: {listed}" for listed in names]


FREE_TEXT, GRID_TEXT = TextSpec(build, actions_option(8)), TextSpec(build, actions_option(1))
