"""Text interfaces of MiniGrid: the agent's view as a map of characters, with a list of the things on it."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.common.text import FrameTextInterface, TScene
from jaxgym.envs.minigrid.view import OWN, SIZE
from jaxgym.envs.minigrid.world import (
    EMPTY,
    Color,
    Direction,
    Door,
    MiniGridAction,
    Type,
    color_of,
    state_of,
    type_of,
)
from jaxgym.spec import TextSpec
from jaxgym.text.actions import ActionSet

COMPASS = {Direction.RIGHT: "east", Direction.DOWN: "south", Direction.LEFT: "west", Direction.UP: "north"}
"""Names of the directions that the agent faces."""

_UNSEEN, _FLOOR, _WALL, _YOU = "?.#@"
_LETTERS = {Type.KEY: "K", Type.BALL: "B", Type.BOX: "X"}
_DOORS = {Door.OPEN: "O", Door.CLOSED: "D", Door.LOCKED: "L"}
_DRAWN = {
    Type.KEY: ("key", "a key"),
    Type.BALL: ("ball", "a disc"),
    Type.BOX: ("box", "a square frame with a line in the middle"),
    Type.DOOR: (
        "door",
        "a square: an open door as a narrow frame at one edge of its cell, a closed door as a frame with a knob, a "
        "locked door as a filled square with a keyhole",
    ),
}
"""Name of each type of things, and how it is drawn."""

_NOUNS = {Type.DOOR: "door", Type.KEY: "key", Type.BALL: "ball", Type.BOX: "box"}


@functools.cache
def _actions(most: int) -> ActionSet:
    """Return the actions of MiniGrid."""
    named = {
        "wait": MiniGridAction.DONE,
        "forward": MiniGridAction.FORWARD,
        "pick up": MiniGridAction.PICKUP,
        "drop": MiniGridAction.DROP,
        "toggle": MiniGridAction.TOGGLE,
        "turn left": MiniGridAction.LEFT,
        "turn right": MiniGridAction.RIGHT,
    }
    synonyms = {
        **dict.fromkeys(("stay", "noop", "no-op", "do nothing", "done"), "wait"),
        **{side: f"turn {side}" for side in ("left", "right")},
        **dict.fromkeys(("ahead", "forwards"), "forward"),
        **dict.fromkeys(("open", "close"), "toggle"),
    }
    return ActionSet({name: int(action) for name, action in named.items()}, synonyms, most, "forward")


def actions_of(_env: Any, most: int) -> ActionSet:
    """Return the actions, which are the same in every environment."""
    return _actions(most)


@dataclasses.dataclass(frozen=True)
class MiniGridTextInterface(FrameTextInterface[TScene]):
    """Text interface of a MiniGrid environment; a subclass defines `rules`."""

    text_version: ClassVar[int] = 2

    kinds: ClassVar[tuple[Type, ...]] = (Type.KEY, Type.BALL, Type.BOX, Type.DOOR)
    """Types of things that the map can show."""

    @classmethod
    def spec(cls, most: int, actions: Callable[[Any, int], ActionSet] = lambda _, most: _actions(most)) -> TextSpec:
        """Return the declaration of the text interface; `most` is the default number of actions in one reply."""
        return super().spec(most, actions)

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation and of the moves."""
        letters = {letter: _NOUNS[kind] for kind, letter in _LETTERS.items() if kind in self.kinds}
        if Type.DOOR in self.kinds:
            letters |= {letter: f"{state.name.lower()} door" for state, letter in _DOORS.items()}
        things = "".join(f", {letter} {name}" for letter, name in letters.items())
        return (
            f"Observation: You see a square of {SIZE} x {SIZE} cells as a map that turns with you. You are {_YOU} in "
            "the middle of the bottom row, and the direction that you face is up on the map. The characters: "
            f"{_FLOOR} free floor, {_WALL} wall, {_UNSEEN} not visible{things}. Walls hide the cells behind them. "
            "Below the map is a list of the visible things. For each thing, it says how many cells it is ahead of you "
            "and to your left or right."
        )

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        if self.env.observation == "full_pixels":
            where = (
                "It shows the whole grid from above, north at the top. The cells that you see are lighter. You are the "
                "red triangle, which points in the direction that you face."
            )
        else:
            where = (
                f"It shows a square of {SIZE} x {SIZE} cells from above, which turns with you. You are the red "
                "triangle in the middle of the bottom row, and the direction that you face is up in the image. Visible "
                "floor is dark gray, and cells that you do not see are black. Walls hide the cells behind them."
            )
        things = [f"a {name} as {drawn}" for kind, (name, drawn) in _DRAWN.items() if kind in self.kinds]
        return f"Each observation has an image. {where} A wall is drawn as a gray square, {', '.join(things)}."

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return (
            '"turn left" and "turn right" turn you by 90 degrees. "forward" moves you one cell in the direction that '
            "you face. It has no effect if that cell is not free."
        )

    def describe_visible(self, seen: Any) -> list[str]:
        """Return the direction, the map, and the list of things of a `Visible`."""
        cells = np.asarray(seen.cells)
        maps, things = _maps(cells), _listed(cells)
        carried = cells[:, *OWN].tolist()
        return [
            f"You face {COMPASS[Direction(direction)]}.\n{drawn}\n{_carried(thing)}Visible things: {listed or 'none'}"
            for direction, drawn, thing, listed in zip(seen.direction.tolist(), maps, carried, things, strict=True)
        ]


