"""Environments of TRL: their tools, on real games, and their life, on the corridor of `tests.serve.corridor`."""

import functools
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from jaxgym import text
from jaxgym.errors import OptionError
from jaxgym.serve import SessionPool, episodes, trl
from tests.serve import corridor


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_pools", [made])
        yield made


def tools_of(game: type) -> dict[str, Any]:
    functions = dict(inspect.getmembers(game, inspect.isfunction))
    return {name: function for name, function in functions.items() if name[0] != "_" and name != "get_reward"}


def test_a_class_has_the_tools_of_its_game_and_no_others() -> None:
    corridor.register()
    tools = {env_id: set(tools_of(trl.env_class(env_id))) - {"reset"} for env_id in text.text_envs().values()}
    special = {
        "FrozenLake-v0": {"move"},
        "Sudoku-v0": {"place"},
        "TextCraft-v0": {"get", "craft", "inventory"},
        "Corridor-v0": {"reply"},
    }
    assert tools == {env_id: special.get(env_id, {"act"}) for env_id in tools}


@pytest.mark.parametrize("env_id", ["FrozenLake-v0", "Sudoku-v0", "TextCraft-v0", "MysteryPath-v0", "Corridor-v0"])
def test_tools_have_hints_and_tell_of_every_argument(env_id: str) -> None:
    tools = tools_of(trl.env_class(env_id))
    for name, function in tools.items():
        parameters = [entry for entry in inspect.signature(function).parameters.values() if entry.name != "self"]
        assert all(entry.annotation is not inspect.Parameter.empty for entry in parameters)
        document = inspect.getdoc(function) or ""
        assert name == "reset" or all(f"\n    {entry.name}: " in document for entry in parameters)


class Said(trl.FrozenLakeEnv, trl.SudokuEnv, trl.TextCraftEnv):
    """Returns what a tool would reply."""

    def _reply(self, reply: str) -> str:
        return reply


def test_every_tool_says_an_exact_move() -> None:
    said = Said()
    replies = {
        "frozen_lake": [said.move("up")],
        "sudoku": [said.place(1, 2, 3)],
        "textcraft": [
            said.get("flax", 2),
            said.craft("2 flax yarn using 2 flax"),
            said.craft("craft 2 flax yarn using 2 flax"),
            said.inventory(),
        ],
    }
    moves = {name: [text.make(name)[2].parse(reply) for reply in listed] for name, listed in replies.items()}
    assert all(isinstance(move, text.Move) and move.is_exact for listed in moves.values() for move in listed)
    assert [move.text for move in moves["textcraft"][1:3]] == ["craft 2 flax yarn using 2 flax"] * 2


def corridor_env(**options: Any) -> Any:
    return trl.env_class("corridor")(**options)


def test_an_instance_is_reset_often_and_rewarded_at_the_end(pool: SessionPool) -> None:
    env = corridor_env(bonus=2.0)
    assert env.get_reward() == 0.0
    opened = env.reset(prompt=[{"role": "user", "content": "x"}], seed=3, other=1)
    assert opened.startswith("Reach the goal")
    assert opened.endswith("tools (reply); what they are given stands for the form above.\n\n....A...")
    assert env.reply("<left>") == "1: ...A...."
    assert env.reply("jump").startswith("2: Say left, stay or right.")
    assert env.get_reward() == 0.0
    assert env.reset(seed=3) == opened
    assert env.reply("<right right right>").endswith("won")
    assert env.get_reward() == env.get_reward() == 2.0
    with pytest.raises(ValueError, match="the game is over"):
        env.reply("<left>")
    assert env.get_reward() == 2.0
    assert len(pool) == 0


def test_a_row_says_what_is_played() -> None:
    env = corridor_env(bonus=2.0)
    env.reset(env_config={"seed": 3, "bonus": 5.0, "clues": None, "name": "corridor"})
    env.reply("<right right right>")
    assert env.get_reward() == 5.0
    env.reset(seed=3, env_config={"seed": 0})
    env.reply("<right right right>")
    assert env.get_reward() == 2.0
    with pytest.raises(OptionError, match="no option 'clues'"):
        env.reset(env_config={"clues": 3})


def test_a_tool_before_any_reset_starts_a_game() -> None:
    env = corridor_env()
    assert env.reply("<stay>").startswith("1: ")
    env.reset(seed=3)
    env.reply("<right right right>")


def test_classes_can_be_pickled() -> None:
    factory = functools.partial(trl.MortarMayhemGridEnv, command_count=[3])
    again = pickle.loads(pickle.dumps(factory))
    assert (again.func, again.keywords) == (factory.func, factory.keywords)
    with pytest.raises(AttributeError, match="NoSuchEnv"):
        trl.NoSuchEnv  # noqa: B018


@pytest.mark.parametrize("dialect", ["swift", "ragen", "textarena"])
def test_a_move_has_the_form_that_the_dialect_asks_for(dialect: str) -> None:
    env = trl.FrozenLakeEnv(format_cost=1.0)
    env.reset(seed=3, env_config={"dialect": dialect})
    env.move("down")
    assert env.get_reward() == 0.0
