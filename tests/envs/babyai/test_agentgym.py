"""AgentGym's BabyAI: recorded episodes, and those answers that none of them has, on views drawn by hand.

A view is drawn as the agent sees it, from the far end to the agent, `@`, who looks up:

    # wall    . floor    ? unseen    B red ball    X grey box    O, C, L open, closed, locked red door
"""

from pathlib import Path

import numpy as np
import pytest

from jaxgym.envs.babyai.agentgym import LEVEL_NAMES, begin, play, task_of
from jaxgym.envs.babyai.sight import Sight, sight_of
from jaxgym.envs.minigrid.world import EMPTY, UNSEEN, WALL, Color, Direction, Door, Type, thing
from tests.parity import babyai_text

RECORDINGS = babyai_text.load(Path(__file__).parents[2] / "data" / "babyai" / "agentgym.json.gz")
RED_KEY, BLUE_KEY = thing(Type.KEY, Color.RED), thing(Type.KEY, Color.BLUE)
THINGS = {
    "?": UNSEEN,
    ".": EMPTY,
    "@": EMPTY,
    "#": WALL,
    "B": thing(Type.BALL, Color.RED),
    "X": thing(Type.BOX, Color.GREY),
    "O": thing(Type.DOOR, Color.RED, Door.OPEN),
    "C": thing(Type.DOOR, Color.RED, Door.CLOSED),
    "L": thing(Type.DOOR, Color.RED, Door.LOCKED),
}
UNREACHABLE = "as there is no path leading to it."


def seen(drawn: str, carried: int = EMPTY, direction: int = Direction.UP) -> Sight:
    """Return the sight of a drawn view; rows that are left out at the far end are unseen."""
    rows = drawn.split()
    rows = ["???????"] * (7 - len(rows)) + rows
    image = np.asarray([[THINGS[rows[row][column]] for row in range(7)] for column in range(7)], np.uint16)
    return sight_of(image.tobytes(), int(direction), carried)


@pytest.mark.parametrize("recorded", RECORDINGS, ids=lambda recorded: str(recorded["data_idx"]))
def test_a_recorded_episode_is_played_alike(recorded: dict[str, object]) -> None:
    babyai_text.check_episode(recorded)


def test_recordings_cover_every_level() -> None:
    assert {recorded["data_idx"] for recorded in RECORDINGS} == set(range(2 * len(LEVEL_NAMES)))


def test_the_check_notices_a_wrong_reward() -> None:
    recorded = next(each for each in RECORDINGS if any(step["result"].get("reward") for step in each["steps"]))
    steps = [{**step, "result": {**step["result"], "reward": 0.25}} for step in recorded["steps"]]
    with pytest.raises(AssertionError, match=r"expected .*0\.25"):
        babyai_text.check_episode({**recorded, "steps": steps})


def test_a_thing_without_a_path_is_not_offered_and_numbers_count_reachable_things() -> None:
    # The far ball is behind a wall; the search leaves the view at no side.
    sight = seen("B...... ####### ...B... ...@...")
    assert sight.text.startswith(
        "In front of you in this room, you can see several objects: "
        "There is a red ball 1 right in front of you 1 steps away.  "
        "There is a red ball 2 3 steps in front of you and 3 steps to your left.  The room has walls around you. "
    )
    assert [action for action in sight.plans if "ball" in action] == ["pickup red ball 1", "go to red ball 1"]
    assert sight.plan_of("pickup red ball 1") == (3,)
    assert sight.plan_of("pickup red ball 2") == f"You cannot pickup red ball 2, {UNREACHABLE}"
    assert sight.plan_of("go to red ball 2") == f"You cannot go to red ball 2, {UNREACHABLE}"
    assert sight.plan_of("go to red ball 3") == "The action is not recognized. Please check valid actions."


def test_doors_without_a_path() -> None:
    sight = seen("O.C.L.. ####### ...@...", RED_KEY)
    assert sight.plan_of("go through red open door 1") == f"You cannot go through red open door 1, {UNREACHABLE}"
    counts = {"red closed door": 1}
    assert sight.plan_of("toggle and go through red closed door 1") == (
        f"You cannot toggle and go through red closed door {counts}, {UNREACHABLE}"
    )
    counts |= {"red locked door": 1}
    assert sight.plan_of("toggle and go through red locked door 1") == (
        f"You cannot toggle and go through red locked door {counts}, {UNREACHABLE}"
    )
    assert sight.plan_of("go through red closed door 1") == (
        "You cannot go through red closed door 1, as it is closed. You should toggle it first."
    )
    assert sight.plan_of("go to red open door 1") == f"You cannot go to red open door 1, {UNREACHABLE}"


