"""Presets: each equals its row of the papers' tables, can be made, is overridden by options, and is in the docs."""

import dataclasses
from typing import Any

import chex
import jax
import numpy as np
import pytest

import jaxgym
from docs.presets_table import PAGE, REGION, presets_tables
from jaxgym import levels
from jaxgym.errors import OptionError, UnknownIdError

SPOTLIGHTS = "SearingSpotlights-v0"
NAMES = [(env_id, name) for env_id in jaxgym.registered_envs() for name in jaxgym.presets(env_id)]

# The rows of the papers' tables: what they say, and nothing else.
ROWS: dict[tuple[str, str], dict[str, Any]] = {
    ("Sudoku-v0", "very-easy"): {"clues": [75]},
    ("Sudoku-v0", "easy"): {"clues": [70]},
    ("Sudoku-v0", "medium"): {"clues": [40]},
    ("Sudoku-v0", "hard"): {"clues": [20]},
    ("MortarMayhem-v0", "iclr2023"): {"command_count": [5]},
    ("MortarMayhem-Grid-v0", "iclr2023"): {"command_count": [10], "allowed_commands": 5},
    ("MortarMayhemB-v0", "iclr2023"): {"command_count": [5]},
    ("MortarMayhemB-Grid-v0", "iclr2023"): {"command_count": [10], "allowed_commands": 5},
    ("MysteryPath-v0", "iclr2023"): {"show_origin": True, "show_goal": False, "reward_path_progress": 0.0},
    ("MysteryPath-v0", "iclr2023-dense"): {"show_origin": True, "show_goal": False, "reward_path_progress": 0.03},
    ("MysteryPath-v0", "iclr2023-step-penalty"): {"reward_path_progress": 0.03, "reward_step": -0.001},
    ("MysteryPath-Grid-v0", "iclr2023"): {"show_origin": True, "show_goal": True},
    ("MysteryPath-Grid-v0", "iclr2023-goal-hidden"): {"show_origin": True, "show_goal": False},
    ("MysteryPath-Grid-v0", "iclr2023-hidden"): {"show_origin": False, "show_goal": False},
    (SPOTLIGHTS, "iclr2023"): {
        "max_steps": 512,
        "agent_health": 100,
        "light_dim_off_duration": 6,
        "num_coins": [1],
        "use_exit": True,
    },
    ("MortarMayhem-v0", "jmlr2025"): {
        "command_count": [10],
        "allowed_commands": 9,
        "command_show_duration": [3],
        "command_show_delay": [1],
        "explosion_duration": [6],
        "explosion_delay": [18],
        "reward_command_success": 0.1,
        "reward_command_failure": 0.0,
        "agent_speed": 3.0,
        "agent_scale": 0.25,
    },
    ("MortarMayhem-Grid-v0", "jmlr2025"): {
        "arena_size": 5,
        "command_count": [10],
        "allowed_commands": 5,
        "explosion_duration": [2],
        "explosion_delay": [6],
    },
    ("MortarMayhemB-Grid-v0", "jmlr2025"): {
        "arena_size": 5,
        "command_count": [10],
        "allowed_commands": 5,
        "explosion_duration": [2],
        "explosion_delay": [6],
    },
    ("Endless-MortarMayhem-v0", "jmlr2025"): {"initial_command_count": 1, "allowed_commands": 9, "max_steps": 0},
    ("Endless-MortarMayhem-v0", "jmlr2025-transformer"): {"max_steps": 2560},
    ("MysteryPath-v0", "jmlr2025"): {
        "reward_goal": 1.0,
        "reward_path_progress": 0.1,
        "reward_fall_off": 0.0,
        "reward_step": 0.0,
        "cardinal_origin_choice": [0, 1, 2, 3],
    },
    ("MysteryPath-Grid-v0", "jmlr2025"): {"show_origin": False, "show_goal": False, "reward_path_progress": 0.0},
    ("MysteryPath-Grid-v0", "jmlr2025-visible"): {"show_origin": True, "show_goal": True, "reward_path_progress": 0.0},
    ("Endless-MysteryPath-v0", "jmlr2025"): {
        "reward_path_progress": 0.1,
        "stamina_level": 20,
        "show_past_path": True,
        "show_origin": True,
        "max_steps": 0,
    },
    ("Endless-MysteryPath-v0", "jmlr2025-transformer"): {"max_steps": 1280},
    (SPOTLIGHTS, "jmlr2025"): {
        "initial_spawns": 4,
        "num_spawns": 30,
        "initial_spawn_interval": 30.0,
        "spawn_interval_decay": 0.95,
        "spawn_interval_threshold": 10.0,
        "spot_min_radius": 7.5,
        "spot_max_radius": 13.75,
        "spot_damage": 1.0,
        "agent_health": 5,
        "num_coins": [1],
        "reward_coin": 0.25,
        "reward_exit": 1.0,
        "max_steps": 256,
        "light_dim_off_duration": 6,
    },
    ("Endless-SearingSpotlights-v0", "jmlr2025"): {
        "agent_health": 10,
        "initial_spawns": 3,
        "spawn_interval": 50,
        "coin_show_duration": 6,
        "steps_per_coin": 160,
        "reward_coin": 0.25,
        "max_steps": 8192,
    },
    ("Endless-SearingSpotlights-v0", "jmlr2025-transformer"): {"max_steps": 1280},
    (SPOTLIGHTS, "ablation-light-penalty"): {"reward_inside_spotlight": -0.01},
    (SPOTLIGHTS, "ablation-death-penalty"): {"reward_death": -0.1},
    (SPOTLIGHTS, "ablation-still-spotlights"): {"spot_min_speed": 0.0, "spot_max_speed": 0.0},
    (SPOTLIGHTS, "ablation-no-exit"): {"num_coins": [1], "use_exit": False},
    (SPOTLIGHTS, "ablation-no-coin"): {"num_coins": [0], "use_exit": True},
    (SPOTLIGHTS, "ablation-center-start"): {"sample_agent_position": False},
    (SPOTLIGHTS, "ablation-visible-agent"): {"agent_visible": True},
    (SPOTLIGHTS, "ablation-visible-coin"): {"coins_visible": True},
    (SPOTLIGHTS, "ablation-visible-exit"): {"exit_visible": True},
    (SPOTLIGHTS, "ablation-all-visible"): {"agent_visible": True, "coins_visible": True, "exit_visible": True},
    (SPOTLIGHTS, "ablation-last-action"): {"show_last_action": True},
    ("ColorCubes-v0", "trivial"): {"num_cubes": 1, "num_phases": 1},
    ("ColorCubes-v0", "medium"): {"hide_colors": False},
    ("ColorCubes-v0", "extreme"): {"hide_colors": True},
    ("Ballet-v0", "2_delay16"): {"num_dancers": 2, "delay": 16, "max_steps": 320},
    ("Ballet-v0", "4_delay16"): {"num_dancers": 4, "delay": 16, "max_steps": 320},
    ("Ballet-v0", "8_delay16"): {"num_dancers": 8, "delay": 16, "max_steps": 320},
    ("Ballet-v0", "2_delay48"): {"num_dancers": 2, "delay": 48, "max_steps": 1024},
    ("Ballet-v0", "4_delay48"): {"num_dancers": 4, "delay": 48, "max_steps": 1024},
    ("Ballet-v0", "8_delay48"): {"num_dancers": 8, "delay": 48, "max_steps": 1024},
    (SPOTLIGHTS, "ablation-no-spotlights"): {"initial_spawns": 0, "num_spawns": 0},
    (SPOTLIGHTS, "ablation-no-chessboard"): {"hide_chessboard": True},
    (SPOTLIGHTS, "ablation-black-floor"): {"black_background": True},
}
# Ablations that the paper describes without numbers: which options change, and where to.
DESCRIBED = {
    "ablation-agent-speed": lambda options: options["agent_speed"] > 3.0,
    "ablation-large-things": lambda options: (
        options["agent_scale"] > 0.25 and options["coin_scale"] > 0.375 and options["exit_scale"] > 0.5
    ),
    "ablation-few-spotlights": lambda options: options["initial_spawns"] < 4 and options["num_spawns"] < 30,
    "ablation-equal-spotlights": lambda options: (
        options["spot_min_radius"] == options["spot_max_radius"]
        and options["spot_min_speed"] == options["spot_max_speed"] > 0
    ),
    "ablation-more-health": lambda options: options["agent_health"] > 100,
    "ablation-slow-dimming": lambda options: options["light_dim_off_duration"] > 6,
    "ablation-dim-light": lambda options: options["light_threshold"] < 255,
}


