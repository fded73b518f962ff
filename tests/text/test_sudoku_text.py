"""Text interface of Sudoku: texts show what the frame shows; parsing of replies; rewards of a move."""

import dataclasses
import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.sudoku import scene as seen
from jaxgym.envs.sudoku import text as sudoku
from jaxgym.envs.sudoku.scene import SudokuOutcome
from jaxgym.text.turns import InvalidReply, ParsedAction, Turn, Turns

PAGE = Path(__file__).parents[2] / "docs/environments/sudoku.md"
SOLUTION = np.asarray(
    [[(3 * (row % 3) + row // 3 + column) % 9 + 1 for column in range(9)] for row in range(9)], np.int8
)
BANNED = ("invalid", "error", "cannot", "already", "violation", "lost")
PARTS = ("empty_cell", "valid_move", "repetition", "progress", "correct")
NUM_ENVS, NUM_STEPS = 32, 24
LEVEL_INDEX = np.arange(NUM_ENVS) % 8

ENV, PARAMS, INTERFACE = text.make("sudoku", clues=[75, 79], levels=8)
HINTING = text.make("sudoku", hints=True)[2]
FLAT = text.make("sudoku", flat_actions=True)[2]

BOARD = """\
   C1 C2 C3   C4 C5 C6   C7 C8 C9  
R1  .  2  3 |  4  5  6 |  7  8  9
R2  4  5  6 |  7  8  9 |  1  2  3
R3  7  8  9 |  1  2  3 |  4  5  6
   - - - - - - - - - - - - - - - - 
R4  2  3  4 |  5  6  7 |  8  9  1
R5  5  6  7 |  8  9  1 |  2  3  4
R6  8  9  1 |  2  3  4 |  5  6  7
   - - - - - - - - - - - - - - - - 
R7  3  4  5 |  6  7  8 |  9  1  2
R8  6  7  8 |  9  1  2 |  3  4  5
R9  9  1  2 |  3  4  5 |  6  7  ."""


def scene_of(
    board: Any, cell: Any = (-1, -1), outcome: int = SudokuOutcome.NONE, wrong: int = 0, tried: Any = ()
) -> Any:
    return seen.Scene(
        board=np.asarray(board, np.int8),
        is_given=np.asarray(board) > 0,
        last_cell=np.asarray(cell, np.int32),
        outcome=np.int32(outcome),
        wrong_digit=np.int32(wrong),
        tried=np.asarray([*tried, *[-1] * (10 - len(tried))], np.int32),
    )


def empty_at(*cells: tuple[int, int]) -> np.ndarray:
    board = SOLUTION.copy()
    for cell in cells:
        board[cell] = 0
    return board


CORNERS = empty_at((0, 0), (8, 8))


def turn_of(move: ParsedAction | InvalidReply, scene: Any, reward: float = 0.0, **flags: bool) -> Turn[Any]:
    return Turn(1, move, scene, reward, **{"terminated": False, "truncated": False, **flags})


# Boards.


def test_a_board_has_the_shape_of_textarenas() -> None:
    assert INTERFACE.describe(scene_of(CORNERS), PARAMS) == BOARD


def parsed(said: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the board in a text, and outcome, row, column and digit of its first line, by an independent parser."""
    rows = [re.findall(r"[.1-9]", line[2:]) for line in said.split("\n") if re.match(r"R[1-9] ", line)]
    assert [len(row) for row in rows] == [9] * 9
    board = tuple(int(symbol.replace(".", "0")) for row in rows for symbol in row)
    first = said.split("\n")[0]
    numbers = [int(number) for number in re.findall(r"\d", first)]
    if first.startswith("Placed"):
        return board, (1, numbers[1], numbers[2], 0)
    if first.endswith("is not empty; please resubmit with an empty cell."):
        return board, (2, *numbers, 0)
    if first.startswith("Invalid move"):
        return board, (3, *numbers)
    return board, (0, 0, 0, 0)


@pytest.fixture(scope="module")
def played() -> tuple[Any, np.ndarray, np.ndarray]:
    """Return scenes, frames and symbols of episodes played half at random and half by the expert, (N, ...) each."""
    expert = jaxgym.spec_of("Sudoku-v0").expert
    assert expert is not None

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0))
    def step(state: Any, key: jax.Array) -> tuple[Any, Any]:
        key_random, key_choice, key_digit, key_step = jax.random.split(key, 4)
        best = expert(ENV, state, PARAMS)
        near = best.at[2].set(jax.random.randint(key_digit, (), 0, 9))
        action = jnp.stack([best, near, ENV.action_space(PARAMS).sample(key_random)])
        _, state, *_ = ENV.step(key_step, state, action[jax.random.randint(key_choice, (), 0, 3)], PARAMS)
        scene = ENV.scene(state, PARAMS)
        return state, (scene, seen.draw(scene), seen.symbols(scene))

    keys = jax.random.split(jax.random.key(1), (NUM_STEPS, NUM_ENVS))
    state = jax.vmap(ENV.initial_state, (0, None))(jax.tree.map(lambda leaf: leaf[LEVEL_INDEX], PARAMS.levels), PARAMS)
    made = []
    for keys_step in keys:
        state, shown = step(state, keys_step)
        made.append(jax.device_get(shown))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *made)


def test_words_say_what_frame_and_symbols_show(played: Any) -> None:
    scenes, frames, vectors = played
    texts = INTERFACE.open_all(scenes, PARAMS)
    assert set(scenes.outcome.tolist()) == set(SudokuOutcome)
    reported = [parsed(said) for said in texts]
    for (board, news), vector in zip(reported, vectors, strict=True):
        digits = vector[:729].reshape(81, 9)
        assert tuple((digits * np.arange(1, 10)).sum(axis=1).astype(int)) == board
        row, column, outcome, wrong = np.split(vector[810:], [9, 18, 21])
        ordinal = [int(part.argmax() + 1) if part.any() else 0 for part in (outcome, row, column, wrong)]
        assert tuple(ordinal) == news
    # Beside what the text says, a frame shows which cells were given, and nothing else.
    givens = [vector[729:810].tobytes() for vector in vectors]
    frames = {frame.tobytes() for frame in frames}
    assert (
        len(frames) == len(set(zip(reported, givens, strict=True))) == len(set(zip(texts, givens, strict=True))) > 200
    )


def test_texts_of_placed_digits_have_no_word_of_an_invalid_reply_and_invalid_replies_ask_to_resubmit(
    played: Any,
) -> None:
    scenes = played[0]
    for interface in (INTERFACE, HINTING):
        for said, outcome in zip(interface.open_all(scenes, PARAMS), scenes.outcome, strict=True):
            is_invalid = outcome in {SudokuOutcome.WRONG, SudokuOutcome.NOT_EMPTY}
            assert any(word in said.lower() for word in BANNED) == is_invalid
            assert ("please resubmit" in said.lower()) == is_invalid
            assert "R1" in said
            assert "R9" in said
            assert "|" in said
    for rewards in ("environment", "components"):
        said = dataclasses.replace(INTERFACE, rewards=rewards).system_prompt(PARAMS)
        assert not any(word in said.lower() for word in BANNED)


def test_texts_made_together_are_those_made_one_by_one(played: Any) -> None:
    scenes = jax.tree.map(lambda leaf: leaf[:60], played[0])
    moves = [INTERFACE.fallback() if row % 3 else INTERFACE.parse("?") for row in range(60)]
    flags = [np.arange(60) % period == 0 for period in (4, 5)]
    turns = Turns(range(60), moves, scenes, np.zeros(60, np.float32), *flags)
    for interface in (INTERFACE, HINTING):
        assert interface.respond_all(turns, PARAMS) == [interface.respond(turn, PARAMS) for turn in turns]
        rows = [jax.tree.map(lambda leaf, row=row: leaf[row], scenes) for row in range(60)]
        assert interface.open_all(scenes, PARAMS) == [interface.open(row, PARAMS) for row in rows]


def test_an_invalid_reply_is_answered_with_the_reason_and_the_board() -> None:
    scene = scene_of(CORNERS, (0, 1), SudokuOutcome.PLACED)
    reason = (
        'Invalid action: expected row, column and number, each from 1 to 9, got "hello"; please resubmit. '
        "Reply in this format: [row column number], for example [1 2 3]."
    )
    assert INTERFACE.respond(turn_of(INTERFACE.parse("hello"), scene), PARAMS) == f"{reason}\n{BOARD}"


def test_the_last_text_says_whether_the_puzzle_is_solved() -> None:
    scene = scene_of(CORNERS, (0, 1), SudokuOutcome.PLACED)
    placed = f"Placed 2 at row 1, column 2.\n{BOARD}"
    move = INTERFACE.parse("[1 2 2]")
    assert INTERFACE.respond(turn_of(move, scene), PARAMS) == placed
    for interface in (INTERFACE, HINTING):
        solved = interface.respond(turn_of(move, scene, 1.0, terminated=True, truncated=True), PARAMS)
        assert solved == f"{placed}\nThe puzzle is solved."
        assert interface.respond(turn_of(move, scene, truncated=True), PARAMS) == (
            f"{placed}\nThat was the last move; the puzzle is not solved."
        )
        assert interface.respond(turn_of(interface.parse("hello"), scene, terminated=True), PARAMS).endswith(
            f"{BOARD}\nThe invalid reply ended the episode; the puzzle is not solved."
        )


@pytest.mark.parametrize("outcome", [SudokuOutcome.WRONG, SudokuOutcome.NOT_EMPTY])
def test_nobody_is_asked_for_another_reply_at_the_end(outcome: SudokuOutcome) -> None:
    scene = scene_of(CORNERS, (0, 1), outcome)
    for move in (INTERFACE.parse("hello"), INTERFACE.parse("[0 0 0]"), INTERFACE.parse("[1 2 2]")):
        asked, reported = (
            INTERFACE.respond(turn_of(move, scene, truncated=is_cut), PARAMS) for is_cut in (False, True)
        )
        first, asking, _ = asked.partition("; please resubmit")
        assert asking
        assert reported == f"{first}.\n{BOARD}\nThat was the last move; the puzzle is not solved."
    move, scores = INTERFACE.parse("[1 2 2]"), []
    for is_cut in (False, True):
        reward_tracker = sudoku.SudokuRewardTracker(scene_of(CORNERS))
        scores.append(reward_tracker.components(turn_of(move, scene, truncated=is_cut))["valid_move"])
    assert scores == [-0.5, 0.0]


def test_instructions_tell_the_number_of_moves() -> None:
    assert "when the puzzle is solved, or after 100 moves" in INTERFACE.system_prompt(PARAMS)
    assert "when the puzzle is solved.\n" in INTERFACE.system_prompt(jaxgym.make("Sudoku-v0", max_steps=0)[1])


# Hints.


def hints_of(scene: Any) -> list[str]:
    said = HINTING.open(scene, PARAMS)
    assert said.startswith(INTERFACE.open(scene, PARAMS))
    return said[len(INTERFACE.open(scene, PARAMS)) :].split("\n")


def test_hints_are_lines_of_their_own() -> None:
    # Row, column and box of each corner leave one digit.
    assert hints_of(scene_of(CORNERS, tried=(80, 0))) == [
        "",
        "MOVES TRIED (do not repeat): [1 9 9], [1 1 1]",
        "GUARANTEED MOVES (only one option): [1 1 1], [9 9 8]",
        "Other options: (1,1)->1 | (9,9)->8",
    ]
    assert hints_of(scene_of(SOLUTION)) == [""]


def test_other_options_are_the_cells_with_at_most_three_digits_fewest_first_and_five_at_most() -> None:
    # Without any 1 and 4 most of their cells can hold both; the 4 that is put back leaves its row and box the 1 alone.
    board = np.where((SOLUTION == 1) | (SOLUTION == 4), 0, SOLUTION)
    board[0, 3] = 4
    lines = hints_of(scene_of(board))
    assert lines[1].startswith("GUARANTEED MOVES (only one option): [1 1 1]")
    assert lines[2].startswith("Other options: (1,1)->1 | ")
    assert lines[2].count("->") == 5
    assert "MOVES TRIED" not in "".join(lines)


def test_cells_with_more_than_three_digits_are_no_hints() -> None:
    assert hints_of(scene_of(np.zeros((9, 9)))) == [""]


# Replies.


@pytest.mark.parametrize(
    ("reply", "move", "is_exact"),
    [
        ("[1 2 3]", "[1 2 3]", True),
        ("I place 5 in row 4: [1 1 1] and later [ 4  7\t5 ].", "[4 7 5]", False),
        ("<think>[9 9 9] or [1 2 3]?</think>[4 5 6]", "[4 5 6]", True),
        ("[9 9 9] so it is</think> [4 5 6]", "[4 5 6]", True),
        (
            "<|channel|>analysis<|message|>[1 2 3]<|end|><|start|>assistant<|channel|>final<|message|>[4 5 6]",
            "[4 5 6]",
            True,
        ),
        ("<answer>[1 2 3]</answer>", "[1 2 3]", True),
        ("<answer>1 2 3</answer>", "[1 2 3]", False),
        ("Action: [1 2 3]", "[1 2 3]", True),
        ("```\n[1 2 3]\n```", "[1 2 3]", True),
        ("[01 2 3]", "[1 2 3]", True),
        ("[1, 2, 3]", "[1 2 3]", False),
        ("3 more cells: [1,2,3]", "[1 2 3]", False),
        ('```json\n{"number": 3.0, "row": 1, "column": 2}\n```', "[1 2 3]", False),
        ('{"action": [1, 2, 3]}', "[1 2 3]", False),
        ('{"name": "place", "arguments": {"row": 1, "column": 2, "number": 3}}', "[1 2 3]", False),
        ("place(number=3, row=1, column=2)", "[1 2 3]", False),
        ("place(1, 2, 3)", "[1 2 3]", False),
        ("Place 3 at row 1, column 2", "[1 2 3]", False),
        ("row 1 column 2 number 3", "[1 2 3]", False),
        ("Number: 3, Row: 1, Column: 2.", "[1 2 3]", False),
        ("1 2 3", "[1 2 3]", False),
        ("1, 2, 3", "[1 2 3]", False),
        ("\\boxed{1 2 3}", "[1 2 3]", False),
        ("\\[ \\boxed{1 2 3} \\]", "[1 2 3]", False),
        ('{"reason": "cells [R1C1]", "row": 1, "column": 2, "number": 3}', "[1 2 3]", False),
    ],
)
def test_an_explicit_answer_is_a_move(reply: str, move: str, is_exact: bool) -> None:
    found = INTERFACE.parse(reply)
    assert isinstance(found, ParsedAction)
    assert (found.text, found.is_exact) == (move, is_exact)
    assert found.actions == (tuple(int(digit) - 1 for digit in re.findall(r"\d", move)),)


@pytest.mark.parametrize(
    ("reply", "got"),
    [
        *((reply, "no answer") for reply in ("", "<think>[1 2 3]</think>")),
        *((reply, f'"{reply}"') for reply in ("[1 2]", "one two three", "[1 2 x]", "[0 1 2]", "[10 1 2]", "[1 2 33]")),
        *(
            (reply, f'"{reply}"')
            for reply in ("1 2 -3", "row 1 column 0 number 4", "[1 2 \uff13]", "[1 2 \u00b3]", "[1.0 2 3]")
        ),
        ("[1 2 " + "9" * 5000 + "]", '"[1 2 99999999999999999999999999999999999…"'),
        ('{"row": 1, "column": 2, "number": 30}', "\"{'row': 1, 'column': 2, 'number': 30}\""),
        ('{"row": 1, "column": 2, "number": "3"}', "\"{'row': 1, 'column': 2, 'number': '3'}\""),
        ('{"row": true, "column": 2, "number": 3}', "\"{'row': true, 'column': 2, 'number': 3}\""),
        ('{"row": 1.5, "column": 2, "number": 3}', "\"{'row': 1.5, 'column': 2, 'number': 3}\""),
        ("I thought of [1 2 3].\n<answer>[4 5 12]</answer>", '"[4 5 12]"'),
        ("I thought of [1 2 3].\n<answer>4 5 6</answer>", '"[1 2 3] and 4 5 6"'),
        ("[1 2 3] or row [4]", '"[4]"'),
        ("I looked at 3 cells. There are 2 options in 1 of them.", '"I looked at 3 cells. There are 2 options…"'),
        ('{"row": 1, "col": 2, "number": 3}', "\"{'row': 1, 'col': 2, 'number': 3}\""),
        ('{"row": [1, 2, 3]}', "\"{'row': [1, 2, 3]}\""),
        ("R1: 4 3 2 | 7 5 8", '"R1: 4 3 2 | 7 5 8"'),
        ("There are 21 cells left. Row: 1, Column: 2, Number: 3", '"There are 21 cells left. Row: 1, Column:…"'),
    ],
)
def test_any_other_reply_is_invalid_and_quoted(reply: str, got: str) -> None:
    found = INTERFACE.parse(reply)
    assert isinstance(found, InvalidReply)
    assert found.reason == (
        f"Invalid action: expected row, column and number, each from 1 to 9, got {got}; please resubmit. "
        "Reply in this format: [row column number], for example [1 2 3]."
    )


def test_every_move_parses_back_from_its_own_text() -> None:
    for number in range(729):
        move = sudoku.unflattened(number)
        assert INTERFACE.parse(INTERFACE.reply_of(move)) == ParsedAction((move,), INTERFACE.reply_of(move))
        assert FLAT.parse(FLAT.reply_of(number)) == ParsedAction((number,), INTERFACE.reply_of(move))
    assert INTERFACE.fallback() == INTERFACE.parse("[1 1 1]")
    assert FLAT.fallback() == FLAT.parse("[1 1 1]")


def fuzz(count: int) -> None:
    pieces = [
        "[",
        "]",
        " ",
        "\n",
        ",",
        "-",
        "0",
        "1",
        "9",
        "10",
        "9" * 40,
        "٣",
        "row ",
        "column",
        "number: ",
        '{"row":',
        '"',
    ]
    pieces += [
        "}",
        "<think>",
        "</think>",
        "```",
        "[1 2 3]",
        "[1 2",
        "é",
        "\x00",
        "\ud800",
        "{",
        ":",
        "true",
        "null",
        "1e9",
    ]
    chosen = random.Random(0)
    for _ in range(count):
        found = INTERFACE.parse("".join(chosen.choices(pieces, k=chosen.randint(0, 14))))
        if isinstance(found, ParsedAction):
            assert INTERFACE.parse(found.text)._replace(is_exact=found.is_exact) == found
        else:
            assert isinstance(found, InvalidReply)


def test_any_reply_has_an_answer() -> None:
    fuzz(2_000)
    for piece in ("[", "[ ", "[1 ", "1", "{", '{"row":', "row 1 ", "row 1 col ", "<think>", "-", "[1,", " "):
        assert isinstance(INTERFACE.parse(piece * 50_000), ParsedAction | InvalidReply)


@pytest.mark.slow
def test_any_of_100_000_replies_has_an_answer() -> None:
    fuzz(100_000)


# Scores.


def test_each_part_of_the_score_of_a_move() -> None:
    assert [sudoku.empty_cell_score(is_empty) for is_empty in (True, False, None)] == [1, -1, 1]
    valid = partial(sudoku.valid_move_score)
    assert valid(True, is_new=True, asks_again=False) == 1
    assert valid(True, is_new=False, asks_again=False) == 0
    assert valid(True, is_new=False, asks_again=True) == -0.5
    assert valid(False, is_new=True, asks_again=True) == -0.5
    assert valid(False, is_new=True, asks_again=False) == 0
    assert [sudoku.repetition_score(earlier) for earlier in range(6)] == [0, -2, -4, -8, -10, -10]
    assert sudoku.repetition_score(5_000) == -10
    assert [sudoku.progress_score(*filled) for filled in ((60, 60), (70, 61), (81, 60), (81, 81))] == [0, 0.45, 1, 1]


def scored(reward_tracker: Any, reply: str, scene: Any, reward: float = 0.0) -> tuple[float, ...]:
    parts = reward_tracker.components(turn_of(INTERFACE.parse(reply), scene, reward))
    assert tuple(parts) == PARTS
    return tuple(parts.values())


def test_a_reward_tracker_reports_means_of_three_parts_and_the_latest_of_two() -> None:
    reward_tracker = sudoku.SudokuRewardTracker(scene_of(CORNERS))
    one = empty_at((8, 8))
    placed, again = scene_of(one, (0, 0), SudokuOutcome.PLACED), scene_of(one, (0, 0), SudokuOutcome.NOT_EMPTY)
    wrong, solved = scene_of(one, (8, 8), SudokuOutcome.WRONG, 1), scene_of(SOLUTION, (8, 8), SudokuOutcome.PLACED)
    assert scored(reward_tracker, "hello", scene_of(CORNERS)) == (0, 0, 0, 0, 0)
    assert scored(reward_tracker, "[1 1 1]", placed) == (1, 1, 0, 0.5, 0)
    assert scored(reward_tracker, "[1 1 1]", again) == (0, 0.25, -1, 0.5, 0)
    assert scored(reward_tracker, "hello", again) == (0, 0.25, -1, 0.5, 0)
    assert scored(reward_tracker, "[9 9 1]", wrong) == pytest.approx((1 / 3, 0, -2 / 3, 0.5, 0))
    assert scored(reward_tracker, "[9 9 1]", wrong) == (0.5, -0.125, -1, 0.5, 0)
    assert scored(reward_tracker, "[9 9 8]", solved, 1.0) == pytest.approx((0.6, 0.1, -0.8, 1, 1))


def test_a_game_without_a_rejected_move_has_a_score_of_4() -> None:
    cells = [(0, 0), (3, 4), (4, 4), (8, 8)]
    reward_tracker, combined = sudoku.SudokuRewardTracker(scene_of(empty_at(*cells))), []
    for made, cell in enumerate(cells, start=1):
        scene = scene_of(empty_at(*cells[made:]), cell, SudokuOutcome.PLACED)
        reply = INTERFACE.reply_of((*cell, int(SOLUTION[cell]) - 1))
        combined.append(sum(scored(reward_tracker, reply, scene, float(made == 4))))
    assert combined == [2.25, 2.5, 2.75, 4]


def test_a_reward_tracker_reads_flat_actions() -> None:
    reward_tracker = FLAT.reward_tracker(scene_of(CORNERS), PARAMS)
    parts = reward_tracker.components(
        turn_of(FLAT.parse("[9 9 8]"), scene_of(empty_at((0, 0)), (8, 8), SudokuOutcome.PLACED))
    )
    assert tuple(parts.values()) == (1, 1, 0, 0.5, 0)


def test_the_rewards_of_an_episode_add_up_to_its_last_score() -> None:
    first, one = scene_of(CORNERS), empty_at((8, 8))
    turns = [
        ("[1 1 1]", scene_of(one, (0, 0), SudokuOutcome.PLACED)),
        ("[9 9 1]", scene_of(one, (8, 8), SudokuOutcome.WRONG, 1)),
    ]
    scores, changes, total = (
        sudoku.SudokuRewardTracker(first),
        INTERFACE.reward_tracker(first, PARAMS),
        np.zeros(len(PARTS)),
    )
    for reply, scene in turns:
        total += scored(changes, reply, scene)
        assert total == pytest.approx(scored(scores, reply, scene))


# The page.


def transcript() -> str:
    """Return a game with 79 clues: an invalid reply, a wrong move, and two correct ones, with hints."""
    env, params, interface = text.make("sudoku", clues=[79], hints=True, max_steps=10)
    step, scene_of_state = jax.jit(env.step_env), jax.jit(env.scene)
    state = env.initial_state(levels.level_from_seed(env, levels.held_out_seeds(1)[0], params), params)
    scene = jax.device_get(scene_of_state(state, params))
    lines = [interface.system_prompt(params), "", interface.open(scene, params)]
    (row, column), last = (np.argwhere(scene.board == 0)[place] for place in (0, 1))
    digits = np.asarray(state.level.solution)
    wrong = digits[row, column] % 9 + 1
    replies = [
        "I need to think about it.",
        f"[{row + 1} {column + 1} {wrong}]",
        f"[{row + 1} {column + 1} {digits[row, column]}]",
        f"The last one is [{last[0] + 1} {last[1] + 1} {digits[tuple(last)]}].",
    ]
    for number, reply in enumerate(replies, start=1):
        move, reward, terminated = interface.parse(reply), 0.0, False
        if isinstance(move, ParsedAction):
            key = jax.random.key(0)
            _, state, reward, terminated, _ = step(key, state, jnp.asarray(move.actions[0], jnp.int32), params)
            scene = jax.device_get(scene_of_state(state, params))
        turn = Turn(number, move, scene, float(reward), bool(terminated), False)
        lines += ["", f"> {reply}", "", interface.respond(turn, params)]
    return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n"))


def test_the_page_has_a_game_as_it_is_played() -> None:
    assert f"```text\n{transcript()}\n```" in PAGE.read_text()
