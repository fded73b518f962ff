"""An agent that is shown its last action and reward, on Recall (see conftest.py)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from baselines.game import Game
from baselines.wrappers import LastActionReward


def test_the_last_action_and_its_reward_stand_beside_the_observation(recall_game: Callable[..., Game]) -> None:
    game = recall_game()
    env, key = LastActionReward(game.env, (3,)), jax.random.key(0)
    observation, state = env.reset_to_level(key, jnp.asarray(2), game.params)
    np.testing.assert_array_equal(observation["last_action_reward"], [0, 0, 0, 0])
    np.testing.assert_array_equal(observation["observation"], [0, 0, 1, 0])
    seen, final = [], {}
    for number, action in enumerate([1, 0, 0, 2]):
        key_step = jax.random.fold_in(key, number)
        observation, state, _, ended, _, info = env.step(key_step, state, jnp.asarray(action), game.params)
        seen.append(observation["last_action_reward"])
        final = info["final_observation"]
    assert ended
    np.testing.assert_array_equal(seen, [[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(final["last_action_reward"], [0, 0, 1, 1])


def test_every_branch_of_an_action_has_a_part() -> None:
    class Still:
        """Takes any action and gives its first branch as the reward."""

        def step(
            self, key: jax.Array, state: jax.Array, action: jax.Array, params: None
        ) -> tuple[jax.Array | dict, ...]:
            del key, params
            no, view = jnp.zeros((), bool), {"visual_observation": jnp.zeros((2, 2, 3), jnp.uint8)}
            return view, state, action[0].astype(jnp.float32), no, no, {"final_observation": view}

        def reset(self, key: jax.Array, params: None) -> tuple[dict, jax.Array]:
            del key, params
            return {"visual_observation": jnp.zeros((2, 2, 3), jnp.uint8)}, jnp.zeros(())

    env = LastActionReward(Still(), (3, 2))
    _, state = env.reset(jax.random.key(0), None)
    observation, *_ = env.step(jax.random.key(0), state, jnp.asarray([2, 1]), None)
    np.testing.assert_array_equal(observation["last_action_reward"], [0, 0, 1, 0, 1, 2])
    assert observation["visual_observation"].shape == (2, 2, 3)
