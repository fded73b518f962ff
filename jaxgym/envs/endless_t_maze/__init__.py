"""Endless T-Maze: corridor after corridor, each with a cue at its start that says where to turn at its end."""

from jaxgym.envs.endless_t_maze import game, original, text
from jaxgym.spec import Human, Spec

SPEC = Spec(
    game.EndlessTMaze,
    game.Params,
    max_steps=330,
    valid_levels=game.valid_levels,
    original=original.ORIGINAL,
    expert=game.expert_action,
    human=Human(game.view, "turns"),
    text=text.TEXT,
)
