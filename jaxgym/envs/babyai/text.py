"""Text interfaces of BabyAI: the map of MiniGrid below the mission, and the texts of BALROG."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np

from jaxgym.envs.babyai.game import Scene, VisibleMission
from jaxgym.envs.babyai.mission import text_of
from jaxgym.envs.common.text import actions_option, number, visible_in
from jaxgym.envs.minigrid.reward import reward_at
from jaxgym.envs.minigrid.text import COMPASS, MiniGridTextInterface, actions_of, name_of
from jaxgym.envs.minigrid.view import OWN, SIZE
from jaxgym.envs.minigrid.world import EMPTY, UNSEEN, WALL, Direction, MiniGridAction
from jaxgym.options import OneOf, Option
from jaxgym.spec import TextSpec
from jaxgym.text.actions import ActionSet
from jaxgym.text.interface import TRUNCATED
from jaxgym.text.turns import InvalidReply, ParsedAction, RewardTracker, Turn, Turns

_MOST_ACTIONS = 8
_EXAMPLE_STEPS = 20

_MISSIONS = """\
"A and B" can be fulfilled in any order. For "A, then B", fulfill A first. For "A after you B", fulfill B first. "the" \
means that there is only one such thing at the start; "a" means any of several. "on your left", "on your right", "in \
front of you" and "behind you" are meant as seen from where you start, within the room in which you start, its doors \
included. A thing that is ahead and to the left is both in front of you and on your left."""

_INSTRUCTIONS = """\
- "go to X": stand next to X and face it.
- "open X": toggle a closed door so that it opens. A locked door opens only if you carry a key of its color. If the \
door is open already, close it and open it again.
- "pick up X": pick it up with free hands. If you carry it already, drop it and pick it up again.
- "put X next to Y": drop X on a cell beside, above or below Y. Moving Y next to X does not count."""


@dataclasses.dataclass(frozen=True)
class BabyAITextInterface(MiniGridTextInterface[Scene]):
    """Text interface of BabyAI: the mission, above the texts of MiniGrid."""

    shown: ClassVar[str] = "with every observation"
    """When the mission is shown."""

    def rules(self, params: Any) -> str:
        """Return the goal, the vocabulary of missions, the rewards and the end of the episode."""
        strict = ""
        if self.env.level_class.num_strict:
            strict = " It also ends without reward when you toggle or pick up a thing that the mission does not name."
        return (
            f"Your task: fulfill the mission, which is shown {self.shown}. A mission has one or more instructions:\n"
            f"{_INSTRUCTIONS}\n{_MISSIONS}\n\n{self.reward_rule(params)}\n"
            f"The episode ends when the mission is fulfilled.{strict}"
        )

    def reward_rule(self, params: Any) -> str:
        """Return the rewards."""
        limit = int(params.max_steps_in_episode)
        if limit <= 0:
            return "Reward: 1 when the mission is fulfilled; 0 otherwise."
        is_per_unit = self.env.level_class.is_per_unit
        least = min(limit, self.env.level_class.steps) if is_per_unit else limit
        steps = min(_EXAMPLE_STEPS, least)
        case = f" with a limit of {least} steps" if is_per_unit else ""
        return (
            f"Reward: 1 - 0.9 x steps / {'limit' if is_per_unit else limit} when the mission is fulfilled; 0 "
            f"otherwise. For example, it is {number(reward_at(jnp.int32(steps), least))} after {steps} steps{case}."
        )

    def time_limit(self, params: Any) -> str:
        """Return the time limit as text."""
        if not self.env.level_class.is_per_unit or int(params.max_steps_in_episode) <= 0:
            return super().time_limit(params)
        steps, most = self.env.level_class.steps, int(params.max_steps_in_episode)
        return (
            f"\nThe episode also ends after a limit of {steps} steps for each instruction, and of {2 * steps} steps "
            f'for each "put"; the limit is at most {most} steps.'
        )

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return (
            f'{super().effects(params)} You can enter an open door. "pick up" takes the key, ball or box in the cell '
            'ahead of you if your hands are free. "drop" puts what you carry on the cell ahead if it is free floor. '
            '"toggle" opens or closes the door ahead; a locked door opens if you carry a key of its color. "toggle" '
            'also opens the box ahead: its content replaces it, and an empty box vanishes. "wait" does nothing.'
        )

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        carried = " Your own cell also shows what you carry." if self.env.observation == "pixels" else ""
        return f"{super().image_legend(params)}{carried}"

    def beside(self, scenes: Scene, params: Any, *, is_first: bool) -> list[str]:
        """Return the missions and the directions, which are not in the frame."""
        directions = np.asarray(scenes.world.direction).tolist()
        return [
            f"Mission: {text_of(tokens)}.\nYou face {COMPASS[Direction(direction)]}."
            for tokens, direction in zip(np.asarray(scenes.tokens), directions, strict=True)
        ]

    def describe_visible(self, seen: VisibleMission) -> list[str]:
        """Return the mission, the direction, the map, and the list of things."""
        missions = [text_of(tokens) for tokens in np.asarray(seen.tokens)]
        views = super().describe_visible(seen.view)
        return [f"Mission: {mission}.\n{view}" for mission, view in zip(missions, views, strict=True)]


# BALROG.


class ProgressionTracker(RewardTracker):
    """BALROG's measure of an episode, as the reward: 1 for the first reward above 0, and 0 for every other turn."""

    def __init__(self) -> None:
        """Start an episode."""
        self._progression = {"so far": 0.0}

    def components(self, turn: Turn[Any]) -> dict[str, float]:
        """Record a turn and return by how much it raised the progression."""
        before = self._progression["so far"]
        self._progression["so far"] = max(before, float(turn.reward > 0))
        return {"progression": self._progression["so far"] - before}

    def record(self) -> Any:
        """Return the progression."""
        return self._progression["so far"]

    def restored(self, record: Any) -> Self:
        """Return a tracker with a progression."""
        made = type(self)()
        made._progression["so far"] = record
        return made

    def check_record(self, record: Any) -> None:
        """Raise `ValueError` if a value is no progression."""
        if type(record) is not float:
            raise ValueError(f"record: expected a number, got {type(record).__name__}.")


