"""Dialects of Frozen Lake: the board, the reply format and the messages of three public suites of language games."""

import dataclasses

from jaxgym.envs.frozen_lake.game import Action
from jaxgym.envs.frozen_lake.scene import NUM_KINDS, Cell
from jaxgym.text.forms import ACTION, ANSWER, boxed, bracketed, fenced, labeled
from jaxgym.text.json_forms import Form, call, json_object

WORDS = {action.name.lower(): action for action in Action}
"""Actions by their words."""

ARROWS = {"←": Action.LEFT, "↓": Action.DOWN, "→": Action.RIGHT, "↑": Action.UP}
"""Actions by their arrows."""

_NUMBERS = {str(action + 1): action for action in Action}
_KEYS = {"a": Action.LEFT, "s": Action.DOWN, "d": Action.RIGHT, "w": Action.UP}

_SLIPPERY = """
The ice is slippery: you move in the direction of your action with probability 1/3, and in each of the two \
perpendicular directions with probability 1/3."""

_IMAGE_RULES = """\
You are crossing a frozen lake, a square of cells, to reach the goal.
Each turn takes you one cell up, down, left or right. A move off the lake leaves you where you are.
At the goal the episode ends with a reward of +1. In a hole it ends with 0."""

IMAGE_LEGEND = """\
Each observation has an image of the lake. You are the red disc. Safe ice is light blue, a hole is a dark blue disc, \
the start is sand-colored, and the goal is green with a yellow flag."""
"""Explanation of the image."""


@dataclasses.dataclass(frozen=True)
class Dialect:
    """Texts of one suite.

    Texts are templates with the fields `board`, `move`, `verb` (verb of the action), `row` and `col` (player's cell,
    from 0), `step` (number of replies) and `size`.

    Attributes:
        cells: Text of each kind of cell in the order of `Cell`, then of each with the player in it; all of one width.
        left, right: Text before the first cell of a row, and after each cell but the last.
        line: Line above the first row and below each row, as long as a row; empty for none.
        asked: Requested format of an action, as an example.
        forms: Accepted formats of an answer, the requested one first. If a reply has several answers in the requested
            format, the first one counts, as in the parsers of these suites, which search for the first match
            (ms-swift's FrozenLake plugin, RAGEN's `<answer>` pattern, TextArena's bracket pattern).
        moves: Actions by the texts that are accepted for them.
        rules: Rules of the game, without the parts that depend on parameters.
        form: Description of the reply format.
        opening, moved, cut, goal, hole: Texts at the start, after a move, at the time limit, at the goal and in a hole.
        invalid: Beginning of the error text of an invalid reply.
        retry: Text that is appended to the reason while the episode continues.
    """

    cells: tuple[str, ...]
    left: str
    right: str
    line: str
    asked: str
    forms: tuple[Form, ...]
    moves: dict[str, Action]
    rules: str
    form: str
    opening: str
    moved: str
    cut: str
    goal: str
    hole: str
    invalid: str
    retry: str

    def system_prompt(self, max_steps: int, *, is_slippery: bool) -> str:
        """Return the rules and the reply format."""
        return self._prompt(self.rules, max_steps, is_slippery=is_slippery)

    def image_prompt(self, max_steps: int, *, is_slippery: bool) -> str:
        """Return the rules for observations that are images, and the reply format."""
        return self._prompt(f"{_IMAGE_RULES}\n{IMAGE_LEGEND}", max_steps, is_slippery=is_slippery)

    def _prompt(self, rules: str, max_steps: int, *, is_slippery: bool) -> str:
        limit = f"\nThe episode ends after {max_steps} moves." if max_steps > 0 else ""
        return f"{rules}{_SLIPPERY if is_slippery else ''}{limit}\n{self.form}"


def _cells(plain: dict[Cell, str], held: dict[Cell, str]) -> tuple[str, ...]:
    return tuple(letters[Cell(kind)] for letters in (plain, held) for kind in range(NUM_KINDS))


_TOOLS = {"move": ("direction",)}
_OTHERS = (json_object("action", "direction", **_TOOLS), call(**_TOOLS), boxed, fenced, labeled)
_FROZEN, _HOLE, _START, _GOAL = Cell.FROZEN, Cell.HOLE, Cell.START, Cell.GOAL

