"""Mortar Mayhem: execute a sequence of commands from memory; on a grid or freely, act-only, or endless."""

from jaxgym.envs.mortar_mayhem import commands, endless, expert, game, original, presets, scene, text, valid_levels
from jaxgym.options import Preset
from jaxgym.spec import Human, Spec

_GRID = {
    "allowed_commands": {"default": 5},
    "explosion_duration": {"default": [2]},
    "explosion_delay": {"default": [6]},
}
_ACT_ONLY = {name: {"high": commands.VECTOR_COMMANDS} for name in ("command_count", "max_commands")}


def _spec(options: dict[str, Preset], *, grid: bool, act_only: bool) -> Spec:
    without_speed = {"agent_speed": 0.0, "flat_actions": False} if grid else {}
    without_clues = {"command_show_duration": [0], "command_show_delay": [0]} if act_only else {}
    return Spec(
        game.MortarMayhem,
        game.Params,
        {"grid": grid, "act_only": act_only, **without_speed, **without_clues},
        {**(_GRID if grid else {}), **(_ACT_ONLY if act_only else {})},
        valid_levels=valid_levels.valid_levels,
        original=original.ORIGINAL,
        presets=options,
        expert=expert.action,
        human=Human(scene.view, "grid" if grid else "free", game.is_clue_phase),
        text=text.GRID_TEXT if grid else text.FREE_TEXT,
    )


FREE = _spec(presets.FREE_PRESETS, grid=False, act_only=False)
GRID = _spec(presets.GRID_PRESETS, grid=True, act_only=False)
ACT_ONLY = _spec(presets.ACT_ONLY_PRESETS, grid=False, act_only=True)
ACT_ONLY_GRID = _spec(presets.ACT_ONLY_GRID_PRESETS, grid=True, act_only=True)
ENDLESS = Spec(
    endless.EndlessMortarMayhem,
    endless.EndlessMortarMayhemParams,
    sizes_of=original.endless_sizes_of,
    valid_levels=valid_levels.endless_valid_levels,
    original=original.ENDLESS_ORIGINAL,
    presets=presets.ENDLESS_PRESETS,
    expert=expert.endless_action,
    human=Human(scene.view, "free", endless.is_clue_seen),
    text=text.FREE_TEXT,
)
