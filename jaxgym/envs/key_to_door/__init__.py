"""Key-to-Door: pick a key, collect apples, then open a door with the key."""

from jaxgym.envs.key_to_door import game, original, text
from jaxgym.spec import Human, Spec

SPEC = Spec(
    game.KeyToDoor,
    game.RoomParams,
    changes={"apple_frames": {"default": 60}, "reward_frames": {"default": 10}},
    valid_levels=game.valid_levels,
    original=original.ORIGINAL,
    expert=game.expert_action,
    human=Human(game.view, "compass"),
    text=text.TEXT,
)