def field_of(params: Any, name: str) -> Any:
    return params.max_steps_in_episode if name == "max_steps" else getattr(params, name, None)


def test_every_preset_has_a_row() -> None:
    assert {*ROWS, *((SPOTLIGHTS, name) for name in DESCRIBED)} == set(NAMES)


@pytest.mark.parametrize(("env_id", "name"), NAMES)
def test_a_preset_makes_what_its_row_says(env_id: str, name: str) -> None:
    _, params = jaxgym.make(env_id, preset=name, levels="fresh")
    _, plain = jaxgym.make(env_id, levels="fresh", **ROWS.get((env_id, name), {}))
    options = jaxgym.presets(env_id)[name].options
    for option, value in ROWS.get((env_id, name), {}).items():
        assert options[option] == value
        expected = jax.tree.leaves(field_of(plain, option))
        for leaf, wanted in zip(jax.tree.leaves(field_of(params, option)), expected, strict=True):
            np.testing.assert_array_equal(leaf, wanted)


@pytest.mark.parametrize("name", DESCRIBED)
def test_an_ablation_without_numbers_changes_what_the_paper_names(name: str) -> None:
    assert DESCRIBED[name](jaxgym.presets(SPOTLIGHTS)[name].options)


def test_an_ablation_changes_nothing_else_of_the_earlier_paper() -> None:
    presets = jaxgym.presets(SPOTLIGHTS)
    base = presets["iclr2023"].options
    for name in (name for name in presets if name.startswith("ablation-")):
        options = presets[name].options
        changed = {option for option, value in options.items() if base.get(option) != value}
        received = ROWS.get((SPOTLIGHTS, name), {})
        assert set(base) <= set(options)
        assert changed <= {*received, *(() if received else options)}


