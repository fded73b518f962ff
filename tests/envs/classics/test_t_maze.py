"""Rules of the T-Mazes.

E is the end of the corridor. An agent at x = E goes up to y = 1 and down to y = -1.
"""

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.t_maze.game import LONGEST_CORRIDOR, Level, TMazeAction
from jaxgym.envs.t_maze.lamp import NoisyLevel
from jaxgym.errors import OptionError

RIGHT, UP, LEFT, DOWN = TMazeAction


def play(env_id: str, actions: list[int], goal_y: int = 1, **options: Any) -> tuple[np.ndarray, ...]:
    """Return the T + 1 symbolic observations, and rewards and ends of the T steps."""
    env, params = jaxgym.make(env_id, observation="symbolic", **options)
    level: Any = Level(np.int32(goal_y))
    if "Lamp" in env_id:
        level = NoisyLevel(np.int32(goal_y), np.resize(np.asarray([0, 1, -1], np.int8), env.noise_length))

    @jax.jit
    def run(params: Any, actions: jax.Array) -> Any:
        first, state = env.reset_to_level(jax.random.key(0), level, params)

        def step(state: Any, action: jax.Array) -> Any:
            seen, state, reward, terminated, _ = env.step_env(jax.random.key(0), state, action, params)
            return state, (seen, reward, terminated)

        return first, jax.lax.scan(step, state, actions)[1]

    first, (seen, rewards, ends) = jax.device_get(run(params, np.asarray(actions, np.int32)))
    return np.concatenate([first[None], seen]), rewards, ends


def test_the_sign_is_seen_once_and_the_last_step_pays_for_the_goal() -> None:
    seen, rewards, ends = play("T-Maze-v0", [RIGHT, RIGHT, DOWN], goal_y=-1, corridor_length=2)
    assert seen.tolist() == [[0, -1], [0, 0], [1, 0], [1, -1]]
    assert (rewards.tolist(), ends.tolist()) == ([0, 0, 1], [False, False, True])
    seen, rewards, _ = play("T-Maze-v0", [RIGHT, LEFT, RIGHT, RIGHT], goal_y=-1, corridor_length=2, episode_length=5)
    assert seen.tolist() == [[0, -1], [0, 0], [0, 0], [0, 0], [1, 0]]


def test_an_arm_is_no_end_and_can_be_left() -> None:
    _, rewards, ends = play("T-Maze-v0", [RIGHT, UP, DOWN, DOWN], corridor_length=1, episode_length=4)
    assert (rewards.tolist(), ends.tolist()) == ([0, 0, 0, 0], [False, False, False, True])


def test_walls_hold_the_agent() -> None:
    options = {"corridor_length": 2, "episode_length": 9, "ambiguous_position": False}
    seen, _, _ = play("T-Maze-v0", [LEFT, UP, RIGHT, DOWN, RIGHT, RIGHT, UP, UP, LEFT], **options)
    assert seen[:, :2].tolist() == [[0, 0], [0, 0], [0, 0], [1, 0], [1, 0], [2, 0], [2, 0], [2, 1], [2, 1], [2, 1]]


def test_being_late_and_being_at_the_sign_have_rewards() -> None:
    options = {"corridor_length": 3, "penalty": -0.25, "distract_reward": 0.5}
    _, rewards, _ = play("T-Maze-v0", [RIGHT, LEFT, RIGHT, RIGHT], **options)
    assert rewards.tolist() == [0, 0.25, -0.25, 0]
    _, rewards, _ = play("T-Maze-v0", [LEFT, RIGHT, RIGHT, RIGHT], corridor_length=4, is_dense=True, episode_length=9)
    assert rewards.tolist() == [-0.25] * 4


def test_an_active_agent_finds_the_sign_first() -> None:
    options = {"corridor_length": 1, "ambiguous_position": False, "add_timestep": True}
    seen, rewards, ends = play("T-Maze-Active-v0", [LEFT, RIGHT, RIGHT, UP], **options)
    assert seen.tolist() == [[1, 0, 0, 0], [0, 0, 1, 1], [1, 0, 0, 2], [2, 0, 0, 3], [2, 1, 0, 4]]
    assert (rewards[-1], ends.tolist()) == (1, [False, False, False, True])
    seen, _, _ = play("T-Maze-Active-v0", [LEFT, RIGHT], corridor_length=1, ambiguous_position=False, expose_goal=True)
    assert seen[:, 2].tolist() == [0, 1, 1]
    with pytest.raises(OptionError, match=r"^T-Maze-v0: expose_goal: expected False with ambiguous_position=True"):
        jaxgym.make("T-Maze-v0", expose_goal=True)


