"""Text interfaces of Mortar Mayhem and Endless Mortar Mayhem."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.common.text import FrameTextInterface, actions_option, counted, rewards
from jaxgym.envs.memory_gym.agent import first_headings
from jaxgym.envs.memory_gym.text import (
    GRID_STEPS,
    NUMBERING,
    action_set_of,
    free_speed,
    heading_names,
    screen,
    tile_name,
)
from jaxgym.envs.mortar_mayhem.commands import COMMANDS, NO_COMMAND
from jaxgym.envs.mortar_mayhem.scene import LARGEST_ARENA, TILE_PX, Scene, arena_corner_px
from jaxgym.envs.mortar_mayhem.visible import Visible
from jaxgym.spec import TextSpec

_STRAIGHT_COMMANDS = 5
_STAY = ' "stay" does not move it.'


def build(env: Any, values: Mapping[str, Any]) -> "MortarMayhemTextInterface":
    """Make the text interface of one of the four games, or of the endless one."""
    return MortarMayhemTextInterface(env.env_id, env, action_set_of(env, values))


@dataclasses.dataclass(frozen=True)
class MortarMayhemTextInterface(FrameTextInterface[Scene]):
    """Text interface of Mortar Mayhem, with clue phase, act-only or endless."""

    text_version: ClassVar[int] = 2

    @property
    def _is_endless(self) -> bool:
        return not hasattr(self.env, "act_only")

    @property
    def _is_grid(self) -> bool:
        return not self._is_endless and self.env.grid

    def rules(self, params: Any) -> str:
        """Return the goal, the phases, the rewards and the end of the episode."""
        execution = self._execution(params)
        if self._is_endless or not self.env.act_only:
            execution = f"\n{self._memorizing(params)}\n\nPhase 2, execute: {execution}"
        return "\n".join([*self._goal(params), f"{execution}\n", *self._ends(params)])

    def _goal(self, params: Any) -> list[str]:
        if self._is_endless:
            return [
                f"You control an agent in an arena of {LARGEST_ARENA} x {LARGEST_ARENA} tiles. Your task is to "
                "memorize a sequence of commands and to execute it in order. Then one command is added, and you "
                "execute the whole sequence again, and so on.",
                "Opposite sides of the arena are connected: if you leave it on one side, you enter it on the opposite "
                "side. The target moves across the sides in the same way.",
            ]
        size, commands = int(params.arena_size), counted(params.command_count, "command")
        arena = f"You control an agent in an arena of {size} x {size} tiles. Your task is to"
        if self.env.act_only:
            return [f"{arena} execute a sequence of {commands} in order. Every observation lists all commands."]
        return [f"{arena} memorize a sequence of {commands} and then execute it in order."]

    def _memorizing(self, params: Any) -> str:
        which = "The commands are shown one at a time, each only once."
        if self._is_endless:
            which = (
                f"The first sequence has length {int(params.initial_command_count)}. Its commands are shown one at a "
                "time. Later, only the added command is shown. Each command is shown only once."
            )
        shown = counted(params.command_show_duration, "step")
        blank = counted(params.command_show_delay, "step")
        return (
            f"Phase 1, memorize: {which} A command is visible for {shown}, followed by {blank} without a command. You "
            'cannot move in this phase. Choose "wait". Phase 2 begins after the steps of the last command.'
        )

    def _execution(self, params: Any) -> str:
        allowed = int(params.allowed_commands)
        delay, duration = counted(params.explosion_delay, "step"), counted(params.explosion_duration, "step")
        diagonals = ""
        if allowed > _STRAIGHT_COMMANDS:
            diagonals = ' A diagonal command such as "right-down" moves it one tile right and one tile down.'
        start = "At the beginning of each sequence" if self._is_endless else "At the beginning"
        return (
            f"{start}, the target is your current tile. Each command ({', '.join(COMMANDS[:allowed])}) moves the "
            f"target by one tile in that direction, as seen from above.{diagonals}"
            f"{_STAY if allowed >= _STRAIGHT_COMMANDS else ''} The direction that you are facing does not matter.\n"
            f"You have {delay} to reach each target. After that, all other tiles become deadly for {duration}. Stay on "
            "the target tile until they are safe again. Then the time for the next command begins."
        )

    def _ends(self, params: Any) -> list[str]:
        values = {
            "for each target tile reached in time": params.reward_command_success,
            "for a failed command": params.reward_command_failure,
        }
        if not self._is_endless:
            values["more for the last command"] = params.reward_episode_success
        last = "" if self._is_endless else " It also ends after the last command."
        return [
            rewards(values),
            "The episode ends when you are not on the target tile in time, or when you leave it while the other tiles "
            f"are deadly.{last}",
        ]

    def legend(self, params: Any) -> str:
        """Return the explanation of positions and colors."""
        lines = [f"Observation: {NUMBERING}"]
        if bool(params.visual_feedback):
            lines[0] += " Deadly tiles are red."
        if self._is_grid:
            return "\n".join([*lines, GRID_STEPS])
        size = LARGEST_ARENA if self._is_endless else int(params.arena_size)
        corner = int(arena_corner_px(size))
        return "\n".join([*lines, f"{screen(TILE_PX)} The arena begins at x {corner}, y {corner}.", free_speed(params)])

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
        return f"Red tiles ({side} x {side}): none"
    safe = f"all except {tile_name(row, column)}" if row >= 0 else "all visible tiles"
    return f"Red tiles ({side} x {side}): {safe}"


def _lists(commands: np.ndarray) -> list[str]:
    """Return the listed commands of B frames, int32 (B, N), as text."""
    names = (", ".join(COMMANDS[command] for command in row if command >= 0) for row in commands.tolist())
    return [f"Commands: {listed}" for listed in names]


FREE_TEXT, GRID_TEXT = TextSpec(build, actions_option(8)), TextSpec(build, actions_option(1))
