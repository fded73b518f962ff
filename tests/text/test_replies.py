"""The explicit answer of a reply is found, and any string is parsed in linear time without an exception."""

import json
import random
import time

import numpy as np
import pytest

from jaxgym.text.forms import ACTION, ANSWER, FORMS, boxed, bracketed, fenced, labeled, tag, whole_number
from jaxgym.text.json_forms import Call, call, json_object
from jaxgym.text.reasoning import LONGEST, without_reasoning
from jaxgym.text.replies import Answer, excerpt, find_answer, invalid, last_phrase, unwrapped, words_of

TOOLS = {"place": ("row", "column", "number"), "inventory": (), "act": ("action",)}
KEYS = ("action", "actions", "row", "column")
ALL = (ACTION, ANSWER, json_object(*KEYS, **TOOLS), call(**TOOLS), *FORMS[3:], bracketed)
PLACED = Call("place", {"row": 1, "column": 2, "number": 3})

# Opening and closing delimiters, as the public chat templates of these models write them.
FAMILIES = {
    "DeepSeek-R1, Qwen3": ("<think>", "</think>"),
    "Claude-like": ("<thinking>", "</thinking>"),
    "EXAONE Deep": ("<thought>", "</thought>"),
    "Reka Flash": ("<reasoning>", "</reasoning>"),
    "Seed-OSS": ("<seed:think>", "</seed:think>"),
    "LongCat": ("<longcat_think>", "</longcat_think>"),
    "Magistral": ("[THINK]", "[/THINK]"),
    "Kimi-VL-Thinking": ("◁think▷", "◁/think▷"),
    "Command A Reasoning": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "Apertus": ("<|inner_prefix|>", "<|inner_suffix|>"),
    "OpenThinker": ("<|begin_of_thought|>", "<|end_of_thought|>"),
    "Solar Open": ("<|think|>", "<|content|>"),
    "Solar Open 2": ("<|think:start|>", "<|think:end|>"),
    "Gemma 4": ("<|channel>", "<channel|>"),
    "Pangu": ("[unused16]", "[unused17]"),
    "Granite 3.2": ("Here is my thought process:", "Here is my response:"),
    "Apriel 1.6": ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
    "Kimi K3": ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    "Inkling": ("<|content_thinking|>", "<|content_text|>"),
    "Hunyuan 3": ("<think:opensource>", "</think:opensource>"),
    "K2 Horizon": ("<ifm|think_fast>", "</ifm|think_fast>"),
    "K2-V2": ("<think_faster>", "</think_faster>"),
}


def value(reply: str) -> object:
    answer = find_answer(reply, ALL)
    return None if answer is None else answer.value


@pytest.mark.parametrize("family", FAMILIES)
def test_reasoning_is_removed_closed_or_not(family: str) -> None:
    opening, closing = FAMILIES[family]
    up, down = "<action>up</action>", "<action>down</action>"
    assert value(f"{opening}{up}? No.{closing}\n{down}") == "down"
    assert value(f"{up} is bad.{closing}{down}") == "down", "the prompt may end with the opening delimiter"
    assert value(f"{opening}{up}") is None, "reasoning that is not closed has no answer"
    assert value(f"{up}{closing}") is None
    assert value(f"{opening}one{closing}{up}{opening}{down}{closing}") == "up"
    assert value(f"{opening}{up}{opening}{up}{closing}{down}") == "down"
    assert value(f"{opening}{'x' * 30_000}{closing}{down}") == "down"
    assert value(f"{'x' * 300}{opening}{'x' * 30_000}{down}") == "x" * 300, "an opening delimiter far before is seen"
    assert value(f"é{opening}é{'x' * 30_000}{down}") == "é", "also beside letters that are not ASCII"


def test_a_delimiter_of_another_family_does_not_close_reasoning() -> None:
    assert value("<think><action>up</action>[/THINK]<action>up</action></think><action>down</action>") == "down"


