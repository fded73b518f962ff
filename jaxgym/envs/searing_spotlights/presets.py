"""Presets of both Searing Spotlights games; see `jaxgym.envs.memory_gym.presets`."""

from typing import Any

from jaxgym.envs.memory_gym.presets import FREE, PUBLISHED, VARIANTS, Options, endless_presets
from jaxgym.options import Preset

_ABLATIONS = "ICLR 2023, appendix F"

_SEARING_SPOTLIGHTS: Options = {
    **FREE,
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
    **FREE,
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


def _ablation(line: str, **options: Any) -> Preset:
    return Preset({**_EARLY_SEARING_SPOTLIGHTS, **options}, line, _ABLATIONS)


_ABLATIONS_OF_SEARING_SPOTLIGHTS = {
    "ablation-agent-speed": _ablation("a faster agent (our choice: 5)", agent_speed=5.0),
    "ablation-large-things": _ablation(
        "larger agent, coin and exit (our choice: twice the size), same spotlights",
        agent_scale=0.5,
        coin_scale=0.75,
        exit_scale=1.0,
    ),
    "ablation-light-penalty": _ablation("a penalty in each step in the light", reward_inside_spotlight=-0.01),
    "ablation-still-spotlights": _ablation(
        "spotlights do not move; they stay outside of the screen, as in the original",
        spot_min_speed=0.0,
        spot_max_speed=0.0,
    ),
    "ablation-few-spotlights": _ablation("half as many spotlights (our choice)", initial_spawns=2, num_spawns=15),
    "ablation-equal-spotlights": _ablation(
        "all spotlights of one size and speed (our choice)",
        spot_min_radius=10.0,
        spot_max_radius=10.0,
        spot_min_speed=0.005,
        spot_max_speed=0.005,
    ),
    "ablation-no-exit": _ablation("one coin and no exit", use_exit=False),
    "ablation-no-coin": _ablation("an exit and no coin", num_coins=[0]),
    "ablation-center-start": _ablation("the agent starts in the center", sample_agent_position=False),
    "ablation-more-health": _ablation("twice as much health (our choice)", agent_health=200),
    "ablation-death-penalty": _ablation("a penalty for dying", reward_death=-0.1),
    "ablation-slow-dimming": _ablation(
        "the light goes off more slowly (our choice: in 60 steps)", light_dim_off_duration=60
    ),
    "ablation-visible-agent": _ablation("the agent is always visible", agent_visible=True),
    "ablation-visible-coin": _ablation("the coin is always visible", coins_visible=True),
    "ablation-visible-exit": _ablation("the exit is always visible", exit_visible=True),
    "ablation-all-visible": _ablation(
        "agent, coin and exit are always visible", agent_visible=True, coins_visible=True, exit_visible=True
    ),
    "ablation-last-action": _ablation("the last action is in the bar, as it is by default", show_last_action=True),
    "ablation-dim-light": _ablation(
        "the light stays on, dimmed (our choice: darkness 100 of 255)", light_threshold=100
    ),
    "ablation-no-spotlights": _ablation("no spotlights; the light goes off as usual", initial_spawns=0, num_spawns=0),
    "ablation-no-chessboard": _ablation("a white floor", hide_chessboard=True),
    "ablation-black-floor": _ablation("a black floor, and spotlights with a white outline", black_background=True),
}

PRESETS = {
    "iclr2023": Preset(_EARLY_SEARING_SPOTLIGHTS, "SS: 100 health and 512 steps", VARIANTS),
    "jmlr2025": Preset(_SEARING_SPOTLIGHTS, "SS: 5 health and 256 steps", PUBLISHED),
    **_ABLATIONS_OF_SEARING_SPOTLIGHTS,
}
ENDLESS_PRESETS = endless_presets(
    "ESS: 10 health, 160 steps to each coin",
    {**_ENDLESS_SEARING_SPOTLIGHTS, "max_steps": 8192},
    {**_ENDLESS_SEARING_SPOTLIGHTS, "max_steps": 1280},
)
