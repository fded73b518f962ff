"""Text interface of Color-Cubes: the place of the agent, and a map of the cubes when they are shown."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.color_cubes.game import CubeMove
from jaxgym.envs.color_cubes.scene import COLORS, Scene
from jaxgym.envs.common.text import FrameTextInterface, number
from jaxgym.text.actions import ActionSet

_NAMES = tuple(COLORS)
_LETTERS = (".", *(name[0].upper() for name in _NAMES), "?")


@functools.cache
def _actions(most: int) -> ActionSet:
    return ActionSet({move.name.lower(): int(move) for move in CubeMove}, {}, most, "right")


@dataclasses.dataclass(frozen=True)
class ColorCubesTextInterface(FrameTextInterface[Scene]):
    """Text interface of Color-Cubes."""

    text_version: ClassVar[int] = 1

    def rules(self, params: Any) -> str:
        """Return the phases, the teleports and the rewards."""
        size, cubes, phases = self.env.size, self.env.num_cubes, self.env.num_phases
        probability, teleports = number(params.teleport_probability), ""
        if cubes > 1 and float(params.teleport_probability) > 0:
            colors = ", but not their colors" if bool(params.hide_colors) else ""
            teleports = (
                f"\nIn each step, with probability {probability}, one of the other cubes teleports to a random free "
                f"cell. Then the places of all cubes are shown once{colors}."
            )
        return (
            f"You are on a grid of {size} x {size} cells with {cubes} cube{'s' * (cubes > 1)} of different colors. The "
            f"episode has {phases} phase{'s' * (phases > 1)}. At the start of each phase, the color of the target and "
            "the places and colors of all cubes are shown once. Remember them, and go to the target. When you reach "
            "it, the cube teleports to a random free cell, and the next phase begins. You can pass over other cubes."
            f"{teleports}\n\n"
            "Reward: 1 for reaching the target. The episode ends when you reach the target of the last phase."
        )

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation texts."""
        names = ", ".join(f"{name[0].upper()} {name}" for name in _NAMES[: self.env.num_cubes])
        unknown = ", ? a cube of unknown color" if bool(params.hide_colors) else ""
        return (
            "Observation: your row and column, from 0 at the top left. If they are shown, the target and a map of the "
            f"cubes: . no cube, {names}{unknown}."
        )

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        unknown = " Gray squares are cubes of unknown color." if bool(params.hide_colors) else ""
        return (
            "Each observation has an image of the grid. You are a black disc with a white ring. Colored squares are "
            f"the cubes, when they are shown.{unknown} The square above the grid, at the top left, is the color of the "
            "target, when it is shown."
        )

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return "Each action moves you by one cell. At the edge of the grid, a move out of it has no effect."

    def describe_visible(self, seen: Any) -> list[str]:
        """Return the texts of B frames."""
        parts = (np.asarray(part).tolist() for part in (seen.position, seen.target, seen.cubes))
        return [_described(*each) for each in zip(*parts, strict=True)]


def _described(position: list[int], target: int, cubes: list[list[int]]) -> str:
    lines = [f"You are at row {position[0]}, column {position[1]}."]
    if target:
        lines.append(f"Target: {_NAMES[target - 1]}")
    if any(any(row) for row in cubes):
        lines += ["".join(_LETTERS[cube] for cube in row) for row in cubes]
    else:
        lines.append("The cubes are not shown.")
    return "\n".join(lines)


TEXT = ColorCubesTextInterface.spec(1, lambda _, most: _actions(most))