HARMONY = "<|channel|>analysis<|message|>maybe [1 2 3]<|end|><|start|>assistant"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (f"{HARMONY}<|channel|>final<|message|>[4 5 6]<|return|>", "4 5 6"),
        (f"{HARMONY}<|channel|>final <|constrain|>json<|message|>[4 5 6]", "4 5 6"),
        (
            f"{HARMONY}<|channel|>final<|message|>[1 1 1]<|end|><|start|>assistant<|channel|>final<|message|>[4 5 6]",
            "4 5 6",
        ),
        (f"{HARMONY}<|channel|>commentary to=functions.act<|message|>[4 5 6]<|call|>", None),
        (HARMONY, None),
        ("maybe [1 2 3]<|end|><|start|>assistant<|channel|>final<|message|>[4 5 6]", "4 5 6"),
        ("analysismaybe [1 2 3]assistantfinal[4 5 6]", "4 5 6"),
        ("analysisWe could [1 2 3] but", None),
        ("analysishmm [1 2 3]assistantcommentary to=functions.place json", None),
        ("analysis: [1 2 3]", "1 2 3"),
        (f"<|channel|>analysis<|message|>{'x' * 30_000}[1 2 3]", None),
        (f"{HARMONY}<|channel|>final<|message|>{'x' * 30_000}<action>up</action>", "up"),
    ],
)
def test_of_the_harmony_channels_only_final_is_read(reply: str, expected: str | None) -> None:
    assert value(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "up<|im_end|>",
        "up</s>",
        "<|START_RESPONSE|>up<|END_RESPONSE|>",
        "<think>x</think><response>up</response>",
        "Here are my reasoning steps:\nno\n[BEGIN FINAL RESPONSE]up[END FINAL RESPONSE]",
        "<|begin_of_box|>up<|end_of_box|>",
        "\ufeffup",
        "up<\uff5cend▁of▁sentence\uff5c>",
        "up<end_of_turn>\n",
    ],
)
def test_tokens_of_chat_templates_are_removed_at_both_ends(reply: str) -> None:
    assert value(reply) == "up"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<action>up</action>", "up"),
        ("<ACTION> Up </Action>", "Up"),
        ("İ <ACTION>up</ACTION>", "up"),
        ("I go <action>down</action>, no, <action>up</action>", "up"),
        ("<answer>down</answer> no, <action>up</action>", "up"),
        ("<action>up</action> <answer>down</answer>", "up"),
        ("Action: down\n<answer>up</answer>", "up"),
        ('{"action": "up"}', "up"),
        ('{"Action": "up"}', "up"),
        ('{"action": 4}', 4),
        ('{"action": "down"} {"action": "up", "why": "it is {free}"}', "up"),
        ('I go.\n```json\n{"reason": "free", "action": "up"}\n```', "up"),
        ('{"name": "act", "arguments": {"action": "up"}}', Call("act", {"action": "up"})),
        ('{"name": "act", "arguments": "{\\"action\\": \\"up\\"}"}', Call("act", {"action": "up"})),
        ('{"function": {"name": "Act", "arguments": {"action": "up"}}}', Call("act", {"action": "up"})),
        ('<tool_call>\n{"name": "inventory", "arguments": {}}\n</tool_call>', Call("inventory", {})),
        ('{"actions": ["up", "left"]}', ["up", "left"]),
        ('{"row": 1, "column": 2}', {"row": 1, "column": 2}),
        ('{"row": [1, 2, 3]}', {"row": [1, 2, 3]}),
        ("place(row=1, column=2, number=3)", PLACED),
        ("I call it:\n`place(number=3, row=1, column=2)`.\nDone.", PLACED),
        ("place(1, 2, 3)", PLACED),
        ("inventory()", Call("inventory", {})),
        ("I call inventory() before; up", "I call inventory() before; up"),
        ("so \\boxed{up}.", "up"),
        ("so $\\boxed{\\mathbf{\\text{turn left}}}$.", "turn left"),
        ("\\[ \\boxed{up} \\]", "up"),
        ("Thought: left is a hole.\nAction: up", "up"),
        ("Thought: left is a hole.\nAction:\n\nup\n\nThat is it.", "up"),
        ("Action: down\nObservation: ...\nAction: up\n", "up"),
        ("Action: move\nAction Input: up", "move"),
        ("**Final answer:** up", "up"),
        ("**Action: up**", "up"),
        ("Action:\n```\nup\n```", "up"),
        ("> Action: `up`.", "up"),
        ("I go.\n```\nup\n```", "up"),
        ("```text\nup\n```", "up"),
        ("```up```", "up"),
        ("```\nleft\nup\n```", "left\nup"),
        ("<action>**up**</action>", "up"),
        ("<answer>[1 2 3].</answer>", "1 2 3"),
        ("up", "up"),
        (' **"Up."** ', "Up"),
        ("[up]", "up"),
        ("I think of [1 2] and [3 4]", "3 4"),
        ('[TOOL_CALLS] {"row": 1, "column": [3, 5]}', {"row": 1, "column": [3, 5]}),
        ("1 2 3", "1 2 3"),
    ],
)
def test_each_form_is_found(reply: str, expected: object) -> None:
    assert value(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "<action>up",
        "up</action>",
        "<action>up<action>",
        "<action>up</action> or <action>",
        "<action>up</action></action>",
        "{'action': 'up'}",
        '{"action": "up",}',
        '{"action": "up"',
        '{"action": "up", "action": "up"}',
        '{"action": "up"} and "action": "down"',
        '{"name": "look", "arguments": {"action": "up"}}',
        '{"name": "act", "arguments": {"action": "up", "times": 3}}',
        '{"name": "act", "arguments": "not {\\"action\\": \\"up\\"}"}',
        "place(row=1, column=2)",
        "place(row=1, column=2, number=3, depth=4)",
        "place(row=1, row=2, number=3)",
        "place(row=1, column=2, number=3",
        "place(row=1 column=2 number=3)",
        "\\boxed{up",
        "```up",
        "```left\nup\n```",
        "```\nup\n```\n```",
        "[1 2 3] [",
    ],
)
def test_a_malformed_form_holds_no_answer(reply: str) -> None:
    answer = find_answer(reply, ALL)
    assert answer is not None
    assert answer.value is None


