"""Text interface of Frozen Lake: the lake as a square of letters, one move per turn."""

import dataclasses
import functools
import itertools
import re
import string
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.frozen_lake.dialects import DIALECTS, IMAGE_LEGEND, WORDS, Dialect
from jaxgym.envs.frozen_lake.game import Action
from jaxgym.envs.frozen_lake.scene import NUM_KINDS, Scene
from jaxgym.options import OneOf, Option
from jaxgym.spec import TextSpec
from jaxgym.text.forms import whole_number
from jaxgym.text.interface import BatchTextInterface
from jaxgym.text.json_forms import Call
from jaxgym.text.reasoning import ascii_lower
from jaxgym.text.replies import invalid, last_phrase, read_answer
from jaxgym.text.turns import InvalidReply, ParsedAction, Turns, batch_of_one

OPTIONS: Mapping[str, Option] = {
    "dialect": OneOf(
        "swift",
        "prompts, drawing of the lake and reply format: 'swift' as in ms-swift, 'ragen' as in RAGEN, 'textarena' as in "
        "TextArena",
        values=tuple(DIALECTS),
    ),
}

_ENCODING = "cp437"
"""Encoding with one byte per letter, √ included."""

_FIELDS = ("row", "col", "step", "board")
"""Fields that differ from turn to turn, in the order in which texts use them."""

_NOTHING = "%.0s"
"""Format that writes nothing, for a field that a text does not use."""
_ONGOING, _AT_GOAL, _IN_HOLE, _CUT = range(4)


@dataclasses.dataclass(frozen=True)
class FrozenLakeTextInterface(BatchTextInterface[Scene]):
    """Text interface of Frozen Lake.

    Attributes:
        dialect: A name of `jaxgym.envs.frozen_lake.dialects.DIALECTS`.
    """

    text_version: ClassVar[int] = 6

    dialect: str

    def system_prompt(self, params: Any) -> str:
        """Return the meaning of the letters, the rules, and the reply format."""
        return DIALECTS[self.dialect].system_prompt(
            int(params.max_steps_in_episode), is_slippery=bool(params.is_slippery)
        )

    def image_prompt(self, params: Any) -> str:
        """Return the rules, the explanation of the image, and the reply format."""
        return DIALECTS[self.dialect].image_prompt(
            int(params.max_steps_in_episode), is_slippery=bool(params.is_slippery)
        )

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return IMAGE_LEGEND

    def reply_format(self) -> str:
        """Return the form of a reply."""
        return DIALECTS[self.dialect].form

    def describe(self, scene: Scene, params: Any) -> str:
        """Return the lake as letters."""
        return boards(batch_of_one(scene), self.dialect)[0]

    def parse(self, reply: str) -> ParsedAction | InvalidReply:
        """Return the action of a reply, or the reason why it is invalid; see `jaxgym.text.replies`."""
        return _replies(self.dialect).get(reply) or _read(DIALECTS[self.dialect], reply, self.parsing)

    def fallback(self) -> ParsedAction:
        """Return a move to the left, the first action."""
        return _MOVES[Action.LEFT, True]

    def reply_of(self, action: Any) -> str:
        """Return the word for an action in the requested format."""
        return _reply(self.dialect, _MOVES[action, True].text)

    def open_all(self, scenes: Scene, params: Any) -> list[str]:
        """Return the first observation texts."""
        opening, size = DIALECTS[self.dialect].opening, scenes.cells.shape[-1]
        places = np.asarray(scenes.player_cell).tolist()
        return [
            opening.format(size=size, board=board, row=row, col=column)
            for board, (row, column) in zip(boards(scenes, self.dialect), places, strict=True)
        ]

    def respond_all(self, turns: Turns[Scene], params: Any) -> list[str]:
        """Return the result of each reply, and the lakes."""
        dialect, scenes = DIALECTS[self.dialect], turns.scenes
        size = scenes.cells.shape[-1]
        verb = "tried to move" if params.is_slippery else "moved"
        says = _patterns(self.dialect, size, verb)
        has_ended = np.asarray(turns.terminated) | np.asarray(turns.truncated)
        endings = has_ended * _CUT
        endings[scenes.is_in_hole] = _IN_HOLE
        endings[scenes.is_at_goal] = _AT_GOAL
        rows = zip(
            turns.numbers,
            turns.actions,
            np.asarray(scenes.player_cell).tolist(),
            endings.tolist(),
            np.asarray(turns.truncated).tolist(),
            boards(scenes, self.dialect),
            strict=True,
        )
        return [
            f"{_reason(dialect, move.reason, ending, is_truncated)}\n{board}"
            if isinstance(move, InvalidReply)
            else says[ending][move.text] % (row, column, number, board)
            for number, move, (row, column), ending, is_truncated, board in rows
        ]


