"""Text interfaces of the T-Mazes."""

import dataclasses
import functools
from typing import Any, ClassVar

from jaxgym.envs.common.text import FrameTextInterface, number
from jaxgym.envs.t_maze.game import TMazeAction, end_of
from jaxgym.envs.t_maze.scene import Scene
from jaxgym.text.actions import ActionSet

_ARMS = {1: "upper", -1: "lower"}


@functools.cache
def _actions(most: int) -> ActionSet:
    named = {action.name.lower(): int(action) for action in TMazeAction}
    return ActionSet(named, dict.fromkeys(("forward", "ahead"), "right") | {"back": "left"}, most, "right")


@dataclasses.dataclass(frozen=True)
class TMazeTextInterface(FrameTextInterface[Scene]):
    """Text interface of the T-Maze."""

    text_version: ClassVar[int] = 1

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        start, end, steps = int(params.oracle_length), int(end_of(params)), int(self.env.num_steps(params))
        where = "You start there." if start == 0 else f"You start at x = {start}, to the right of it."
        return (
            f"A corridor leads from x = 0 on the left to x = {end} on the right. At x = {end}, an upper arm and a "
            "lower arm begin, each one square long. One of the arms is the goal. At x = 0, a sign shows which one. "
            f"{where} {self._sign()}\n"
            f"{self._end(steps)}\n\n"
            f"{self._rewards(params)}"
        )

    def _sign(self) -> str:
        if self.env.expose_goal:
            return "You see the sign from your first visit of x = 0 on."
        return "You see the sign on your first visit of x = 0 only, so remember it."

    def _end(self, steps: int) -> str:
        return (
            f"The episode ends after {steps} steps. Be at the goal then. Reaching an arm earlier does not end the "
            "episode, and you can leave an arm again."
        )

    def _rewards(self, params: Any) -> str:
        penalty = -1 / int(params.corridor_length) if bool(params.is_dense) else float(params.penalty)
        listed = [f"Reward: {number(params.goal_reward)} if you are at the goal in the last step"]
        if penalty:
            start = int(params.oracle_length)
            least = f"the number of steps so far minus {start}" if start else "the number of steps so far"
            listed.append(f"{number(penalty)} for each earlier step after which x is less than {least}")
        if float(params.distract_reward):
            listed.append(f"{number(params.distract_reward)} for each earlier step that ends at x = 0")
        return "; ".join(listed) + "."

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation texts."""
        if self.env.ambiguous_position:
            return "Observation: You see whether you are in the corridor, at its end, or in an arm. You do not see x."
        return "Observation: You see where you are."

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return (
            '"right" and "left" move you one square along the corridor. "up" moves you from the end of the corridor to '
            'the upper arm, or from the lower arm back to the end of the corridor; "down" moves you the other way. A '
            "move into a wall has no effect."
        )

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        parts = [
            "Each observation has an image. It shows a corridor with two arms at its right end. You are the red disc.",
            "It is drawn in the left half of the corridor wherever you are in the corridor, and at its end or in an "
            "arm when you are there."
            if self.env.ambiguous_position
            else "It is always drawn at the same place while you are in the corridor.",
            "A yellow triangle in the upper left part is the sign: it points up or down.",
        ]
        if not self.env.ambiguous_position:
            parts.append(
                "The two upper rows of small discs show x as a binary number, with green discs as ones; they are empty "
                "for 0."
            )
        if self.env.add_timestep:
            parts.append("The two lowest rows show the number of steps so far in the same way.")
        return " ".join(parts)

    def describe_visible(self, seen: Any) -> list[str]:
        """Return the place, the sign and the time."""
        rows = zip(*(part.tolist() for part in (seen.x, seen.y, seen.cue, seen.time)), strict=True)
        return [
            " ".join(filter(None, (self._place(x, y), _sign_text(cue), self._clock(time)))) for x, y, cue, time in rows
        ]

    def _place(self, x: int, y: int) -> str:
        if y:
            return f"You are in the {_ARMS[y]} arm."
        if self.env.ambiguous_position:
            return "You are at the end of the corridor." if x else "You are in the corridor."
        return f"You are in the corridor at x = {x}."

    def _clock(self, time: int) -> str:
        return f"Steps so far: {time}." if self.env.add_timestep else ""


@dataclasses.dataclass(frozen=True)
class TMazeLampTextInterface(TMazeTextInterface):
    """Text interface of the T-Maze with a lamp."""

    def _end(self, steps: int) -> str:
        return f"The episode ends when you are in an arm, and at the latest after {steps} steps."

    def _rewards(self, params: Any) -> str:
        if float(params.goal_reward) == 1.0:
            return super()._rewards(params)
        return f"{super()._rewards(params)} If the episode ends elsewhere, the reward of its last step is -1."

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation texts."""
        return (
            "Observation: You see whether you are in an arm. In the corridor, you do not see x; a lamp is on at the "
            "end of the corridor only. The random number has no meaning."
        )

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return (
            "Each observation has an image. It shows a corridor with two arms at its right end. You are the red disc. "
            "It is drawn in the left half of the corridor wherever you are in the corridor, and at its end or in an "
            "arm when you are there. A green lamp at the right edge is on at the end of the corridor. A yellow "
            "triangle in the upper left part is the sign: it points up or down. A yellow triangle in the lower left "
            "part has no meaning."
        )

    def describe_visible(self, seen: Any) -> list[str]:
        """Return the place, the lamp, the sign and the random number."""
        rows = zip(*(part.tolist() for part in (seen.y, seen.lamp, seen.cue, seen.noise)), strict=True)
        return [
            " ".join(filter(None, (_lamp_text(y, lamp), _sign_text(cue), f"Random number: {noise}.")))
            for y, lamp, cue, noise in rows
        ]


def _lamp_text(y: int, lamp: int) -> str:
    return (
        f"You are in the {_ARMS[y]} arm." if y else f"You are in the corridor. The lamp is {'on' if lamp else 'off'}."
    )


def _sign_text(cue: int) -> str:
    return f"The sign shows: the goal is the {_ARMS[cue]} arm." if cue else ""


TEXT = TMazeTextInterface.spec(1, lambda _, most: _actions(most))
LAMP_TEXT = TMazeLampTextInterface.spec(1, lambda _, most: _actions(most))