def test_the_rank_is_that_of_the_forms_and_the_first_answer_counts_on_request() -> None:
    reply = "<answer>left</answer> [right] <action>up</action> <action>down</action>"
    assert find_answer(reply, (ACTION, ANSWER)) == Answer("down", "down")
    assert find_answer(reply, (ACTION, ANSWER), takes_first=True) == Answer("up", "up")
    assert find_answer(reply, (ANSWER, ACTION)) == Answer("left", "left", is_exact=True)
    assert find_answer(reply, (bracketed, ACTION)) == Answer("right", "[right]", is_exact=True)
    assert find_answer("<cell>1</cell>", (tag("cell"),)) == Answer("1", "1", is_exact=True)


@pytest.mark.parametrize(
    ("reply", "is_exact"),
    [
        ("<think>\n</think>\n<action> up </action>", True),
        ("I go <action>up</action>", True),
        ("<answer>up</answer>", False),
        ("<action>up</action><action>up</action>", False),
        ("up", False),
    ],
)
def test_only_one_answer_in_the_asked_form_is_exact(reply: str, is_exact: bool) -> None:
    answer = find_answer(reply, FORMS)
    assert answer is not None
    assert answer.is_exact == is_exact


@pytest.mark.parametrize("reply", ["", "  \n", "<think>up</think>", "<|im_end|>"])
def test_an_empty_reply_has_no_answer(reply: str) -> None:
    assert find_answer(reply, ALL) is None


def test_a_reply_without_a_form_is_its_own_answer() -> None:
    assert find_answer("I should not go up.", FORMS) == Answer(
        "I should not go up", "I should not go up.", is_plain=True
    )


def test_of_a_long_reply_only_the_end_is_searched_and_only_for_the_highest_form() -> None:
    far = "<action>down</action>" + "x" * LONGEST
    assert find_answer(f"{far}<action>up</action>", FORMS) == Answer("up", "up", is_exact=True)
    for reply in (far, f"{far}\nAction: up", f"I must not move.{' ' * LONGEST}up", f"91 2 3{' ' * (LONGEST - 5)}"):
        answer = find_answer(reply, ALL)
        assert answer is not None
        assert answer.value is None
    assert find_answer(f"<think>{far}</think> up", FORMS) == Answer("up", "up", is_plain=True)