@dataclasses.dataclass(frozen=True)
class BalrogTextInterface(BabyAITextInterface):
    """BabyAI in BALROG's texts: a list of the visible things, and up to three walls; no map.

    The first text has the mission. The texts that follow have the list only, which can be empty.
    """

    shown = "in the first observation"

    def fallback(self) -> ParsedAction:
        """Return the action that BALROG makes of an invalid reply."""
        return ParsedAction((int(MiniGridAction.FORWARD),), "go forward")

    def reward_tracker(self, scene: Scene, params: Any) -> RewardTracker:
        """Return the tracker of the progression."""
        return ProgressionTracker()

    def ending(self, reward: float) -> str:
        """Return the text of an episode that terminated."""
        return "The episode has ended."

    def reward_rule(self, params: Any) -> str:
        """Return the rewards: the progression, or those of the environment."""
        if self.rewards == "components":
            return "Reward: 1 when the mission is fulfilled; 0 otherwise."
        return super().reward_rule(params)

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation."""
        return (
            f"Observation: You see a square of {SIZE} x {SIZE} cells. You are in the middle of its last row. Each line "
            "names a visible thing, and how many steps it is to your right or left and forward. A wall is listed only "
            "if it is straight forward, left or right and no thing is in between. The first line names what you "
            "carry, if anything. If you see nothing, the observation is empty."
        )

    def beside(self, scenes: Scene, params: Any, *, is_first: bool) -> list[str]:
        """Return the missions, in the first observation only."""
        missions = [f"Mission: {text_of(tokens)}." for tokens in np.asarray(scenes.tokens)]
        return missions if is_first else [""] * len(missions)

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return (
            "turn left, turn right: turn by 90 degrees.\n"
            "go forward: move one step forward, if the cell ahead is free floor or an open door.\n"
            "pick up: take the key, ball or box ahead of you, if your hands are free.\n"
            "drop: put what you carry on the cell ahead, if it is free floor.\n"
            "toggle: open or close the door ahead; a locked door opens if you carry a key of its color. It also opens "
            "the box ahead: its content replaces it, and an empty box vanishes.\n"
            "To reach a thing, first turn and go until it is straight ahead. If nothing that you need is visible, turn "
            "around and explore."
        )

    def describe_visible(self, seen: VisibleMission) -> list[str]:
        """Return the lists of visible things."""
        return [listed(cells) for cells in np.asarray(seen.view.cells).tolist()]

    def open_all(self, scenes: Scene, params: Any) -> list[str]:
        """Return the missions and the lists of visible things."""
        seen = visible_in(self.env, scenes)
        missions = [text_of(tokens) for tokens in np.asarray(seen.tokens)]
        return [f"Mission: {one}.\n{text}" for one, text in zip(missions, self.describe_visible(seen), strict=True)]

    def respond_all(self, turns: Turns[Scene], params: Any) -> list[str]:
        """Return the lists of visible things after B turns."""
        lists = self.describe_visible(visible_in(self.env, turns.scenes))
        ends = zip(turns.terminated.tolist(), turns.truncated.tolist(), turns.rewards.tolist(), strict=True)
        texts = list[str]()
        for move, text, (terminated, truncated, reward) in zip(turns.actions, lists, ends, strict=True):
            reason = move.reason if isinstance(move, InvalidReply) else ""
            end = self.ending(reward) if terminated else TRUNCATED if truncated else ""
            texts.append("\n".join(filter(None, (reason, text, end))))
        return texts


_COLUMN, _ROW = OWN
_RAYS = {
    "forward": [(_COLUMN, row) for row in range(_ROW - 1, -1, -1)],
    "left": [(column, _ROW) for column in range(_COLUMN - 1, -1, -1)],
    "right": [(column, _ROW) for column in range(_COLUMN + 1, SIZE)],
}
"""Cells of the view straight ahead and at both sides, near ones first."""


def listed(cells: Sequence[Sequence[int]]) -> str:
    """Return BALROG's list of what is seen; `cells` are those of `Visible`."""
    carried = cells[_COLUMN][_ROW]
    lines = [f"You carry a {name_of(carried)}"] if carried != EMPTY else []
    for side, ray in _RAYS.items():
        distance, first = next(
            ((count, cells[x][y]) for count, (x, y) in enumerate(ray, 1) if cells[x][y] > EMPTY), (0, EMPTY)
        )
        if first == WALL:
            lines.append(f"a wall {_steps(distance, side)}")
    for column, row in itertools.product(range(SIZE), range(SIZE)):
        if cells[column][row] not in _NO_THINGS and (column, row) != OWN:
            lines.append(_line(cells[column][row], column - _COLUMN, _ROW - row))
    return "\n".join(lines)


