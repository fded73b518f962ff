"""Visual Match: see a colored square, collect apples, then choose the door of that color."""

from jaxgym.envs.visual_match import game, original, text
from jaxgym.spec import Human, Spec

SPEC = Spec(
    game.VisualMatch,
    game.Params,
    valid_levels=game.valid_levels,
    original=original.ORIGINAL,
    expert=game.expert_action,
    human=Human(game.view, "compass"),
    text=text.TEXT,
)
