"""Text interface of Key-to-Door: the view as a map of characters."""

import dataclasses
from typing import Any

from jaxgym.envs.common.text import number, steps
from jaxgym.envs.visual_match.rooms import VIEW
from jaxgym.envs.visual_match.text import VIEW_LEGEND, RoomTextInterface, actions_of, apple_rules


@dataclasses.dataclass(frozen=True)
class KeyToDoorTextInterface(RoomTextInterface):
    """Text interface of Key-to-Door."""

    def rules(self, params: Any) -> str:
        """Return the phases and the rewards."""
        explore, apples, reward = (
            int(frames) for frames in (params.explore_frames, params.apple_frames, params.reward_frames)
        )
        where = (
            "You are in a small room with a door in the middle of its north wall."
            if self.env.reward_room == "SR"
            else "You start in the north half of a room. A door is somewhere in its south half. The opening between "
            "the halves is 3 squares wide."
        )
        return (
            "An episode has three phases.\n"
            f"Phase 1, {steps(explore)}: You start in the south half of a room. A key is somewhere in its north half. "
            "The opening between the halves is 3 squares wide. Step onto the key to pick it up. You keep it until the "
            "end.\n"
            f"Phase 2, {steps(apples)}: You are in a room with apples. Step onto an apple to collect it. "
            f"{apple_rules(params)}\n"
            f"Phase 3, {steps(reward)}: {where} Go to the door. The reward is {number(params.final_reward)} if you "
            "have the key. Without the key, you cannot enter the door. The door gives one reward only.\n"
            f"{self.phases_end(params)}"
        )

    def legend(self, params: Any) -> str:
        """Return the explanation of the map."""
        light = "The light is shown once, right after you pick up the key."
        return f"{VIEW_LEGEND}, k key, i a light in the wall, D door. {light}"

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return (
            f"Each observation has an image of {VIEW} x {VIEW} squares around you, north at the top. You are the light "
            "brown square in the middle. Walls are dark, apples are olive green, the key is dark brown, and the door "
            "is light blue. Right after you pick up the key, one image can show a white light in the wall."
        )


TEXT = KeyToDoorTextInterface.spec(4, actions_of)
