"""Text interface of Visual Match: the view as a map of characters."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.common.text import FrameTextInterface, number, steps
from jaxgym.envs.visual_match.rooms import VIEW, CompassMove
from jaxgym.envs.visual_match.scene import RoomScene
from jaxgym.text.actions import ActionSet

LETTERS = ".#@aRGBkDi"
"""Character of each `Kind`."""

VIEW_LEGEND = (
    f"Observation: You see {VIEW} x {VIEW} squares as a map, north at the top. You are @ in the middle. The "
    "characters: . floor, # wall, a apple"
)


@functools.cache
def actions_of(_env: Any, most: int) -> ActionSet:
    """Return the actions, which are the same for all options."""
    synonyms = {"up": "north", "down": "south", "left": "west", "right": "east"}
    return ActionSet({heading.name.lower(): int(heading) for heading in CompassMove}, synonyms, most, "north")


def apple_rules(params: Any) -> str:
    """Return the rewards of apples, and when they grow again."""
    low, high = number(params.apple_reward_low), number(params.apple_reward_high)
    value = low if low == high else f"{low} or {high}, the same for all apples of the episode"
    if low != high and not bool(params.fix_apple_reward):
        value = f"{low} to {high}"
    respawn = int(params.respawn_every)
    again = f" A collected apple grows again after {steps(respawn + 1)}." if respawn else ""
    return f"The reward of an apple is {value}.{again}"


@dataclasses.dataclass(frozen=True)
class RoomTextInterface(FrameTextInterface[RoomScene]):
    """Text interface of rooms with three phases; a subclass defines `rules` and `legend`."""

    text_version: ClassVar[int] = 2

    def phases_end(self, params: Any) -> str:
        """Return the length of an episode."""
        frames = int(params.explore_frames) + int(params.apple_frames) + int(params.reward_frames)
        return f"The episode ends after {steps(frames)}, with the third phase."

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return "Each action moves you by one square. A move into a wall has no effect."

    def describe_visible(self, seen: Any) -> list[str]:
        """Return the maps of B views."""
        return [
            "\n".join("".join(LETTERS[kind] for kind in row) for row in view)
            for view in np.asarray(seen.kinds).tolist()
        ]


@dataclasses.dataclass(frozen=True)
class VisualMatchTextInterface(RoomTextInterface):
    """Text interface of Visual Match."""

    def rules(self, params: Any) -> str:
        """Return the phases and the rewards."""
        explore, apples, reward = (
            int(frames) for frames in (params.explore_frames, params.apple_frames, params.reward_frames)
        )
        where = "next to you" if self.env.passive else "in the outer wall of the room"
        return (
            "An episode has three phases.\n"
            f"Phase 1, {steps(explore)}: A square {where} is red, green or blue. Remember its color.\n"
            f"Phase 2, {steps(apples)}: You are in a room with apples. Step onto an apple to collect it. "
            f"{apple_rules(params)}\n"
            f"Phase 3, {steps(reward)}: You start in a small chamber south of a room. Three doors are in the "
            "northernmost row of the room, 3 columns apart: a red, a green and a blue one. The middle door is straight "
            f"north of you. Go to the door with the color of the square. The reward is {number(params.final_reward)}. "
            "After you have touched one door, all doors vanish.\n"
            f"{self.phases_end(params)}"
        )

    def legend(self, params: Any) -> str:
        """Return the explanation of the map."""
        return f"{VIEW_LEGEND}, R red, G green, B blue square or door."

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return (
            f"Each observation has an image of {VIEW} x {VIEW} squares around you, north at the top. You are the light "
            "brown square in the middle. Walls are dark, apples are olive green, and the colored square and the doors "
            "are pure red, green or blue."
        )


TEXT = VisualMatchTextInterface.spec(4, actions_of)
