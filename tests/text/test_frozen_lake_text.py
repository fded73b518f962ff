"""Text interface of Frozen Lake: texts show what the frame shows, and replies are parsed as models mean them."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgym import levels, text
from jaxgym.envs.frozen_lake.scene import Cell, Scene
from jaxgym.envs.frozen_lake.text import FrozenLakeTextInterface
from jaxgym.text.turns import InvalidReply, ParsedAction, Turn, Turns

NAMES = ("swift", "ragen", "textarena")
LEFT, DOWN, RIGHT, UP = (ParsedAction((number,), word) for number, word in enumerate(("left", "down", "right", "up")))
EPISODES, STEPS = 16, 12


def scene_of(rows: str, player: tuple[int, int]) -> Scene:
    kinds = np.asarray([["FHSG".index(letter) for letter in row] for row in rows.split()], np.uint8)
    here = Cell(kinds[player])
    return Scene(kinds, np.asarray(player, np.int32), np.bool_(here == Cell.HOLE), np.bool_(here == Cell.GOAL))


@pytest.fixture(scope="module")
def made() -> tuple[Any, Any, FrozenLakeTextInterface]:
    return text.make("frozen_lake", size=3, p=0.6)


def interface_of(dialect: str) -> FrozenLakeTextInterface:
    return FrozenLakeTextInterface("FrozenLake-v0", dialect)


LAKE = "SFH FFF HFG"


def said(
    dialect: str, params: Any, player: tuple[int, int], move: ParsedAction | InvalidReply = DOWN, **changes: Any
) -> str:
    scene = scene_of(LAKE, player)
    has_ended = bool(scene.is_in_hole | scene.is_at_goal)
    turn = Turn(3, move, scene, float(scene.is_at_goal), has_ended, truncated=False)._replace(**changes)
    return interface_of(dialect).respond(turn, params)


# What is said.


def test_swift_names_the_size_and_the_cell_and_asks_for_the_first_move(made: tuple[Any, Any, Any]) -> None:
    opening = interface_of("swift").open(scene_of(LAKE, (0, 0)), made[1])
    assert opening == "FrozenLake 3x3:\nP F H\nF F F\nH F G\n\nYou are at row 0, col 0. What is your first move?"


def test_swift_tells_the_move_the_cell_and_the_step_and_asks_for_the_next_move(made: tuple[Any, Any, Any]) -> None:
    answer = said("swift", made[1], (1, 0))
    assert answer == "You moved down. Now at row 1, col 0 (step 3).\nS F H\nP F F\nH F G\nWhat is your next move?"


def test_swift_ends_with_the_goal_or_a_hole_and_the_lake(made: tuple[Any, Any, Any]) -> None:
    won, lost = (said("swift", made[1], cell) for cell in ((2, 2), (2, 0)))
    assert won == "You moved down and reached the goal at row 2, col 2 (step 3).\nS F H\nF F F\nH F *"
    assert (
        lost == "You moved down and fell into a hole at row 2, col 0 (step 3). The game is over.\nS F H\nF F F\nP F G"
    )


def test_ragen_says_the_lake_without_blanks_with_a_cross_in_a_hole_and_a_tick_at_the_goal(
    made: tuple[Any, Any, Any],
) -> None:
    assert interface_of("ragen").open(scene_of(LAKE, (0, 0)), made[1]) == "P_O\n___\nO_G"
    assert said("ragen", made[1], (1, 0)) == "__O\nP__\nO_G"
    assert said("ragen", made[1], (2, 2)) == "You reached the goal.\n__O\n___\nO_√"
    assert said("ragen", made[1], (2, 0)) == "You fell into a hole. The game is over.\n__O\n___\nX_G"


def test_textarena_draws_a_table_in_which_ice_and_the_start_are_empty(made: tuple[Any, Any, Any]) -> None:
    line = "+-----+-----+-----+"
    rows = ["|     |     |  H  |", "|  P  |     |     |", "|  H  |     |  G  |"]
    assert said("textarena", made[1], (1, 0)) == "\n".join(
        ["You moved down.", line, *(f"{row}\n{line}" for row in rows)]
    )
    assert "| P/G |" in said("textarena", made[1], (2, 2))


@pytest.mark.parametrize("dialect", NAMES)
def test_an_invalid_reply_is_answered_with_the_form_and_the_lake(made: tuple[Any, Any, Any], dialect: str) -> None:
    interface = interface_of(dialect)
    invalid_reply = interface.parse("no idea")
    answer = said(dialect, made[1], (1, 0), invalid_reply)
    asked = {"swift": "<action>up</action>", "ragen": "<answer>Up</answer>", "textarena": "[up]"}[dialect]
    head, _, lake = answer.partition("\n")
    assert asked in head
    assert lake == interface.describe(scene_of(LAKE, (1, 0)), made[1])
    assert "over" not in answer
    ended = said(dialect, made[1], (1, 0), invalid_reply, terminated=True).partition("\n")[0]
    assert ended.endswith("The game is over: the reply was invalid.")


def test_where_the_time_is_up_the_words_say_so(made: tuple[Any, Any, Any]) -> None:
    for dialect in NAMES:
        assert "no moves are left" in said(dialect, made[1], (1, 0), truncated=True).lower()


def test_on_slippery_ice_a_move_is_tried_and_the_rules_say_why(made: tuple[Any, Any, Any]) -> None:
    slippery = dataclasses.replace(made[1], is_slippery=np.bool_(True))
    assert said("swift", slippery, (1, 0)).startswith("You tried to move down. Now at row 1, col 0 (step 3).")
    for dialect in NAMES:
        assert "slippery" in interface_of(dialect).system_prompt(slippery)
        assert "slippery" not in interface_of(dialect).system_prompt(made[1])


@pytest.mark.parametrize("dialect", NAMES)
def test_the_instructions_hold_an_example_of_the_form_and_the_time_limit(
    made: tuple[Any, Any, Any], dialect: str
) -> None:
    interface = interface_of(dialect)
    rules = interface.system_prompt(made[1])
    example, several = rules.splitlines()[-2:]
    assert several.endswith("only the first one counts.")
    move = interface.parse(example.partition(" [down]")[0])
    assert isinstance(move, ParsedAction)
    assert move.is_exact
    assert "100 moves" in rules
    assert "moves" not in interface.system_prompt(dataclasses.replace(made[1], max_steps_in_episode=np.int32(0)))


# Texts, symbols and frames over episodes.


def read_board(dialect: str, said: str) -> tuple[list[list[str]], tuple[int, int]]:
    """Return each cell as hole, goal, ice or unknown, and the player's cell, by an independent parser."""
    lines = said.splitlines()
    if dialect == "swift":
        rows = [line.split(" ") for line in lines if re.fullmatch(r"[PSFHG*]( [PSFHG*])+", line)]
    elif dialect == "ragen":
        rows = [list(line) for line in lines if re.fullmatch(r"[P_OGX√]+", line)]
    else:
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    meaning = {"F": "ice", "S": "ice", "_": "ice", "": "ice", "H": "hole", "O": "hole", "X": "hole", "G": "goal"}
    meaning |= {"*": "goal", "√": "goal", "P/G": "goal", "P": "any"}
    players = [
        (r, c) for r, row in enumerate(rows) for c, cell in enumerate(row) if cell in ("P", "X", "*", "√", "P/G")
    ]
    assert len(players) == 1
    return [[meaning[cell] for cell in row] for row in rows], players[0]


