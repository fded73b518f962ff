"""Text interface of MiniGrid-Memory."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from jaxgym.envs.common.text import number
from jaxgym.envs.minigrid.reward import reward_at
from jaxgym.envs.minigrid.text import MiniGridTextInterface
from jaxgym.envs.minigrid.world import GridWorld, Type
from jaxgym.envs.minigrid_memory.game import MISSION

_EXAMPLE_STEPS = 20


@dataclasses.dataclass(frozen=True)
class MiniGridMemoryTextInterface(MiniGridTextInterface[GridWorld]):
    """Text interface of MiniGrid-Memory."""

    kinds = (Type.KEY, Type.BALL)

    def rules(self, params: Any) -> str:
        """Return the goal, the rewards and the end of the episode."""
        limit = int(params.max_steps_in_episode)
        formula, example = "1", ""
        if limit > 0:
            steps = min(_EXAMPLE_STEPS, limit)
            formula = f"1 - 0.9 x steps / {limit}"
            example = f" For example, it is {number(reward_at(jnp.int32(steps), limit))} after {steps} steps."
        return (
            f"Your task: {MISSION}. At the west end of the hallway is a room of 3 x 3 cells. A green key or a green "
            "ball lies in the north-west corner of this room. At the east end of the hallway, a passage leads north "
            "and south. A green key lies on one side of this passage and a green ball on the other side, two cells "
            "from the hallway. Look at the object in the room and remember it. Then go to the object of the same kind "
            "at the east end: stand next to it.\n"
            "You start in the room or in the hallway, and you face east. If you do not see the object in the room, "
            "turn around and go back until you see it.\n"
            "\n"
            f"Reward: {formula} when you stand next to the matching object; 0 otherwise.{example}\n"
            "The episode ends when you stand next to one of the two objects at the east end, even if it is the wrong "
            "one."
        )

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return f'{super().effects(params)} "wait", "pick up", "drop" and "toggle" have no effect in this game.'


TEXT = MiniGridMemoryTextInterface.spec(8)
