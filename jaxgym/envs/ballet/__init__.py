"""Ballet: watch dancers one after another, then go to the one whose dance is named."""

from jaxgym.envs.ballet import game, original, text
from jaxgym.options import Preset
from jaxgym.spec import Human, Spec

_SOURCE = "NeurIPS 2021, arXiv 2105.14039, and its code"
_LIMITS = {16: 320, 48: 1024}
"""Time limit in steps of each delay."""

SPEC = Spec(
    game.Ballet,
    game.Params,
    max_steps=_LIMITS[16],
    original=original.ORIGINAL,
    valid_levels=game.valid_levels,
    presets={
        f"{dancers}_delay{delay}": Preset(
            {"num_dancers": dancers, "delay": delay, "max_steps": limit},
            f"{dancers} dances, {delay - 1} still frames between two of them",
            _SOURCE,
        )
        for delay, limit in _LIMITS.items()
        for dancers in (2, 4, 8)
    },
    expert=game.expert_action,
    human=Human(game.view, "winds", is_clue=game.is_watching, caption=game.caption),
    text=text.TEXT,
)
