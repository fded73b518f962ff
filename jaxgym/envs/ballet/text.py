"""Text interface of Ballet: the view as a map of characters, and the dancers in view."""

import dataclasses
import functools
import string
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.ballet.dances import INSTRUCTIONS, MOVES, NUM_MOVES, WATCH
from jaxgym.envs.ballet.scene import COLORS, VIEW, Scene, SquareKind, shapes
from jaxgym.envs.common.text import FrameTextInterface
from jaxgym.text.actions import ActionSet

_NAMES = ("up", "up-right", "right", "down-right", "down", "down-left", "left", "up-left")
_LETTERS = ".#@"
_SHAPES = tuple(shapes())
_COLORS = tuple(COLORS)


@functools.cache
def _actions(most: int) -> ActionSet:
    winds = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
    synonyms: dict[str, str] = dict(zip(winds, _NAMES, strict=True))
    return ActionSet({name: action for action, name in enumerate(_NAMES)}, synonyms, most, "up-left")


def _look_of(tile: int) -> tuple[str, str]:
    """Return the letter and the description of a dancer."""
    shape, color = divmod(tile - int(SquareKind.DANCER), len(COLORS))
    description = f"{_COLORS[color]} {_SHAPES[shape]}".replace("_", " ")
    return string.ascii_uppercase[shape], description


@dataclasses.dataclass(frozen=True)
class BalletTextInterface(FrameTextInterface[Scene]):
    """Text interface of Ballet."""

    text_version: ClassVar[int] = 2

    def rules(self, params: Any) -> str:
        """Return the phases, the dances and the rewards."""
        count, delay = self.env.num_dancers, int(params.delay)
        dances = "\n".join(f"{name}: {moves}" for name, moves in MOVES.items())
        pause = f"{delay - 1} observation{'s' * (delay != 2)}"  # noqa: PLR2004 — one observation
        between = f"Between two dances, no dancer moves for {pause}. " if count > 1 and delay > 1 else ""
        return (
            f"You are in a room with {count} dancer{'s' * (count > 1)}. While the instruction is {WATCH!r}, the "
            "dancers dance one after another, and your actions have no effect. Each performs a different dance of "
            f"{NUM_MOVES} moves, and ends where it began. The first observation already shows the first dancer after "
            f"its first move. {between}After {count * (NUM_MOVES - 1 + delay)} steps, the instruction names a dance. "
            "From then on, you can move. Go to the dancer that performed this dance. You move over the floor in all "
            "eight directions, but not into the wall.\n"
            "The dances, with N for up, E for right, S for down and W for left:\n"
            f"{dances}\n\n"
            "Reward: 1 for reaching the right dancer, 0 for any other one. The episode ends when you reach a dancer."
        )

    def legend(self, params: Any) -> str:
        """Return the explanation of the map."""
        return (
            f"Observation: the instruction, then a map of {VIEW} x {VIEW} squares with you in the middle. The "
            "characters: . floor or outside of the room, # wall, @ you. A capital letter is a dancer; the lines below "
            "the map describe the dancers in view. A dancer hides you when you reach it."
        )

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return (
            f"Each observation has the instruction, and an image of {VIEW} x {VIEW} squares with you, a white square, "
            "in the middle. Walls are gray, and floor is black. Each dancer has a shape and a color. A dancer hides "
            "you when you reach it."
        )

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return f"While the instruction is {WATCH!r}, each action only leads to the next observation."

    def beside(self, scenes: Scene, params: Any, *, is_first: bool) -> list[str]:
        """Return the instructions, which are not in the frame."""
        return [_instruction(number) for number in np.asarray(scenes.instruction).tolist()]

    def describe_visible(self, seen: Any) -> list[str]:
        """Return the instruction, the map and the dancers in view."""
        scenes = zip(np.asarray(seen.tiles).tolist(), np.asarray(seen.instruction).tolist(), strict=True)
        return [_described(tiles, number) for tiles, number in scenes]


def _instruction(number: int) -> str:
    return f"Instruction: {INSTRUCTIONS[number]}"


def _described(tiles: list[list[int]], number: int) -> str:
    looks = {tile: _look_of(tile) for row in tiles for tile in row if tile >= int(SquareKind.DANCER)}
    letters = {**dict(enumerate(_LETTERS)), **{tile: letter for tile, (letter, _) in looks.items()}}
    rows = ["".join(letters[tile] for tile in row) for row in tiles]
    listed = [f"{letter}: {description}" for letter, description in sorted(looks.values())]
    return "\n".join([_instruction(number), *rows, *listed])


TEXT = BalletTextInterface.spec(1, lambda _, most: _actions(most))
