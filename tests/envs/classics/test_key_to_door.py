"""Rules of Key-to-Door. In the tests the key is at (1, 4), the agent starts at (4, 4), and the SR door is at (1, 5)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.visual_match.rooms import CompassMove, Kind

NORTH, SOUTH, WEST, EAST = CompassMove
FRAMES = {"explore_frames": 4, "apple_frames": 1, "reward_frames": 6}
TO_KEY, TO_ITS_LEFT = [NORTH, NORTH, NORTH, SOUTH], [NORTH, NORTH, WEST, NORTH]
PLACES = {"key": (1, 4), "explore_start": (4, 4)}


def play(actions: Sequence[int], places: dict[str, tuple[int, int]] | None = None, **options: Any) -> tuple[Any, ...]:
    """Return the environment, and rewards, states, ends and successes of all steps."""
    env, params = jaxgym.make("KeyToDoor-v0", observation="symbolic", **{**FRAMES, **options})
    level = levels.level_from_seed(env, 0, params)
    changed = {name: jnp.asarray(place, jnp.int32) for name, place in (PLACES | (places or {})).items()}
    level = dataclasses.replace(level, apples=jnp.zeros((7, 11), bool), **changed)
    _, state = env.reset_to_level(jax.random.key(0), level, params)

    @jax.jit
    def run(state: Any, actions: jax.Array) -> Any:
        def step(state: Any, action: jax.Array) -> Any:
            _, state, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
            return state, (reward, state, terminated, info["success"])

        return jax.lax.scan(step, state, actions)[1]

    rewards, states, ends, success = jax.device_get(run(state, np.asarray(actions, np.int32)))
    return env, rewards.tolist(), states, ends.tolist(), success.tolist()


def shown(env: Any, states: Any, time: int, kind: Kind) -> list[list[int]]:
    """Return the squares that show a kind after a step."""
    return np.argwhere(np.asarray(env.board(jax.tree.map(lambda leaf: leaf[time], states))) == int(kind)).tolist()


def test_the_door_opens_once_for_an_agent_that_has_picked_the_key() -> None:
    to_door = [NORTH, NORTH, SOUTH, NORTH, SOUTH, NORTH]
    env, rewards, states, ends, success = play([*TO_KEY, WEST, *to_door])
    assert rewards == [0] * 6 + [10] + [0] * 4
    assert success == [0] * 6 + [1] * 5
    assert ends == [False] * 10 + [True]
    assert states.position[[6, 8, 10]].tolist() == [[1, 5]] * 3  # the door stays open
    assert shown(env, states, 6, Kind.DOOR) == [[1, 5]]
    assert shown(env, states, 6, Kind.AGENT) == []  # the door hides it


def test_the_door_blocks_an_agent_without_the_key() -> None:
    _, rewards, states, _, success = play([*TO_ITS_LEFT, WEST, *[NORTH] * 6])
    assert not any(rewards)
    assert not any(success)
    assert states.position[10].tolist() == [2, 5]


def test_the_key_vanishes_and_a_light_shows_in_that_frame() -> None:
    env, _, states, _, _ = play(TO_KEY, explore_frames=9)
    assert [shown(env, states, time, Kind.KEY) for time in range(4)] == [[[1, 4]], [[1, 4]], [], []]
    assert [shown(env, states, time, Kind.INDICATOR) for time in range(4)] == [[], [], [[0, 5]], []]


def test_a_key_that_is_picked_in_the_last_step_of_the_phase_is_kept() -> None:
    _, rewards, states, _, _ = play([*TO_KEY[:3], WEST, NORTH, NORTH], explore_frames=3)
    assert states.phase.tolist() == [0, 0, 1, 2, 2, 2]
    assert rewards == [0, 0, 0, 0, 0, 10]


@pytest.mark.slow
def test_the_room_of_counterfactual_credit_assignment_has_the_door_in_its_south() -> None:
    places = {"door": (4, 5), "reward_start": (2, 5)}
    _, rewards, states, _, _ = play([*TO_KEY, WEST, SOUTH, SOUTH, SOUTH], places, reward_room="CCA")
    assert rewards == [0] * 6 + [10, 0]
    assert states.position[7].tolist() == [5, 5]  # it passes through the open door


class Explorer:
    """Player that draws a map of the squares that the texts have shown, and goes to a letter or beyond the map."""

    def __init__(self, letter: str, ahead: int) -> None:
        """Start a map; the letter is to the north if `ahead` is -1, to the south if it is 1."""
        self.letter, self.ahead = letter, ahead
        self.place, self.seen = (0, 0), dict[tuple[int, int], str]()

    def act(self, rows: list[str]) -> str:
        """Return an action after an observation; stop at the letter."""
        row, column = self.place
        for down, line in enumerate(rows, start=-2):
            shown = {(row + down, column + right): each for right, each in enumerate(line, start=-2)}
            self.seen = shown | self.seen
        if self.seen[self.place] == self.letter:
            return "north"
        first, reached = {self.place: ""}, [self.place]
        for place in reached:
            for name, to in neighbors(place).items():
                if to not in first and self.seen.get(to, "#") != "#":
                    first[to] = first[place] or name
                    reached.append(to)
        found = [place for place in reached if self.seen[place] == self.letter]
        edge = [place for place in reached if not self.seen.keys() >= set(neighbors(place).values())]
        action = first[(found or sorted(edge, key=lambda place: -self.ahead * place[0]))[0]]
        self.place = neighbors(self.place)[action]
        return action


def neighbors(place: tuple[int, int]) -> dict[str, tuple[int, int]]:
    """Return the squares around a place by the action that leads there."""
    row, column = place
    return {
        "north": (row - 1, column),
        "south": (row + 1, column),
        "west": (row, column - 1),
        "east": (row, column + 1),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("room", "ahead"), [("SR", -1), ("CCA", 1)])
def test_a_player_that_reads_only_the_texts_opens_the_door(room: str, ahead: int) -> None:
    frames = {"apple_frames": 2, "reward_frames": 15}
    env, params, interface = text.make("key_to_door", observation="symbolic", reward_room=room, **frames)
    step = jax.jit(env.step_env)
    for seed in range(4):
        _, state = env.reset_to_level(jax.random.key(0), levels.level_from_seed(env, seed, params), params)
        player, is_over, time, info = Explorer("k", -1), False, 0, {}
        while not is_over:
            if time == 15 + 2:
                player = Explorer("D", ahead)
            rows = interface.describe(jax.tree.map(np.asarray, env.scene(state, params)), params).splitlines()
            is_pause = 15 <= time < 15 + 2
            reply = interface.parse(f"<action>{'north' if is_pause else player.act(rows)}</action>")
            assert isinstance(reply, text.ParsedAction)
            _, state, _, is_over, info = step(jax.random.key(0), state, jnp.int32(reply.actions[0]), params)
            time += 1
        assert (info["success"], time) == (1, 32)
