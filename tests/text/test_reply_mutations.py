"""Mutated replies: a parser returns an action that the oracle allows, or rejects the reply."""

# ruff: noqa: RUF001 other scripts are what the parsers have to tell apart

import random
import re
from typing import Any

import pytest

from jaxgym import text
from jaxgym.envs.textcraft.world import world
from jaxgym.text import ParsedAction
from tests.text import mutations, oracle
from tests.text.mutations import FORMS, Game

LAKE = {name: (number,) for number, name in enumerate(("left", "down", "right", "up"))}
NO_LAKE = ("jump", "stay", "up|down|left|right", "up or down", "upleft", "5", "not up", "up down", "north-up")
COMMON = tuple(FORMS)
ITEMS = tuple(world().names)
PLANKS = ("craft", "ash planks", frozenset({(1, "ash log")}))

GAMES: dict[str, tuple[Game, dict[str, Any]]] = {
    "swift": (Game(oracle.SWIFT, LAKE, NO_LAKE), {"name": "frozen_lake"}),
    "ragen": (
        Game(oracle.RAGEN, LAKE, NO_LAKE, more={"<answer>1</answer>": (0,), "<answer>4</answer>": (3,)}),
        {"name": "frozen_lake", "dialect": "ragen"},
    ),
    "textarena": (
        Game(oracle.TEXTARENA, LAKE, NO_LAKE, more={"[w]": (3,), "[a]": (0,)}),
        {"name": "frozen_lake", "dialect": "textarena"},
    ),
    "sudoku": (
        Game(
            oracle.SUDOKU,
            {"1 2 3": (1, 2, 3), "9 8 7": (9, 8, 7)},
            ("4 5 12", "0 1 2", "1 2", "1 2 3 4", "1 2 x", "1.0 2 3", "-1 2 3", "１ 2 3", "none"),
            tuple(form for form in COMMON if form != "json"),
            {
                '{"row": 1, "column": 2, "number": 3}': (1, 2, 3),
                '{"number": 3.0, "row": 1, "column": 2}': (1, 2, 3),
                "place(row=1, column=2, number=3)": (1, 2, 3),
                "place(number=3, row=1, column=2)": (1, 2, 3),
                "<answer>[1 2 3]</answer>": (1, 2, 3),
                "<action>[9 8 7]</action>": (9, 8, 7),
            },
            (
                '{"row": 1.5, "column": 2, "number": 3}',
                '{"row": true, "column": 2, "number": 3}',
                '{"row": "1", "column": 2, "number": 3}',
                '{"row": null, "column": 2, "number": 3}',
                '{"row": [1], "column": 2, "number": 3}',
                '{"row": 1, "column": 2}',
                '{"row": 1, "column": 2, "number": 10}',
                '{"action": "1 2 10"}',
                "place(row=1, column=2)",
                "place(row=1, column=2, number=12)",
                "place(row=1, row=2, number=3)",
                "place(row=1, column=2, number=3, number=4)",
                "place(row=1.5, column=2, number=3)",
            ),
        ),
        {"name": "sudoku"},
    ),
    "textcraft": (
        Game(
            oracle.textcraft_family(ITEMS),
            {
                "get 3 ash log": ("get", 3, "ash log"),
                "get 1 flax": ("get", 1, "flax"),
                "inventory": ("inventory",),
                "craft 4 ash planks using 1 ash log": PLANKS,
            },
            ("fetch 3 flax", "get 0 flax", "get 3.5 flax", "get 3 unobtainium", "craft 1 flax", "get -3 flax", "get"),
        ),
        {"name": "textcraft"},
    ),
    "mystery_path_grid": (
        Game(
            oracle.GRID,
            {
                "wait": (0,),
                "turn left": (1,),
                "turn right": (2,),
                "forward": (3,),
                "forward 2, turn left": (3, 3, 1),
                "turn right, forward, forward, wait": (2, 3, 3, 0),
            },
            ("jump", "forward 9", "forward, jump", "not forward", "forward -1", "turn", "none is red", "forward 1.5"),
        ),
        {"name": "mystery_path_grid", "actions_per_turn": 4},
    ),
}

EXAMPLES = [
    ("swift", "I can't go left, there is a hole. <action>jump</action>", None),
    ("swift", '{"action": "stay"} because left is a hole', None),
    ("swift", "<action>up|down|left|right</action>", None),
    ("swift", "F and up was safe before", None),
    ("swift", "I should not go up", None),
    ("swift", "[THINK]maybe <action>left</action>? no[/THINK]<action>right</action>", (2,)),
    ("swift", "<think>left <action>up</action>", None),
    ("swift", "left</think><action>right</action>", (2,)),
    ("swift", "up", (3,)),
    ("swift", "Go up.", (3,)),
    ("swift", "<action>ſ up</action>", None),
    ("mystery_path_grid", "none is red", None),
    ("mystery_path_grid", "Going forward would be deadly.\nAction: jump", None),
    ("mystery_path_grid", "<action>forward 2, turn left</action>", (3, 3, 1)),
    ("textcraft", "Thought: I could get 1 water.\nAction: fetch 3 flax", None),
    ("textcraft", "Thought: I need it.\nAction:\nget 3 flax", ("get", 3, "flax")),
    ("sudoku", "I thought of [1 2 3].\n<answer>[4 5 12]</answer>", None),
    ("sudoku", "I looked at 3 cells. There are 2 options in 1 of them.", None),
    ("sudoku", "R1: 4 3 2 | 7 5 8", None),
    ("sudoku", "１ 2 3", None),
    ("sudoku", "1² 2 3", None),
    ("sudoku", '{"row": 1.0, "column": 2, "number": 3}', (1, 2, 3)),
    ("sudoku", '{"row": 1.5, "column": 2, "number": 3}', None),
    ("sudoku", '{"row": true, "column": 2, "number": 3}', None),
    ("sudoku", '{"row": "1", "column": 2, "number": 3}', None),
    ("sudoku", "place(number=3, row=1, column=2)", (1, 2, 3)),
    ("sudoku", "Place 3 at row 1, column 2", (1, 2, 3)),
    (
        "sudoku",
        "<|channel|>analysis<|message|>[1 2 3]<|end|><|start|>assistant<|channel|>final<|message|>[4 5 6]",
        (4, 5, 6),
    ),
]
"""Replies of the policy and what they mean; None for an invalid one."""


