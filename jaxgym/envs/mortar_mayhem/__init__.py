"""Mortar Mayhem: execute a sequence of commands from memory; on a grid or freely, act-only, or endless."""

from functools import partial

from jaxgym.envs.mortar_mayhem import endless, expert, fits, game, original, presets, text, view
from jaxgym.options import Preset
from jaxgym.spec import Human, Spec


def _spec(options: dict[str, Preset], *, grid: bool, act_only: bool) -> Spec:
    return Spec(
        partial(game.build, grid=grid, act_only=act_only),
        game.options(grid=grid, act_only=act_only),
        fits=fits.fits,
        original=original.ORIGINAL,
        presets=options,
        expert=expert.action,
        human=Human(view.view, "grid" if grid else "free", game.is_clue_phase),
        text=text.GRID_TEXT if grid else text.FREE_TEXT,
    )


FREE = _spec(presets.FREE_PRESETS, grid=False, act_only=False)
GRID = _spec(presets.GRID_PRESETS, grid=True, act_only=False)
ACT_ONLY = _spec(presets.ACT_ONLY_PRESETS, grid=False, act_only=True)
ACT_ONLY_GRID = _spec(presets.ACT_ONLY_GRID_PRESETS, grid=True, act_only=True)
ENDLESS = Spec(
    endless.build,
    endless.OPTIONS,
    sizes_of=original.endless_sizes_of,
    fits=fits.endless_fits,
    original=original.ENDLESS_ORIGINAL,
    presets=presets.ENDLESS_PRESETS,
    expert=expert.endless_action,
    human=Human(view.endless_view, "free", endless.is_clue_seen),
    text=text.FREE_TEXT,
)