@pytest.mark.parametrize(("env_id", "name"), NAMES)
def test_a_preset_has_words_and_a_source(env_id: str, name: str) -> None:
    preset = jaxgym.presets(env_id)[name]
    assert preset.help
    assert preset.source.startswith(("ICLR 2023", "JMLR 2025", "NeurIPS 2021", "AAMAS 2026", "TextArena"))
    assert name == name.lower()
    assert set(preset.options) <= set(jaxgym.spec_of(env_id).all_options)


def test_options_beside_a_preset_override_it() -> None:
    _, params = jaxgym.make(SPOTLIGHTS, preset="iclr2023", max_steps=7, light_dim_off_duration=2, reward_coin=0.5)
    assert params.max_steps_in_episode == 7
    assert params.light_dim_off_duration == 2
    assert params.reward_coin == 0.5
    assert params.agent_health == 100


def test_without_a_preset_all_options_are_the_defaults() -> None:
    _, params = jaxgym.make(SPOTLIGHTS)
    _, same = jaxgym.make(SPOTLIGHTS, preset=None)
    chex.assert_trees_all_equal(params, same)


def test_an_unknown_preset_is_rejected_with_the_nearest_and_all_of_the_id() -> None:
    for make in (
        lambda: jaxgym.make("MysteryPath-v0", preset="iclr2023-dens"),
        lambda: levels.original("MysteryPath-v0", [0], preset="iclr2023-dens"),
    ):
        with pytest.raises(OptionError) as raised:
            make()
        assert str(raised.value) == (
            "MysteryPath-v0: expected a preset, got 'iclr2023-dens' (did you mean 'iclr2023-dense'?). "
            "Use one of iclr2023, iclr2023-dense, iclr2023-step-penalty, jmlr2025."
        )


def test_an_environment_without_presets_says_so() -> None:
    jaxgym.register("Bare-v0", dataclasses.replace(jaxgym.spec_of(SPOTLIGHTS), presets={}))
    try:
        with pytest.raises(
            OptionError, match=r"^Bare-v0: expected a preset, got 'x'\. It has no presets\. Pass options instead"
        ):
            jaxgym.make("Bare-v0", preset="x")
    finally:
        jaxgym.unregister("Bare-v0")


def test_the_presets_of_an_unknown_id_are_rejected() -> None:
    with pytest.raises(UnknownIdError, match="did you mean 'MysteryPath-v0'"):
        jaxgym.presets("MysteryPath")


def test_levels_of_the_original_follow_a_preset() -> None:
    buffer = levels.original("MortarMayhem-v0", [3], preset="iclr2023")
    same = levels.original("MortarMayhem-v0", [3], command_count=[5])
    chex.assert_trees_all_equal(buffer, same)
    _, params = jaxgym.make("MortarMayhem-v0", preset="iclr2023", levels=buffer)
    assert levels.num_levels(params.levels) == 1


def test_the_presets_on_the_page_are_those_of_the_code() -> None:
    (found,) = REGION.findall(PAGE.read_text())
    assert found[1] == presets_tables(), "run python -m docs.presets_table"