_NO_THINGS = (UNSEEN, EMPTY, WALL)


@functools.cache
def _line(thing: int, to_the_right: int, ahead: int) -> str:
    sides = {"right": to_the_right, "left": -to_the_right, "forward": ahead}
    return f"a {name_of(thing)} {' and '.join(_steps(count, side) for side, count in sides.items() if count > 0)}"


def _steps(count: int, side: str) -> str:
    return f"{count} step{'s' if count > 1 else ''} {side}"


def balrog_actions_of(_env: Any, most: int) -> ActionSet:
    """Return BALROG's actions; there is none without effect."""
    named = {
        "turn left": MiniGridAction.LEFT,
        "turn right": MiniGridAction.RIGHT,
        "go forward": MiniGridAction.FORWARD,
        "pick up": MiniGridAction.PICKUP,
        "drop": MiniGridAction.DROP,
        "toggle": MiniGridAction.TOGGLE,
    }
    synonyms = {"left": "turn left", "right": "turn right", "forward": "go forward"}
    return ActionSet({name: int(action) for name, action in named.items()}, synonyms, most, "go forward")


# Declaration.

DIALECTS = {"map": (BabyAITextInterface, actions_of), "balrog": (BalrogTextInterface, balrog_actions_of)}
"""Text interface and actions of each dialect."""

OPTIONS: Mapping[str, Option] = {
    **actions_option(_MOST_ACTIONS),
    "dialect": OneOf(
        "map",
        "'map' draws the view as a map; 'balrog' has the texts of BALROG, and BALROG's progression as the reward",
        values=tuple(DIALECTS),
    ),
}


def build(env: Any, values: Mapping[str, Any]) -> BabyAITextInterface:
    """Return the text interface of an environment in the chosen dialect."""
    interface, actions = DIALECTS[values["dialect"]]
    return interface(env.env_id, env, actions(env, int(values["actions_per_turn"])))


TEXT = TextSpec(build, OPTIONS)
