"""Color-Cubes: go to cubes of given colors, whose places are shown only when something has changed."""

from typing import Any

from jaxgym.envs.color_cubes import game, text
from jaxgym.options import Preset
from jaxgym.spec import Human, Spec

_SOURCE = "AAMAS 2026, arXiv 2601.15086; the paper's text has no numbers, so they are our choice"


def _preset(help_: str, **options: Any) -> Preset:
    return Preset(options, help_, _SOURCE)


SPEC = Spec(
    game.ColorCubes,
    game.Params,
    max_steps=100,
    valid_levels=game.valid_levels,
    presets={
        "trivial": _preset("one cube, one phase", num_cubes=1, num_phases=1),
        "medium": _preset("cubes teleport", num_cubes=3, num_phases=5, teleport_probability=0.1, hide_colors=False),
        "extreme": _preset(
            "cubes teleport, and then the colors are hidden",
            num_cubes=3,
            num_phases=5,
            teleport_probability=0.1,
            hide_colors=True,
        ),
    },
    expert=game.expert_action,
    human=Human(game.view, "compass"),
    text=text.TEXT,
)
