"""MiniGrid-Memory: remember an object, and walk to the same object at the end of a hallway."""

from jaxgym.envs.minigrid_memory import expert, game, original, text
from jaxgym.spec import Human, Spec


def _spec(size: int, *, random_length: bool = False) -> Spec:
    return Spec(
        game.MiniGridMemory,
        fixed={"size": size, "random_length": random_length},
        max_steps=game.MAX_STEPS_PER_CELL * size**2,
        valid_levels=game.valid_levels,
        original=original.ORIGINAL,
        expert=expert.action,
        human=Human(game.view, "minigrid"),
        text=text.TEXT,
    )


S7, S9, S11, S13 = _spec(7), _spec(9), _spec(11), _spec(13)
S13_RANDOM, S17_RANDOM = _spec(13, random_length=True), _spec(17, random_length=True)
