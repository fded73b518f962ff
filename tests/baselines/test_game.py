"""What counts as the score of an episode, game by game."""

import jax
import jax.numpy as jnp
import pytest

import jaxgym
from baselines.config import Config
from baselines.game import make_game, score_of, success_of
from jaxgym.wrappers import LastActionReward

COUNTS = {
    "Endless-MortarMayhem-v0": "commands_completed",
    "Endless-MysteryPath-v0": "tiles_visited",
    "Endless-SearingSpotlights-v0": "coins_collected",
}


@pytest.mark.parametrize("env_id", COUNTS)
def test_the_score_of_an_endless_game_is_what_it_counts_and_there_is_no_success(env_id: str) -> None:
    env, params = jaxgym.make(env_id, observation="symbolic")

    def info() -> dict[str, jax.Array]:
        key_reset, key_action, key_step = jax.random.split(jax.random.key(0), 3)
        _, state = env.reset(key_reset, params)
        return env.step(key_step, state, env.action_space(params).sample(key_action), params)[5]

    shapes = jax.eval_shape(info)
    given = {
        name: jnp.full(leaf.shape, 3, leaf.dtype) for name, leaf in shapes.items() if name in (COUNTS[env_id], "length")
    }
    assert score_of(given, None, params) == 3
    assert success_of(given) == 0
    assert "success" not in shapes


def test_the_score_of_a_game_with_a_goal_is_its_success() -> None:
    _, params = jaxgym.make("MysteryPath-Grid-v0", levels="fresh")
    info = {"success": jnp.asarray(1, jnp.int32), "length": jnp.asarray(9, jnp.int32), "reward": jnp.asarray(0.4)}
    assert score_of(info, None, params) == success_of(info) == 1


def test_an_agent_can_be_shown_its_last_action_and_reward() -> None:
    options = {"env": "MortarMayhemB-Grid-v0", "options": ("observation=symbolic",), "train_levels": 0}
    game = make_game(Config(**options, held_out_levels=1, last_action_reward=True))
    assert isinstance(game.env, LastActionReward)
    assert set(game.env.observation_space(game.params).spaces) == {"observation", "last_action_reward"}
    assert not isinstance(make_game(Config(**options, held_out_levels=1)).env, LastActionReward)