@pytest.mark.parametrize(
    ("carried", "answer"),
    [
        (EMPTY, "as you are not carrying a key."),
        (THINGS["B"], "as you are not carrying a key."),
        (BLUE_KEY, "as the color of the key you are carrying does not match the color of door."),
        (RED_KEY, (5, 2)),
    ],
)
def test_a_locked_door_needs_its_key(carried: int, answer: object) -> None:
    sight = seen("...L... ...@...", carried)
    action = "toggle and go through red locked door 1"
    assert sight.plan_of(action) == (answer if carried == RED_KEY else f"You cannot {action}, {answer}")
    assert ("toggle" in sight.plans) == (carried == RED_KEY)
    assert sight.plan_of("go through red locked door 1") == "The action is not recognized. Please check valid actions."


@pytest.mark.parametrize(
    ("ahead", "carried", "answer"),
    [
        (".", EMPTY, "You cannot drop the object, as you are not carrying anything."),
        ("B", RED_KEY, "You cannot drop the object, as there is already an object in front of you."),
        ("#", RED_KEY, "You cannot drop the object, as there is already an object in front of you."),
        (".", RED_KEY, (4,)),
        ("C", RED_KEY, (4,)),
    ],
)
def test_drop(ahead: str, carried: int, answer: object) -> None:
    assert seen(f"...{ahead}... ...@...", carried).plan_of("Drop ") == answer


@pytest.mark.parametrize(
    ("column", "facing", "is_free"),
    [("#", "wall 1", False), ("X", "box 1", False), ("#B", "wall 2", True), ("X.", "box 2", True), ("C", "", True)],
)
def test_only_walls_and_boxes_ahead_are_barriers(column: str, facing: str, is_free: bool) -> None:
    sight = seen(" ".join(f"...{cell}..." for cell in (*column, "@")))
    assert (f"You are facing a {facing} steps away. " in sight.text) == bool(facing)
    assert ("You are facing" in sight.text) == bool(facing)
    expected = (2,) if is_free else "There is a barrier in front of you, you can't move forward."
    assert sight.plan_of("move forward") == expected


def test_nothing_in_sight() -> None:
    sight = seen("....... ...@...")
    assert sight.text == (
        "You cannot see any objects within sight.The room has walls around you. You are not carrying anything."
    )
    assert sight.offers == '\nAvailable actions: ["turn left", "turn right", "move forward", "check available actions"]'


@pytest.mark.parametrize(
    ("direction", "has_way"),
    [(Direction.RIGHT, True), (Direction.DOWN, True), (Direction.LEFT, False), (Direction.UP, False)],
)
def test_the_search_goes_behind_the_agent_when_it_faces_right_or_down(direction: Direction, has_way: bool) -> None:
    # The only way to the ball leads around the box, behind the agent.
    assert ("go to red ball 1" in seen("B.####. ..X@#..", direction=direction).plans) == has_way


@pytest.mark.parametrize(
    ("direction", "has_way"),
    [(Direction.RIGHT, False), (Direction.DOWN, True), (Direction.LEFT, True), (Direction.UP, False)],
)
def test_the_search_leaves_the_view_at_the_right_when_the_agent_faces_down_or_left(
    direction: Direction, has_way: bool
) -> None:
    # The wall has a gap only beyond the right border of the view.
    assert ("go to red ball 1" in seen("B...... ####### ...@...", direction=direction).plans) == has_way


def test_empty_paths_and_unknown_actions_change_nothing() -> None:
    sight = seen("...B... ...@...")
    assert sight.plans["go to red ball 1"] == ()
    assert sight.plan_of("go to red ball 1") == sight.plan_of("  ") == "No change in state."
    assert sight.plan_of("Pick up red ball 1") == "The action is not recognized. Please check valid actions."
    assert sight.plan_of("please CHECK") == f"You can take the following actions: {', '.join(sight.plans)}"


def test_sessions_in_one_batch_do_not_disturb_each_other() -> None:
    tasks = [3, 8, 9, 43, 75, 12, 13, 30, 41, 59]
    actions = [[step["action"] for step in RECORDINGS[task]["steps"][:-1]] for task in tasks]
    together, alone = ([begin(task_of(task)) for task in tasks] for _ in range(2))
    for number in range(max(map(len, actions))):
        going_on = [index for index, planned in enumerate(actions) if number < len(planned)]
        play([together[index] for index in going_on], [actions[index][number] for index in going_on])
    for episode, planned in zip(alone, actions, strict=True):
        for action in planned:
            play([episode], [action])
    assert [(one.observation, one.score) for one in together] == [(one.observation, one.score) for one in alone]
