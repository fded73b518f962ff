"""Text interface of Sudoku: a board with numbered rows and columns, moves such as `[1 2 3]`, and rewards in five parts.

The board has TextArena's format, so programs that parse that one parse this one. Trainers recognize rejected moves by
the words invalid, error, cannot, already, violation or lost: texts of accepted moves contain none of them, and every
rejection asks to resubmit.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from jaxgym.envs.sudoku.board_text import board_texts, hint_texts, move_text, unflattened
from jaxgym.envs.sudoku.level import NUM_CELLS, SIZE
from jaxgym.envs.sudoku.scene import Scene, SudokuOutcome
from jaxgym.options import Flag, Option
from jaxgym.spec import TextSpec
from jaxgym.text.forms import ACTION, ANSWER, boxed, bracketed, fenced, labeled, whole_number
from jaxgym.text.interface import BatchTextInterface
from jaxgym.text.json_forms import Call, Form, call, json_object
from jaxgym.text.reasoning import ascii_lower
from jaxgym.text.replies import FORM, Answer, excerpt, read_answer
from jaxgym.text.turns import (
    Action,
    InvalidReply,
    ParsedAction,
    RewardChanges,
    RewardTracker,
    Turn,
    Turns,
    check_numbers,
)

OPTIONS: Mapping[str, Option] = {
    "hints": Flag(False, "add lines below the board: the cells that allow at most three digits, and the latest moves"),
}

_INSTRUCTIONS = """\
Your task is to solve a Sudoku puzzle. Fill one empty cell per turn.
The board has 9 rows{rows}, 9 columns{columns} and 9 boxes of 3 x 3 cells. {empty} Each \
row, each column and each box must contain every digit from 1 to 9 exactly once. The puzzle has exactly one solution.
A move is rejected if its cell is not empty or if its digit differs from the solution. The board then does not change.
"""
_AS_TEXT = {"rows": " (R1 to R9)", "columns": " (C1 to C9)", "empty": "Empty cells are shown as dots."}
_AS_IMAGE = {
    "rows": " (row 1 at the top)",
    "columns": " (column 1 at the left)",
    "empty": "Empty cells contain no digit.",
}
_IMAGE_LEGEND = """\
Each observation has an image of the board. Given digits are white, and digits that you have placed are blue. The \
background of a cell shows the result of your last move: green if the digit was placed, orange if the cell was not \
empty, red if the digit was wrong. A red cell shows the wrong digit, but the cell stays empty."""
_REWARDS = {
    "environment": "Reward: 1 for the move that solves the puzzle, 0 for every other move.",
    "components": """\
