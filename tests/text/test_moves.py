"""Replies that name actions one after another."""

import random
import re

import pytest

from jaxgym.text.memory import course_moves, free_moves, grid_moves
from jaxgym.text.moves import MoveSet
from jaxgym.text.words import Move, Refusal

GRID, FREE, FLAT, COURSE = (
    grid_moves(4),
    free_moves(8, is_flat=False),
    free_moves(8, is_flat=True),
    course_moves(8),
)
ALL = [GRID, FREE, FLAT, COURSE, grid_moves(1), free_moves(64, is_flat=False)]


def test_the_free_actions_are_horizontal_then_vertical() -> None:
    assert FREE.actions["left"] == (1, 0)
    assert FREE.actions["down-right"] == (2, 2)
    assert FREE.actions["up"] == (0, 1)
    assert FLAT.actions == {
        name: 3 * pair[0] + pair[1] for name, pair in FREE.actions.items() if isinstance(pair, tuple)
    }


@pytest.mark.parametrize("moves", ALL, ids=lambda moves: f"{len(moves.actions)} by {moves.most}")
def test_the_words_of_a_move_parse_to_it_again(moves: MoveSet) -> None:
    for name, action in moves.actions.items():
        assert moves.parse(f"<action>{name}</action>") == Move((action,), name)
        assert moves.parse(f"<think>hm</think> <action> {name.upper()} </action>") == Move((action,), name)
        assert moves.parse(name) == Move((action,), name, is_exact=False)
    chance = random.Random(1)
    for _ in range(50):
        named = chance.choices(list(moves.actions), k=chance.randint(1, moves.most))
        move = moves.parse(f"<action>{', '.join(named)}</action>")
        assert isinstance(move, Move)
        assert move.actions == tuple(moves.actions[name] for name in named)
        assert moves.parse(f"<action>{move.text}</action>") == move


@pytest.mark.parametrize("moves", ALL, ids=lambda moves: f"{len(moves.actions)} by {moves.most}")
def test_the_examples_of_the_help_are_moves_in_the_asked_form(moves: MoveSet) -> None:
    examples = re.findall(r"<action>.*?</action>", moves.help())
    assert len(examples) == 1 + (moves.most > 1)
    for example in examples:
        move = moves.parse(example)
        assert isinstance(move, Move)
        assert move.is_exact


@pytest.mark.parametrize(
    ("moves", "reply", "text"),
    [
        (GRID, "<action>forward, forward, turn left</action>", "forward 2, turn left"),
        (GRID, "<action>forward x2; turn-left</action>", "forward 2, turn left"),
        (GRID, "<action>Move forward 2 times then turn left</action>", "forward 2, turn left"),
        (GRID, "<action>2x forward</action>", "forward 2"),
        (GRID, "<action>left</action>", "turn left"),
        (GRID, "<action>stay</action>", "wait"),
        (GRID, "<action>do nothing</action>", "wait"),
        (GRID, '{"action": "turn_right"}', "turn right"),
        (GRID, '{"actions": ["forward", "turn right"]}', "forward, turn right"),
        (GRID, "I think it is best to turn right.", "turn right"),
        (GRID, "Left is deadly, so I go forward", "forward"),
        (GRID, "**Action:** forward", "forward"),
        (GRID, "\\boxed{\\text{turn left}}", "turn left"),
        (FREE, "<action>right 5, up 2</action>", "right 5, up 2"),
        (FREE, "<action>right*5</action>", "right 5"),
        (FREE, "<action>right (5)</action>", "right 5"),
        (FREE, "<action>right 5 up 2</action>", "right 5, up 2"),
        (FREE, "<action>up left 2</action>", "up-left 2"),
        (FREE, "<action>left-up</action>", "up-left"),
        (FREE, "<action>upleft</action>", "up-left"),
        (FREE, "<action>up, left</action>", "up, left"),
        (FREE, "<action>right right right</action>", "right 3"),
        (FREE, "<action>right, right 2</action>", "right 3"),
        (FREE, "[up_right]", "up-right"),
        (FREE, "→ →", "right 2"),
        (COURSE, "<action>right 4, down</action>", "right 4, down"),
    ],
)
def test_many_styles_are_understood(moves: MoveSet, reply: str, text: str) -> None:
    move = moves.parse(reply)
    assert isinstance(move, Move)
    assert move.text == text


@pytest.mark.parametrize(
    ("moves", "reply", "reason"),
    [
        (GRID, "", "No action was given"),
        (GRID, "<think>forward", "No action was given"),
        (GRID, "<action></action>", "No action was given"),
        (GRID, "<action>jump</action>", '"jump" is no action: reply with <action>forward</action>'),
        (GRID, "<action>up</action>", "wait, turn left, turn right, forward"),
        (GRID, "<action>forward 0</action>", '"forward 0" is no action'),
        (GRID, "<action>3</action>", '"3" is no action'),
        (GRID, "forward</think> I do not know", '"I do not know" is no action'),
        (GRID, "<action>forward 5</action>", "5 actions are too many: a reply takes at most 4 actions"),
        (GRID, "<action>" + "forward," * 500 + "</action>", "500 actions"),
        (grid_moves(1), "<action>forward, forward</action>", "2 actions are too many: a reply takes one action"),
        (FREE, f"<action>right {'9' * 4000}</action>", "999999999 actions"),
        (FREE, "<action>right 15 px</action>", '"right 15 px" is no action'),
        (COURSE, "<action>left</action>", "wait, right, up, down"),
    ],
)
def test_a_refusal_says_what_to_do(moves: MoveSet, reply: str, reason: str) -> None:
    refusal = moves.parse(reply)
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason
    assert refusal.reason.endswith(".")
    assert "\n" not in refusal.reason


def test_waiting_is_what_stands_in_for_a_refused_reply() -> None:
    assert [moves.idle.actions for moves in (GRID, FREE, FLAT, COURSE)] == [(0,), ((0, 0),), (0,), (0,)]


def test_no_mixture_of_words_and_signs_raises() -> None:
    chance = random.Random(3)
    pieces = [
        *FREE.phrases,
        *GRID.phrases,
        *"0123456789,;.-x\n<>{}[]\"'\x00\ud800",
        "<action>",
        "</action>",
        " ",
        "then",
    ]
    outcomes = set[type]()
    for _ in range(2_000):
        reply = "".join(piece * chance.choice((1, 1, 30)) for piece in chance.choices(pieces, k=chance.randrange(12)))
        for moves in (GRID, FREE):
            outcome = moves.parse(reply)
            outcomes.add(type(outcome))
            if isinstance(outcome, Move):
                assert 1 <= len(outcome.actions) <= moves.most
            else:
                outcome.reason.encode()
    assert outcomes == {Move, Refusal}
