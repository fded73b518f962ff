"""Rules of Visual Match. The agent of the third phase starts at (5, 5); the doors are at (1, 2), (1, 5) and (1, 8)."""

import dataclasses
from collections.abc import Generator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.visual_match import rooms
from jaxgym.envs.visual_match.rooms import CompassMove, Kind

NORTH, SOUTH, WEST, EAST = CompassMove
MIDDLE_DOOR = [NORTH, NORTH, NORTH, NORTH]
LEFT_DOOR = [NORTH, NORTH, WEST, WEST, WEST, NORTH, NORTH]
FRAMES = {"explore_frames": 1, "apple_frames": 1, "reward_frames": 12}


def play(actions: list[Any], **changes: Any) -> tuple[Any, list[float], Any]:
    """Return the environment, rewards, and states after each step; the apples and the target are changed."""
    options = {name: value for name, value in changes.items() if name not in ("target", "apples")}
    env, params = jaxgym.make("Passive-VisualMatch-v0", observation="symbolic", **options)
    level = levels.level_from_seed(env, 0, params)
    level = dataclasses.replace(level, target=jnp.int32(changes.get("target", 0)))
    if "apples" in changes:
        mask = np.zeros((7, 11), bool)
        mask[tuple(np.transpose(changes["apples"]))] = True
        level = dataclasses.replace(level, apples=jnp.asarray(mask))
    _, state = env.reset_to_level(jax.random.key(0), level, params)

    @jax.jit
    def run(state: Any, actions: jax.Array) -> Any:
        def step(state: Any, action: jax.Array) -> Any:
            _, state, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
            return state, (reward, state, terminated, info["success"])

        return jax.lax.scan(step, state, actions)[1]

    rewards, states, ends, success = jax.device_get(run(state, np.asarray(actions, np.int32)))
    return env, rewards.tolist(), (states, ends.tolist(), success.tolist())


def test_the_first_door_counts_and_then_all_vanish() -> None:
    _, rewards, (_, ends, success) = play([NORTH, NORTH, *LEFT_DOOR, NORTH], target=0, **FRAMES)
    assert rewards == [0] * 8 + [10, 0]
    assert success == [0] * 8 + [1, 1]
    assert not any(ends)
    back = [SOUTH, WEST, WEST, WEST, NORTH]
    env, rewards, (states, ends, success) = play([NORTH, NORTH, *MIDDLE_DOOR, *back, *[SOUTH] * 3], target=0, **FRAMES)
    assert not any(rewards)
    assert not any(success)
    assert ends == [False] * 13 + [True]
    doors = [(env.board(jax.tree.map(lambda leaf, at=at: leaf[at], states)) >= int(Kind.RED)).sum() for at in (4, 5)]
    assert doors == [3, 0]


def test_an_apple_is_picked_and_grows_again() -> None:
    # The agent of the second phase starts at (5, 5); the only apple is at (5, 7).
    there, back = [EAST, EAST], [WEST, EAST]
    options = {"explore_frames": 1, "respawn_every": 2, "apples": [(5, 7)], "apple_reward_high": 1.0}
    _, rewards, (states, _, _) = play([NORTH, *there, *back, *back, *back], **options)
    assert rewards == [0, 0, 1, 0, 0, 0, 1, 0, 0]  # it grows three steps after it was picked
    assert states.has_apple[:, 5, 7].tolist() == [True, True, False, False, False, True, False, False, False]
    _, rewards, _ = play([NORTH, *there, *back, *back, *back], **{**options, "respawn_every": 0})
    assert sum(rewards) == 1


def test_rewards_of_apples_are_one_of_two_or_in_between() -> None:
    actions = [NORTH, EAST, EAST, EAST, EAST, WEST, WEST]
    options = {"explore_frames": 1, "apples": [(5, 7), (5, 9)], "apple_reward_low": 1.0, "apple_reward_high": 3.0}
    _, rewards, _ = play(actions, **options)
    assert {rewards[2]} == {rewards[4]} <= {1.0, 3.0}
    _, rewards, _ = play(actions, fix_apple_reward=False, **options)
    assert 1 < rewards[2] < 3
    assert 1 < rewards[4] < 3
    assert rewards[2] != rewards[4]


def test_the_square_is_seen_in_the_passive_phase_and_blocks_in_the_active_one() -> None:
    for passive in (True, False):
        env, params = jaxgym.make("Passive-VisualMatch-v0", passive=passive)
        for seed in range(4):
            state = env.initial_state(levels.level_from_seed(env, seed, params), params)
            board = np.asarray(env.board(state))
            colored = np.argwhere(board >= int(Kind.RED))
            assert len(colored) == 1
            seen = np.asarray(env.scene(state, params).kinds)
            if passive:
                assert (seen == board[tuple(colored[0])]).sum() == 1
            blocked = rooms.walk(jnp.asarray(colored[0]), jnp.int32(-1), jnp.asarray(board != 0))
            assert blocked.tolist() == colored[0].tolist()


def seeker(color: str) -> Generator[str, list[str], None]:
    """Yield the actions of the third phase, and receive the rows of the map after each one."""
    yield "north"
    rows = yield "north"
    for way, count in (("", 0), ("west", 3), ("east", 6)):
        for _ in range(count):
            rows = yield way
        if rows[0][2] == color:  # the door two squares north of the agent
            break
    while True:
        yield "north"


@pytest.mark.slow
def test_a_player_that_reads_only_the_texts_chooses_the_right_door() -> None:
    env, params, interface = text.make("visual_match", observation="symbolic", apple_frames=5)
    step = jax.jit(env.step_env)
    for seed in range(4):
        _, state = env.reset_to_level(jax.random.key(0), levels.level_from_seed(env, seed, params), params)
        color, player, is_over, time, info = "", None, False, 0, {}
        while not is_over:
            rows = interface.describe(jax.tree.map(np.asarray, env.scene(state, params)), params).splitlines()
            if time == 0:
                color = next(letter for letter in "".join(rows) if letter in "RGB")
            if time < 15 + 5:
                action = "north"
            elif player is None:
                player = seeker(color)
                action = next(player)
            else:
                action = player.send(rows)
            reply = interface.parse(f"<action>{action}</action>")
            assert isinstance(reply, text.ParsedAction)
            _, state, _, is_over, info = step(jax.random.key(0), state, jnp.int32(reply.actions[0]), params)
            time += 1
        assert (info["success"], time) == (1, 35)
