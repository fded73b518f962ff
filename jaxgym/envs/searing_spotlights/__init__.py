"""Searing Spotlights: collect coins in the dark and evade spotlights; with an exit, or endless."""

from jaxgym.envs.searing_spotlights import base, endless, expert, game, original, presets, text, valid_levels
from jaxgym.spec import Human, Spec

SPEC = Spec(
    game.SearingSpotlights,
    game.Params,
    max_steps=256,
    sizes_of=original.sizes_of,
    valid_levels=valid_levels.valid_levels,
    original=original.ORIGINAL,
    presets=presets.PRESETS,
    expert=expert.action,
    human=Human(base.view, "free"),
    text=text.TEXT,
)
ENDLESS = Spec(
    endless.EndlessSearingSpotlights,
    endless.EndlessSearingSpotlightsParams,
    changes={
        "initial_spawns": {"default": 3},
        "agent_health": {"default": 10.0},
        "max_spotlights": {"none": f"the largest possible number, at most {endless.MOST_SPOTLIGHTS}"},
    },
    sizes_of=original.sizes_of,
    valid_levels=valid_levels.endless_valid_levels,
    original=original.ENDLESS_ORIGINAL,
    presets=presets.ENDLESS_PRESETS,
    expert=expert.action,
    human=Human(base.view, "free"),
    text=text.TEXT,
)
