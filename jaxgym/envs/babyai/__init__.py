"""BabyAI: fulfill a mission in a grid of rooms. `SPECS` and `EXTRA_SPECS` have the declaration of each id."""

from typing import Any

from jaxgym.envs.babyai import expert, game, mixed, original, text
from jaxgym.envs.babyai.classes import LevelClass
from jaxgym.envs.babyai.table import LEVELS, PUT_NEXT
from jaxgym.spec import Human, Spec


def _spec(environment: type[game.BabyAI], max_steps: int, **declared: Any) -> Spec:
    return Spec(
        environment,
        changes={"observation": {"default": "symbolic"}},
        max_steps=max_steps,
        valid_levels=game.valid_levels,
        expert=expert.action,
        human=Human(game.view, "minigrid"),
        text=text.TEXT,
        **declared,
    )


def _spec_of(level_class: LevelClass, **declared: Any) -> Spec:
    return _spec(game.BabyAI, level_class.most_steps, fixed={"level_class": level_class}, **declared)


SPECS = {f"BabyAI-{name}": _spec_of(level_class, original=original.ORIGINAL) for name, level_class in LEVELS.items()}
"""The specs of the ids that minigrid has, by id."""

EXTRA_SPECS = {
    "BabyAI-PutNext-v0": _spec_of(PUT_NEXT),
    "BabyAI-MixedTrainLocal-v0": _spec(mixed.MixedTrainLocal, mixed.MOST_STEPS),
}
"""The specs of levels that minigrid lacks, by id: one of the BabyAI paper, and the one that BALROG plays."""
