"""Presets of both Mystery Path games; see `jaxgym.envs.memory_gym.presets`."""

from jaxgym.envs.memory_gym.presets import FREE, PUBLISHED, VARIANTS, Options, endless_presets
from jaxgym.options import Preset

_MYSTERY_PATH: Options = {
    "cardinal_origin_choice": [0, 1, 2, 3],
    "show_origin": False,
    "show_goal": False,
    "reward_goal": 1.0,
    "reward_fall_off": 0.0,
    "reward_path_progress": 0.0,
    "reward_step": 0.0,
    "agent_scale": 0.25,
}
_ENDLESS_MYSTERY_PATH: Options = {
    **FREE,
    "show_origin": True,
    "show_past_path": True,
    "stamina_level": 20,
    "reward_fall_off": 0.0,
    "reward_path_progress": 0.1,
    "reward_step": 0.0,
}

FREE_PRESETS = {
    "iclr2023": Preset(
        {"show_origin": True, "show_goal": False, "reward_path_progress": 0.0},
        "MP: origin shown, goal hidden, reward for the goal only",
        VARIANTS,
    ),
    "iclr2023-dense": Preset(
        {"show_origin": True, "show_goal": False, "reward_path_progress": 0.03},
        "MP Dense: reward for each new tile too",
        VARIANTS,
    ),
    "iclr2023-step-penalty": Preset(
        {"show_origin": True, "show_goal": False, "reward_path_progress": 0.03, "reward_step": -0.001},
        "MP Dense with a penalty for each step",
        VARIANTS,
    ),
    "jmlr2025": Preset(
        {**_MYSTERY_PATH, **FREE, "reward_path_progress": 0.1, "max_steps": 512},
        "MP: origin and goal hidden, reward for each new tile",
        PUBLISHED,
    ),
}
GRID_PRESETS = {
    "iclr2023": Preset({"show_origin": True, "show_goal": True}, "MPGrid: origin and goal shown", VARIANTS),
    "iclr2023-goal-hidden": Preset(
        {"show_origin": True, "show_goal": False}, "MPGrid !G: origin shown, goal hidden", VARIANTS
    ),
    "iclr2023-hidden": Preset(
        {"show_origin": False, "show_goal": False}, "MPGrid !GO: origin and goal hidden", VARIANTS
    ),
    "jmlr2025": Preset({**_MYSTERY_PATH, "max_steps": 128}, "MPGrid off: origin and goal hidden", PUBLISHED),
    "jmlr2025-visible": Preset(
        {**_MYSTERY_PATH, "show_origin": True, "show_goal": True, "max_steps": 128},
        "MPGrid on: origin and goal shown",
        PUBLISHED,
    ),
}
ENDLESS_PRESETS = endless_presets(
    "EMP: 20 steps from tile to tile, past path shown",
    {**_ENDLESS_MYSTERY_PATH, "max_steps": 0},
    {**_ENDLESS_MYSTERY_PATH, "max_steps": 1280},
)
