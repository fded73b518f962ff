"""What is found in what models write, and that any string is read in linear time without an exception."""

import json
import random
import time

import pytest

from jaxgym.text import replies
from jaxgym.text.replies import (
    Answer,
    answers,
    excerpt,
    last_phrase,
    numbers,
    objects,
    tagged,
    without_thoughts,
    words_of,
)

MOVES = {"up": 0, "down": 1, "left": 2, "right": 3, "turn left": 4}

STYLES = (
    ("<action>up</action>", "up"),
    ("<ACTION> Up </Action>", "Up"),
    ("<think>left?</think>\n<action>up</action>", "up"),
    ("left </think> <action>up</action>", "up"),
    ("<answer>up</answer>", "up"),
    ("<answer>down</answer> no, <action>up</action>", "up"),
    ("<action>down</action> no, <action>up</action>", "up"),
    ("<action>up", "up"),
    ("<action>up<action>", "up"),
    ("<action>up</actio", "up"),
    ('<action>{"action": "up"}</action>', "up"),
    ('{"action": "up"}', "up"),
    ('I go.\n```json\n{"reason": "it is {free}", "action": "up"}\n```', "up"),
    ('{"name": "act", "arguments": {"move": "up"}}', "up"),
    ('{"name": "act", "arguments": "{\\"move\\": \\"up\\"}"}', "up"),
    ('{"actions": ["up", "left"]}', "up, left"),
    ('{"message": 3}', "3"),
    ('{"action": "down"} {"action": "up"}', "up"),
    ("{'action': 'up'}", "up"),
    ('{"action": "up",}', "up"),
    ("\\boxed{up}", "up"),
    ("so $\\boxed{\\text{up}}$.", "up"),
    ("Thought: left is a hole.\nAction: up", "up"),
    ("Action: down\nObservation: ...\nAction: up\n", "up"),
    ("**Final answer:** up", "up"),
    ("Action:\nup", "up"),
    ("Action: move\nAction Input: up", "up"),
    ("```\nup\n```", "up"),
    ("```text\nup\n```", "up"),
    ("```up```", "up"),
    ("I play [up]", "up"),
    ("up", "up"),
)


@pytest.mark.parametrize(("reply", "expected"), STYLES)
def test_the_first_place_of_a_reply_holds_the_answer(reply: str, expected: str) -> None:
    assert next(answers(reply)).text == expected


@pytest.mark.parametrize(
    "reply", ["<think>\n</think>\n<action> up </action>", "I go <action>up</action>", "<Action>up</action>"]
)
def test_one_block_in_the_asked_tag_is_exact(reply: str) -> None:
    assert list(answers(reply)) == [Answer("up", is_exact=True)]


@pytest.mark.parametrize(
    "reply",
    [
        "<answer>up</answer>",
        "<action>up",
        "<action>up</action><action>up</action>",
        '<action>{"action": "up"}</action>',
        "up",
        "<think><action>up</action>",
        "<think><action>up</action></think>",
    ],
)
def test_another_form_is_not_exact(reply: str) -> None:
    assert not any(answer.is_exact for answer in answers(reply))


def test_a_tag_decides_and_other_places_are_tried_in_turn() -> None:
    assert [answer.text for answer in answers("Action: up [left] <action>down</action>")] == ["down"]
    assert [answer.text for answer in answers("Action: up\n[left]")] == ["up", "left", "Action: up\n[left]"]
    assert [answer.is_prose for answer in answers("[note] up")] == [False, True]


