"""T-Mazes: see a sign, walk along a corridor, and turn at its end as the sign showed."""

from jaxgym.envs.t_maze import game, lamp, original, text
from jaxgym.spec import Human, Spec

PASSIVE = Spec(
    game.TMaze,
    game.Params,
    valid_levels=game.valid_levels,
    original=original.ORIGINAL,
    expert=game.expert_action,
    human=Human(game.view, "counterclockwise"),
    text=text.TEXT,
)
ACTIVE = Spec(
    game.TMaze,
    game.Params,
    changes={"oracle_length": {"default": 1}},
    valid_levels=game.valid_levels,
    original=original.ORIGINAL,
    expert=game.expert_action,
    human=Human(game.view, "counterclockwise"),
    text=text.TEXT,
)
LAMP = Spec(
    lamp.TMazeLamp,
    game.Params,
    fixed={"ambiguous_position": False, "expose_goal": False, "add_timestep": False},
    changes={
        "episode_length": {
            "help": "number of steps of an episode; 0 for corridor_length + 2 oracle_length + 2, "
            "which is one more than the shortest way to the goal"
        }
    },
    valid_levels=lamp.valid_levels,
    original=original.LAMP_ORIGINAL,
    expert=game.expert_action,
    human=Human(game.view, "counterclockwise"),
    text=text.LAMP_TEXT,
)
