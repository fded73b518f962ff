"""Presets of the memory games: the options of two papers, each set under a name.

`iclr2023` is Pleines et al., Memory Gym (ICLR 2023); `jmlr2025` is Pleines et al., Memory Gym to Endless Tasks
(JMLR 26(6), 2025). The rules are those of memory-gym 1.0.2 under every preset; where the earlier paper used an earlier
release with other rules, an option set can come close to it, no more. Sizes that the earlier paper does not tell in
numbers are chosen here, and their line says so.
"""

from collections.abc import Mapping
from typing import Any

from jaxgym.options import Preset

_VARIANTS = "ICLR 2023, the variants of the experiments"
_ABLATIONS = "ICLR 2023, appendix F"
_PUBLISHED = "JMLR 2025, the published training configurations"

Options = Mapping[str, Any]

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
_FREE: Options = {"agent_speed": 3.0, "agent_scale": 0.25}

_ENDLESS_MORTAR_MAYHEM: Options = {
    **_FREE,
    **_CLUES,
    "initial_command_count": 1,
    "allowed_commands": 9,
    "explosion_duration": [6],
    "explosion_delay": [18],
    "reward_command_failure": 0.0,
    "reward_command_success": 0.1,
}

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
    **_FREE,
    "show_origin": True,
    "show_past_path": True,
    "stamina_level": 20,
    "reward_fall_off": 0.0,
    "reward_path_progress": 0.1,
    "reward_step": 0.0,
}

_SEARING_SPOTLIGHTS: Options = {
    **_FREE,
    "max_steps": 256,
    "initial_spawns": 4,
    "num_spawns": 30,
    "initial_spawn_interval": 30.0,
    "spawn_interval_threshold": 10.0,
    "spawn_interval_decay": 0.95,
    "spot_min_radius": 7.5,
    "spot_max_radius": 13.75,
    "spot_damage": 1.0,
    "light_dim_off_duration": 6,
    "num_coins": [1],
    "use_exit": True,
    "agent_health": 5,
    "reward_coin": 0.25,
    "reward_exit": 1.0,
}
_ENDLESS_SEARING_SPOTLIGHTS: Options = {
    **_FREE,
    "agent_health": 10,
    "initial_spawns": 3,
    "spawn_interval": 50,
    "coin_show_duration": 6,
    "steps_per_coin": 160,
    "reward_coin": 0.25,
}
_EARLY_SEARING_SPOTLIGHTS: Options = {
    "max_steps": 512,
    "agent_health": 100,
    "light_dim_off_duration": 6,
    "num_coins": [1],
    "use_exit": True,
}


def _both(line: str, recurrent: Options, transformer: Options) -> dict[str, Preset]:
    """Returns the two presets of an endless game, whose time limit depends on the memory."""
    return {
        "jmlr2025": Preset(recurrent, f"{line}; the time limit of the recurrent agents", _PUBLISHED),
        "jmlr2025-transformer": Preset(transformer, f"{line}; the time limit of the transformers", _PUBLISHED),
    }


def _ablation(line: str, **options: Any) -> Preset:
    return Preset({**_EARLY_SEARING_SPOTLIGHTS, **options}, line, _ABLATIONS)


_ABLATIONS_OF_SEARING_SPOTLIGHTS = {
    "ablation-agent-speed": _ablation("a faster agent; the speed is chosen here", agent_speed=5.0),
    "ablation-large-things": _ablation(
        "agent, coin and exit larger, spotlights not; twice the size is chosen here",
        agent_scale=0.5,
        coin_scale=0.75,
        exit_scale=1.0,
    ),
    "ablation-light-penalty": _ablation("a penalty in each step in the light", reward_inside_spotlight=-0.01),
    "ablation-still-spotlights": _ablation(
        "spotlights do not move: they stay outside of the screen, as the original's do",
        spot_min_speed=0.0,
        spot_max_speed=0.0,
    ),
    "ablation-few-spotlights": _ablation(
        "fewer spotlights; half of them is chosen here", initial_spawns=2, num_spawns=15
    ),
    "ablation-equal-spotlights": _ablation(
        "all spotlights of one size and speed; both are chosen here",
        spot_min_radius=10.0,
        spot_max_radius=10.0,
        spot_min_speed=0.005,
        spot_max_speed=0.005,
    ),
    "ablation-no-exit": _ablation("one coin and no exit", use_exit=False),
    "ablation-no-coin": _ablation("an exit and no coin", num_coins=[0]),
    "ablation-center-start": _ablation("the agent starts in the centre", sample_agent_position=False),
    "ablation-more-health": _ablation("more health; twice as much is chosen here", agent_health=200),
    "ablation-death-penalty": _ablation("a penalty for dying", reward_death=-0.1),
    "ablation-slow-dimming": _ablation(
        "everything is seen for longer; the duration is chosen here", light_dim_off_duration=60
    ),
    "ablation-visible-agent": _ablation("the agent is always seen", agent_visible=True),
    "ablation-visible-coin": _ablation("the coin is always seen", coins_visible=True),
    "ablation-visible-exit": _ablation("the exit is always seen", exit_visible=True),
    "ablation-all-visible": _ablation(
        "agent, coin and exit are always seen", agent_visible=True, coins_visible=True, exit_visible=True
    ),
    "ablation-last-action": _ablation("the last action is in the bar, as it is by default", show_last_action=True),
    "ablation-dim-light": _ablation(
        "the light stays on, dimmed, so that everything is seen; how dark is chosen here", light_threshold=100
    ),
    "ablation-no-spotlights": _ablation(
        "no spotlights, and the light goes off as ever", initial_spawns=0, num_spawns=0
    ),
    "ablation-no-chessboard": _ablation("a white floor", hide_chessboard=True),
    "ablation-black-floor": _ablation("a black floor, and spotlights with a white outline", black_background=True),
}