@pytest.mark.parametrize(("goal_reward", "actions", "reward"), [(1.0, [RIGHT, DOWN], 0), (2.0, [RIGHT, DOWN], -1)])
def test_a_lamp_shows_the_end_and_an_arm_ends(goal_reward: float, actions: list[int], reward: float) -> None:
    seen, rewards, ends = play("T-Maze-Lamp-v0", actions, corridor_length=1, goal_reward=goal_reward)
    assert seen.tolist() == [[0, 1, 0, 0], [0, 0, 1, 1], [-1, 0, 0, -1]]
    assert (rewards.tolist(), ends.tolist()) == ([0, reward], [False, True])


def test_the_step_limit_of_a_lamp_follows_the_corridor() -> None:
    # The shortest way has corridor_length + 2 oracle_length + 1 steps, and an episode one more.
    for options, length in (({}, 12), ({"corridor_length": 3}, 5), ({"corridor_length": 3, "oracle_length": 2}, 9)):
        _, _, ends = play("T-Maze-Lamp-v0", [LEFT] * 13, **options)
        assert ends.tolist().index(True) + 1 == length
    _, rewards, _ = play("T-Maze-Lamp-v0", [int(RIGHT)] * 20 + [int(UP)], corridor_length=20)
    assert rewards.tolist() == [0] * 20 + [1]


def test_corridors_of_all_lengths_share_one_program() -> None:
    env, params = jaxgym.make("T-Maze-v0", observation="symbolic")
    lengths = [1, 50, LONGEST_CORRIDOR]
    made = [params, *(dataclasses.replace(params, corridor_length=np.int32(length)) for length in lengths)]
    stacked = levels.stack_params(*made)

    @jax.jit
    @jax.vmap
    def last_step(params: Any) -> Any:
        state = env.initial_state(Level(jnp.int32(1)), params)
        state = dataclasses.replace(state, x=params.corridor_length, time=params.corridor_length)
        seen, _, reward, terminated, _ = env.step_env(jax.random.key(0), state, int(UP), params)
        return seen, reward, terminated

    seen, rewards, ends = jax.device_get(last_step(stacked))
    assert seen.tolist() == [[1, 1]] * 4
    assert (rewards.tolist(), ends.tolist()) == ([1] * 4, [True] * 4)


@pytest.mark.parametrize("options", [{}, {"ambiguous_position": False, "add_timestep": True}])
def test_frames_differ_where_symbols_differ(options: dict[str, Any]) -> None:
    shown = {"corridor_length": 3, "penalty": -1, **options}
    actions = [RIGHT, RIGHT, LEFT, LEFT, RIGHT, RIGHT, RIGHT, UP, DOWN, DOWN]
    symbols, _, _ = play("T-Maze-v0", actions, **shown)
    env, params = jaxgym.make("T-Maze-v0", **shown)
    state, frames = env.initial_state(Level(jnp.int32(1)), params), []
    draw = jax.jit(lambda state: env.observe_scene(env.scene(state, params)))
    step = jax.jit(lambda state, action: env.step_env(jax.random.key(0), state, action, params)[1])
    for action in [*actions, RIGHT]:
        frames.append(np.asarray(draw(state)).tobytes())
        state = step(state, jnp.int32(action))
    for one, frame in zip(symbols, frames, strict=True):
        assert [np.array_equal(one, other) for other in symbols] == [frame == other for other in frames]


def reader(observation: str, memory: dict[str, str], end: int) -> str:
    """Return the action of a player that reads texts only; `memory` holds the sign and the number of steps."""
    if "sign shows" in observation:
        memory["arm"] = "up" if "the upper arm" in observation else "down"
        memory["steps"] = "0"
    if "arm" not in memory:
        return "left"
    steps = int(memory["steps"])
    memory["steps"] = str(steps + 1)
    return "right" if steps < end else memory["arm"]


@pytest.mark.parametrize(("name", "end"), [("t_maze", 10), ("t_maze_active", 11), ("t_maze_lamp", 10)])
def test_a_player_that_reads_only_the_texts_reaches_the_goal(name: str, end: int) -> None:
    env, params, interface = text.make(name, observation="symbolic")
    step = jax.jit(env.step_env)
    for seed in range(3):
        level = levels.level_from_seed(env, seed, params)
        _, state = env.reset_to_level(jax.random.key(0), level, params)
        memory = dict[str, str]()
        is_over, info = False, {}
        while not is_over:
            scene = jax.tree.map(np.asarray, env.scene(state, params))
            action = interface.parse(f"<action>{reader(interface.describe(scene, params), memory, end)}</action>")
            assert isinstance(action, text.ParsedAction)
            _, state, _, is_over, info = step(jax.random.key(0), state, jnp.int32(action.actions[0]), params)
        assert info["success"] == 1
    chex.assert_shape(state.x, ())