@pytest.fixture(scope="module")
def seen(made: tuple[Any, Any, Any]) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return scenes (EPISODES, STEPS + 1, ...) of random play, their frames and symbols."""
    env, params, _ = made
    symbolic = dataclasses.replace(env, observation="symbolic")

    @jax.jit
    def play(buffer: Any, actions: jax.Array) -> Any:
        def look(state: Any) -> Any:
            scene = env.scene(state, params)
            return scene, env.observe_scene(scene), symbolic.observe_scene(scene)

        def episode(level: Any, actions: jax.Array) -> Any:
            def step(state: Any, action: jax.Array) -> Any:
                after = env.transition(state, action, params).state
                return after, look(after)

            start = env.initial_state(level, params)
            _, later = jax.lax.scan(step, start, actions)
            return jax.tree.map(lambda first, rest: jax.numpy.concatenate([first[None], rest]), look(start), later)

        return jax.vmap(episode)(buffer, actions)

    buffer = levels.make_level_buffer(env, params, levels.train_seeds(EPISODES))
    return jax.device_get(play(buffer, jax.random.randint(jax.random.key(3), (EPISODES, STEPS), 0, 4)))


def flat(scenes: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:]), scenes)


@pytest.mark.parametrize("dialect", NAMES)
def test_the_lake_that_is_read_out_of_the_words_is_that_of_the_scene(
    made: tuple[Any, Any, Any], seen: Any, dialect: str
) -> None:
    scenes = flat(seen[0])
    kinds = {Cell.FROZEN: "ice", Cell.START: "ice", Cell.HOLE: "hole", Cell.GOAL: "goal"}
    for said, cells, player in zip(
        interface_of(dialect).open_all(scenes, made[1]), scenes.cells, scenes.player_cell.tolist(), strict=True
    ):
        reported, place = read_board(dialect, said)
        assert list(place) == player
        here = kinds[Cell(cells[place])]
        assert reported[place[0]][place[1]] in ("any", here)
        reported[place[0]][place[1]] = here
        assert reported == [[kinds[Cell(kind)] for kind in row] for row in cells]


@pytest.mark.parametrize("dialect", NAMES)
def test_within_a_level_equal_words_equal_frames_and_equal_symbols_go_together(
    made: tuple[Any, Any, Any], seen: Any, dialect: str
) -> None:
    scenes, frames, symbols = seen
    said = np.asarray(interface_of(dialect).open_all(flat(scenes), made[1])).reshape(EPISODES, -1)
    for episode in range(EPISODES):
        appearances = [
            (interface, frame.tobytes(), numbers.tobytes())
            for interface, frame, numbers in zip(said[episode], frames[episode], symbols[episode], strict=True)
        ]
        assert [len(set(column)) for column in zip(*appearances, strict=True)] == [len(set(appearances))] * 3


@pytest.mark.parametrize("dialect", NAMES)
def test_turns_together_are_answered_as_one_by_one(made: tuple[Any, Any, Any], seen: Any, dialect: str) -> None:
    scenes, interface = flat(seen[0]), interface_of(dialect)
    count = len(scenes.cells)
    moves = [(UP, interface.parse("?"), LEFT, interface.parse("go right"))[row % 4] for row in range(count)]
    ended = scenes.is_in_hole | scenes.is_at_goal
    turns = Turns(range(1, count + 1), moves, scenes, np.zeros(count, np.float32), ended, np.arange(count) % 5 == 0)
    assert interface.respond_all(turns, made[1]) == [interface.respond(turn, made[1]) for turn in turns]
    one = jax.tree.map(lambda leaf: leaf[7], scenes)
    assert interface.open(one, made[1]) == interface.open_all(scenes, made[1])[7]
    assert interface.describe(one, made[1]) in interface.open(one, made[1])


# What replies mean.


@pytest.mark.parametrize(
    ("dialect", "reply", "move"),
    [
        ("swift", "<action>up</action>", UP),
        ("swift", "First I look.\n<ACTION>\n Left </Action> Done: right.", LEFT),
        ("swift", "<think>right? <action>down</action></think>\n<action>up</action>", UP),
        ("swift", "so down is best</think><action>right</action>", RIGHT),
        ("ragen", "<answer>Up</answer>", UP),
        ("ragen", "<answer> 1 </answer>", LEFT),
        ("ragen", "<answer>2</answer>", DOWN),
        ("ragen", "<answer>3</answer>", RIGHT),
        ("ragen", "<answer>4</answer>", UP),
        ("textarena", "[up]", UP),
        ("textarena", "I take [ W ].", UP),
        ("textarena", "[a]", LEFT),
        ("textarena", "[s]", DOWN),
        ("textarena", "[d]", RIGHT),
    ],
)
def test_a_move_in_the_form_asked_for_is_exact(dialect: str, reply: str, move: ParsedAction) -> None:
    assert interface_of(dialect).parse(reply) == move


@pytest.mark.parametrize(
    ("dialect", "reply", "move"),
    [
        ("swift", "<action>up</action> or <action>down</action>", UP),
        ("swift", "<answer>up</answer>", UP),
        ("swift", '{"action": "up"}', UP),
        ("swift", '```json\n{"direction": "Left"}\n```', LEFT),
        ("swift", 'move(direction="left")', LEFT),
        ("swift", "```\ndown\n```", DOWN),
        ("swift", "[up]", UP),
        ("swift", "Go right.", RIGHT),
        ("swift", "RIGHT!", RIGHT),
        ("swift", "Action: down", DOWN),
        ("swift", r"\boxed{left}", LEFT),
        ("swift", "→", RIGHT),
        ("swift", "[THINK]up?[/THINK] left", LEFT),
        ("ragen", '{"action": 4}', UP),
        ("ragen", '{"action": 4.0}', UP),
        ("ragen", "3", RIGHT),
        ("ragen", "<action>2</action>", DOWN),
        ("textarena", "w", UP),
        ("textarena", "<action>d</action>", RIGHT),
        ("textarena", "[up] [down]", UP),
    ],
)
def test_an_explicit_answer_in_another_form_is_a_move_and_not_exact(
    dialect: str, reply: str, move: ParsedAction
) -> None:
    assert interface_of(dialect).parse(reply) == move._replace(is_exact=False)


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize(
    "reply",
    [
        *("", "   ", "hm", "upward", "uploads and copyright", "<think>up</think>", "<think>go up", "5", "<action>"),
        *("<action>up", "<action>jump</action> I mean down", "I go left", "Up is a hole, so I will go right"),
        "I can't go left, there is a hole. <action>jump</action>",
        '{"action": "stay"} because left is a hole',
        "<action>up|down|left|right</action>",
        "F and up was safe before",
        "I should not go up",
        *('{"action": {"tool": "move", "direction": "up"}}', "I can't move(left), there is a hole, so I jump."),
        *('{"action": true}', '{"action": 4.5}', '{"action": "4.0"}', "{'action': 'up'}"),
    ],
)
def test_any_other_reply_is_invalid_and_the_moves_are_listed(dialect: str, reply: str) -> None:
    invalid = interface_of(dialect).parse(reply)
    assert isinstance(invalid, InvalidReply)
    assert re.fullmatch(
        r"Invalid (reply|response): expected one of left, down, right, up, got (no answer|\".*\")\. "
        r"Reply in this format: \S+\.",
        invalid.reason,
    )


def test_lenient_parsing_takes_the_last_move_of_prose_alone() -> None:
    lenient = dataclasses.replace(interface_of("swift"), parsing="lenient")
    assert lenient.parse("Up is a hole, so I will go right") == RIGHT._replace(is_exact=False)
    assert isinstance(lenient.parse("<action>jump</action> I mean down"), InvalidReply)


@pytest.mark.parametrize(("dialect", "reply"), [("swift", "3"), ("swift", "w"), ("textarena", "[2]"), ("ragen", "d")])
def test_short_forms_belong_to_their_dialect(dialect: str, reply: str) -> None:
    assert isinstance(interface_of(dialect).parse(reply), InvalidReply)


@pytest.mark.parametrize("dialect", NAMES)
def test_every_move_is_parsed_from_its_own_text(dialect: str) -> None:
    interface = interface_of(dialect)
    for move in (LEFT, DOWN, RIGHT, UP, interface.fallback()):
        assert interface.parse(move.text)[:2] == move[:2]


PIECES = ("<action>", "</action>", "<think>", "</think>", "up", "down", " ", "\n", "[", "]", "{", '"action"', ":", "4")
replies = st.one_of(st.text(max_size=400), st.lists(st.sampled_from(PIECES), max_size=60).map("".join))


def has_an_answer(reply: str) -> None:
    for dialect in NAMES:
        assert isinstance(interface_of(dialect).parse(reply), ParsedAction | InvalidReply)


@given(reply=replies)
@settings(max_examples=700, deadline=None)
def test_any_text_has_an_answer(reply: str) -> None:
    has_an_answer(reply)


@pytest.mark.slow
def test_a_hundred_thousand_texts_have_an_answer() -> None:
    generator = np.random.default_rng(0)
    letters = [chr(code) for code in range(1, 0x250)] + ["√", "→", "\ud800", "😀", *PIECES * 12]
    for length in generator.integers(0, 80, 100_000).tolist():
        has_an_answer("".join(letters[number] for number in generator.integers(0, len(letters), length).tolist()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *PIECES,
        "<action> ",
        '{"',
        '{"action": ',
        "[[",
        "<think",
        "<action>up",
        "\\boxed{",
        "```",
        "action:",
        "- ",
        "a ",
        "é",
    ],
)
def test_half_a_million_letters_of_any_repeated_piece_have_an_answer(piece: str) -> None:
    has_an_answer((piece * 500_000)[:500_000])


# The transcripts on the page.

PAGE = Path(__file__).parents[2] / "docs/environments/frozen_lake.md"
REPLIES = {
    "swift": (
        "The start is at the top left. I go down first.\n<action>down</action>",
        "<action>jump</action>",
        "<action>down</action>",
        "right",
        "<action>right</action>",
        "<action>down</action>",
        "<action>right</action>",
    ),
    "ragen": (
        "<answer>Down</answer>",
        "<answer>2</answer>",
        "<answer>Left</answer>",
        "<answer>Up</answer>",
        "<think>The hole is to the right of me.</think><answer>Right</answer>",
    ),
    "textarena": ("[right]", "I would rather not.", "[s]"),
}


def transcript(env: Any, params: Any, dialect: str) -> str:
    """Return a transcript on Gymnasium's 4x4 map."""
    interface, advance = interface_of(dialect), jax.jit(env.transition)
    state = env.initial_state(levels.level_from_seed(env, 0, params), params)
    scene = jax.device_get(env.scene(state, params))
    lines = [f"SYSTEM\n{interface.system_prompt(params)}", f"GAME\n{interface.open(scene, params)}"]
    for number, reply in enumerate(REPLIES[dialect], start=1):
        move, reward, terminated = interface.parse(reply), 0.0, False
        if isinstance(move, ParsedAction):
            made = advance(state, np.int32(move.actions[0]), params)
            state, reward, terminated = made.state, float(made.reward), bool(made.terminated)
        scene = jax.device_get(env.scene(state, params))
        turn = Turn(number, move, scene, reward, terminated, truncated=False)
        lines += [f"MODEL\n{reply}", f"GAME\n{interface.respond(turn, params)}"]
    return "\n\n".join(lines)


@pytest.fixture(scope="module")
def lake() -> tuple[Any, Any, Any]:
    return text.make("frozen_lake", map_name="4x4", observation="symbolic")


@pytest.mark.parametrize("dialect", NAMES)
def test_the_page_shows_what_a_model_sees(lake: tuple[Any, Any, Any], dialect: str) -> None:
    shown = f"<!-- transcript: {dialect} -->\n```text\n{transcript(*lake[:2], dialect)}\n```\n"
    assert shown in PAGE.read_text()
