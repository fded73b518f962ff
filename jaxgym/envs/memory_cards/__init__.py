"""Memory Cards: find the pair of the shown card among cards that lie face down."""

from jaxgym.envs.memory_cards import game, original, text
from jaxgym.spec import Human, Spec

SPEC = Spec(
    game.MemoryCards,
    valid_levels=game.valid_levels,
    original=original.ORIGINAL,
    expert=game.expert_action,
    human=Human(game.view, "text"),
    text=text.TEXT,
)
