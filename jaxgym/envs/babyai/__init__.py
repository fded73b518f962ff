"""BabyAI: fulfill a mission in a grid of rooms. `SPECS` has the declaration of each id."""

from jaxgym.envs.babyai import expert, game, original, text
from jaxgym.envs.babyai.classes import LevelClass
from jaxgym.envs.babyai.table import LEVELS
from jaxgym.spec import Human, Spec


def _spec(level_class: LevelClass) -> Spec:
    return Spec(
        game.BabyAI,
        fixed={"level_class": level_class},
        changes={"observation": {"default": "symbolic"}},
        max_steps=level_class.most_steps,
        valid_levels=game.valid_levels,
        original=original.ORIGINAL,
        expert=expert.action,
        human=Human(game.view, "minigrid"),
        text=text.TEXT,
    )


SPECS = {f"BabyAI-{name}": _spec(level_class) for name, level_class in LEVELS.items()}
"""The specs by id."""
