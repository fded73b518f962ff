"""An invalid explicit answer is never replaced by an action from elsewhere in the reply, in any game and form."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgym import text
from jaxgym.envs.frozen_lake.text import FrozenLakeTextInterface
from jaxgym.envs.memory_gym.text import free_actions, grid_actions, path_actions
from jaxgym.envs.sudoku.text import SudokuTextInterface
from jaxgym.envs.textcraft.text import TextCraftTextInterface
from jaxgym.errors import OptionError
from jaxgym.serve.pool import SessionPool
from jaxgym.text import InvalidReply, ParsedAction
from tests.ids import short_names_of_programs


class Game(NamedTuple):
    """A game, valid and invalid answers, and the call of its tool.

    Attributes:
        parse: Its parser.
        asked: Format that its prompt requests.
        legal, illegal: Answers as strings.
        call: A call with an answer as its argument.
    """

    parse: Any
    asked: str
    legal: tuple[str, ...]
    illegal: tuple[str, ...]
    call: str


_LAKE = (
    ("up", "down", "left", "right"),
    ("jump", "up|down", "north", "upp", "up or down", "not up", "up and up"),
    "move(direction={!r})",
)
_MOVES = ("jump", "forward|wait", "turn", "right five", "wait or stay", "not wait", "wait -1", "wait 0", "wait 1.5")

GAMES = {
    "frozen_lake": Game(FrozenLakeTextInterface("FrozenLake-v0", "swift").parse, "<action>{}</action>", *_LAKE),
    "ragen": Game(FrozenLakeTextInterface("FrozenLake-v0", "ragen").parse, "<answer>{}</answer>", *_LAKE),
    "textarena": Game(FrozenLakeTextInterface("FrozenLake-v0", "textarena").parse, "[{}]", *_LAKE),
    "grid": Game(
        grid_actions(4).parse, "<action>{}</action>", ("wait", "turn left 2, forward"), _MOVES, "act(actions={!r})"
    ),
    "free": Game(
        free_actions(8, is_flat=False).parse,
        "<action>{}</action>",
        ("right 5, up", "up-left"),
        _MOVES,
        "act(actions={!r})",
    ),
    "path": Game(path_actions(8).parse, "<action>{}</action>", ("right 4, down",), _MOVES, "act(actions={!r})"),
    "sudoku": Game(
        SudokuTextInterface("Sudoku-v0", flat_actions=False, hints=False).parse,
        "[{}]",
        ("1 2 3", "9 9 9"),
        ("4 5 12", "0 1 2", "1 2", "1 2 3 4", "1 2 x", "1 -2 3", "1.5 2 3"),
        "place({})",
    ),
    "textcraft": Game(
        TextCraftTextInterface("TextCraft-v0").parse,
        "<action>{}</action>",
        ("get 3 flax", "inventory", "craft 4 ash planks using 1 ash log"),
        (
            "fetch 3 flax",
            "get flax",
            "get -1 flax",
            "craft 9 ash planks using 1 ash log",
            "get 3 silver",
            "not inventory",
        ),
        "craft(command={!r})",
    ),
}
FORMS = (
    "<action>{}</action>",
    "<answer>{}</answer>",
    '{{"action": "{}"}}',
    "\\boxed{{{}}}",
    "```\n{}\n```",
    "Action: {}\n",
    "Action:\n{}\n",
)
# Prose that names legal answers of every game, and none of the forms.
PROSE = st.lists(
    st.sampled_from(
        (
            *(
                "up",
                "I could go up.",
                "Left is a hole,",
                "not down",
                "right 5",
                "wait",
                "forward",
                "turn left",
                "so I turn left.",
            ),
            *(
                "1 2 3",
                "row 1, column 2, number 3",
                "Place 3 at row 1, column 2.",
                "There are 3 cells: 1, 2 and 3.",
                "R1: 4 3 2",
            ),
            *(
                "get 3 flax",
                "I get 3 flax.",
                "inventory",
                "craft 4 ash planks using 1 ash log",
                "none is red",
                "é\u212a İ",
            ),
        )
    ),
    max_size=6,
).map(" ".join)


@pytest.mark.parametrize("name", GAMES)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_prose_around_an_illegal_answer_is_never_played(name: str, data: st.DataObject) -> None:
    game = GAMES[name]
    forms = (game.asked, *FORMS, game.call)
    form, illegal = data.draw(st.sampled_from(forms)), data.draw(st.sampled_from(game.illegal))
    before, after = data.draw(PROSE), data.draw(PROSE)
    reply = f"{before}\n{form.format(illegal)}\n{after}"
    assert isinstance(game.parse(reply), InvalidReply), reply


@pytest.mark.parametrize("name", GAMES)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_prose_around_a_legal_answer_does_not_change_it(name: str, data: st.DataObject) -> None:
    game = GAMES[name]
    legal, form = data.draw(st.sampled_from(game.legal)), data.draw(st.sampled_from((game.asked, *FORMS)))
    reply = f"{data.draw(PROSE)}\n{form.format(legal)}\n{data.draw(PROSE)}"
    expected, found = game.parse(legal), game.parse(reply)
    assert isinstance(expected, ParsedAction)
    assert isinstance(found, ParsedAction), (reply, found)
    assert found.actions == expected.actions


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("asked_is_legal", [True, False])
def test_the_asked_form_outranks_every_other_form(name: str, asked_is_legal: bool) -> None:
    game = GAMES[name]
    legal, illegal = game.legal[0], game.illegal[0]
    asked, other = (legal, illegal) if asked_is_legal else (illegal, legal)
    expected = game.parse(game.asked.format(legal)) if asked_is_legal else None
    for form in (*FORMS[2:], game.call if "place" not in game.call else FORMS[2]):
        for reply in (
            f"{form.format(other)}\n{game.asked.format(asked)}",
            f"{game.asked.format(asked)}\n{form.format(other)}",
        ):
            found = game.parse(reply)
            # Where brackets are asked for, a reply with two different answers is invalid.
            assert isinstance(found, InvalidReply) if expected is None or game.asked == "[{}]" else found == expected, (
                reply
            )


@pytest.mark.parametrize("name", GAMES)
def test_a_number_is_a_plain_run_of_ascii_digits(name: str) -> None:
    game = GAMES[name]
    for legal in game.legal:
        for digit in filter(str.isdigit, legal):
            for other in (
                "\uff13",
                "\u00b3",
                "\u0663",
                f"{digit}.0",
                f"-{digit}",
                f"+{digit}",
                "three",
                f"{digit}x",
                f"1e{digit}",
            ):
                assert isinstance(game.parse(game.asked.format(legal.replace(digit, other, 1))), InvalidReply)


PREFIXES = {"frozen_lake": "Invalid response:", "sudoku": "Invalid action:", "textcraft": "Could not "}
"""First words of the reasons of games that keep the texts of another project."""


@pytest.mark.parametrize("name", short_names_of_programs())
def test_the_reason_of_an_invalid_reply_says_that_the_reply_is_invalid(name: str) -> None:
    reason = text.make(name)[2].parse("zigzag")
    assert isinstance(reason, InvalidReply)
    assert reason.reason.startswith(PREFIXES.get(name, "Invalid reply:"))


@pytest.mark.parametrize("dialect", ["ragen", "textarena"])
def test_the_other_dialects_of_frozen_lake_use_the_common_prefix(dialect: str) -> None:
    reason = text.make("frozen_lake", dialect=dialect)[2].parse("zigzag")
    assert isinstance(reason, InvalidReply)
    assert reason.reason.startswith("Invalid reply: expected one of ")


def test_strict_is_the_default_and_pools_accept_nothing_else() -> None:
    assert text.make("frozen_lake")[2].parsing == "strict"
    assert text.make("frozen_lake", parsing="lenient")[2].parsing == "lenient"
    with pytest.raises(OptionError, match="parsing"):
        text.make("frozen_lake", parsing="loose")
    with pytest.raises(OptionError, match="expected 'strict', got 'lenient'"):
        SessionPool(4).prepare("frozen_lake", {"parsing": "lenient"})


def test_a_pool_may_allow_lenient_parsing() -> None:
    pool = SessionPool(4, allows_lenient=True)
    ids = [pool.open("frozen_lake", 3, {"parsing": parsing}).id for parsing in ("strict", "lenient")]
    strict, lenient = pool.step(ids, ["I think that I go up", "I think that I go up"])
    assert strict.invalid_reply is not None
    assert lenient.invalid_reply is None