def interface_of(name: str, **options: Any) -> Any:
    """Return the text interface of a game."""
    return text.make(name, **options)[2]


@pytest.fixture(scope="module", params=GAMES)
def played(request: pytest.FixtureRequest) -> tuple[str, Game, Any]:
    game, options = GAMES[request.param]
    return request.param, game, interface_of(**options)


def result_of(game: Game, interface: Any, reply: str) -> Any:
    """Return the action of a reply, or None if the parser rejects it."""
    made = interface.parse(reply)
    return mutations.meaning(game, made) if isinstance(made, ParsedAction) else None


def faults_of(game: Game, interface: Any, replies: list[str]) -> list[tuple[str, Any, Any]]:
    """Return the replies on which a parser and the oracle disagree, with both results."""
    faults = []
    for reply in replies:
        action = result_of(game, interface, reply)
        allowed = set() if action is None else oracle.actions_of(game.family, reply)
        if action is not None and action not in allowed:
            faults.append((reply, action, allowed))
    return faults


@pytest.mark.parametrize(("name", "reply", "action"), EXAMPLES)
def test_the_oracle_reads_the_examples_of_the_policy(name: str, reply: str, action: Any) -> None:
    assert oracle.actions_of(GAMES[name][0].family, reply) == (set() if action is None else {action})


@pytest.mark.parametrize("name", GAMES)
def test_the_oracle_reads_every_form_and_nothing_that_is_illegal(name: str) -> None:
    game = GAMES[name][0]
    for said in mutations.legal_replies(game):
        for reply in mutations.around(said):
            assert oracle.actions_of(game.family, reply) == {said.action}, reply
    for reply in mutations.beside(game):
        assert not oracle.actions_of(game.family, reply), reply


@pytest.mark.parametrize(("name", "reply", "action"), EXAMPLES)
def test_the_examples_of_the_policy_are_read_right(name: str, reply: str, action: Any) -> None:
    game, options = GAMES[name]
    assert result_of(game, interface_of(**options), reply) == action


def test_every_form_is_read_behind_every_kind_of_reasoning(played: tuple[str, Game, Any]) -> None:
    _, game, interface = played
    wrong = [
        (reply, said.action, result_of(game, interface, reply))
        for said in mutations.legal_replies(game)
        for reply in mutations.around(said)
        if result_of(game, interface, reply) != said.action
    ]
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


def test_an_illegal_answer_yields_no_action_of_the_prose_around_it(played: tuple[str, Game, Any]) -> None:
    _, game, interface = played
    faults = [(reply, result_of(game, interface, reply)) for reply in mutations.beside(game)]
    wrong = [fault for fault in faults if fault[1] is not None]
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


def test_the_oracle_finds_parsers_that_are_wrong() -> None:
    game = GAMES["swift"][0]
    chance = random.Random(3)
    replies = [mutations.mutated(chance, game, list(mutations.legal_replies(game))) for _ in range(2_000)]

    class Prose:
        def parse(self, reply: str) -> Any:
            named = [name for name in LAKE if name in reply]
            return ParsedAction(LAKE[named[-1]], named[-1]) if named else text.InvalidReply("")

    class First:
        def parse(self, reply: str) -> Any:
            tagged = re.search(r"<(?:action|answer)>(up|down|left|right)</", reply)
            return ParsedAction(LAKE[tagged[1]], tagged[1]) if tagged else text.InvalidReply("")

    class Silent:
        def parse(self, reply: str) -> Any:
            return text.InvalidReply(reply)

    assert len(faults_of(game, Prose(), replies)) > 100
    assert len(faults_of(game, First(), replies)) > 10
    assert not faults_of(game, Silent(), replies)


def check_mutations(played: tuple[str, Game, Any], number: int, seed: int) -> None:
    name, game, interface = played
    chance = random.Random(f"{name} {seed}")
    replies = list(mutations.legal_replies(game))
    faults = faults_of(game, interface, [mutations.mutated(chance, game, replies) for _ in range(number)])
    assert not faults, f"{len(faults)} of {number}: {faults[:5]}"


def test_a_mutated_reply_is_read_as_the_oracle_allows(played: tuple[str, Game, Any]) -> None:
    check_mutations(played, 1_000, seed=0)


@pytest.mark.slow
def test_a_hundred_thousand_mutated_replies_are_read_as_the_oracle_allows(played: tuple[str, Game, Any]) -> None:
    check_mutations(played, 100_000 // len(GAMES) + 1, seed=1)
