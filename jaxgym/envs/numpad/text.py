"""Text interface of the Numpad with a ball that moves from pad to pad."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.common.text import FrameTextInterface
from jaxgym.envs.numpad.discrete import PadMove
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

    text_version: ClassVar[int] = 1

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
            "Reward: 1 for each pad that you press in order for the first time since the sequence was last completed; "
            "0 otherwise."
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


TEXT = NumpadTextInterface.spec(1, lambda _, most: _actions(most))
