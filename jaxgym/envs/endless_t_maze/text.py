"""Text interface of the Endless T-Maze."""

import dataclasses
import functools
from typing import Any, ClassVar

from jaxgym.envs.common.text import FrameTextInterface, number
from jaxgym.envs.endless_t_maze.game import (
    FORWARD_REWARDS,
    PENALTY,
    RIGHT_CUE,
    TURN_REWARD,
    WRONG_TURN_REWARDS,
    MazeTurn,
    Scene,
)
from jaxgym.text.actions import ActionSet


@functools.cache
def _actions(most: int) -> ActionSet:
    synonyms = {**dict.fromkeys(("ahead", "forwards"), "forward"), "turn left": "left", "turn right": "right"}
    return ActionSet({turn.name.lower(): int(turn) for turn in MazeTurn}, synonyms, most, "forward")


@dataclasses.dataclass(frozen=True)
class EndlessTMazeTextInterface(FrameTextInterface[Scene]):
    """Text interface of the Endless T-Maze."""

    text_version: ClassVar[int] = 2

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        longest, shortest = int(params.max_length), int(params.min_length)
        if bool(params.is_uniform) and shortest < longest:
            lengths = (
                f"The end of each corridor is at an x from {shortest} to {longest}, which differs between corridors. "
                "Nothing shows it. A left or right turn before the end moves nothing."
            )
        else:
            lengths = f"The end of each corridor is at x = {longest}."
        wrong, forward = WRONG_TURN_REWARDS[self.env.variant], FORWARD_REWARDS[self.env.variant]
        listed = [f"{number(TURN_REWARD)} for the turn that the sign showed, at the end of a corridor"]
        listed.append(f"{number(wrong)} for any other action there, forward included")
        listed.append(f"{number(PENALTY)} for a left or right turn before the end")
        if forward:
            listed.append(f"{number(forward)} for a move forward")
        return (
            f"You walk through {self.env.num_corridors} corridors, one after the other. At the start of each corridor, "
            "at x = 0, a sign shows left or right. You see it there only. At the end of the corridor, turn as its sign "
            f"showed. Then you are at the start of the next corridor. {lengths}\n\n"
            f"Reward: {'; '.join(listed)}.\n"
            "The episode ends after the correct turn in the last corridor. It also ends after any action at the end of "
            "a corridor that is not the correct turn."
        )

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation texts."""
        return "Observation: You see x, the number of squares from the start of the corridor, and the sign at x = 0."

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return '"forward" moves you one square ahead. "left" and "right" are turns.'

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return (
            "Each observation has an image of a corridor, in which you are the red disc; it is always drawn at the "
            "same place. The two upper rows of small discs show x as a binary number, with green discs as ones; they "
            "are empty for 0. The yellow triangle is the sign: it points up for left and down for right."
        )

    def describe_visible(self, seen: Any) -> list[str]:
        """Return the place and the sign."""
        return [
            f"x = {x}." + (f" The sign shows: {'right' if cue == RIGHT_CUE else 'left'}." if cue else "")
            for x, cue in zip(seen.x.tolist(), seen.cue.tolist(), strict=True)
        ]


TEXT = EndlessTMazeTextInterface.spec(1, lambda _, most: _actions(most))