def test_a_game_names_its_own_tags() -> None:
    assert next(answers("<cell>1</cell><action>2</action>", ("cell",))) == Answer("1", is_exact=True)
    assert tagged("<cell>1</cell> <think><cell>2</cell></think>", "cell") == "1"
    assert tagged("cell", "cell") is None


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("a<think>b</think>c", "ac"),
        ("b</think>c", "c"),
        ("a<think>b", "a"),
        ("<Thinking>b</thinking>c<think>d</think>e", "ce"),
        ("<think>b<think>b</think>c", "c"),
        ("no < thought", "no < thought"),
    ],
)
def test_thoughts_are_dropped(reply: str, expected: str) -> None:
    assert without_thoughts(reply) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I will go up.", 0),
        ("Not left; **Down**!", 1),
        ("then Turn-Left", 4),
        ("left", 2),
        ("upwards", None),
        ("", None),
    ],
)
def test_the_last_phrase_of_prose_counts_and_the_longest_of_those(text: str, expected: int | None) -> None:
    assert last_phrase(text, MOVES) == expected


def test_words_numbers_and_objects_are_found() -> None:
    assert words_of("Go ↑, x5 (R2)!") == ["go", "↑", "x", "5", "r", "2"]
    assert numbers("row 3, column -4, 12345678901, 7.") == [3, -4, 7]
    assert objects('{"a": 1} and {"b": {"c": 2}} and { no }') == [{"a": 1}, {"b": {"c": 2}}]


def test_an_excerpt_is_short_printable_and_encodable() -> None:
    assert excerpt('say "hi"\n\x00\ud800') == "\"say 'hi'\""
    assert len(excerpt("x" * 10**6)) < 50
    assert len(excerpt("\ud800 é" * 99).encode()) < 99


TRAPS = (
    "<" * 2,
    "<action>",
    "</action>",
    "<think>",
    "</think>",
    "<think></think>",
    '{"',
    '{"a":',
    '{"a":"',
    "{'action':",
    '"action":"',
    "action: ",
    "\naction:",
    "\n" + " " * 9 + "*",
    "\\boxed{",
    "{}",
    "```",
    "[",
    "]",
    "[[]",
    "\x00",
    "\ud800",
    "İ",
    "9",
    "-",
    " ",
    "up ",
    '{"action":[',
    "\\text{",
    "\r\n",
    "😀",
)


def read_all(text: str) -> None:
    for answer in answers(text):
        words_of(answer.text)
        last_phrase(answer.text, MOVES)
        numbers(answer.text)
        excerpt(answer.text).encode()
    objects(text)
    tagged(text, "action")


@pytest.mark.parametrize("trap", TRAPS, ids=repr)
def test_a_megabyte_of_anything_is_read_in_linear_time(trap: str) -> None:
    text = trap * (10**6 // len(trap))
    started = time.process_time()
    read_all(text)
    # It takes a fifth of a second at most; what is quadratic takes minutes.
    assert time.process_time() - started < 10.0


def fuzz(number: int) -> None:
    """Reads random mixtures of traps and letters."""
    chance = random.Random(number)
    for _ in range(number):
        pieces = chance.choices([*TRAPS, *"abc\n\t\"'{}<>[]():,.0\ufeff\u2191"], k=chance.randrange(40))
        read_all("".join(piece * chance.choice((1, 1, 1, 2, 50)) for piece in pieces))


def test_no_mixture_raises() -> None:
    fuzz(1_500)


@pytest.mark.slow
def test_no_mixture_of_very_many_raises() -> None:
    fuzz(100_000)


@pytest.mark.parametrize("depth", [10, 900, 5_000])
def test_deep_nesting_is_no_error(depth: int) -> None:
    read_all('{"a":' * depth)
    read_all('{"action":' * depth + '"up"' + "}" * depth)
    assert objects("[" * depth) == []


def test_only_the_end_of_a_long_reply_is_looked_at() -> None:
    assert next(answers("<action>down</action>" + "x" * replies.LONGEST + "<action>up</action>")) == Answer(
        "up", is_exact=True
    )
    assert next(answers("<think>" + "x" * replies.LONGEST + "</think><action>up</action>")) == Answer(
        "up", is_exact=True
    )


def test_what_json_calls_numbers_is_text() -> None:
    assert next(answers(json.dumps({"action": True}))).text == "True"
    assert next(answers('{"action": 1e999}')).text == "inf"
