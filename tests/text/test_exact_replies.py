"""Replies whose turn, reasoning, form or tool call determines their meaning, for each game."""

# ruff: noqa: E501, RUF001 long replies, and full-width signs that some templates and models write

import functools
from typing import Any

import pytest

from jaxgym import text
from jaxgym.text import ParsedAction
from jaxgym.text.reasoning import without_reasoning

BAD, GOOD = "<action>jump</action>", "<action>forward</action>"
SEP = "<｜tool▁sep｜>"

# Tokens behind which another turn follows, as public chat templates write them.
ENDS = (
    *("<|im_end|>\n<|im_start|>user\n", "<|im_start|>system\n", "<|eot_id|>", "<|endoftext|>", "</s>", "<|return|>"),
    *("<end_of_turn>\n<start_of_turn>user\n", "<|end_of_text|>", "<|eom_id|>", "<｜end▁of▁sentence｜>", "<|user|>\n"),
    *("<|observation|>\n", "<｜User｜>", "<|USER_TOKEN|>", "[INST] ", "<|start_header_id|>user<|end_header_id|>\n\n"),
    *("<|start|>user<|message|>", "<|end|><|start|>system<|message|>", "<|start|>developer<|message|>", "<|end|>"),
    *("<tool_response>\n", "<|END_OF_TURN_TOKEN|>", "<turn|>\n<|turn>user\n", "[|endofturn|]\n[|user|]", "<s>"),
    *(
        "<seed:eos><seed:bos>user\n",
        "[e~[\n]~b]user\n",
        "<SPECIAL_12>\n<SPECIAL_11>User\n",
        "</longcat_s>",
        "<|role_end|>",
    ),
    *("<|end_of_sentence|>", "<｜hy_eos｜>", "<|hy_User|>", "<|eom|>", "<|endofassistant|>", "<｜EOT｜>", "<|pad|>"),
    *("<|tool_response>", "[TOOL_RESULTS]", "<|call|>", "<｜tool▁outputs▁begin｜>", "<|eot|><|header_start|>user"),
)

LEADING = (
    *(
        "<|im_start|>assistant\n",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|assistant|>\n",
        "<s>",
        "\ufeff",
    ),
    *("<start_of_turn>model\n", "<｜Assistant｜>", "[/INST] ", "<|start|>assistant<|channel|>final<|message|>"),
    *("<|turn>model\n", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "[|assistant|]"),
    *("<seed:bos>assistant\n", "]~b]ai\n", "<SPECIAL_11>Assistant\n"),
)

