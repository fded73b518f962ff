"""Normalized return of an episode, by game."""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import pytest

import jaxgym
from baselines.config import Config
from baselines.errors import ConfigError
from baselines.game import TrainingGame, frame_shape, make_game, observed_symbols, success_of
from jaxgym.wrappers import FromGymnax, LastActionReward

COUNTS = {
    "Endless-MortarMayhem-v0": "commands_completed",
    "Endless-MysteryPath-v0": "tiles_visited",
    "Endless-SearingSpotlights-v0": "coins_collected",
}


@pytest.mark.parametrize(
    "env_id",
    [pytest.param(env_id, marks=pytest.mark.slow) if "MysteryPath" in env_id else env_id for env_id in COUNTS],
)
def test_the_score_of_an_endless_game_is_what_it_counts_and_there_is_no_success(env_id: str) -> None:
    env, params = jaxgym.make(env_id, observation="symbolic")

    def info() -> dict[str, jax.Array]:
        key_reset, key_action, key_step = jax.random.split(jax.random.key(0), 3)
        _, state = env.reset(key_reset, params)
        return env.step(key_step, state, env.action_space(params).sample(key_action), params)[5]

    shapes = jax.eval_shape(info)
    given = {name: jnp.full(shapes[name].shape, 3, shapes[name].dtype) for name in (COUNTS[env_id], "episode_length")}
    given["episode_return"] = jnp.asarray(0.1)
    assert env.metric == COUNTS[env_id]
    assert env.normalized_return(given, None, params) == 3
    assert success_of(given) == 0
    assert "success" not in shapes


def test_the_score_of_a_game_with_a_goal_is_its_success() -> None:
    env, params = jaxgym.make("MysteryPath-Grid-v0", levels="fresh")
    info = {"success": jnp.int32(1), "episode_length": jnp.int32(9), "episode_return": jnp.float32(0.4)}
    assert env.normalized_return(info, None, params) == success_of(info) == 1


def test_coins_that_are_left_do_not_lower_the_score_of_a_finite_game() -> None:
    env, params = jaxgym.make("SearingSpotlights-v0", levels="fresh", observation="symbolic")
    info = {
        "success": jnp.asarray(1, jnp.int32),
        "coins_collected": jnp.asarray(0.5),
        "episode_return": jnp.asarray(0.7),
    }
    assert env.metric == "coins_collected"
    assert env.normalized_return(info, None, params) == 1


@pytest.mark.parametrize("wrap", [lambda env: env, LastActionReward], ids=["plain", "wrapped"])
def test_the_score_of_mortar_mayhem_is_the_share_of_the_largest_return_also_in_a_wrapper(
    wrap: Callable[[Any], Any],
) -> None:
    env, params = jaxgym.make(
        "MortarMayhem-Grid-v0",
        command_count=[4],
        reward_command_success=0.5,
        reward_episode_success=2.0,
        levels="fresh",
        observation="symbolic",
    )
    env = wrap(env)
    _, state = env.reset(jax.random.key(0), params)
    info = {"success": jnp.asarray(0, jnp.int32), "episode_return": jnp.asarray(1.0)}
    assert env.normalized_return(info, state, params) == 1.0 / (4 * 0.5 + 2.0)
    assert env.metric == "commands_completed"


def test_the_score_of_a_game_of_gymnax_is_its_return() -> None:
    env = FromGymnax(gymnax.make("CartPole-v1")[0])
    info = {"episode_return": jnp.asarray(3.0)}
    assert (env.metric, env.normalized_return(info, None, env.default_params)) == ("episode_return", 3)


def test_an_agent_can_be_shown_its_last_action_and_reward() -> None:
    options = {"env": "MortarMayhemB-Grid-v0", "options": ("observation=symbolic",), "train_levels": 0}
    game = make_game(Config(**options, held_out_levels=1, last_action_reward=True))
    assert isinstance(game.env, LastActionReward)
    assert set(game.env.observation_space(game.params).spaces) == {"observation", "last_action_reward"}
    assert not isinstance(make_game(Config(**options, held_out_levels=1)).env, LastActionReward)


def test_a_frame_that_is_too_small_is_rejected_before_levels_are_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("levels were generated")

    monkeypatch.setattr(jaxgym.levels, "make_level_buffer", fail)
    with pytest.raises(ConfigError, match=r"^expected frames of at least 36 x 36 px, got image of shape \(28, 28, 3\)"):
        make_game(Config(env="BabyAI-GoToLocal-v0", options=("observation=pixels", "tile_size=4")))


@pytest.mark.parametrize(
    ("options", "symbols", "frame"),
    [
        (("observation=symbolic",), {"direction": 4, "image": 11, "mission": 34}, None),
        (("observation=one_hot",), {"direction": 4, "image": 2, "mission": 34}, None),
        (("observation=pixels",), {"direction": 4, "mission": 34}, (56, 56, 3)),
    ],
)
def test_symbols_are_told_from_frames_by_the_bounds_of_their_space(
    options: tuple[str, ...], symbols: dict[str, int], frame: tuple[int, ...] | None
) -> None:
    config = Config(env="BabyAI-GoToObjS4-v0", options=options)
    env, params = jaxgym.make(config.env, **config.env_options)
    game = TrainingGame(env, params, None, None, "")
    assert dict(observed_symbols(game)) == symbols
    assert frame_shape(game) == frame


def test_training_levels_sample_options_and_held_out_levels_do_not() -> None:
    options = ("corridor_length=7", "observation=symbolic")
    config = Config(env="T-Maze-v0", options=options, sampled_options=("corridor_length=[4,40]",), held_out_levels=4)
    game = make_game(dataclasses.replace(config, train_levels=200, held_out_levels=1))
    assert game.held_out_levels.values["corridor_length"].tolist() == [7]
    assert len(set(game.params.levels.values["corridor_length"].tolist())) > 20
    fresh = make_game(dataclasses.replace(config, train_levels=0))
    assert fresh.params.levels is None
    for levels in (fresh.held_out_levels, fresh.training_levels):
        assert levels.values["corridor_length"].tolist() == [7] * 4


@pytest.mark.parametrize(
    ("sampled", "message"),
    [
        ("corridor_length=4", r"^--sampled-options corridor_length: expected \[LOW,HIGH\] with two numbers, got 4"),
        ("corridor_length=[4,8,9]", r"expected \[LOW,HIGH\] with two numbers, got \[4, 8, 9\]"),
        ("corridor=[4,8]", "expected one of the options corridor_length"),
    ],
)
def test_a_range_of_options_that_cannot_be_sampled_is_a_config_error(sampled: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_game(Config(env="T-Maze-v0", sampled_options=(sampled,), train_levels=0))
