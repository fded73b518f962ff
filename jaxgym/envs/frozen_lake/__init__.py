"""Frozen Lake: cross a lake of ice and holes to the goal."""

from jaxgym.envs.frozen_lake import game, maps, text
from jaxgym.spec import Human, Spec

SPEC = Spec(
    game.FrozenLake,
    game.Params,
    max_steps=game.MAX_STEPS,
    sizes_of=game.sizes_of,
    valid_levels=maps.valid_levels,
    expert=game.expert_action,
    human=Human(game.view, "steps"),
    text=text.TEXT,
)
