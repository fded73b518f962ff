"""Sudoku: fill a grid of 9 x 9 cells."""

from jaxgym.envs.sudoku import game, level, text
from jaxgym.spec import Human, Spec

SPEC = Spec(
    game.Sudoku,
    game.Params,
    max_steps=game.MAX_STEPS,
    valid_levels=level.valid_levels,
    presets=game.PRESETS,
    expert=game.expert_action,
    human=Human(game.ground_truth_view, "text"),
    text=text.TEXT,
)
