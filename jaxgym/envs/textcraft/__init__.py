"""TextCraft: craft an item from recipes and gathered materials."""

from jaxgym.envs.textcraft import expert, game, text
from jaxgym.spec import Human, Spec

SPEC = Spec(
    game.TextCraft,
    game.Params,
    valid_levels=game.valid_levels,
    expert=expert.textcraft_action,
    human=Human(game.view, "text"),
    text=text.TEXT,
)
