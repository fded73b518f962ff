"""Presets of both Mortar Mayhem games; see `jaxgym.envs.memory_gym.presets`."""

from jaxgym.envs.memory_gym.presets import FREE, PUBLISHED, VARIANTS, Options, endless_presets
from jaxgym.options import Preset

_MORTAR_MAYHEM: Options = {
    "command_count": [10],
    "allowed_commands": 9,
    "explosion_duration": [6],
    "explosion_delay": [18],
    "reward_command_failure": 0.0,
    "reward_command_success": 0.1,
    "reward_episode_success": 0.0,
    "agent_scale": 0.25,
}
_CLUES: Options = {"command_show_duration": [3], "command_show_delay": [1]}
_GRID: Options = {"arena_size": 5, "allowed_commands": 5, "explosion_duration": [2], "explosion_delay": [6]}

_ENDLESS_MORTAR_MAYHEM: Options = {
    **FREE,
    **_CLUES,
    "initial_command_count": 1,
    "allowed_commands": 9,
    "explosion_duration": [6],
    "explosion_delay": [18],
    "reward_command_failure": 0.0,
    "reward_command_success": 0.1,
}

FREE_PRESETS = {
    "iclr2023": Preset({"command_count": [5]}, "MM: five commands of nine", VARIANTS),
    "jmlr2025": Preset({**_MORTAR_MAYHEM, **_CLUES, **FREE}, "MM: ten commands of nine", PUBLISHED),
}
GRID_PRESETS = {
    "iclr2023": Preset({"command_count": [10], "allowed_commands": 5}, "MMGrid: ten commands of five", VARIANTS),
    "jmlr2025": Preset({**_MORTAR_MAYHEM, **_CLUES, **_GRID}, "MMGrid: ten commands of five", PUBLISHED),
}
ACT_ONLY_PRESETS = {
    "iclr2023": Preset({"command_count": [5]}, "MMAct: five commands of nine, all given at once", VARIANTS),
}
ACT_ONLY_GRID_PRESETS = {
    "iclr2023": Preset(
        {"command_count": [10], "allowed_commands": 5}, "MMActGrid: ten commands of five, all given at once", VARIANTS
    ),
    "jmlr2025": Preset({**_MORTAR_MAYHEM, **_GRID}, "MMActGrid: ten commands of five, all given at once", PUBLISHED),
}
ENDLESS_PRESETS = endless_presets(
    "EMM: one command more each time",
    {**_ENDLESS_MORTAR_MAYHEM, "max_steps": 0},
    {**_ENDLESS_MORTAR_MAYHEM, "max_steps": 2560},
)
