r"""Forms within forms, such as `<answer>\boxed{up}</answer>`, and marks around an answer, for each game and dialect."""

# ruff: noqa: RUF001 quotation marks and brackets of several languages

import functools
import itertools
import json
from typing import Any, NamedTuple

import pytest

from jaxgym import text
from jaxgym.text import ParsedAction


class Game(NamedTuple):
    """A game with one of its answers.

    Attributes:
        options: Arguments of `text.make`.
        answer: The answer as text, which is also the text of the parsed action, except for brackets.
        tool, arguments: Its call.
        illegal: A text that is no answer.
        first: Forms whose rank is above that of the others.
    """

    options: dict[str, Any]
    answer: str
    tool: str
    arguments: dict[str, Any]
    illegal: str
    first: tuple[str, ...] = ("action", "answer")


_MOVE = ("right", "move", {"direction": "right"}, "jump")
GAMES = {
    "swift": Game({"name": "frozen_lake"}, *_MOVE),
    "ragen": Game({"name": "frozen_lake", "dialect": "ragen"}, *_MOVE, ("answer", "action")),
    "textarena": Game({"name": "frozen_lake", "dialect": "textarena"}, *_MOVE, ("bracket", "action", "answer")),
    "sudoku": Game(
        {"name": "sudoku"},
        *("1 2 3", "place", {"row": 1, "column": 2, "number": 3}, "1 2 10"),
        ("bracket", "action", "answer"),
    ),
    "textcraft": Game({"name": "textcraft"}, "get 3 flax", "get", {"item": "flax", "count": 3}, "fetch 3 flax"),
    "grid": Game(
        {"name": "mortar_mayhem_grid", "actions_per_turn": 4},
        *("turn left, forward 2", "act", {"actions": "turn left, forward 2"}, "turn left, jump"),
    ),
    "free": Game(
        {"name": "searing_spotlights"}, "right 5, up-left", "act", {"actions": "right 5, up-left"}, "right 5, jump"
    ),
    "minigrid": Game(
        {"name": "minigrid_memory_s7"}, "forward, turn left", "act", {"actions": "forward, turn left"}, "north"
    ),
}
TEMPLATES = {
    "action": "<action>{}</action>",
    "answer": "<answer>{}</answer>",
    "box": "\\boxed{{{}}}",
    "fence": "```\n{}\n```",
    "line": "Action: {}",
    "bracket": "[{}]",
    "marks": "**«{}».**",
}
OTHERS = ("json", "tool", "call", "box", "fence", "line", "marks")
"""The forms of lower rank in every game, the highest first."""


def formed(game: Game, form: str, answer: str) -> str:
    """Return an answer in a form."""
    if form == "json":
        return json.dumps({"action": answer})
    if form in ("tool", "call"):
        arguments = game.arguments if answer == game.answer else dict.fromkeys(game.arguments, "nothing")
        written = ", ".join(f"{name}={json.dumps(value)}" for name, value in arguments.items())
        call = {"name": game.tool, "arguments": arguments}
        return json.dumps(call) if form == "tool" else f"{game.tool}({written})"
    return TEMPLATES[form].format(answer)


@functools.cache
def parser(name: str) -> Any:
    options = dict(GAMES[name].options)
    return text.make(options.pop("name"), **options)[2]


def meaning(name: str, reply: str) -> str | None:
    move = parser(name).parse(reply)
    return move.text.strip("[]") if isinstance(move, ParsedAction) else None


# A form in the same form is ambiguous.
PAIRS = [
    (name, outer, inner)
    for name, game in GAMES.items()
    for outer, inner in itertools.product((*game.first, "json", "box", "fence", "line"), (*game.first, *OTHERS))
    if outer != inner or outer not in ("action", "answer", "box", "fence", "bracket")
]


PARTS = (("json", "action"), ("json", "answer"), ("line", "fence"))


