"""Mystery Path: find a hidden path by falling off it, and remember it; on a grid, freely, or endless."""

from jaxgym.envs.mystery_path import endless, expert, game, original, presets, text, valid_levels, view
from jaxgym.options import Preset
from jaxgym.spec import Human, Spec


def _spec(options: dict[str, Preset], max_steps: int, *, grid: bool) -> Spec:
    return Spec(
        game.MysteryPath,
        game.Params,
        {"grid": grid, **({"agent_speed": 0.0, "flat_actions": False} if grid else {})},
        {"reward_path_progress": {"default": 0.0}} if grid else {},
        max_steps=max_steps,
        default_level_buffer=game.default_level_buffer,
        valid_levels=valid_levels.valid_levels,
        original=original.ORIGINAL,
        presets=options,
        expert=expert.action,
        human=Human(view.view, "grid" if grid else "free"),
        text=text.GRID_TEXT if grid else text.FREE_TEXT,
    )


FREE = _spec(presets.FREE_PRESETS, 512, grid=False)
GRID = _spec(presets.GRID_PRESETS, 128, grid=True)
ENDLESS = Spec(
    endless.EndlessMysteryPath,
    endless.EndlessMysteryPathParams,
    sizes_of=original.endless_sizes_of,
    valid_levels=valid_levels.endless_valid_levels,
    original=original.ENDLESS_ORIGINAL,
    presets=presets.ENDLESS_PRESETS,
    expert=expert.endless_action,
    human=Human(view.endless_view, "path"),
    text=text.ENDLESS_TEXT,
)
