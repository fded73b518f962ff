"""Text interface of BabyAI: a player that knows nothing but its texts solves the levels."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

from jaxgym import levels, text
from jaxgym.environment import EnvParams
from jaxgym.envs.babyai import SPECS, original
from jaxgym.envs.babyai.classes import LevelClass
from jaxgym.envs.babyai.game import BabyAI
from jaxgym.envs.babyai.level import Level
from jaxgym.envs.babyai.mission import Plan, num_units
from jaxgym.envs.babyai.rooms import Rooms
from jaxgym.envs.common.draws import Draws, Stream
from jaxgym.envs.minigrid.world import WALL
from tests.text.babyai_missions import phrases_of
from tests.text.babyai_player import Player

SIDE = 22
"""Side of the grids that levels are padded to with walls, so that one program plays all ids."""

NUM_LEVELS, FIRST_SEED = 100, 10_000
QUICK = ("PickupLoc-v0", "PutNextLocal-v0", "GoToSeqS5R2-v0", "BlockedUnlockPickup-v0", "KeyCorridorS3R3-v0")
OTHERS = (
    *("GoToObj-v0", "GoToRedBall-v0", "GoToLocalS8N7-v0", "GoToDoor-v0", "GoToObjMazeS5-v0"),
    *("OpenRedDoor-v0", "OpenDoorLoc-v0", "OpenTwoDoors-v0", "OpenDoorsOrderN4-v0", "PickupDist-v0"),
    *("PickupAbove-v0", "PutNextS5N2-v0", "PutNextS7N4-v0", "PutNextS5N2Carrying-v0", "UnlockLocal-v0", "KeyInBox-v0"),
    *(
        "UnlockPickup-v0",
        "UnlockPickupDist-v0",
        "UnlockLocalDist-v0",
        "UnblockPickup-v0",
        "SynthS5R2-v0",
        "SynthSeq-v0",
    ),
    *(
        "MiniBossLevel-v0",
        "UnlockToUnlock-v0",
        "ActionObjDoor-v0",
        "FindObjS6-v0",
        "OneRoomS12-v0",
        "MoveTwoAcrossS5N2-v0",
    ),
)


def made(name: str, **options: Any) -> tuple[BabyAI, EnvParams, Any]:
    """Return the environment of an id, its parameters and its text interface."""
    spec, env_id = SPECS[f"BabyAI-{name}"], f"BabyAI-{name}"
    assert spec.text is not None
    values = {key: option.default for key, option in spec.all_options.items()}
    env, params = spec.build(env_id, values | {key: value for key, value in options.items() if key in values})
    assert isinstance(env, BabyAI)
    own = {key: option.default for key, option in spec.text.options.items()}
    return env, params, spec.text.build(env, own | {key: value for key, value in options.items() if key in own})


@functools.cache
def padded(starts_carrying: bool) -> tuple[BabyAI, Any, Any]:
    """Return an environment of large grids, and its start and step for a batch."""
    rooms = Rooms(SIDE, 1, 1)
    env = BabyAI(
        env_id="Padded-v0",
        initial_params=EnvParams(),
        level_class=LevelClass(rooms, lambda _: Plan(()), 0, starts_carrying=starts_carrying),
    )

    def start(level: Level) -> Any:
        state = env.initial_state(level, EnvParams())
        return state, env.scene(state, EnvParams())

    def step(state: Any, action: jax.Array, limit: jax.Array) -> Any:
        params = EnvParams(max_steps_in_episode=limit)
        _, state, _, terminated, info = env.step_env(jax.random.key(0), state, action, params)
        return state, env.scene(state, params), terminated | env.is_truncated(state, params), info["success"]

    return env, jax.jit(jax.vmap(start)), jax.jit(jax.vmap(step))


def held_out_levels(name: str) -> Sequence[Level]:
    env, params, _ = made(name)
    buffer = jax.device_get(levels.make_level_buffer(env, params, levels.held_out_seeds(NUM_LEVELS)))
    return [jax.tree.map(lambda leaf, row=row: leaf[row], buffer) for row in range(NUM_LEVELS)]


def original_levels(name: str) -> Sequence[Level]:
    declared = SPECS[f"BabyAI-{name}"].fixed["level_class"]
    seeds = range(FIRST_SEED, FIRST_SEED + NUM_LEVELS)
    return [original.draw_level(declared, Stream(Draws.of([seed], 256), 0))[0] for seed in seeds]


def unsolved(name: str, drawn: Sequence[Level]) -> list[int]:
    """Return which levels a player of texts alone does not solve within the time limit."""
    declared = SPECS[f"BabyAI-{name}"].fixed["level_class"]
    margins = [(0, SIDE - length) for length in drawn[0].cells.shape]
    large = [dataclasses.replace(level, cells=np.pad(level.cells, margins, constant_values=WALL)) for level in drawn]
    buffer: Level = jax.tree.map(lambda *leaves: np.stack(leaves), *large)
    units = num_units(buffer.mission.verbs) if declared.is_per_unit else np.ones(len(drawn), np.int32)
    limits = np.asarray(declared.steps * units, np.int32)
    env, start, step = padded(declared.starts_carrying)
    interface = dataclasses.replace(made(name)[2], env=env)
    states, scenes = start(buffer)
    players, is_solved, is_over = [Player() for _ in drawn], np.zeros(len(drawn), bool), np.zeros(len(drawn), bool)
    while not is_over.all():
        seen = interface.open_all(jax.device_get(scenes), EnvParams())
        actions = np.zeros(len(drawn), np.int32)
        for index in np.flatnonzero(~is_over):
            parsed = interface.parse(players[index].reply(seen[index]))
            assert isinstance(parsed, text.ParsedAction), parsed
            assert parsed.is_exact
            (actions[index],) = parsed.actions
        states, scenes, has_ended, success = step(states, actions, limits)
        is_solved |= ~is_over & np.asarray(success, bool)
        is_over |= np.asarray(has_ended)
    return np.flatnonzero(~is_solved).tolist()


@pytest.mark.parametrize(
    "name",
    ["GoToLocal-v0", *(pytest.param(name, marks=pytest.mark.slow) for name in ("PickupLoc-v0", "PutNextLocal-v0"))],
)
@pytest.mark.slow
def test_a_player_of_texts_alone_solves_held_out_levels(name: str) -> None:
    assert unsolved(name, held_out_levels(name)) == []


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_player_of_texts_alone_solves_levels_of_the_original(name: str) -> None:
    assert unsolved(name, original_levels(name)) == []


def test_the_player_reads_missions() -> None:
    assert phrases_of("go to the red ball after you put a key next to the box behind you and open a door") == [
        [("put", "a key", "the box behind you"), ("open", "a door", None)],
        [("go to", "the red ball", None)],
    ]
    assert phrases_of("pick up a grey object, then open the door") == [
        [("pick up", "a grey object", None)],
        [("open", "the door", None)],
    ]


def test_the_prompt_has_the_reward_and_the_limit() -> None:
    _, params, interface = made("GoToLocal-v0")
    prompt = interface.system_prompt(params)
    assert "1 - 0.9 x steps / 64 when the mission is fulfilled; 0 otherwise" in prompt
    assert f"it is {1 - 0.9 * 20 / 64:.4f} after 20 steps." in prompt
    assert "The episode also ends after 64 steps." in prompt
    assert "Each turn has 1 to 8 actions." in prompt
    _, params, interface = made("GoToLocal-v0", max_steps=0, actions_per_turn=1)
    assert "Reward: 1 when the mission is fulfilled" in interface.system_prompt(params)
    assert "Each turn has exactly one action." in interface.system_prompt(params)


def test_the_prompt_of_a_limit_for_each_instruction() -> None:
    _, params, interface = made("BossLevel-v0")
    prompt = interface.system_prompt(params)
    assert "Reward: 1 - 0.9 x steps / limit when the mission is fulfilled" in prompt
    assert f"it is {1 - 0.9 * 20 / 576:.4f} after 20 steps with a limit of 576 steps" in prompt
    assert 'a limit of 576 steps for each instruction, and of 1152 steps for each "put"' in prompt


def test_the_prompt_of_a_strict_id_warns() -> None:
    warning = "It also ends without reward"
    prompts = [
        interface.system_prompt(params) for _, params, interface in (made("OpenDoorDebug-v0"), made("OpenDoor-v0"))
    ]
    assert [warning in prompt for prompt in prompts] == [True, False]