Reward: Your score is 0 at the start. The reward of a move is the change of the score. After a move, the score is the \
sum of five numbers:
1. The mean over all moves so far of: 1 if the cell was empty, -1 if not.
2. The mean over all moves so far of: 1 if the move was accepted, -0.5 if it was rejected (0 if it was the \
last allowed move).
3. The mean over all moves so far of: 0 for a new move, -2 for the first repetition of a move, -4 for the second, -8 \
for the third, and -10 for each further one.
4. The number of digits that you have placed, divided by the number of cells that were empty at the start.
5. 1 if the puzzle is solved, 0 if not.
The highest possible score is 4: the puzzle is solved, and no move was rejected.""",
}
"""Reward rules by the value of `TextInterface.rewards`."""

_END = "The episode ends when the puzzle is solved"
_REPLY_FORMAT = """\
Reply with one move in this format: [row column number], each from 1 to 9. Example: [1 2 3] writes 3 into row 1, \
column 2. If your reply contains several moves, only the last one counts."""
_ASKING = re.compile(r"; please resubmit[^\n]*")
_NEWS = {
    SudokuOutcome.NONE: "",
    SudokuOutcome.PLACED: "Placed {digit} at row {row}, column {column}.\n",
    SudokuOutcome.NOT_EMPTY: (
        "Invalid move: row {row}, column {column} is not empty; please resubmit with an empty cell.\n"
    ),
    SudokuOutcome.WRONG: (
        "Invalid move: row {row}, column {column} is not {digit}; please resubmit with another digit.\n"
    ),
}
_HINTS = """\
Below the board are hints. A cell allows a digit that its row, column and box do not contain.
MOVES TRIED: your latest moves, newest first. Each move is listed once, and at most 10 moves are listed.
GUARANTEED MOVES: up to 5 moves whose cell allows only one digit.
Other options: up to 5 cells that allow one to three digits, written as (row,column)->digits. Cells that allow the \
fewest digits come first, so those of guaranteed moves are listed again.
A line without entries is left out.
"""
_SOLVED = "\nThe puzzle is solved."
_OUT_OF_MOVES = "\nThat was the last move; the puzzle is not solved."
_ENDED_BY_REPLY = "\nThe invalid reply ended the episode; the puzzle is not solved."

_COMPONENTS = ("empty_cell", "valid_move", "repetition", "progress", "correct")
_MOST_PENALTY = 10

_PARTS = ("row", "column", "number")
"""Names of the parts of a move."""

_FORMS: tuple[Form, ...] = (
    *(bracketed, ACTION, ANSWER, json_object("action", *_PARTS, place=_PARTS), call(place=_PARTS)),
    *(boxed, fenced, labeled),
)
_BETWEEN = r"(?:\s{0,4},\s{0,4}|\s{1,4})"
_NUMBERS = re.compile(rf"([0-9]+){_BETWEEN}([0-9]+){_BETWEEN}([0-9]+)", re.ASCII)
_NAMED = re.compile(rf"(?:place ?)?{rf'{_BETWEEN}(?:and )?'.join([r'([a-z]+)[ :=]{0,3}([0-9]+)'] * 3)}", re.ASCII)
_PLACE = re.compile(
    rf"(?:place|put|write) (?:an? )?([0-9]+) (?:at|in|into) row ?([0-9]+){_BETWEEN}(?:and )?column ?([0-9]+)",
    re.ASCII,
)
_LONGEST_MOVE = 80


class SudokuRewardTracker(RewardTracker):
    """Reward components of one episode: the five parts of ms-swift's Sudoku scheduler, by its names.

    `empty_cell`, `valid_move` and `repetition` are means over the moves so far, `progress` and `correct` are those of
    the latest move. Their sum is the score, and the reward of a turn is its change: a perfect game has 4 in all.

    An invalid reply leaves the parts unchanged. The scheduler ends the trajectory there with the total less 1; here the
    caller decides this.
    """

    def __init__(self, scene: Scene) -> None:
        """Start from the first scene of the episode."""
        empty = np.flatnonzero(np.asarray(scene.board) == 0).tolist()
        # The values are never changed in place, so that a copy of the dict is a record. `empty` has a bit per cell.
        self._now: dict[str, Any] = {"empty": sum(1 << cell for cell in empty), "made": {}, "moves": 0}
        self._filled_at_start = NUM_CELLS - len(empty)
        self._now |= {"filled": self._filled_at_start, **dict.fromkeys(_COMPONENTS, 0.0)}
        self._now["progress"] = progress_score(self._filled_at_start, self._filled_at_start)

    def components(self, turn: Turn[Scene]) -> dict[str, float]:
        """Record a turn and return the five parts of its score."""
        if isinstance(turn.action, ParsedAction):
            self._now.update(self._after(turn, turn.action))
        now = self._now
        moves = max(now["moves"], 1)
        means = {name: now[name] / moves for name in _COMPONENTS[:3]}
        return {**means, "progress": now["progress"], "correct": now["correct"]}

    def _after(self, turn: Turn[Scene], move: ParsedAction) -> dict[str, Any]:
        now, action = self._now, move.actions[0]
        row, column, digit = unflattened(action) if isinstance(action, int) else action
        cell = SIZE * row + column
        asked = SIZE * cell + digit
        is_empty = bool(now["empty"] >> cell & 1)
        is_valid = is_empty and int(turn.scene.outcome) == SudokuOutcome.PLACED
        asks_again = not (is_valid or turn.terminated or turn.truncated)
        earlier = now["made"].get(asked, 0)
        # Boards never lose a digit, so the latest is the fullest.
        filled = now["filled"] + is_valid
        return {
            "empty": now["empty"] & ~(is_valid << cell),
            "made": {**now["made"], asked: earlier + 1},
            "moves": now["moves"] + 1,
            "filled": filled,
            "empty_cell": now["empty_cell"] + empty_cell_score(is_empty),
            "valid_move": now["valid_move"] + valid_move_score(is_valid, is_new=earlier == 0, asks_again=asks_again),
            "repetition": now["repetition"] + repetition_score(earlier),
            "progress": progress_score(filled, self._filled_at_start),
            "correct": turn.reward,
        }

    def record(self) -> Any:
        """Return the moves and sums so far."""
        return self._filled_at_start, dict(self._now)

    def restored(self, record: Any) -> Self:
        """Return a tracker with the moves and sums of a record."""
        made = object.__new__(type(self))
        made._filled_at_start, now = record
        made._now = dict(now)
        return made

    def check_record(self, record: Any) -> None:
        """Raise `ValueError` if a value is no record."""
        filled_at_start, now = record
        numbers = {name: value for name, value in now.items() if name != "made"}
        check_numbers("moves", now["made"], int)
        check_numbers("record", {**numbers, "filled": filled_at_start, "empty": 0}, str)
        if now.keys() != self._now.keys() or type(now["empty"]) is not int:
            raise ValueError("record: expected that of a Sudoku, got another one.")


def empty_cell_score(is_empty: bool | None) -> float:
    """Return 1 for a move on an empty cell or without a known board, else -1."""
    return -1.0 if is_empty is False else 1.0


def valid_move_score(is_valid: bool, *, is_new: bool, asks_again: bool) -> float:
    """Return 1 for a valid new move, else -0.5 if the text asks to resubmit, else 0."""
    return 1.0 if is_valid and is_new else -0.5 if asks_again else 0.0


def repetition_score(earlier: int) -> float:
    """Return 0 for a new move, else minus 2 to the number of earlier times, at least -10."""
    return -float(min(2 ** min(earlier, _MOST_PENALTY), _MOST_PENALTY)) if earlier else 0.0


def progress_score(most_filled: int, filled_at_start: int) -> float:
    """Return the filled share of the cells that were empty at the start; 1 if there were none."""
    empty = NUM_CELLS - filled_at_start
    return (most_filled - filled_at_start) / empty if empty else 1.0


@dataclasses.dataclass(frozen=True)
class SudokuTextInterface(BatchTextInterface[Scene]):
    """Text interface of Sudoku.

    The board shows the filled cells, but not which of them were given; the first board shows those.

    Attributes:
        flat_actions: Whether an action of the environment is one number.
        hints: Whether boards are followed by hints, which contain more than the frame.
    """

    text_version: ClassVar[int] = 5

    flat_actions: bool
    hints: bool

    def system_prompt(self, params: Any) -> str:
        """Return the rules and the reply format."""
        return self._prompt(_INSTRUCTIONS.format(**_AS_TEXT) + (_HINTS if self.hints else ""), params)

    def image_prompt(self, params: Any) -> str:
        """Return the rules, the explanation of the image, and the reply format; without hints."""
        return self._prompt(f"{_INSTRUCTIONS.format(**_AS_IMAGE)}\n{self.image_legend(params)}\n", params)

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return _IMAGE_LEGEND

    def _prompt(self, instructions: str, params: Any) -> str:
        limit = int(params.max_steps_in_episode)
        ends = f", or after {limit} moves, including rejected ones" if limit > 0 else ""
        return f"{instructions}\n{_REWARDS[self.rewards]}\n{_END}{ends}.\n\n{_REPLY_FORMAT}"

    def reply_format(self) -> str:
        """Return the form of a reply."""
        return _REPLY_FORMAT

    def describe(self, scene: Scene, params: Any) -> str:
        """Return the outcome of the last move, if there is one, and the board."""
        return dataclasses.replace(self, hints=False).open(scene, params)

    def fallback(self) -> ParsedAction:
        """Return the move `[1 1 1]`."""
        return self._move(0, 0, 0, is_exact=True)

    def reply_of(self, action: Action) -> str:
        """Return a move in the format of the system prompt."""
        row, column, digit = unflattened(action) if isinstance(action, int) else action
        return move_text(row, column, digit)

    def open_all(self, scenes: Scene, params: Any) -> list[str]:
        """Return the boards of B scenes, with hints if the option is on."""
        texts = [news + board for news, board in zip(_news(scenes), board_texts(scenes.board), strict=True)]
        hints = hint_texts(scenes.board, scenes.tried) if self.hints else [""] * len(texts)
        return [text + hint for text, hint in zip(texts, hints, strict=True)]

    def respond_all(self, turns: Turns[Scene], params: Any) -> list[str]:
        """Return the texts after B turns."""
        scenes = turns.scenes
        hints = hint_texts(scenes.board, scenes.tried) if self.hints else [""] * len(turns)
        ends = map(_end_of, turns.actions, turns.terminated, turns.truncated)
        columns = zip(turns.actions, _news(scenes), board_texts(scenes.board), ends, hints, strict=True)
        return [
            _said(f"{_asking_again(move.reason)}\n" if isinstance(move, InvalidReply) else news, end)
            + board
            + (end or hint)
            for move, news, board, end, hint in columns
        ]

    def parse(self, reply: str) -> ParsedAction | InvalidReply:
        """Return the action of a reply, or the reason why it is invalid; see `jaxgym.text.replies`."""
        answer, numbers = read_answer(reply, _FORMS, _numbers_of)
        if answer is None or numbers is None or not all(1 <= number <= SIZE for number in numbers):
            return _invalid(answer)
        row, column, digit = numbers
        return self._move(row - 1, column - 1, digit - 1, is_exact=answer.is_exact and "," not in answer.text)

    def reward_tracker(self, scene: Scene, params: Any) -> RewardTracker:
        """Return the tracker of an episode that starts with `scene`; it returns the change of each reward component."""
        return RewardChanges(SudokuRewardTracker(scene))

    def _move(self, row: int, column: int, digit: int, *, is_exact: bool) -> ParsedAction:
        action = NUM_CELLS * row + SIZE * column + digit if self.flat_actions else (row, column, digit)
        return ParsedAction((action,), move_text(row, column, digit), is_exact)


def _end_of(move: ParsedAction | InvalidReply, terminated: bool, truncated: bool) -> str:
    """Return the last line of an episode, which is empty before its end."""
    if terminated:
        return _ENDED_BY_REPLY if isinstance(move, InvalidReply) else _SOLVED
    return _OUT_OF_MOVES if truncated else ""


def _said(news: str, end: str) -> str:
    """Return the message about a reply; at the end of the episode, it does not ask for another one."""
    return _ASKING.sub(".", news) if end else news


def _asking_again(reason: str) -> str:
    """Return the reason of an invalid reply with the words by which trainers recognize it."""
    if "please resubmit" in reason:
        return reason
    return f"Invalid action: {reason.removesuffix('.')}; please resubmit a move."


def _news(scenes: Scene) -> list[str]:
    """Return the outcomes of the last moves of B scenes, one line or nothing each."""
    row, column = np.maximum(scenes.last_cell, 0).T
    placed = scenes.board[np.arange(len(row)), row, column]
    digits = np.where(scenes.outcome == SudokuOutcome.WRONG, scenes.wrong_digit, placed)
    columns = (np.asarray(numbers).tolist() for numbers in (scenes.outcome, row + 1, column + 1, digits))
    return [
        _NEWS[outcome].format(row=row, column=column, digit=digit)
        for outcome, row, column, digit in zip(*columns, strict=True)
    ]


def _invalid(answer: Answer | None) -> InvalidReply:
    got = "no answer" if answer is None or not answer.text else excerpt(answer.text)
    return InvalidReply(
        f"Invalid action: expected row, column and number, each from 1 to 9, got {got}; please resubmit. {FORM} "
        "[row column number], for example [1 2 3]."
    )


def _numbers_of(value: Any) -> tuple[int, int, int] | None:
    """Return row, column and number of an answer as written, or None if it is not a move."""
    if isinstance(value, str):
        return _written(" ".join(ascii_lower(value).split())) if len(value) <= _LONGEST_MOVE else None
    named = value.arguments if isinstance(value, Call) else value
    if isinstance(named, dict):
        value = [named.get(name) for name in _PARTS] if named.keys() == set(_PARTS) else None
    numbers = [whole_number(entry) for entry in value] if isinstance(value, list) else []
    match numbers:
        case [int(row), int(column), int(number)]:
            return row, column, number
    return None


def _written(text: str) -> tuple[int, int, int] | None:
    found = _NUMBERS.fullmatch(text)
    if found:
        return int(found[1]), int(found[2]), int(found[3])
    found = _PLACE.fullmatch(text)
    if found:
        return int(found[2]), int(found[3]), int(found[1])
    found = _NAMED.fullmatch(text)
    if found is None:
        return None
    names, numbers = found.groups()[::2], map(int, found.groups()[1::2])
    parts = dict(zip(names, numbers, strict=True))
    return (parts["row"], parts["column"], parts["number"]) if parts.keys() == set(_PARTS) else None


TEXT = TextSpec(
    lambda env, values: SudokuTextInterface(env.env_id, flat_actions=env.flat_actions, hints=values["hints"]), OPTIONS
)
