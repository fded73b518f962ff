"""Text interfaces of Memory Gym: actions by name, and phrases for headings, tiles and positions."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxgym.envs.common.text import FrameTextInterface, TScene
from jaxgym.envs.memory_gym.agent import first_headings
from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX, AxisMove, GridAction
from jaxgym.spec import TextSpec
from jaxgym.text.actions import ActionSet
from jaxgym.text.turns import Action

HEADINGS = ("up", "up-left", "left", "down-left", "down", "down-right", "right", "up-right")
"""Names of the headings."""

_HORIZONTAL = {"": AxisMove.STAY, "left": AxisMove.NEGATIVE, "right": AxisMove.POSITIVE}
_VERTICAL = {"": AxisMove.STAY, "up": AxisMove.NEGATIVE, "down": AxisMove.POSITIVE}
_WAITS = {phrase: "wait" for phrase in ("stay", "noop", "no-op", "do nothing", "idle", "pass")}


@functools.cache
def grid_actions(most: int) -> ActionSet:
    """Return the actions of the grid games."""
    actions: dict[str, Action] = {
        "wait": int(GridAction.NOTHING),
        "turn left": int(GridAction.TURN_LEFT),
        "turn right": int(GridAction.TURN_RIGHT),
        "forward": int(GridAction.FORWARD),
    }
    synonyms = {
        **_WAITS,
        **{f"{verb}{side}": f"turn {side}" for side in ("left", "right") for verb in ("", "rotate ")},
        **dict.fromkeys(("ahead", "forwards"), "forward"),
    }
    return ActionSet(actions, synonyms, most, "forward")


@functools.cache
def free_actions(most: int, *, is_flat: bool) -> ActionSet:
    """Return the actions of the free games: nine numbers if `is_flat`, else pairs (horizontal, vertical)."""
    actions, synonyms = dict[str, Action](), dict(_WAITS)
    for up_down, vertical in _VERTICAL.items():
        for side, horizontal in _HORIZONTAL.items():
            name = "-".join(filter(None, (up_down, side))) or "wait"
            actions[name] = (
                len(AxisMove) * int(horizontal) + int(vertical) if is_flat else (int(horizontal), int(vertical))
            )
            if up_down and side:
                synonyms[f"{side}-{up_down}"] = name
    arrows = {"↑": "up", "↓": "down", "←": "left", "→": "right"}
    return ActionSet(actions, {**synonyms, **arrows}, most, "right")


@functools.cache
def path_actions(most: int) -> ActionSet:
    """Return the actions of Endless Mystery Path."""
    actions: dict[str, Action] = {"wait": 0, "right": 1, "up": 2, "down": 3}
    synonyms = {**_WAITS, "→": "right", "↑": "up", "↓": "down", "forward": "right"}
    return ActionSet(actions, synonyms, most, "right")


def actions_of(env: Any, most: int) -> ActionSet:
    """Return the actions of a game, depending on its fields `grid` and `flat_actions`."""
    return grid_actions(most) if getattr(env, "grid", False) else free_actions(most, is_flat=env.flat_actions)


@dataclasses.dataclass(frozen=True)
class MemoryGymTextInterface(FrameTextInterface[TScene]):
    """Text interface of a Memory Gym environment."""

    @classmethod
    def spec(cls, most: int, actions: Callable[[Any, int], ActionSet] = actions_of) -> TextSpec:
        """Return the declaration of the text interface; `most` is the default number of actions in one reply."""
        return super().spec(most, actions)

    @functools.cached_property
    def facing(self) -> list[str]:
        """Texts of the agent's headings; headings with the same sprite share a text."""
        first = first_headings(self.env.agent_scale)
        alike = [[HEADINGS[place] for place in range(NUM_HEADINGS) if first[place] == other] for other in first]
        return [f", facing {' or '.join(names)}" if len(names) < NUM_HEADINGS else "" for names in alike]


def tile_name(row: int, column: int) -> str:
    """Return a tile as text, counted from 1; -1 and -1 stand for none."""
    return f"row {row + 1}, column {column + 1}" if row >= 0 and column >= 0 else "on no tile"


def screen(tile_px: int) -> str:
    """Return the coordinates of a free game as text."""
    return (
        f"Positions are in pixels (px) on a screen of {SCREEN_PX} x {SCREEN_PX} px: x to the right, y down. Each tile "
        f"is {tile_px} px wide and {tile_px} px high. Your tile is the one below your center."
    )


IMAGE = "Each observation has an image."
"""Start of the explanation of an image."""

FIGURE = "You are the skin-colored disc. Its two dark hands point in the direction that you are facing."
"""Explanation of the agent in an image."""


def image_px() -> str:
    """Return the coordinates of an image as text."""
    return (
        f"The image is the whole screen of {SCREEN_PX} x {SCREEN_PX} px, enlarged. Distances in px are distances on "
        "the screen."
    )


NUMBERING = "Rows are numbered from 1 at the top, columns from 1 at the left."

GRID_STEPS = (
    '"turn left" and "turn right" turn you by 90 degrees. "forward" moves you one tile in the direction that you are '
    "facing. It has no effect if there is no tile ahead of you."
)


def free_speed(params: Any) -> str:
    """Return the distance of one action of a free agent as text."""
    speed = float(params.agent_speed)
    diagonal = int(speed / np.sqrt(2))
    return (
        f"left, right, up and down move you {int(speed)} px. A diagonal action moves you {diagonal} px along each "
        "axis. wait does not move you."
    )
