"""BALROG's texts of BabyAI, on views drawn by hand, and its progression in sessions.

A view is drawn as the agent sees it, from the far end to the agent, `@`, who looks up:

    # wall    . floor    ? unseen    B red ball    K grey key    O, C, L open, closed, locked green door
"""

from collections.abc import Iterator

import pytest

import jaxgym
from jaxgym import text
from jaxgym.envs.babyai import SPECS
from jaxgym.envs.babyai.text import ProgressionTracker, listed
from jaxgym.envs.minigrid.world import EMPTY, UNSEEN, WALL, Color, Door, MiniGridAction, Type, thing
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.sessions import TurnResult
from jaxgym.text import Turn
from tests.text.babyai_player import Player

KEY = thing(Type.KEY, Color.GREY)
THINGS = {
    "?": UNSEEN,
    ".": EMPTY,
    "#": WALL,
    "B": thing(Type.BALL, Color.RED),
    "K": KEY,
    "O": thing(Type.DOOR, Color.GREEN, Door.OPEN),
    "C": thing(Type.DOOR, Color.GREEN, Door.CLOSED),
    "L": thing(Type.DOOR, Color.GREEN, Door.LOCKED),
}
NAME, NEWLINE = "text_of_babyai", "\n"


def lines(drawn: str, carried: int = EMPTY) -> list[str]:
    """Return BALROG's lines for a view; rows that are left out at the far end are unseen."""
    rows = drawn.split()
    rows = ["???????"] * (7 - len(rows)) + rows
    things = THINGS | {"@": carried}
    return listed([[things[rows[row][column]] for row in range(7)] for column in range(7)]).splitlines()


def test_things_are_listed_column_by_column_from_the_left_and_far_ones_first() -> None:
    assert lines("...B... ..B.... K.....C ...O... #..@...") == [
        "a wall 3 steps left",
        "a grey key 3 steps left and 2 steps forward",
        "a red ball 1 step left and 3 steps forward",
        "a red ball 4 steps forward",
        "a open green door 1 step forward",
        "a closed green door 3 steps right and 2 steps forward",
    ]


def test_walls_are_listed_forward_left_and_right() -> None:
    assert lines("...#... .......  #.?@#..") == ["a wall 2 steps forward", "a wall 3 steps left", "a wall 1 step right"]


@pytest.mark.parametrize("hiding", ["B", "L"])
def test_things_hide_walls(hiding: str) -> None:
    found = lines(f"...#... ...{hiding}... #{hiding}.@.{hiding}#")
    assert not any("wall" in line for line in found)
    assert len(found) == 3


def test_what_the_agent_carries_comes_first() -> None:
    assert lines("...#... ..B@...", KEY) == ["You carry a grey key", "a wall 1 step forward", "a red ball 1 step left"]


def test_nothing_in_sight_is_an_empty_text() -> None:
    assert lines("....... ...@...") == []


@pytest.fixture(scope="module")
def pool() -> Iterator[SessionPool]:
    """Yield a pool while GoToObjS4 is registered under an id of its own."""
    jaxgym.register("TextOfBabyAI-v0", SPECS["BabyAI-GoToObjS4-v0"], short_name=NAME)
    yield SessionPool(8)
    jaxgym.unregister("TextOfBabyAI-v0")


@pytest.mark.parametrize("rewards", ["components", "environment"])
@pytest.mark.slow
def test_a_session_is_paid_its_progression(pool: SessionPool, rewards: str) -> None:
    shown = pool.open(NAME, 3, {"actions_per_turn": 1})
    listed_only = pool.open(NAME, 3, {"dialect": "balrog", "actions_per_turn": 1, "rewards": rewards})
    assert listed_only.text.partition("\n")[0] == shown.text.partition("\n")[0]
    player, seen = Player(), shown.text
    paid, progressed = list[TurnResult](), list[TurnResult]()
    while not (paid and paid[-1].terminated):
        reply = player.reply(seen)
        paid += pool.step([shown.id], [reply])
        progressed += pool.step([listed_only.id], [reply.replace("forward", "go forward")])
        seen = paid[-1].text
        assert not paid[-1].truncated
    one, other = paid[-1], progressed[-1]
    assert not any("Mission" in result.text for result in progressed)
    assert other.terminated
    assert other.text.endswith("\nThe episode has ended.")
    assert other.total_reward == (1.0 if rewards == "components" else pytest.approx(one.total_reward))
    assert 0 < one.total_reward < 1


def test_the_progression_is_reached_once() -> None:
    tracker = ProgressionTracker()
    turns = [
        Turn(number, text.InvalidReply(""), None, reward, False, False) for number, reward in enumerate((0, 0.4, 0.9))
    ]
    assert [tracker.components(turn) for turn in turns] == [{"progression": value} for value in (0.0, 1.0, 0.0)]


def test_a_time_limit_is_told(pool: SessionPool) -> None:
    opened = pool.open(NAME, 3, {"dialect": "balrog", "actions_per_turn": 1, "max_steps": 1})
    (result,) = pool.step([opened.id], ["<action>drop</action>"])
    assert result.truncated
    assert (
        result.text
        == f"{opened.text.partition(NEWLINE)[2]}\nThe episode has ended: a limit on steps or turns was reached."
    )


def test_an_invalid_reply_can_count_as_go_forward(pool: SessionPool) -> None:
    opened = pool.open(NAME, 3, {"dialect": "balrog", "actions_per_turn": 1, "on_invalid_reply": "fallback"})
    assert "An invalid reply counts as go forward." in opened.system_prompt
    (result,) = pool.step([opened.id], ["jump"])
    assert result.invalid_reply is not None
    assert result.components == {"progression": 0.0}


def test_the_prompt_states_the_reward(pool: SessionPool) -> None:
    _, params, interface = text.make(NAME, dialect="balrog", actions_per_turn=1)
    assert "Reward: 1 - 0.9 x steps / 16 when the mission is fulfilled" in interface.system_prompt(params)
    assert "Actions: turn left, turn right, go forward, pick up, drop, toggle." in interface.system_prompt(params)
    prompt = pool.prepare(NAME, {"dialect": "balrog", "actions_per_turn": 1})
    assert "Reward: 1 when the mission is fulfilled; 0 otherwise." in prompt


@pytest.mark.usefixtures("pool")
def test_replies() -> None:
    _, _, interface = text.make(NAME, dialect="balrog")
    parsed = interface.parse("<action>go forward 2, pick up</action>")
    assert isinstance(parsed, text.ParsedAction)
    assert parsed.actions == (MiniGridAction.FORWARD, MiniGridAction.FORWARD, MiniGridAction.PICKUP)
    toggled = interface.parse(interface.reply_of(MiniGridAction.TOGGLE))
    assert isinstance(toggled, text.ParsedAction)
    assert toggled.actions == (MiniGridAction.TOGGLE,)
    assert isinstance(interface.parse("<action>wait</action>"), text.InvalidReply)