@functools.cache
def _characters() -> np.ndarray:
    """Return the character of each thing without its number, as a byte, uint8 (T,)."""
    appearance = np.arange(1 << 9)
    kind, state = type_of(appearance), state_of(appearance)
    characters = np.full(len(appearance), ord(_FLOOR), np.uint8)
    characters[kind == Type.UNSEEN] = ord(_UNSEEN)
    characters[kind == Type.WALL] = ord(_WALL)
    for each, letter in _LETTERS.items():
        characters[kind == each] = ord(letter)
    for each, letter in _DOORS.items():
        characters[(kind == Type.DOOR) & (state == each)] = ord(letter)
    return characters


def _maps(cells: np.ndarray) -> list[str]:
    """Return the maps of B views, int (B, 7, 7), by column and row."""
    drawn = np.full((len(cells), SIZE, SIZE + 1), ord("\n"), np.uint8)
    drawn[:, :, :SIZE] = _characters()[cells].transpose(0, 2, 1)
    drawn[:, OWN[1], OWN[0]] = ord(_YOU)
    length = SIZE * (SIZE + 1)
    text = drawn.tobytes().decode("ascii")
    return [text[start : start + length - 1] for start in range(0, len(text), length)]


def _listed(cells: np.ndarray) -> list[str]:
    """Return the lists of things in B views, int (B, 7, 7), near ones first, then from left to right."""
    is_thing = type_of(cells) > Type.WALL
    is_thing[:, *OWN] = False
    lists = [list[str]() for _ in cells]
    near_first = is_thing.transpose(0, 2, 1)[:, ::-1]
    for view, ahead, column in zip(*(axis.tolist() for axis in np.nonzero(near_first)), strict=True):
        lists[view].append(_thing_at(int(cells[view, column, OWN[1] - ahead]), ahead, column - OWN[0]))
    return ["; ".join(listed) for listed in lists]


@functools.cache
def _thing_at(thing: int, ahead: int, to_the_right: int) -> str:
    side = f"{abs(to_the_right)} {'right' if to_the_right > 0 else 'left'}" if to_the_right else ""
    return f"{name_of(thing)}: {', '.join(filter(None, (f'{ahead} ahead' if ahead else '', side)))}"


@functools.cache
def name_of(thing: int) -> str:
    """Return the name of a thing, such as "green key" or "locked red door"."""
    kind, color, state = (int(part(np.int32(thing))) for part in (type_of, color_of, state_of))
    door = f"{Door(state).name.lower()} " if kind == Type.DOOR else ""
    return f"{door}{Color(color).name.lower()} {_NOUNS[Type(kind)]}"


def _carried(thing: int) -> str:
    return "" if thing == EMPTY else f"You carry: {name_of(thing)}\n"
