"""Rules of the Endless T-Maze, in two corridors of lengths 1 and 2 with a left and a right cue."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.endless_t_maze.game import Level, MazeTurn
from jaxgym.errors import OptionError

FORWARD, LEFT, RIGHT = MazeTurn
WAY = [FORWARD, LEFT, FORWARD, FORWARD, RIGHT]


def play(actions: list[Any], **options: Any) -> tuple[list[list[float]], list[float], list[bool], dict[str, Any]]:
    """Return T + 1 symbolic observations, T rewards and ends, and the last `info`."""
    env, params = jaxgym.make(
        "Endless-TMaze-v0", observation="symbolic", num_corridors=2, max_length=2, is_uniform=True, **options
    )
    level: Any = Level(np.asarray([-1, 1], np.int8), np.asarray([1, 2], np.int32))  # pyright: ignore[reportArgumentType]
    seen, state = env.reset_to_level(jax.random.key(0), level, params)
    step = jax.jit(env.step_env)
    observations, rewards, ends, info = [np.asarray(seen).tolist()], [], [], {}
    for action in actions:
        seen, state, reward, terminated, info = step(jax.random.key(0), state, jnp.int32(action), params)
        observations.append(np.asarray(seen).tolist())
        rewards.append(round(float(reward), 4))
        ends.append(bool(terminated))
    return observations, rewards, ends, info


def test_right_turns_lead_through_all_corridors() -> None:
    seen, rewards, ends, info = play(WAY)
    assert seen == [[0, 1, 0], [0.5, 0, 0], [0, 0, 1], [0.5, 0, 0], [1, 0, 0], [1, 0, 0]]
    assert (rewards, ends) == ([0, 1, 0, 0, 1], [False] * 4 + [True])
    assert (info["success"], info["corridors_completed"]) == (1, 2)


@pytest.mark.parametrize(("variant", "wrong", "move"), [("code", -0.01, 0), ("paper", -1, -0.01)])
def test_a_turn_in_a_corridor_moves_nothing_and_a_wrong_action_at_its_end_ends(
    variant: str, wrong: float, move: float
) -> None:
    for last in (FORWARD, RIGHT):
        seen, rewards, ends, info = play([LEFT, RIGHT, FORWARD, last], variant=variant)
        assert seen == [[0, 1, 0], [0, 1, 0], [0, 1, 0], [0.5, 0, 0], [0.5, 0, 0]]
        assert (rewards, ends) == ([-0.01, -0.01, move, wrong], [False] * 3 + [True])
        assert info["success"] == info["corridors_completed"] == 0


def test_lengths_are_in_their_range() -> None:
    env, params = jaxgym.make("Endless-TMaze-v0", is_uniform=True, min_length=2, max_length=4)
    sampled = levels.make_level_buffer(env, params, levels.train_seeds(64))
    assert set(np.asarray(sampled.lengths).ravel().tolist()) == {2, 3, 4}
    assert set(np.asarray(sampled.cues).ravel().tolist()) == {-1, 1}
    with pytest.raises(OptionError, match=r"^Endless-TMaze-v0: min_length: expected at most max_length=4, got 5"):
        jaxgym.make("Endless-TMaze-v0", is_uniform=True, min_length=5, max_length=4)


def test_a_player_that_reads_only_the_texts_completes_corridors_whose_ends_are_hidden() -> None:
    env, params, interface = text.make("endless_t_maze", observation="symbolic", is_uniform=True)
    step = jax.jit(env.step_env)
    _, state = env.reset_to_level(jax.random.key(0), levels.level_from_seed(env, 1, params), params)
    way, is_over, has_turned, info = "", False, False, {}
    while not is_over:
        said = interface.describe(jax.tree.map(np.asarray, env.scene(state, params)), params)
        if "sign shows" in said and not has_turned:
            way = said.removesuffix(".").split()[-1]
        # At x = 0 there is no end; elsewhere a turn before each move finds it.
        is_turn = not said.startswith("x = 0.") and not has_turned
        reply = interface.parse(f"<action>{way if is_turn else 'forward'}</action>")
        assert isinstance(reply, text.ParsedAction)
        _, state, reward, is_over, info = step(jax.random.key(0), state, jnp.int32(reply.actions[0]), params)
        has_turned = is_turn and float(reward) < 1
    assert (info["success"], info["corridors_completed"]) == (1, 5)
