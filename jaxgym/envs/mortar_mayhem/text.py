"""Text interfaces of Mortar Mayhem and Endless Mortar Mayhem."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.common.text import counted, rewards, values_of
from jaxgym.envs.memory_gym.text import (
    FIGURE,
    GRID_STEPS,
    IMAGE,
    NUMBERING,
    MemoryGymTextInterface,
    free_speed,
    image_px,
    screen,
    tile_name,
)
from jaxgym.envs.mortar_mayhem.commands import COMMANDS, NO_COMMAND
from jaxgym.envs.mortar_mayhem.scene import LARGEST_ARENA, TILE_PX, Scene, arena_corner_px
from jaxgym.envs.mortar_mayhem.visible import Visible

_STRAIGHT_COMMANDS = 5
_FIRST_WITH_ONE_ACTION = 2
_STAY = ' "stay" does not move it.'


@dataclasses.dataclass(frozen=True)
class MortarMayhemTextInterface(MemoryGymTextInterface[Scene]):
    """Text interface of Mortar Mayhem, with clue phase, act-only or endless."""

    text_version: ClassVar[int] = 3

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
        which, belongs = "The commands are shown one at a time, each only once.", "is the first action of phase 2"
        if self._is_endless:
            which = (
                f"The first sequence has length {int(params.initial_command_count)}. Its commands are shown one at a "
                "time. Later, only the added command is shown, after the last target of the sequence and while the "
                "other tiles are deadly. Each command is shown only once."
            )
            belongs = "belongs to phase 2"
        shown = counted(params.command_show_duration, "observation")
        blank = counted(params.command_show_delay, "observation")
        return (
            f"Phase 1, memorize: {which} A command is visible in {shown}, followed by {blank} without a command. The "
            "first observation of the episode is the first one of phase 1. Your actions have no effect until you have "
            f'received the last observation of phase 1. Choose "wait". The next action {belongs}.'
            f"{self._idle_actions(params)}{self._pace(params)}"
        )

    def _idle_actions(self, params: Any) -> str:
        """Return the number of actions in phase 1, unless it depends on the level."""
        durations = values_of(params.command_show_duration), values_of(params.command_show_delay)
        counts = [int(params.initial_command_count)] if self._is_endless else values_of(params.command_count)
        first = counts[0] * sum(choices[0] for choices in durations)
        if len(counts) > 1 or any(len(choices) > 1 for choices in durations) or first <= 1:
            return ""
        actions = "action has" if first == _FIRST_WITH_ONE_ACTION else f"{first - 1} actions have"
        return f" So the first {actions} no effect, and action {first} belongs to phase 2."

    def _pace(self, params: Any) -> str:
        """Return the largest number of actions per reply that shows every command; empty if all replies do."""
        fewest = min(values_of(params.command_show_duration))
        if not 0 < fewest < self.action_set.most:
            return ""
        actions = "one action" if fewest == 1 else f"{fewest} actions"
        return f" In phase 1, give at most {actions} in a reply. With more actions, you can miss a command."

    def _execution(self, params: Any) -> str:
        allowed = int(params.allowed_commands)
        moves = counted(params.explosion_delay, "action", 1)
        stay = f" Stay on the target tile for {counted(params.explosion_duration, 'more action', -1)}."
        if self._is_endless:
            stay += " Actions in phase 1 do not count."
        next_first = f"{stay} The action after that"
        if max(values_of(params.explosion_duration)) == 1:
            next_first = " The next action" + (" outside of phase 1" if self._is_endless else "")
        diagonals = ""
        if allowed > _STRAIGHT_COMMANDS:
            diagonals = ' A diagonal command such as "right-down" moves it one tile right and one tile down.'
        start = "At the beginning of each sequence" if self._is_endless else "At the beginning"
        return (
            f"{start}, the target is your current tile. Each command ({', '.join(COMMANDS[:allowed])}) moves the "
            f"target by one tile in that direction, as seen from above.{diagonals}"
            f"{_STAY if allowed >= _STRAIGHT_COMMANDS else ''} The direction that you are facing does not matter.\n"
            f"You have {moves} to reach each target. After the last of them, you must be on the target tile. Then all "
            f"other tiles become deadly.{next_first} is the first action for the next command. It may leave the tile, "
            "even if the last observation shows deadly tiles."
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
        if not self._is_grid:
            corner = int(arena_corner_px(LARGEST_ARENA if self._is_endless else int(params.arena_size)))
            lines.append(f"{screen(TILE_PX)} The arena begins at x {corner}, y {corner}.")
        return "\n".join(lines)

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        edge = "" if self._is_endless else " The edge of the arena stops you."
        return GRID_STEPS if self._is_grid else f"{free_speed(params)}{edge}"

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the tiles, the agent and the symbols of commands."""
        parts = [f"{IMAGE} It shows the arena from above. The tiles are blue squares with lighter edges."]
        if bool(params.visual_feedback):
            parts.append("Deadly tiles are red.")
        parts.append(FIGURE)
        if self._is_endless or not self.env.act_only:
            stay = ""
            if int(params.allowed_commands) >= _STRAIGHT_COMMANDS:
                stay = ', or a circle with a bar across it for "stay"'
            parts.append(
                "A command is shown as a white symbol in the center of the image: an arrow in the direction of the "
                f"command{stay}."
            )
        if not self._is_grid:
            parts.append(f"{image_px()} Each tile is {TILE_PX} px wide and {TILE_PX} px high.")
        return " ".join(parts)

    def beside(self, scenes: Scene, params: Any, *, is_first: bool) -> list[str]:
        """Return the lists of commands of the act-only games, which are not in the frame."""
        if scenes.commands is None:
            return super().beside(scenes, params, is_first=is_first)
        return _lists(np.asarray(scenes.commands))

    def describe_visible(self, seen: Visible) -> list[str]:
        """Return the texts of the command, the agent's position and heading, and the tiles."""
        places = zip(seen.agent_px.tolist(), seen.agent_tile.tolist(), seen.agent_heading.tolist(), strict=True)
        if self._is_grid:
            who = [f"{tile_name(row, column)}{self.facing[heading]}" for _, (column, row), heading in places]
        else:
            who = [
                f"x {x}, y {y} ({tile_name(row, column)}){self.facing[heading]}"
                for (x, y), (column, row), heading in places
            ]
        arenas = zip(seen.arena_size.tolist(), seen.is_red.tolist(), *seen.safe_tile.T.tolist(), strict=True)
        commands = map(_command, seen.command.tolist()) if seen.commands is None else _lists(seen.commands)
        return [
            f"{command}\nYou: {you}\n{_tiles(*arena)}"
            for command, you, arena in zip(commands, who, arenas, strict=True)
        ]


def _command(command: int) -> str:
    return f"Command shown: {'none' if command == NO_COMMAND else COMMANDS[command]}"


@functools.cache
def _tiles(side: int, is_red: bool, column: int, row: int) -> str:
    if not is_red:
        return f"Arena: {side} x {side} tiles. Red tiles: none"
    safe = f"all except {tile_name(row, column)}" if row >= 0 else "all visible tiles"
    return f"Arena: {side} x {side} tiles. Red tiles: {safe}"


def _lists(commands: np.ndarray) -> list[str]:
    """Return the listed commands of B frames, int32 (B, N), as text."""
    names = (", ".join(COMMANDS[command] for command in row if command >= 0) for row in commands.tolist())
    return [f"Commands: {listed}" for listed in names]


FREE_TEXT, GRID_TEXT = MortarMayhemTextInterface.spec(8), MortarMayhemTextInterface.spec(1)
