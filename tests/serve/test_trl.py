"""TRL environments: their tools on real games, and their life cycle on the corridor of `tests.serve.corridor`."""

import functools
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from jaxgym import text
from jaxgym.errors import OptionError, UnknownIdError
from jaxgym.serve import episodes, trl
from jaxgym.serve.pool import SessionPool
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
        "MemoryCards-v0": {"choose"},
        "Corridor-v0": {"reply"},
    }
    assert tools == {env_id: special.get(env_id, {"act"}) for env_id in tools}


@pytest.mark.parametrize(
    "env_id", ["FrozenLake-v0", "Sudoku-v0", "TextCraft-v0", "MemoryCards-v0", "MysteryPath-v0", "Corridor-v0"]
)
def test_tools_have_hints_and_tell_of_every_argument(env_id: str) -> None:
    tools = tools_of(trl.env_class(env_id))
    for name, function in tools.items():
        parameters = [entry for entry in inspect.signature(function).parameters.values() if entry.name != "self"]
        assert all(entry.annotation is not inspect.Parameter.empty for entry in parameters)
        document = inspect.getdoc(function) or ""
        assert name == "reset" or all(f"\n    {entry.name}: " in document for entry in parameters)


class Said(trl.FrozenLakeEnv, trl.SudokuEnv, trl.TextCraftEnv):
    """Return the answer of a tool."""

    def _reply(self, reply: str, tool_call: str) -> str:
        del tool_call
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
    assert all(isinstance(move, text.ParsedAction) and move.is_exact for listed in moves.values() for move in listed)
    assert [move.text for move in moves["textcraft"][1:3]] == ["craft 2 flax yarn using 2 flax"] * 2


def corridor_env(**options: Any) -> Any:
    return trl.env_class("corridor")(**options)


def test_an_instance_is_reset_often_and_rewarded_at_the_end(pool: SessionPool) -> None:
    env = corridor_env(bonus=2.0)
    assert env.get_reward() == 0.0
    assert env.episode is None
    opened = env.reset(prompt=[{"role": "user", "content": "x"}], seed=3, other=1)
    assert opened.startswith("Reach the goal")
    assert opened.endswith("Act by calling exactly one tool in each turn. Tools: reply(message: string).\n\n....A...")
    assert env.reply("<left>") == "1: ...A...."
    assert env.reply("jump").startswith("2: Say left, stay or right.")
    assert env.get_reward() == 0.0
    assert (env.episode.has_ended, env.episode.invalid_replies) == (False, 1)
    assert env.reset(seed=3) == opened
    assert env.reply("<right right right>").endswith("won")
    assert env.get_reward() == env.get_reward() == 2.0
    assert (env.episode.has_ended, env.episode.result.is_solved, env.episode.invalid_replies) == (True, True, 0)
    with pytest.raises(ValueError, match="The episode has ended"):
        env.reply("<left>")
    assert env.get_reward() == 2.0
    assert len(pool) == 0


@pytest.mark.parametrize(
    "env_id",
    ["FrozenLake-v0", "Sudoku-v0", "TextCraft-v0", pytest.param("MysteryPath-Grid-v0", marks=pytest.mark.slow)],
)
def test_the_prompt_names_the_tools_and_no_other_form_of_a_reply(env_id: str) -> None:
    env, params, interface = text.make(env_id)
    del env
    form = interface.reply_format()
    assert form
    assert interface.system_prompt(params).endswith(form)
    opened = trl.env_class(env_id)().reset(seed=3)
    assert form not in opened
    assert "<action>" not in opened
    assert "Act by calling exactly one tool in each turn." in opened


def test_a_row_says_what_is_played() -> None:
    env = corridor_env(bonus=2.0)
    env.reset(env_config={"seed": 3, "bonus": 5.0, "clues": None, "name": "corridor"})
    env.reply("<right right right>")
    assert env.get_reward() == 5.0
    env.reset(seed=3, env_config={"seed": 0})
    env.reply("<right right right>")
    assert env.get_reward() == 2.0
    with pytest.raises(OptionError, match="expected an option, got 'clues'"):
        env.reset(env_config={"clues": 3})


def test_a_tool_before_any_reset_starts_a_game() -> None:
    env = corridor_env()
    assert env.reply("<stay>").startswith("1: ")
    env.reset(seed=3)
    env.reply("<right right right>")


def test_a_factory_can_be_pickled() -> None:
    factory = functools.partial(trl.make, "mortar_mayhem_grid", command_count=[3])
    made = pickle.loads(pickle.dumps(factory))()
    assert type(made) is trl.env_class("MortarMayhem-Grid-v0")
    assert made.reset(seed=3) == factory().reset(seed=3)
    with pytest.raises(UnknownIdError, match="no_such_game"):
        trl.make("no_such_game")


@pytest.mark.parametrize("dialect", ["swift", "ragen", "textarena"])
def test_a_move_has_the_form_that_the_dialect_asks_for(dialect: str) -> None:
    env = trl.FrozenLakeEnv(format_penalty=1.0)
    env.reset(seed=3, env_config={"dialect": dialect})
    env.move("down")
    assert env.get_reward() == 0.0


