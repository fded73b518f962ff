"""Our classes as TRL's `environment_factory`, by the rules of its trainer; skipped where transformers is absent.

The trainer finds tools as the public functions of the class other than reset and get_reward, and describes them with
`transformers.utils.get_json_schema`.
"""

import functools
import importlib
import inspect
import math
import pickle
from typing import Any

import pytest

from jaxgym import text
from jaxgym.serve import trl

pytest.importorskip("transformers")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROW = {"prompt": [{"role": "user", "content": "x"}], "seed": 0}
ACT = (("act", {"actions": "forward"}), ("act", {"actions": "jump"}))
CALLS: dict[str, Any] = {
    "FrozenLakeEnv": (("move", {"direction": "left"}), ("move", {"direction": "up"})),
    "SudokuEnv": (("place", {"row": 1, "column": 1, "number": 1}),),
    "TextCraftEnv": (("inventory", {}), ("craft", {"command": "1 nothing using 1 nothing"})),
    "MortarMayhemGridEnv": ACT,
    "MysteryPathGridEnv": ACT,
    "MemoryCardsEnv": (("choose", {"position": 2}), ("choose", {"position": 99})),
}
CLASSES = {made.__name__: made for made in map(trl.env_class, text.text_envs())}
names = pytest.mark.parametrize("name", CALLS)


def tools_of(env: Any) -> dict[str, Any]:
    functions = inspect.getmembers(type(env), predicate=inspect.isfunction)
    return {name: each for name, each in functions if name not in ("reset", "get_reward") and not name.startswith("_")}


def play(env: Any, name: str) -> list[str]:
    """Return the observations of an episode; a tool that raises gives its message, as in the trainer."""
    seen = [str(env.reset(**ROW))]
    for tool, arguments in CALLS[name]:
        try:
            seen.append(str(getattr(env, tool)(**arguments)))
        except ValueError as error:
            seen.append(f"error: {error}")
    return seen


@names
def test_every_tool_has_a_schema_with_descriptions(name: str) -> None:
    schema_of = importlib.import_module("transformers.utils").get_json_schema
    tools = tools_of(CLASSES[name]())
    assert tools
    assert not {"close", "step", "state", "render"} & set(tools), "the model would be offered these as tools"
    for function in tools.values():
        schema = schema_of(function)["function"]
        assert schema["description"]
        assert all(each["description"] for each in schema["parameters"].get("properties", {}).values())


@names
def test_reset_takes_every_column_of_a_row(name: str) -> None:
    env = CLASSES[name]()
    assert isinstance(env.reset(**ROW), str)
    env.reset(**ROW, another_column=1)


@names
def test_calls_are_answered_and_the_reward_is_one_number(name: str) -> None:
    env = CLASSES[name]()
    assert all(play(env, name))
    reward = env.get_reward()
    assert math.isfinite(reward)
    assert env.get_reward() == reward


@names
def test_instances_of_a_group_play_one_episode_also_when_they_are_used_again(name: str) -> None:
    envs = [CLASSES[name]() for _ in range(16)]
    episodes = [play(env, name) for env in (*envs, *envs)]
    assert episodes == [episodes[0]] * 32


@names
def test_a_factory_can_be_pickled(name: str) -> None:
    (env_id,) = (env_id for env_id in text.text_envs().values() if trl.env_class(env_id) is CLASSES[name])
    factory = functools.partial(trl.make, env_id)
    assert type(pickle.loads(pickle.dumps(factory))()) is CLASSES[name]