def _reason(dialect: Dialect, reason: str, ending: int, is_truncated: bool) -> str:
    """Return the error text of an invalid reply, at the end of the episode with the reason why it ended."""
    if not reason.startswith(dialect.invalid):  # the reason of a tool call
        reason = f"{dialect.invalid} {reason}"
    if ending == _ONGOING:
        return reason + dialect.retry
    why = "the limit of turns is reached" if is_truncated else "the reply was invalid"
    return f"{reason} The game is over: {why}."


@functools.cache
def _patterns(dialect: str, size: int, verb: str) -> tuple[dict[str, str], ...]:
    """Return the texts after a move, by ending and action: patterns for the values of `_FIELDS`, in this order.

    `%` is five times as fast as `str.format`.
    """
    wording = DIALECTS[dialect]
    return tuple(
        {move: _pattern(template, {"size": size, "verb": verb, "move": move}) for move in WORDS}
        for template in (wording.moved, wording.goal, wording.hole, wording.cut)
    )


def _pattern(template: str, known: Mapping[str, Any]) -> str:
    pattern, fields = "", iter(_FIELDS)
    for before, field, _, _ in string.Formatter().parse(template.replace("%", "%%")):
        pattern += before
        if field is None:
            continue
        if field in known:
            pattern += str(known[field])
        else:
            skipped = itertools.takewhile(lambda other, field=field: other != field, fields)
            pattern += _NOTHING * len(list(skipped)) + "%s"
    return pattern + _NOTHING * len(list(fields))


def boards(scenes: Scene, dialect: str) -> list[str]:
    """Return the lakes of B scenes as letters, lines joined by newlines."""
    cells, players = np.asarray(scenes.cells), np.asarray(scenes.player_cell)
    count, size = cells.shape[:2]
    empty, places, letters = _frame(dialect, size)
    indices = cells.reshape(-1).copy()
    indices[(np.arange(0, count * size, size) + players[:, 0]) * size + players[:, 1]] += NUM_KINDS
    drawn = np.empty((count, len(empty)), np.uint8)
    drawn[:] = empty
    drawn[:, places] = letters[indices].reshape(count, -1)
    text, length = drawn.tobytes().decode(_ENCODING), len(empty)
    return [text[start : start + length] for start in range(0, count * length, length)]


@functools.cache
def _frame(dialect: str, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a board without its cells, the positions of its cells, and the letters of each sprite."""
    wording, hole = DIALECTS[dialect], "\0"
    row = (
        wording.left
        + wording.right.join([hole * len(wording.cells[0])] * size)
        + (wording.right if wording.left else "")
    )
    line = wording.line * size + wording.line[:1]
    lines = [line, *(part for _ in range(size) for part in (row, line))] if line else [row] * size
    texts = ("\n".join(lines), "".join(wording.cells))
    empty, letters = (np.frombuffer(text.encode(_ENCODING), np.uint8) for text in texts)
    return empty, np.flatnonzero(empty == ord(hole)), letters.reshape(len(wording.cells), -1)


_MOVES = {
    (action, is_exact): ParsedAction((int(action),), word, is_exact)
    for word, action in WORDS.items()
    for is_exact in (True, False)
}
_VERB = re.compile(r"(?:go|move)[ \t]+", re.ASCII)
_VALID = ", ".join(WORDS)


def _reply(dialect: str, word: str) -> str:
    return DIALECTS[dialect].asked.lower().replace("up", word)


@functools.cache
def _replies(dialect: str) -> dict[str, ParsedAction]:
    """Return the parsed replies in the requested format, which are the most common ones."""
    return {_reply(dialect, word): _MOVES[action, True] for word, action in WORDS.items()}


def _read(dialect: Dialect, reply: str, parsing: str) -> ParsedAction | InvalidReply:
    answer, action = read_answer(reply, dialect.forms, lambda value: _action(dialect, value), takes_first=True)
    if action is None and answer is not None and answer.is_plain and parsing == "lenient":
        action = last_phrase(answer.text, WORDS)
    if answer is None or action is None:
        return InvalidReply(f"{dialect.invalid} {invalid(answer, _VALID, dialect.asked)}")
    return _MOVES[action, answer.is_exact]


def _action(dialect: Dialect, value: Any) -> Action | None:
    if isinstance(value, Call):
        value = value.arguments["direction"]
    elif isinstance(value, dict):
        value = value["direction"] if value.keys() == {"direction"} else None
    number = whole_number(value)
    spoken = ascii_lower(value).strip() if isinstance(value, str) else "" if number is None else str(number)
    verb = _VERB.match(spoken)
    return dialect.moves.get(spoken[verb.end() :] if verb else spoken)


TEXT = TextSpec(lambda env, values: FrozenLakeTextInterface(env.env_id, values["dialect"]), OPTIONS)