@pytest.mark.parametrize("name", GAMES)
def test_a_form_may_contain_one_form_and_nothing_else(name: str) -> None:
    game = GAMES[name]
    ranks = {form: rank for rank, form in enumerate((*game.first, *OTHERS))}
    for outer, inner in [pair[1:] for pair in PAIRS if pair[0] == name]:
        right = formed(game, inner, game.answer)
        assert meaning(name, formed(game, outer, right)) == game.answer, (outer, right)
        assert meaning(name, formed(game, outer, formed(game, inner, game.illegal))) is None, (outer, inner)
        # With other text in the outer form, the inner form counts only if its rank is higher. Calls, lines and fences
        # do not begin in the middle of a line, and a tag in a JSON object is a part of it.
        is_part = inner in ("call", "line", "marks") or (outer, inner) in PARTS
        outranks = ranks[inner] < ranks[outer] and not is_part
        for around in (f"not {right}", f"{right} or not", f"{right} {right}"):
            expected = game.answer if outranks and "bracket" not in (outer, inner) else None
            found = meaning(name, formed(game, outer, around))
            assert found in ({game.answer, None} if "bracket" in (outer, inner) else {expected}), (outer, around)


@pytest.mark.parametrize("name", GAMES)
def test_a_tool_call_with_its_tokens_may_be_the_content_of_a_form(name: str) -> None:
    game = GAMES[name]
    call = formed(game, "tool", game.answer)
    for written in (f"<tool_call>\n{call}\n</tool_call>", f"[TOOL_CALLS][{call}]", f"<|python_tag|>{call}"):
        assert meaning(name, f"<answer>{written}</answer>") == game.answer, written
        assert meaning(name, f"<answer>not {written}</answer>") is None, written
    assert meaning(name, f"<answer><tool_call>{game.answer}</tool_call></answer>") is None


def test_a_form_may_be_nested_several_times() -> None:
    call = '{"name": "move", "arguments": {"direction": "right"}}'
    for reply in (
        f"<answer>```json\n{call}\n```</answer>",
        "<answer>$\\boxed{\\text{right}}$</answer>",
        "<answer>**Action: `move(direction='right')`**</answer>",
        "<answer>\\boxed{Action: «right»}.</answer>",
        '<answer>\n{"thought": "' + "a hole, " * 100 + '", "action": "right"}\n</answer>',
    ):
        assert meaning("swift", reply) == "right", reply
    assert meaning("swift", f"<answer>```\nnot {call}\n```</answer>") is None
    assert meaning("swift", "<answer>Thought: no.\nAction: right</answer>") is None


MARKS = ('""', "''", "``", "**", "__", "$$", "“”", "‘’", "„“", "«»", "‹›", "「」", "『』", "()", "[]", "（）", "【】")


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("marks", MARKS)
def test_marks_around_an_answer_and_one_sign_after_it_are_ignored(name: str, marks: str) -> None:
    game, (left, right) = GAMES[name], marks
    asked = game.first[0]
    for marked in (f"{left}{game.answer}{right}", f"{left} {game.answer}. {right}", f"{left}{game.answer}{right}!"):
        assert meaning(name, marked) == game.answer, marked
        assert meaning(name, formed(game, asked, marked)) == game.answer, marked
    for marked in (
        *(
            f"{left}{game.answer}",
            f"{game.answer}{right}",
            f"{left}{game.answer}{right}?",
            f"{left}{game.answer}!!{right}",
        ),
        *(f"{left}{game.answer}{right} or not", f"{left}{game.answer}{right} {left}{game.illegal}{right}"),
        *(f"{left}{game.illegal}{right}", f"not {left}{game.answer}{right}", f"{left}{left}{right}{right}"),
    ):
        if marks == "[]" and asked == "bracket":
            continue  # brackets are a form there
        assert meaning(name, marked) is None, marked
        assert meaning(name, formed(game, asked, marked)) is None, marked
