"""Text interface of BabyAI."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxgym.envs.babyai.game import Scene, VisibleMission
from jaxgym.envs.babyai.mission import text_of
from jaxgym.envs.common.text import number
from jaxgym.envs.minigrid.reward import reward_at
from jaxgym.envs.minigrid.text import MiniGridTextInterface

_EXAMPLE_STEPS = 20


@dataclasses.dataclass(frozen=True)
class BabyAITextInterface(MiniGridTextInterface[Scene]):
    """Text interface of BabyAI: the mission, above the texts of MiniGrid."""

    def rules(self, params: Any) -> str:
        """Return the goal, the vocabulary of missions, the rewards and the end of the episode."""
        limit = int(params.max_steps_in_episode)
        formula, example = "1", ""
        if limit > 0:
            is_per_unit = self.env.level_class.is_per_unit
            least = min(limit, self.env.level_class.steps) if is_per_unit else limit
            steps = min(_EXAMPLE_STEPS, least)
            formula = f"1 - 0.9 x steps / {'limit' if is_per_unit else limit}"
            case = f" with a limit of {least} steps" if is_per_unit else ""
            example = f" For example, it is {number(reward_at(jnp.int32(steps), least))} after {steps} steps{case}."
        strict = ""
        if self.env.level_class.num_strict:
            strict = " It also ends without reward when you toggle or pick up a thing that the mission does not name."
        return (
            "Your task: fulfill the mission, which is shown with every observation. A mission has one or more "
            "instructions:\n"
            '- "go to X": stand next to X and face it.\n'
            '- "open X": toggle a closed door so that it opens. A locked door opens only if you carry a key of its '
            "color. If the door is open already, close it and open it again.\n"
            '- "pick up X": pick it up with free hands. If you carry it already, drop it and pick it up again.\n'
            '- "put X next to Y": drop X on a cell beside, above or below Y. Moving Y next to X does not count.\n'
            '"A and B" can be fulfilled in any order. For "A, then B", fulfill A first. For "A after you B", fulfill B '
            'first. "the" means that there is only one such thing at the start; "a" means any of several. "on your '
            'left", "on your right", "in front of you" and "behind you" are meant as seen from where you start, '
            "within the room in which you start, its doors included. A thing that is ahead and to the left is both in "
            "front of you and on your left.\n"
            "\n"
            f"Reward: {formula} when the mission is fulfilled; 0 otherwise.{example}\n"
            f"The episode ends when the mission is fulfilled.{strict}"
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

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation and of the moves."""
        return (
            f'{super().legend(params)} You can enter an open door. "pick up" takes the key, ball or box in the cell '
            'ahead of you if your hands are free. "drop" puts what you carry on the cell ahead if it is free floor. '
            '"toggle" opens or closes the door ahead; a locked door opens if you carry a key of its color. "toggle" '
            'also opens the box ahead: its content replaces it, and an empty box vanishes. "wait" does nothing.'
        )

    def describe_visible(self, seen: VisibleMission) -> list[str]:
        """Return the mission, the direction, the map, and the list of things."""
        missions = [text_of(tokens) for tokens in np.asarray(seen.tokens)]
        views = super().describe_visible(seen.view)
        return [f"Mission: {mission}.\n{view}" for mission, view in zip(missions, views, strict=True)]


TEXT = BabyAITextInterface.spec(8)
