"""Replies with several consecutive actions."""

import random
import re

import pytest

from jaxgym.envs.memory_gym.text import free_actions, grid_actions, path_actions
from jaxgym.text.actions import ActionSet
from jaxgym.text.turns import InvalidReply, ParsedAction

GRID, FREE, FLAT, PATH = (
    grid_actions(4),
    free_actions(8, is_flat=False),
    free_actions(8, is_flat=True),
    path_actions(8),
)
ALL = [GRID, FREE, FLAT, PATH, grid_actions(1), free_actions(64, is_flat=False)]


def test_the_free_actions_are_horizontal_then_vertical() -> None:
    assert FREE.actions["left"] == (1, 0)
    assert FREE.actions["down-right"] == (2, 2)
    assert FREE.actions["up"] == (0, 1)
    assert FLAT.actions == {
        name: 3 * pair[0] + pair[1] for name, pair in FREE.actions.items() if isinstance(pair, tuple)
    }


@pytest.mark.parametrize("moves", ALL, ids=lambda moves: f"{len(moves.actions)} by {moves.most}")
def test_the_words_of_a_move_parse_to_it_again(moves: ActionSet) -> None:
    for name, action in moves.actions.items():
        assert moves.parse(f"<action>{name}</action>") == ParsedAction((action,), name)
        assert moves.parse(f"<think>hm</think> <action> {name.upper()} </action>") == ParsedAction((action,), name)
        assert moves.parse(name) == ParsedAction((action,), name, is_exact=False)
    chance = random.Random(1)
    for _ in range(50):
        named = chance.choices(list(moves.actions), k=chance.randint(1, moves.most))
        move = moves.parse(f"<action>{', '.join(named)}</action>")
        assert isinstance(move, ParsedAction)
        assert move.actions == tuple(moves.actions[name] for name in named)
        assert moves.parse(f"<action>{move.text}</action>") == move


@pytest.mark.parametrize("moves", ALL, ids=lambda moves: f"{len(moves.actions)} by {moves.most}")
def test_the_examples_of_the_help_are_moves_in_the_asked_form(moves: ActionSet) -> None:
    examples = re.findall(r"<action>.*?</action>", moves.help())
    assert len(examples) == 1 + (moves.most > 1)
    for example in examples:
        move = moves.parse(example)
        assert isinstance(move, ParsedAction)
        assert move.is_exact


@pytest.mark.parametrize(
    ("moves", "reply", "text"),
    [
        (GRID, "<action>forward, forward, turn left</action>", "forward 2, turn left"),
        (GRID, "<action>forward 2; turn-left</action>", "forward 2, turn left"),
        (GRID, "<action>Move forward 2 times, then turn left</action>", "forward 2, turn left"),
        (GRID, "<action>turn_left\nforward</action>", "turn left, forward"),
        (GRID, "<action>left</action>", "turn left"),
        (GRID, "<action>stay</action>", "wait"),
        (GRID, "<action>do nothing</action>", "wait"),
        (GRID, '{"action": "turn_right"}', "turn right"),
        (GRID, '{"actions": ["forward", "turn right 2"]}', "forward, turn right 2"),
        (GRID, 'act(actions="forward 2, turn right")', "forward 2, turn right"),
        (GRID, "**Action:** forward", "forward"),
        (GRID, "Thought: it is safe.\nAction:\nforward", "forward"),
        (GRID, "\\boxed{\\text{turn left}}", "turn left"),
        (GRID, "turnleft", "turn left"),
        (GRID, "Turn left.", "turn left"),
        (FREE, "<action>right 5, up 2</action>", "right 5, up 2"),
        (FREE, "<action>left-up</action>", "up-left"),
        (FREE, "<action>upleft</action>", "up-left"),
        (FREE, "<action>up, left</action>", "up, left"),
        (FREE, "<action>right, right 2</action>", "right 3"),
        (FREE, "[up_right]", "up-right"),
        (FREE, "Go up 3.", "up 3"),
        (FREE, "→", "right"),
        (PATH, "<action>right 4, down</action>", "right 4, down"),
    ],
)
def test_an_explicit_answer_is_read(moves: ActionSet, reply: str, text: str) -> None:
    move = moves.parse(reply)
    assert isinstance(move, ParsedAction)
    assert move.text == text


