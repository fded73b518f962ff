"""Text interfaces of the Numpads."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.common.text import FrameTextInterface, number
from jaxgym.envs.numpad.continuous import PUSHES
from jaxgym.envs.numpad.discrete import PadMove
from jaxgym.envs.numpad.picture import RollingScene
from jaxgym.envs.numpad.scene import Scene
from jaxgym.text.actions import ActionSet

_LETTERS = {(False, False): ".", (True, False): "*", (False, True): "o", (True, True): "@"}
"""Characters of a pad, by light and ball."""


@functools.cache
def _actions(most: int) -> ActionSet:
    return ActionSet({move.name.lower(): int(move) for move in PadMove}, {}, most, "right")


@dataclasses.dataclass(frozen=True)
class NumpadTextInterface(FrameTextInterface[Scene]):
    """Text interface of the Numpad."""

    text_version: ClassVar[int] = 2

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        size, length = self.env.numpad_size, self.env.seq_len
        return (
            f"A ball is on a square of {size} x {size} pads. A hidden sequence has {length} different pads; each pad "
            "shares an edge with the one before. The sequence is the same during the whole episode. Each action moves "
            "the ball by one pad and presses the pad that it reaches. Press the pads of the sequence in order. A pad "
            "that is pressed in order lights up. A wrong pad turns all lights off, and you have to begin with the "
            "first pad of the sequence again; if the wrong pad is the first pad, it lights up at once. After the last "
            "pad of the sequence, all its lights are shown once. Then they are off, and you can go through the "
            "sequence again. Find the sequence by trial and remember it.\n\n"
            "Reward: 1 for each pad that you press in order. If you begin the sequence again after a wrong pad, the "
            "pads that have already given a reward give none. When the sequence is completed, all pads give a reward "
            "again."
        )

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation texts."""
        off, on, ball, both = (_LETTERS[key] for key in _LETTERS)
        return (
            f"Observation: The pads are shown as rows of characters: {off} is a pad without light, {on} a lit pad, "
            f"{ball} the ball on a pad without light, and {both} the ball on a lit pad."
        )

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return "A move off the pads leaves the ball on its pad and presses this pad again."

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return (
            "Each observation has an image of the pads. The ball is a red disc. Lit pads are yellow, and the others "
            "are dark."
        )

    def describe_visible(self, seen: Any) -> list[str]:
        """Return the pads as characters."""
        size = self.env.numpad_size
        texts = []
        for lights, (row, column) in zip(seen.lights.tolist(), np.asarray(seen.ball).tolist(), strict=True):
            letters = [_LETTERS[light, pad == row * size + column] for pad, light in enumerate(lights)]
            texts.append("\n".join("".join(letters[first : first + size]) for first in range(0, size * size, size)))
        return texts


@functools.cache
def _pushes(most: int) -> ActionSet:
    return ActionSet({name: action for action, name in enumerate(PUSHES)}, {}, most, "right")


@dataclasses.dataclass(frozen=True)
class RollingNumpadTextInterface(FrameTextInterface[RollingScene]):
    """Text interface of the Numpad with a ball that rolls."""

    text_version: ClassVar[int] = 2

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        board, length = self.env.board, self.env.seq_len
        centers = ", ".join(number(place * board.cell + board.cell / 2) for place in range(board.size))
        cues = (
            ""
            if float(params.task_cue_threshold) == 1
            else (" Some pads of the sequence may be lit before the first step; these lights then go off.")
        )
        return (
            f"A ball rolls on a square of {board.side} x {board.side} pixels with {board.size} x {board.size} pads. "
            f"The centers of the pads have the rows and columns {centers}. The ball presses a pad when its distance "
            f"from the center becomes less than {number(board.pad / 2)} in both directions. Pads are numbered from 0, "
            "row by row.\n"
            f"A hidden sequence has {length} different pads; each pad is a neighbor of the one before, in the same row "
            "or column. The sequence is the same during the whole episode. Press its pads in order. A pad that is "
            "pressed in order lights up. A wrong pad turns all lights off, and you have to begin with the first pad "
            "again. Gaps between pads, and resting on a pad, have no effect. After the last pad of the sequence, all "
            "its lights are shown once. Then they are off, and you can go through the sequence again. Find the "
            f"sequence by trial and remember it.{cues}\n\n"
            "Reward: 1 for each pad that you press in order. If you begin the sequence again after a wrong pad, the "
            "pads that have already given a reward give none. When the sequence is completed, all pads give a reward "
            "again."
        )

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation texts."""
        return (
            "Observation: You see the position and the velocity of the ball, and the numbers of the lit pads. Row 0 is "
            "at the top, and column 0 at the left. The velocity is in pixels per step; a negative one points up or "
            "left."
        )

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return (
            f"Each action changes the velocity by {number(self.env.tile_size / 10)} in each of its directions; then "
            "the ball moves by its velocity. At the edge of the square, the ball stops in the direction of the edge."
        )

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return (
            "Each observation has an image of the square. The ball is a red square. Lit pads are yellow, and the "
            "others are dark. The velocity is not shown."
        )

    def describe_visible(self, seen: Any) -> list[str]:
        """Return position, velocity and lights."""
        rows = zip(seen.position.tolist(), seen.velocity.tolist(), seen.lights.tolist(), strict=True)
        return [
            f"Ball: row {number(position[0])}, column {number(position[1])}. Velocity: {number(velocity[0])} down, "
            f"{number(velocity[1])} right. Lit pads: "
            f"{', '.join(str(pad) for pad, light in enumerate(lights) if light) or 'none'}."
            for position, velocity, lights in rows
        ]


TEXT = NumpadTextInterface.spec(1, lambda _, most: _actions(most))
ROLLING_TEXT = RollingNumpadTextInterface.spec(4, lambda _, most: _pushes(most))