# Game, reply, and the text of the action; None for an invalid reply.
REPLIES = [
    # Text on both sides of removed reasoning is not joined.
    ("frozen_lake", "r<think>x</think>ight", None),
    ("frozen_lake", "<act<think>x</think>ion>right</action>", None),
    ("frozen_lake", "<action>ri<think>x</think>ght</action>", None),
    ("frozen_lake", 'move(direction="ri[THINK]x[/THINK]ght")', None),
    ("frozen_lake", '{"action": "ri<think>x</think>ght"}', None),
    ("sudoku", "[1 <think>4?</think>2 3]", None),
    ("sudoku", "1 2<think>4?</think> 3", None),
    # Harmony inside of open reasoning.
    ("mortar_mayhem_grid", f"<think>no<|channel|>final<|message|>{GOOD}", None),
    ("mortar_mayhem_grid", f"[THINK]no<|end|><|start|>assistant<|channel|>final<|message|>{GOOD}", None),
    ("mortar_mayhem_grid", f"<|channel|>analysis<|message|><think>no<|end|><|channel|>final<|message|>{GOOD}", "forward"),
    ("mortar_mayhem_grid", '<|channel|>commentary to=functions.act<|message|>{"actions": "forward"}<|call|>', None),
    # A key that is given twice, at any depth, and what is inside of a broken object.
    ("mortar_mayhem_grid", '{"name":"act","arguments":{"actions":"forward"},"name":"other"}', None),
    ("mortar_mayhem_grid", '{"name":"act","arguments":{"actions":"forward"},"note":{"a":1,"a":2}}', None),
    ("mortar_mayhem_grid", '{"name":"act","arguments":{"actions":"forward"},}', None),
    ("mortar_mayhem_grid", '{"name":"act","arguments":{"actions":"forward"},"parameters":{}}', None),
    # Keys that are no part of the answer.
    ("mortar_mayhem_grid", '{"action": "turn right", "count": 3}', None),
    ("mortar_mayhem_grid", '{"action": "turn right", "thought": "a wall"}', "turn right"),
    ("frozen_lake", '{"action": "right", "thought": {"action": "up"}}', None),
    ("sudoku", '{"row":1,"column":2,"number":3,"valid":false}', None),
    ("sudoku", '{"row":1,"column":2,"number":3,"why":"free"}', "[1 2 3]"),
    ("sudoku", '{"name":"place","arguments":{"row":1,"column":2,"number":3},"valid":false}', None),
    ("sudoku", '{"type":"function","id":"a","function":{"name":"place","arguments":{"row":1,"column":2,"number":3}}}', "[1 2 3]"),
    # Numbers.
    ("sudoku", '{"row":1.0000000000000000001,"column":2,"number":3}', None),
    ("sudoku", '{"row":1e99999999999999999999,"column":2,"number":3}', None),
    ("sudoku", '{"row":1.0,"column":2e0,"number":3}', "[1 2 3]"),
    ("sudoku", "place(row=1, column=2, number=3.0)", "[1 2 3]"),
    ("sudoku", "place(row=1, column=2, number=3.5)", None),
    ("textcraft", 'get(item="flax", count=3.0)', "get 3 flax"),
    ("textcraft", 'get(item="flax", count="3")', None),
    # One final period is skipped; an ellipsis is not.
    ("frozen_lake", "<action>right...</action>", None),
    ("frozen_lake", "right!!", None),
    ("frozen_lake", "<action>right.</action>", "right"),
    ("frozen_lake", "right。", "right"),
    # Text that is struck through, commented out or a string.
    ("frozen_lake", "~~<action>right</action>~~", None),
    ("frozen_lake", "~~<action>up</action>~~ <action>right</action>", "right"),
    ("frozen_lake", "<!-- <action>right</action> -->", None),
    ("frozen_lake", "<!-- <action>right</action>", None),
    ("frozen_lake", "<del><action>right</action></del>", None),
    ("frozen_lake", '"""\nmove(direction="right")\n"""', None),
    # ReAct labels.
    ("frozen_lake", "Action:\nright\nis bad", None),
    ("frozen_lake", "Action: right\nis bad", None),
    ("mortar_mayhem_grid", "Action:\nforward\nwait", None),
    ("frozen_lake", "Action: right\nObservation: ice", "right"),
    ("frozen_lake", "Action: right\n\nIt is free.", "right"),
    ("frozen_lake", "Action：right", "right"),
    ("frozen_lake", "动作：right", None),
    ("frozen_lake", "```right\n```", None),
    # One form as all of the content of another.
    ("frozen_lake", "<answer>\\boxed{right}</answer>", "right"),
    ("frozen_lake", '<answer>{"action": "right"}</answer>', "right"),
    ("frozen_lake", "<action>Action: right</action>", "right"),
    ("frozen_lake", "<answer>\\boxed{up} or \\boxed{right}</answer>", None),
    ("frozen_lake", '<answer>not {"action": "right"}</answer>', None),
    ("sudoku", "(1, 2, 3)", "[1 2 3]"),
    # Two answers, or an array with other text, are not one answer.
    ("frozen_lake", '<answer>{"action": "right"} {"action": "right"}</answer>', None),
    ("sudoku", '[{"action": "1 2 3"} or not]', None),
    # Code fences of tildes; other tildes strike text through.
    ("frozen_lake", "~~~\nright\n~~~", "right"),
    ("frozen_lake", "I go.\n~~~text\nright\n~~~\nDone.", "right"),
    ("frozen_lake", "~~~right~~~", None),
    ("frozen_lake", "~~~\nright", None),
    ("frozen_lake", "no ~~~<action>up</action>~~~ <action>right</action>", "right"),
    # Words that begin like a channel of the harmony format.
    ("frozen_lake", "analysis/plan: up is a hole.\n<action>right</action>", "right"),
    ("frozen_lake", "analysis of the lake: <action>right</action>", "right"),
    ("frozen_lake", "analysisWe go up. <action>right</action>", None),
    ("frozen_lake", "analysis**Plan** <action>right</action>", None),
    ("frozen_lake", 'commentary to=functions.move json{"direction": "right"}', None),
    ("frozen_lake", "analysis**Plan** <action>up</action>assistantfinal<action>right</action>", "right"),
    # A token has at most 60 characters between its brackets.
    ("frozen_lake", f"<action>right</action><|{'x' * 70}|>", "right"),
    ("frozen_lake", f"<action>right</action><|{'x' * 50}|>", None),
    ("frozen_lake", f"right<|{'x' * 70}|>", None),
    # Blanks in tags.
    ("frozen_lake", "<action>right</action >", "right"),
    ("frozen_lake", "<think ><action>up</action></think ><action>right</action>", "right"),
    ("frozen_lake", "<action>right</action>< | im_end | ><action>up</action>", "right"),
    ("frozen_lake", "right<|inner_p\u00a0refix|>[up]", None),
    # Delimiters inside of closed reasoning open nothing, however long the rest is.
    ("frozen_lake", f"<think>a [THINK] b</think>{'free ' * 1_800}<action>right</action>", "right"),
    ("frozen_lake", f"<think>{'free ' * 1_800}<action>right</action>", None),
    # Tool calls.
    ("frozen_lake", "<tool_call>\n<function=move>\n<parameter=direction>\nright\n</parameter>\n</function>\n</tool_call>", "right"),
    ("frozen_lake", "<function=move><parameter=direction>right</parameter>", None),
    ("frozen_lake", "<function=move><parameter=direction>right</parameter>now</function>", None),
    ("frozen_lake", "<function=move><parameter=direction>up</parameter><parameter=direction>right</parameter></function>", None),
    ("frozen_lake", "<function=move><parameter=direction>right</parameter><parameter=n>2</parameter></function>", None),
    ("frozen_lake", "<function=look><parameter=direction>right</parameter></function>", None),
    ("frozen_lake", "<tool_call>move\n<arg_key>direction</arg_key>\n<arg_value>right</arg_value>\n</tool_call>", "right"),
    ("frozen_lake", '<invoke name="move"><parameter name="direction">right</parameter></invoke>', "right"),
    ("frozen_lake", '<｜DSML｜invoke name="move"><｜DSML｜parameter name="direction" string="true">right</｜DSML｜parameter></｜DSML｜invoke>', "right"),
    ("frozen_lake", '[move(direction="right")]', "right"),
    ("frozen_lake", '[move(direction="right"), move(direction="up")]', None),
    ("frozen_lake", '[move(direction="right")', None),
    ("frozen_lake", '<|python_tag|>{"name": "move", "parameters": {"direction": "right"}}', "right"),
    ("frozen_lake", '<|tool_call_start|>[move(direction="right")]<|tool_call_end|>', "right"),
    ("frozen_lake", 'Action: move(direction="right")', "right"),
    ("frozen_lake", '<|tool_call_begin|>functions.move:0<|tool_call_argument_begin|>{"direction":"right"}<|tool_call_end|>', "right"),
    ("textcraft", 'Action: get\nAction Input: {"item": "flax", "count": 3}', "get 3 flax"),
    ("textcraft", '[TOOL_CALLS]get[ARGS]{"item": "flax", "count": 3}', "get 3 flax"),
    ("textcraft", '[TOOL_CALLS]get[ARGS]{"item": "flax", "count": 2}[TOOL_CALLS]get[ARGS]{"item": "flax", "count": 3}', "get 3 flax"),
    ("textcraft", '<function=get>{"item": "flax", "count": 3}</function>', "get 3 flax"),
    ("textcraft", f'get{SEP}{{"item": "flax", "count": 3}}', "get 3 flax"),
    ("textcraft", f'function{SEP}get\n```json\n{{"item": "flax", "count": 3}}\n```', "get 3 flax"),
    ("textcraft", "<tool_call>inventory</tool_call>", "inventory"),
    ("sudoku", '[TOOL_CALLS][{"name": "place", "arguments": {"row": 1, "column": 2, "number": 3}}]', "[1 2 3]"),
    ("sudoku", "[place(row=1, column=2, number=3)]", "[1 2 3]"),
    ("sudoku", '<function=place>{"row": "1", "column": 2, "number": 3}</function>', None),
    # A malformed call is an answer, and does not hide the answers after it.
    ("mortar_mayhem_grid", f"{GOOD} <function=act> {BAD}", None),
    ("mortar_mayhem_grid", f"{GOOD} x[ARGS] {BAD}", None),
    ("mortar_mayhem_grid", "<action>wait</action> <function=act> <action>turn left</action>", "turn left"),
    ("frozen_lake", "not <function=move> style <action>up</action>", "up"),
    ("frozen_lake", "x[ARGS]<action>up</action>", "up"),
    ("frozen_lake", '<function=move>{"x": {"action": "up"}', None),
    ("frozen_lake", '<function=move> {"action": "up"}', None),
    ("frozen_lake", "<function=move><parameter=direction>up", None),
    # Tokens around a call can't be inside of an answer.
    ("frozen_lake", "<action>u｜DSML｜p</action>", None),
    ("frozen_lake", "<action>up</ac｜DSML｜tion>", None),
    ("frozen_lake", "<action>up<tool_call></action>", None),
    ("frozen_lake", "u｜DSML｜p", None),
    ("sudoku", "[1[TOOL_CALLS]2 3]", None),
    ("mortar_mayhem_grid", "<action>wait[TOOL_CALLS]turn left</action>", None),
    # A single mark of struck-through text does not hide comments.
    ("frozen_lake", "~~ <!-- <action>up</action> -->", None),
    ("frozen_lake", "~~ \'\'\'<action>up</action>\'\'\'", None),
    ("frozen_lake", '~~ """<action>up</action>"""', None),
    # Code fences begin and end lines.
    ("frozen_lake", "I must never do ```right``` here.", None),
    ("frozen_lake", "```right``` is bad.", None),
    ("frozen_lake", "x ```\nright\n```", None),
    ("frozen_lake", "I go.\n```right```", "right"),
    ("frozen_lake", "````\nright\n````", "right"),
    # A shorter fence does not close a block.
    ("frozen_lake", "``````\nright\n```", None),
    ("frozen_lake", "````\n```\nright\n```\n````", "right"),
    ("frozen_lake", "```\nright\n`````", "right"),
    ("frozen_lake", "```\nright\n```\nThe map uses ```F``` for ice.", "right"),
    ("frozen_lake", "Action: ```right``` would be a mistake\nso I refuse", None),
    ("frozen_lake", "Action: ```\nright\n```\n\nIt is free.", "right"),
    ("frozen_lake", "Action: ```right```\nObservation: ice", "right"),
    # A tag inside of a JSON object is part of the object.
    ("frozen_lake", '{"thought": "not <action>up</action>", "action": "right"}', "right"),
    ("frozen_lake", '{"name": "move", "arguments": {"direction": "<action>right</action>"}}', None),
    ("frozen_lake", '{"thought": "<action>right</action>"}', None),
    ("frozen_lake", '{"action": "<action>right</action>"}', "right"),
    ("frozen_lake", '{"board": "F"} <action>right</action>', "right"),
    ("frozen_lake", "{not JSON: <action>right</action>}", "right"),
    # "go" and "move" precede a direction only.
    ("minigrid_memory_s7", "go toggle", None),
    ("minigrid_memory_s7", "move drop", None),
    ("minigrid_memory_s7", "go forward", "forward"),
    ("searing_spotlights", "move noop", None),
    ("searing_spotlights", "go wait", None),
    ("searing_spotlights", "go up-left, move ↓ 2", "up-left, down 2"),
    # A token of a tool call without a call.
    ("frozen_lake", "[TOOL_CALLS]right", None),
    ("frozen_lake", "<|python_tag|>right", None),
    ("frozen_lake", "right</tool_call>", None),
    ("frozen_lake", '<|python_start|>[move(direction="right")]<|python_end|><|eot|>', "right"),
    ("frozen_lake", '<|tool_call|>[{"name": "move", "arguments": {"direction": "right"}}]<|/tool_call|>', "right"),
    # GLM's box, alone and in a tag.
    ("frozen_lake", "<|begin_of_box|>right<|end_of_box|>", "right"),
    ("frozen_lake", "<answer><|begin_of_box|>right<|end_of_box|></answer>", "right"),
    ("frozen_lake", "<|begin_of_box|>not right<|end_of_box|>", None),
    # A typographic apostrophe.
    ("frozen_lake", "Here’s my thought process: <action>up</action> Here’s my response: right", "right"),
    # Brackets are Sudoku's form, also around words in capitals.
    ("sudoku", "[1 2 3] [WAIT]", None),
    ("frozen_lake", "about ~~ 3 steps <!-- no --> <action>up</action>", "up"),
]  # fmt: skip