@pytest.mark.parametrize(
    ("moves", "reply", "got"),
    [
        (GRID, "", "no answer"),
        (GRID, "<think>forward", "no answer"),
        (GRID, "<action></action>", "no answer"),
        (GRID, "<action>jump</action>", '"jump"'),
        (GRID, "<action>up</action>", '"up"'),
        (GRID, "<action>forward 0</action>", '"forward 0"'),
        (GRID, "<action>3</action>", '"3"'),
        (GRID, "<action>forward", '"forward"'),
        (GRID, "<action>forward|wait</action>", '"forward|wait"'),
        (GRID, "<action>forward,</action>", '"forward,"'),
        (GRID, "<action>forward x2</action>", '"forward x2"'),
        (GRID, "<action>forward two</action>", '"forward two"'),
        (GRID, "<action>forward \uff12</action>", '"forward \uff12"'),
        (GRID, "<action>forward -1</action>", '"forward -1"'),
        (GRID, "forward</think> I do not know", '"I do not know"'),
        (GRID, "I think it is best to turn right.", '"I think it is best to turn right."'),
        (GRID, "Left is deadly, so I go forward", '"Left is deadly, so I go forward"'),
        (GRID, "none is red", '"none is red"'),
        (GRID, "go left", '"go left"'),
        (GRID, '{"action": true}', "\"{'action': true}\""),
        (GRID, '{"actions": ["forward", 2]}', "\"{'actions': ['forward', 2]}\""),
        (FREE, "Going forward would be deadly.\nAction: jump", '"jump"'),
        (FREE, "<action>right 15 px</action>", '"right 15 px"'),
        (FREE, "<action>right 5 tiles</action>", '"right 5 tiles"'),
        (FREE, "<action>right right</action>", '"right right"'),
        (FREE, "<action>up left</action>", '"up left"'),
        (PATH, "<action>left</action>", '"left"'),
    ],
)
def test_an_invalid_reply_is_quoted_and_the_actions_are_listed(moves: ActionSet, reply: str, got: str) -> None:
    invalid = moves.parse(reply)
    assert isinstance(invalid, InvalidReply)
    assert invalid.reason == (
        f"Invalid reply: expected one of {', '.join(moves.actions)}, got {got}. "
        f"Reply in this format: <action>{moves.example}</action>."
    )


@pytest.mark.parametrize(
    ("moves", "reply", "reason"),
    [
        (GRID, "<action>forward 5</action>", "expected at most 4 actions, got 5."),
        (GRID, "<action>forward 3, wait 3</action>", "expected at most 4 actions, got 6."),
        (grid_actions(1), "<action>forward, forward</action>", "expected one action, got 2."),
        (FREE, "<action>right 999999999</action>", "expected at most 8 actions, got 999999999."),
    ],
)
def test_too_many_actions_are_counted(moves: ActionSet, reply: str, reason: str) -> None:
    invalid = moves.parse(reply)
    assert isinstance(invalid, InvalidReply)
    form = f"Reply in this format: <action>{moves.example}</action>."
    assert invalid.reason == f"Invalid reply: {reason} Send fewer actions in one reply. {form}"


def test_many_or_long_actions_are_invalid_and_take_no_time() -> None:
    for reply in ("forward," * 900, f"right {'9' * 4000}", f"<action>{'forward ' * 900}</action>"):
        assert isinstance(GRID.parse(reply), InvalidReply)


def test_lenient_parsing_searches_prose_where_there_is_no_explicit_answer() -> None:
    assert GRID.parse("Left is deadly, so I go forward", "lenient") == ParsedAction((3,), "forward", is_exact=False)
    assert isinstance(GRID.parse("Forward is deadly. <action>jump</action>", "lenient"), InvalidReply)
    assert isinstance(GRID.parse("I do not know", "lenient"), InvalidReply)


def test_waiting_is_what_stands_in_for_an_invalid_reply() -> None:
    assert [moves.idle.actions for moves in (GRID, FREE, FLAT, PATH)] == [(0,), ((0, 0),), (0,), (0,)]


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
            if isinstance(outcome, ParsedAction):
                assert 1 <= len(outcome.actions) <= moves.most
            else:
                outcome.reason.encode()
    assert outcomes == {ParsedAction, InvalidReply}
