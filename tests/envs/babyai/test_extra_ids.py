"""Ids of BabyAI that minigrid does not have: their levels, missions and time limits."""

import functools
import re
from typing import Any

import jax
import numpy as np
import pytest

import jaxgym
from jaxgym import demos, levels, text
from jaxgym.envs.babyai.mission import text_of
from jaxgym.envs.minigrid.world import Color, Direction, Door, Type, color_of, state_of, type_of
from jaxgym.errors import LevelError

MIXED, PUT_NEXT = "BabyAI-MixedTrainLocal-v0", "BabyAI-PutNext-v0"
NUM_LEVELS = 2000
OBJECT = r"(a|the) (red|green|blue|purple|yellow|grey) (key|ball|box)"
MISSIONS = {  # number of objects that are needed, the time limit, and the mission
    "goto": (1, 64, f"go to {OBJECT}"),
    "pickup": (1, 64, f"pick up {OBJECT}"),
    "open": (1, 128, r"open the ((yellow|green|blue|purple) )?door"),
    "putnext": (2, 128, f"put {OBJECT} next to {OBJECT}"),
    "pick_up_seq_go_to": (2, 128, f"pick up {OBJECT}, then go to {OBJECT}|go to {OBJECT} after you pick up {OBJECT}"),
}
QUICK = ("open",)


@functools.cache
def sampled(task: str, num_dists: int) -> tuple[Any, Any, list[str]]:
    """Return the environment, levels on the host, and their missions."""
    env, params = jaxgym.make(MIXED, task=task, num_dists=num_dists)
    buffer = jax.device_get(levels.make_level_buffer(env, params, levels.train_seeds(NUM_LEVELS)))
    return env, buffer, [text_of(tokens) for tokens in buffer.mission.tokens]


@pytest.mark.parametrize(
    "task", [task if task in QUICK else pytest.param(task, marks=pytest.mark.slow) for task in MISSIONS]
)
def test_a_task_has_its_levels_and_missions(task: str) -> None:
    count, limit, pattern = MISSIONS[task]
    env, buffer, missions = sampled(task, 2)
    assert all(re.fullmatch(pattern, mission) for mission in missions)
    assert not any(name in mission for mission in missions for name in ("yellow box", "red key", "green ball"))
    kind = type_of(buffer.cells)
    assert (np.sum((kind >= Type.KEY) & (kind <= Type.BOX), axis=(1, 2)) == count + 2).all()
    assert (np.sum(kind == Type.DOOR, axis=(1, 2)) == (task == "open")).all()
    level = jax.tree.map(lambda leaf: leaf[0], buffer)
    assert int(env.time_limit(level, env.default_params)) == limit
    assert jaxgym.make(MIXED, task=task, num_dists=2)[0] == env


def test_a_locked_door_has_its_key_on_the_side_of_the_agent() -> None:
    _, buffer, missions = sampled("open", 2)
    named, sides = 0, set[bool]()
    for index, mission in enumerate(missions):
        cells = buffer.cells[index]
        ((x, y),) = np.argwhere(type_of(cells) == Type.DOOR)
        color = color_of(cells[x, y])
        assert state_of(cells[x, y]) == Door.LOCKED
        assert mission in ("open the door", f"open the {Color(int(color)).name.lower()} door")
        is_right = buffer.position[index][0] > x
        things = np.argwhere((type_of(cells) >= Type.KEY) & (type_of(cells) <= Type.BOX))
        assert ((things[:, 0] > x) == is_right).all()
        assert ((type_of(cells) == Type.KEY) & (color_of(cells) == color)).any()
        named, sides = named + (mission != "open the door"), sides | {bool(is_right)}
    assert sides == {False, True}
    assert abs(named / NUM_LEVELS - 1 / 2) < 0.05  # 4.5 standard deviations


def test_two_objects_are_named_as_often_as_in_the_original() -> None:
    """Of 18 looks, 3 are never named. Without distractors, both objects look the same in one level of 15."""
    _, _, missions = sampled("pick_up_seq_go_to", 0)
    looks = [re.findall(r"(\w+ (?:key|ball|box))", mission) for mission in missions]
    assert abs(np.mean([one == other for one, other in looks]) - 1 / 15) < 0.025
    assert abs(np.mean([mission.startswith("go to") for mission in missions]) - 1 / 2) < 0.05


def test_an_agent_never_starts_in_front_of_a_thing() -> None:
    _, buffer, _ = sampled("open", 2)
    steps = np.asarray([(1, 0), (0, 1), (-1, 0), (0, -1)])
    assert [direction.name for direction in Direction] == ["RIGHT", "DOWN", "LEFT", "UP"]
    x, y = (buffer.position + steps[buffer.direction]).T
    assert (type_of(buffer.cells[np.arange(NUM_LEVELS), x, y]) < Type.DOOR).all()


@pytest.mark.slow
@pytest.mark.parametrize("task", [*MISSIONS, None])
def test_the_expert_solves_held_out_levels(task: str | None) -> None:
    env, params = jaxgym.make(PUT_NEXT) if task is None else jaxgym.make(MIXED, task=task, num_dists=8)
    blocks = demos.play(env, params, levels.held_out_seeds(64), int(params.max_steps_in_episode))
    assert [one.is_success for block in blocks for one in block] == [True] * 64


@pytest.mark.slow
def test_put_next_names_two_things_of_a_maze() -> None:
    env, params = jaxgym.make(PUT_NEXT)
    buffer = levels.make_level_buffer(env, params, levels.train_seeds(100))
    assert buffer.cells.shape == (100, 22, 22)
    assert all(re.fullmatch(MISSIONS["putnext"][2], text_of(tokens)) for tokens in np.asarray(buffer.mission.tokens))
    level = jax.tree.map(lambda leaf: leaf[0], buffer)
    assert int(env.time_limit(level, params)) == 2 * 9 * 8**2


@pytest.mark.parametrize("env_id", [MIXED, PUT_NEXT])
def test_there_are_no_original_levels(env_id: str) -> None:
    with pytest.raises(LevelError, match=rf"^{env_id} has no original levels"):
        levels.original(env_id, [0])


def test_a_task_is_played_in_the_texts_of_balrog() -> None:
    _, params, interface = text.make("babyai_mixed_train_local", task="putnext", dialect="balrog", actions_per_turn=1)
    assert "Actions: turn left, turn right, go forward, pick up, drop, toggle." in interface.system_prompt(params)
    assert "at most 128 steps" in interface.system_prompt(params)