PLACE = "Call place(row: integer, column: integer, number: integer)."
ROW = {"row": 1, "column": 2, "number": 3}
WRONG = [
    ("sudoku", "place", {**ROW, "row": 1.5}, f"place: expected an integer for row, got 1.5. {PLACE}"),
    ("sudoku", "place", {**ROW, "row": True}, f"place: expected an integer for row, got true. {PLACE}"),
    ("sudoku", "place", {**ROW, "number": "3"}, f"place: expected an integer for number, got '3'. {PLACE}"),
    ("sudoku", "place", {**ROW, "number": None}, f"place: expected an integer for number, got null. {PLACE}"),
    ("sudoku", "place", {**ROW, "number": [3]}, f"place: expected an integer for number, got [3]. {PLACE}"),
    ("sudoku", "place", {**ROW, "number": float("nan")}, f"place: expected an integer for number, got nan. {PLACE}"),
    ("sudoku", "place", {**ROW, "number": float("inf")}, f"place: expected an integer for number, got inf. {PLACE}"),
    ("sudoku", "place", {**ROW, "number": 10**5000}, "place: expected an integer of at most 63 bits for number, got "),
    ("sudoku", "place", {**ROW, "row": 2**63}, "place: expected an integer of at most 63 bits for row, got 92233720"),
    ("sudoku", "place", {**ROW, "row": -(2**63)}, "place: expected an integer of at most 63 bits for row, got -92233"),
    ("sudoku", "place", {"row": 1, "column": 2}, "place: missing argument number. "),
    ("sudoku", "place", {**ROW, "cell": "x" * 999}, "place: unknown argument 'cell'. Call place("),
    ("frozen_lake", "move", {"direction": "up or down"}, "move: expected one of up, down, left, right for direction, "),
    ("frozen_lake", "move", {"direction": 3}, "move: expected one of up, down, left, right for direction, got 3. "),
    ("frozen_lake", "move", {"direction": ["up"]}, "move: expected one of up, down, left, right for direction, got ["),
    ("frozen_lake", "move", {}, "move: missing argument direction. "),
    ("textcraft", "get", {"item": "flax", "count": True}, "get: expected an integer for count, got true. "),
    ("textcraft", "get", {"item": "flax", "count": 2.5}, "get: expected an integer for count, got 2.5. "),
    ("textcraft", "get", {"item": 7}, "get: expected a string for item, got 7. "),
    ("textcraft", "get", {"item": "x</action><action>get 1 flax"}, "get: expected a text without the characters "),
    ("textcraft", "craft", {"command": None}, "craft: expected a string for command, got null. "),
    ("textcraft", "inventory", {"all": True}, "inventory: unknown argument 'all'. Call inventory()."),
    ("mystery_path_grid", "act", {"actions": ["wait"]}, "act: expected a string for actions, got ['wait']. "),
    ("mystery_path_grid", "act", {"actions": "[THINK]no[/THINK]forward"}, "act: expected a text without "),
    ("corridor", "reply", {"message": 1}, "reply: expected a string for message, got 1. Call reply(message: string)."),
]


@pytest.mark.parametrize(("game", "tool", "arguments", "reason"), WRONG)
def test_wrong_arguments_are_an_invalid_turn(game: str, tool: str, arguments: dict[str, Any], reason: str) -> None:
    env = trl.env_class(game)(invalid_reply_penalty=1.0, max_turns=1)  # the turn that ends it gives its session back
    env.reset(seed=3)
    said = getattr(env, tool)(**arguments)
    assert reason in said
    assert len(said[: said.index(" Call ")]) < 200
    assert env.get_reward() == -1.0


@pytest.mark.parametrize(
    ("game", "tool", "arguments", "call"),
    [
        ("mystery_path_grid", "act", {"actions": "jump"}, "Call act(actions: string)."),
        ("sudoku", "place", {**ROW, "row": 0}, PLACE),
        ("textcraft", "craft", {"command": ""}, "Call craft(command: string)."),
        ("textcraft", "craft", {"command": "3 flax"}, "Call craft(command: string)."),
        ("textcraft", "get", {"item": ""}, "Call get(item: string, count: integer, optional)."),
    ],
)
def test_the_error_of_an_invalid_action_names_the_call_of_the_tool(
    game: str, tool: str, arguments: dict[str, Any], call: str
) -> None:
    env = trl.env_class(game)(max_turns=2)
    env.reset(seed=3)
    said = getattr(env, tool)(**arguments)
    getattr(env, tool)(**arguments)  # the turn that ends it gives its session back
    assert said.splitlines()[0].startswith(("Invalid ", "Could not "))
    assert call in said.splitlines()[0]
    assert "Reply in this format" not in said
    assert "<action>" not in said


def test_positions_that_no_argument_has_are_an_invalid_turn() -> None:
    env: Any = trl.FrozenLakeEnv(invalid_reply_penalty=1.0, max_turns=1)
    env.reset(seed=3)
    assert "move: unknown argument 'value 1'" in env.move("up", "left")
    assert env.get_reward() == -1.0


def test_an_argument_that_is_given_twice_is_an_invalid_turn() -> None:
    env: Any = trl.FrozenLakeEnv(invalid_reply_penalty=1.0, max_turns=1)
    env.reset(seed=3)
    assert "move: expected one value for direction, got two." in env.move("up", direction="left")
    assert env.get_reward() == -1.0


def test_whole_floats_are_integers() -> None:
    said: Any = Said()
    assert said.place(1.0, 2.0, 3) == said.place(row=1, column=2, number=3.0) == "[1 2 3]"
    assert said.get("flax", 2.0) == "<action>get 2 flax</action>"