@functools.cache
def parser(name: str) -> Any:
    return text.make(name, **({"actions_per_turn": 8} if name == "mortar_mayhem_grid" else {}))[2]


def meaning(name: str, reply: str) -> str | None:
    move = parser(name).parse(reply)
    return move.text if isinstance(move, ParsedAction) else None


@pytest.mark.parametrize(("name", "reply", "expected"), REPLIES, ids=[f"{place}" for place in range(len(REPLIES))])
def test_a_reply_means_one_action_or_none(name: str, reply: str, expected: str | None) -> None:
    assert meaning(name, reply) == expected


@pytest.mark.parametrize("end", ENDS)
def test_text_behind_the_end_of_the_turn_is_not_played(end: str) -> None:
    assert meaning("mortar_mayhem_grid", f"{BAD}{end}Reply in this format: {GOOD}") is None
    assert meaning("mortar_mayhem_grid", f"{GOOD}{end}{BAD}") == "forward"
    assert meaning("mortar_mayhem_grid", f"{end}{GOOD}" if end != "<s>" else BAD) is None
    assert meaning("mortar_mayhem_grid", f"{BAD}{'so ' * 4_000}{end}{GOOD}") is None


@pytest.mark.parametrize("start", LEADING)
def test_a_prefilled_start_of_the_turn_is_skipped(start: str) -> None:
    assert meaning("mortar_mayhem_grid", f"{start}{GOOD}<|im_end|>") == "forward"