def test_reasoning_that_names_another_delimiter_is_closed_by_its_own() -> None:
    assert value(f"<think>not <thinking>{'x' * 9_000}</think><action>up</action>") == "up"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *((2, 2), (2.0, 2), (-3.0, -3), (np.int64(2), 2), (2.5, None), (True, None), ("2", None), (None, None)),
        *(([2], None), (1e400, None)),
    ],
)
def test_whole_floats_are_integers_and_other_types_are_not(given: object, expected: int | None) -> None:
    assert whole_number(given) == expected
    assert whole_number(float("nan")) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("`up`.", "up"), ("[“up”]!", "up"), ("''", ""), ("*", "*"), ("up?", "up?")]
)
def test_marks_around_a_text_are_removed(text: str, expected: str) -> None:
    assert unwrapped(text) == expected


def test_an_error_quotes_the_answer_and_names_what_is_valid() -> None:
    assert invalid(find_answer("<action>jump</action>", FORMS), "up, down", "<action>up</action>") == (
        'expected one of up, down, got "jump". Reply in this format: <action>up</action>.'
    )
    assert "got no answer." in invalid(None, "up", "<action>up</action>")
    unknown = find_answer("<action>up</action><|foo|>", FORMS)
    assert 'got "<|foo|>".' in invalid(unknown, "up", "<action>up</action>")
    assert len(invalid(find_answer("x" * 9_999, FORMS), "up", "up")) < 130


def test_an_excerpt_is_short_printable_and_encodable() -> None:
    assert excerpt('say "hi"\n\x00\ud800') == "\"say 'hi'\""
    assert len(excerpt("x" * 10**6)) < 50
    assert len(excerpt("\ud800 é" * 99).encode()) < 99


MOVES = {"up": 0, "down": 1, "left": 2, "right": 3, "turn left": 4}


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
def test_lenient_reading_takes_the_last_and_longest_phrase(text: str, expected: int | None) -> None:
    assert last_phrase(text, MOVES) == expected
    assert words_of("Go ↑, x5 (R2)!") == ["go", "↑", "x", "5", "r", "2"]


TRAPS = (
    "<" * 2,
    "<action>",
    "</action>",
    "<think>",
    "</think>",
    "<think></think>",
    "think>",
    "[THINK]",
    "<|channel|>",
    "<|channel|>final",
    "<|a|>",
    "here is my thought process:",
    "◁think▷",
    "<parameter=a>",
    "<function=act><parameter=a>",
    "<a" + " " * 56 + "b>",
    "<!-- -->-->",
    '{"',
    '{"a":',
    '{"a":"',
    "{'action':",
    '"action":"',
    '"action": "',
    '{\\"action\\": ',
    "action: ",
    "\naction:",
    "\n" + " " * 9 + "*",
    "place(",
    "place(row=",
    "\\boxed{",
    "{}",
    "```",
    "[",
    "]",
    "[[]",
    "\x00",
    "\ud800",
    "İ",
    "\u212a",
    "9",
    "-",
    " ",
    "up ",
    '{"action":[',
    '{"actions":["a",',
    "</s>",
    "<eos>",
    "[]",
    "{{",
    "\\text{",
    "\r\n",
    "😀",
)


def read_all(text: str) -> None:
    answer = find_answer(text, ALL)
    if answer is not None:
        invalid(answer, "up", "up").encode()
    last_phrase(text, MOVES)
    without_reasoning(text)
    for form in ALL:
        form(text[:LONGEST])


@pytest.mark.parametrize("trap", TRAPS, ids=repr)
def test_half_a_megabyte_of_anything_is_read_in_linear_time(trap: str) -> None:
    text = trap * (500_000 // len(trap))
    started = time.process_time()
    read_all(text)
    # It takes some hundredths of a second; what is quadratic takes minutes.
    assert time.process_time() - started < 10.0


def fuzz(number: int) -> None:
    """Parse random mixtures of traps and letters."""
    chance = random.Random(number)
    for _ in range(number):
        pieces = chance.choices([*TRAPS, *"abc\n\t\"'{}<>[]():,.=0\ufeff\u2191"], k=chance.randrange(40))
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
    read_all('{"arguments":' * depth + '{"action":"up"}' + "}" * depth)
    read_all(json.dumps({"arguments": json.dumps({"arguments": json.dumps({"action": "up"})})}))


def test_single_forms_report_their_answers_in_order() -> None:
    assert [found[0] for found in bracketed("[1] x [2")] == ["1", None]
    assert [found[0] for found in ACTION("<action>a</action><action>b</action>")] == ["a", "b"]
    assert boxed("none") == labeled("none") == fenced("none") == []
