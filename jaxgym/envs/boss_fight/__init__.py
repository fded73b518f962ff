"""BossFight: dodge the bullets of a boss, and shoot when its shield is down."""

from jaxgym.envs.boss_fight import expert, game, original, text
from jaxgym.spec import Human, Spec

SPEC = Spec(
    game.BossFight,
    max_steps=4000,
    sizes_of=game.sizes_of,
    valid_levels=game.valid_levels,
    original=original.ORIGINAL,
    expert=expert.expert_action,
    human=Human(game.view, "ship"),
    text=text.TEXT,
)