def test_a_reply_with_an_unknown_token_of_a_template_is_invalid_outside_of_reasoning() -> None:
    for reply in (f"{GOOD}<|new_turn|>x", f"no<|thought_is_over|>{GOOD}", f"<|new|>{GOOD}"):
        assert meaning("mortar_mayhem_grid", reply) is None
    assert meaning("mortar_mayhem_grid", f"<think><|new|></think>{GOOD}") == "forward"


@pytest.mark.parametrize("sign", ["<", "<think>", "[THINK]", "~~", "◁think▷x◁/think▷"])
def test_a_reply_with_thousands_of_marks_is_invalid(sign: str) -> None:
    assert not without_reasoning(sign * 20_000 + GOOD).text


def test_an_action_in_another_form_is_not_in_the_exact_form() -> None:
    for reply in ("<action>Action: right</action>", "<answer>right</answer>"):
        move = parser("frozen_lake").parse(reply)
        assert isinstance(move, ParsedAction)
        assert not move.is_exact


def test_brackets_around_capitals_are_answers() -> None:
    parse = text.make("frozen_lake", dialect="textarena")[2].parse
    for reply, action in (("Not right. I go [LEFT], because [right] is a hole.", "left"), ("[UP] not [down]", "up")):
        move = parse(reply)
        assert isinstance(move, ParsedAction)
        assert move.text == action
