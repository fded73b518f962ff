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
    "iclr2023": Preset({"command_count": [5]}, "MM: 5 commands of 9 kinds", VARIANTS),
    "jmlr2025": Preset({**_MORTAR_MAYHEM, **_CLUES, **FREE}, "MM: 10 commands of 9 kinds", PUBLISHED),
}
GRID_PRESETS = {
    "iclr2023": Preset({"command_count": [10], "allowed_commands": 5}, "MMGrid: 10 commands of 5 kinds", VARIANTS),
    "jmlr2025": Preset({**_MORTAR_MAYHEM, **_CLUES, **_GRID}, "MMGrid: 10 commands of 5 kinds", PUBLISHED),
}
ACT_ONLY_PRESETS = {
    "iclr2023": Preset({"command_count": [5]}, "MMAct: 5 commands of 9 kinds, all in every observation", VARIANTS),
}
ACT_ONLY_GRID_PRESETS = {
    "iclr2023": Preset(
        {"command_count": [10], "allowed_commands": 5},
        "MMActGrid: 10 commands of 5 kinds, all in every observation",
        VARIANTS,
    ),
    "jmlr2025": Preset(
        {**_MORTAR_MAYHEM, **_GRID}, "MMActGrid: 10 commands of 5 kinds, all in every observation", PUBLISHED
    ),
}
ENDLESS_PRESETS = endless_presets(
    "EMM: the sequence grows by one command at a time",
    {**_ENDLESS_MORTAR_MAYHEM, "max_steps": 0},
    {**_ENDLESS_MORTAR_MAYHEM, "max_steps": 2560},
)
