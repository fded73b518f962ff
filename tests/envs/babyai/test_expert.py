"""The scripted expert fulfills the missions of original levels, except those that can't be fulfilled."""

import dataclasses
import functools
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgym import EnvParams
from jaxgym.envs.babyai import expert, original, table
from jaxgym.envs.babyai.classes import LevelClass
from jaxgym.envs.babyai.game import BabyAI
from jaxgym.envs.babyai.level import Level
from jaxgym.envs.babyai.mission import MissionVerb, Plan, num_units
from jaxgym.envs.babyai.rooms import Rooms
from jaxgym.envs.common.draws import Draws, Stream
from jaxgym.envs.minigrid.world import (
    EMPTY,
    STEPS,
    WALL,
    Door,
    MiniGridAction,
    Type,
    color_of,
    number_of,
    state_of,
    type_of,
)

NUM_LEVELS = 100
SIDES = (9, 16, 22)
"""Sides of the grids that levels are padded to with walls, so that a few programs play all of them."""

QUICK = ("MiniBossLevel-v0", "GoToSeqS5R2-v0", "KeyCorridorS3R3-v0", "PutNextLocalS5N3-v0", "PutNextS5N2Carrying-v0")
IMPOSSIBLE = ("GoToImpUnlock-v0", "Unlock-v0", "OpenDoorsOrderN2Debug-v0", "OpenDoorsOrderN4Debug-v0")
"""Ids with missions that can't be fulfilled: the key is behind its own lock, or two doors are strict."""


def side_of(name: str) -> int:
    level_class = table.LEVELS[name]
    longest = max(level_class.rooms.width, level_class.rooms.height)
    return max(SIDES) if level_class.num_strict else next(side for side in SIDES if side >= longest)


def padded(side: int, **declared: Any) -> BabyAI:
    """Return an environment for levels of any class that are padded to a side."""
    level_class = LevelClass(Rooms(side, 1, 1), lambda _: Plan(()), 0, **declared)
    return BabyAI("Expert-v0", EnvParams(), level_class=level_class, observation="symbolic", tile_size=8)


@functools.cache
def player(side: int, num_strict: int) -> Any:
    """Return a program from states and their time limits to the rewards of the last steps."""
    env = padded(side, num_strict=num_strict)

    def advance(state: Any, limit: jax.Array, reward: jax.Array, is_over: jax.Array) -> Any:
        params = EnvParams(max_steps_in_episode=limit)
        action = expert.action(env, state, params)
        made = env.transition(dataclasses.replace(state, time=state.time + 1), action, params)
        gives_up = action == MiniGridAction.DONE
        is_last = made.terminated | env.is_truncated(made.state, params) | gives_up
        after = (made.state, limit, made.reward, is_last)
        return jax.tree.map(partial(jnp.where, is_over), (state, limit, reward, is_over), after)

    @jax.jit
    def play(states: Any, limits: jax.Array) -> jax.Array:
        start = (states, limits, jnp.zeros(limits.shape), jnp.zeros(limits.shape, jnp.bool_))
        return jax.lax.while_loop(lambda carry: ~jnp.all(carry[3]), lambda carry: jax.vmap(advance)(*carry), start)[2]

    return play


def level_of(name: str, seed: int) -> Level:
    return original.draw_level(table.LEVELS[name], Stream(Draws.of([seed], 256), 0))[0]


def rewards(levels: Sequence[tuple[str, Level]]) -> np.ndarray:
    """Return the expert's rewards on levels of ids that share a program."""
    ((side, num_strict),) = {(side_of(name), table.LEVELS[name].num_strict) for name, _ in levels}
    states, limits = list[Any](), list[int]()
    for name, level in levels:
        level_class, margin = table.LEVELS[name], [(0, side - length) for length in level.cells.shape]
        wide = dataclasses.replace(level, cells=np.pad(level.cells, margin, constant_values=WALL))
        states.append(start_of(side, starts_carrying=level_class.starts_carrying)(wide))
        limits.append(level_class.steps * (int(num_units(level.mission.verbs)) if level_class.is_per_unit else 1))
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    return np.asarray(player(side, num_strict)(stacked, np.asarray(limits, np.int32)))


@functools.cache
def start_of(side: int, *, starts_carrying: bool) -> Any:
    """Return a program from a level to the first state."""
    env = padded(side, starts_carrying=starts_carrying)
    return jax.jit(lambda level: env.initial_state(level, EnvParams()))


def is_possible(level: Level, num_strict: int) -> bool:
    """Return whether the mission of a level can be fulfilled.

    A strict clause that follows another one can't: the door that fulfills the first one is wrong for the second one.
    Otherwise, the agent must get to a thing of each description.
    """
    verbs, matches = level.mission.verbs, level.mission.matches
    if num_strict > 2 and verbs[2] != MissionVerb.NONE:
        return False
    faced, opened = within_reach(level, is_strict=num_strict > 0)
    needed = [
        (2 * clause + second, opened if verb == MissionVerb.OPEN else faced)
        for clause, verb in enumerate(verbs)
        for second in range(2)
        if verb == MissionVerb.PUT or (verb != MissionVerb.NONE and second == 0)
    ]
    return all(any(matches[number] >> description & 1 for number in numbers) for description, numbers in needed)


def within_reach(level: Level, *, is_strict: bool) -> tuple[set[int], set[int]]:
    """Return the numbers of the things that the agent can face, and of the doors that it can open.

    It gets past all objects, in strict missions only past boxes, and past locks whose keys it gets to.
    """
    faced, opened, colors, num_colors = set[int](), set[int](), set[int](), -1
    while num_colors < len(colors):
        num_colors = len(colors)
        entered, waiting = set[tuple[int, ...]](), [tuple(level.position.tolist())]
        while waiting:
            x, y = waiting.pop()
            entered.add((x, y))
            for each in {(x + dx, y + dy) for dx, dy in STEPS.tolist()} - entered:
                thing = level.cells[each]
                kind, inside = type_of(thing), level.content if type_of(thing) == Type.BOX else thing
                if type_of(inside) == Type.KEY:
                    colors.add(int(color_of(inside)))
                if kind >= Type.DOOR:
                    faced.add(int(number_of(thing)))
                is_openable = kind == Type.DOOR and (state_of(thing) != Door.LOCKED or int(color_of(thing)) in colors)
                if is_openable:
                    opened.add(int(number_of(thing)))
                if is_openable or thing == EMPTY or kind == Type.BOX or (kind > Type.DOOR and not is_strict):
                    waiting.append(each)
    return faced, opened


@pytest.mark.slow
def test_the_expert_fulfills_missions_of_each_kind() -> None:
    levels = [(name, seed) for name in QUICK for seed in range(NUM_LEVELS // len(QUICK))]
    reward = rewards([(name, level_of(name, seed)) for name, seed in levels])
    assert [each for each, earned in zip(levels, reward, strict=True) if not earned > 0] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", table.LEVELS)
def test_the_expert_fulfills_all_missions_that_can_be_fulfilled(name: str) -> None:
    levels = [level_of(name, seed) for seed in range(NUM_LEVELS)]
    reward = rewards([(name, level) for level in levels])
    failed = [(name, seed) for seed in range(NUM_LEVELS) if not reward[seed] > 0]
    impossible = [
        (name, seed) for seed, level in enumerate(levels) if not is_possible(level, table.LEVELS[name].num_strict)
    ]
    assert failed == impossible
    assert not impossible or name in IMPOSSIBLE