_SWIFT = Dialect(
    cells=_cells(
        {_FROZEN: "F", _HOLE: "H", _START: "S", _GOAL: "G"}, {_FROZEN: "P", _HOLE: "P", _START: "P", _GOAL: "*"}
    ),
    left="",
    right=" ",
    line="",
    asked="<action>up</action>",
    forms=(ACTION, ANSWER, *_OTHERS),
    moves=WORDS | ARROWS,
    rules="""\
You are crossing a frozen lake, drawn as a square of cells.
P is you, S the start, F safe ice, H a hole, and G the goal; * is you at the goal.
Rows and columns are numbered from 0, starting at the top left.
Each turn takes you one cell up, down, left or right. A move off the lake leaves you where you are.
"(step 3)" means the third turn. An invalid reply is a turn, too.
At G the episode ends with a reward of +1. In a hole it ends with 0.""",
    form="""\
Reply with one move (up, down, left or right) in this format: <action>right</action>
If your reply has several such tags, only the first one counts.""",
    opening="FrozenLake {size}x{size}:\n{board}\n\nYou are at row {row}, col {col}. What is your first move?",
    moved="You {verb} {move}. Now at row {row}, col {col} (step {step}).\n{board}\nWhat is your next move?",
    cut="You {verb} {move}. Now at row {row}, col {col} (step {step}). No moves are left: the game is over.\n{board}",
    goal="You {verb} {move} and reached the goal at row {row}, col {col} (step {step}).\n{board}",
    hole="You {verb} {move} and fell into a hole at row {row}, col {col} (step {step}). The game is over.\n{board}",
    invalid="Invalid response:",
    retry="",
)

_RAGEN = Dialect(
    cells=_cells(
        {_FROZEN: "_", _HOLE: "O", _START: "_", _GOAL: "G"}, {_FROZEN: "P", _HOLE: "X", _START: "P", _GOAL: "√"}
    ),
    left="",
    right="",
    line="",
    asked="<answer>Up</answer>",
    forms=(ANSWER, ACTION, *_OTHERS),
    moves=WORDS | ARROWS | _NUMBERS,
    rules="""\
You are on a frozen lake and want to get to the goal without falling into a hole.
P is you, _ safe ice, O a hole, and G the goal; X is you in a hole, and √ is you at the goal.
Each turn takes you one cell Left, Down, Right or Up. A move off the lake has no effect.
The goal ends the episode with a reward of 1, a hole with 0.""",
    form="""\
Give the move of each turn in this tag, as a word or as its number (1 Left, 2 Down, 3 Right, 4 Up), for example:
<answer>Right</answer>
If your reply has several such tags, only the first one counts.""",
    opening="{board}",
    moved="{board}",
    cut="The game is over: no moves are left.\n{board}",
    goal="You reached the goal.\n{board}",
    hole="You fell into a hole. The game is over.\n{board}",
    invalid="Invalid reply:",
    retry="",
)

_TEXTARENA = Dialect(
    cells=_cells(
        {_FROZEN: "     ", _HOLE: "  H  ", _START: "     ", _GOAL: "  G  "},
        {_FROZEN: "  P  ", _HOLE: "  P  ", _START: "  P  ", _GOAL: " P/G "},
    ),
    left="|",
    right="|",
    line="+-----",
    asked="[up]",
    forms=(bracketed, ACTION, ANSWER, *_OTHERS),
    moves=WORDS | ARROWS | _KEYS,
    rules="""\
You play Frozen Lake: get to the goal, and do not step into a hole.
The lake is a table. P is you, H a hole, G the goal, and an empty cell is ice that is safe.
Each turn takes you one cell up, down, left or right. A move off the lake leaves you where you are.
At the goal, the game ends with a reward of 1. In a hole, it ends with 0.""",
    form="""\
Answer with one move in square brackets: [up], [down], [left] or [right], or in short [w], [s], [a] or [d].
If your reply has several answers in brackets, only the first one counts.""",
    opening="{board}",
    moved="You {verb} {move}.\n{board}",
    cut="You {verb} {move}. The game is over: no moves are left.\n{board}",
    goal="You {verb} {move} and reached the goal.\n{board}",
    hole="You {verb} {move} and fell into a hole. The game is over.\n{board}",
    invalid="Invalid reply:",
    retry=" Please resubmit a valid move.",
)

DIALECTS = {"swift": _SWIFT, "ragen": _RAGEN, "textarena": _TEXTARENA}
"""Dialects by name."""