PRESETS: Mapping[str, Mapping[str, Preset]] = {
    "MortarMayhem-v0": {
        "iclr2023": Preset({"command_count": [5]}, "MM: five commands of nine", _VARIANTS),
        "jmlr2025": Preset({**_MORTAR_MAYHEM, **_CLUES, **_FREE}, "MM: ten commands of nine", _PUBLISHED),
    },
    "MortarMayhem-Grid-v0": {
        "iclr2023": Preset({"command_count": [10], "allowed_commands": 5}, "MMGrid: ten commands of five", _VARIANTS),
        "jmlr2025": Preset({**_MORTAR_MAYHEM, **_CLUES, **_GRID}, "MMGrid: ten commands of five", _PUBLISHED),
    },
    "MortarMayhemB-v0": {
        "iclr2023": Preset({"command_count": [5]}, "MMAct: five commands of nine, all given at once", _VARIANTS),
    },
    "MortarMayhemB-Grid-v0": {
        "iclr2023": Preset(
            {"command_count": [10], "allowed_commands": 5},
            "MMActGrid: ten commands of five, all given at once",
            _VARIANTS,
        ),
        "jmlr2025": Preset(
            {**_MORTAR_MAYHEM, **_GRID}, "MMActGrid: ten commands of five, all given at once", _PUBLISHED
        ),
    },
    "Endless-MortarMayhem-v0": _both(
        "EMM: one command more each time",
        {**_ENDLESS_MORTAR_MAYHEM, "max_steps": 0},
        {**_ENDLESS_MORTAR_MAYHEM, "max_steps": 2560},
    ),
    "MysteryPath-v0": {
        "iclr2023": Preset(
            {"show_origin": True, "show_goal": False, "reward_path_progress": 0.0},
            "MP: origin shown, goal hidden, reward for the goal only",
            _VARIANTS,
        ),
        "iclr2023-dense": Preset(
            {"show_origin": True, "show_goal": False, "reward_path_progress": 0.03},
            "MP Dense: reward for each new tile too",
            _VARIANTS,
        ),
        "iclr2023-step-penalty": Preset(
            {"show_origin": True, "show_goal": False, "reward_path_progress": 0.03, "reward_step": -0.001},
            "MP Dense with a penalty for each step",
            _VARIANTS,
        ),
        "jmlr2025": Preset(
            {**_MYSTERY_PATH, **_FREE, "reward_path_progress": 0.1, "max_steps": 512},
            "MP: origin and goal hidden, reward for each new tile",
            _PUBLISHED,
        ),
    },
    "MysteryPath-Grid-v0": {
        "iclr2023": Preset({"show_origin": True, "show_goal": True}, "MPGrid: origin and goal shown", _VARIANTS),
        "iclr2023-goal-hidden": Preset(
            {"show_origin": True, "show_goal": False}, "MPGrid !G: origin shown, goal hidden", _VARIANTS
        ),
        "iclr2023-hidden": Preset(
            {"show_origin": False, "show_goal": False}, "MPGrid !GO: origin and goal hidden", _VARIANTS
        ),
        "jmlr2025": Preset({**_MYSTERY_PATH, "max_steps": 128}, "MPGrid off: origin and goal hidden", _PUBLISHED),
        "jmlr2025-visible": Preset(
            {**_MYSTERY_PATH, "show_origin": True, "show_goal": True, "max_steps": 128},
            "MPGrid on: origin and goal shown",
            _PUBLISHED,
        ),
    },
    "Endless-MysteryPath-v0": _both(
        "EMP: twenty steps from tile to tile, past path shown",
        {**_ENDLESS_MYSTERY_PATH, "max_steps": 0},
        {**_ENDLESS_MYSTERY_PATH, "max_steps": 1280},
    ),
    "SearingSpotlights-v0": {
        "iclr2023": Preset(_EARLY_SEARING_SPOTLIGHTS, "SS: 100 health and 512 steps", _VARIANTS),
        "jmlr2025": Preset(_SEARING_SPOTLIGHTS, "SS: 5 health and 256 steps", _PUBLISHED),
        **_ABLATIONS_OF_SEARING_SPOTLIGHTS,
    },
    "Endless-SearingSpotlights-v0": _both(
        "ESS: 10 health, 160 steps to each coin",
        {**_ENDLESS_SEARING_SPOTLIGHTS, "max_steps": 8192},
        {**_ENDLESS_SEARING_SPOTLIGHTS, "max_steps": 1280},
    ),
}
"""By environment id, and then by name."""
