"""Environments of ms-swift, on the corridor of `tests.serve.corridor`: seed 3 starts at cell 4 of `.......G`."""

import asyncio
import importlib.util
import json
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxgym import text
from jaxgym.errors import OptionError, UnknownIdError
from jaxgym.serve import episodes, swift
from jaxgym.serve.openenv.client import OpenEnvScheduler, OpenEnvWrapper
from jaxgym.serve.pool import SESSION_OPTIONS, SessionPool
from jaxgym.serve.swift import sudoku
from tests.serve import corridor

PLUGIN = Path(__file__).parents[2] / "examples/ms_swift/jaxgym_plugin.py"


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_pools", [made])
        yield made
    assert len(made) == 0, "a test left sessions open"


def env_of(**env_config: Any) -> swift.TextEnv:
    return swift.env_class("corridor")({"seed": 3, **env_config})


def chat(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "A"}, {"role": "assistant", "content": content}]


async def played(env: swift.TextEnv, *contents: Any) -> list[Any]:
    steps = [await env.reset(None), *[await env.step(chat(content)) for content in contents]]
    await env.close()
    return steps


def test_reset_gives_text_info_and_rules_and_step_what_follows() -> None:
    env = env_of(name="anything", bonus=2.0)
    (observation, info, system), *steps = asyncio.run(played(env, "<left>", "<right right right>", "<right right>"))
    assert observation == "....A..."
    assert info == {"env_id": "Corridor-v0", "seed": 3, "text_version": 1}
    assert system.startswith("Reach the goal of 8 cells")
    assert [(reward, has_ended) for _, reward, has_ended, _ in steps] == [(0.0, False), (0.0, False), (2.0, True)]
    assert steps[-1][0].endswith("won")
    received = steps[-1][3]
    assert received["is_solved"]
    assert received["total_reward"] == sum(reward for _, reward, _, _ in steps)
    assert json.loads(json.dumps(received))["episode"]["position"] == 7
    assert env.env_config == {"seed": 3, "name": "anything", "bonus": 2.0}


@pytest.mark.parametrize("content", [None, "", "\0", [1, 2], 7, [{"type": "image"}], "x" * 20_000])
def test_a_reply_that_is_no_move_is_told_so_and_never_raises(content: Any) -> None:
    text_after, reward, has_ended, info = asyncio.run(played(env_of(), content))[1]
    assert text_after == "1: Say left, stay or right.\n....A..."
    assert (reward, has_ended) == (0.0, False)
    assert info["invalid_reply"] == "Say left, stay or right."


def test_the_parts_of_a_content_are_put_together() -> None:
    parts = [{"type": "text", "text": "<le"}, {"type": "image"}, {"type": "text", "text": "ft>"}, "  "]
    assert swift.content_text(parts) == "<left>  "
    assert asyncio.run(played(env_of(), parts[:3]))[1][0] == "1: ...A...."


def test_a_step_after_the_end_says_the_same_and_pays_nothing() -> None:
    _, end, again = asyncio.run(played(env_of(), "<right right right>", "<left>"))
    assert end[1:3] == (1.0, True)
    assert again[:3] == (end[0], 0.0, True)
    assert again[3]["total_reward"] == 1.0


def test_entries_that_are_none_are_as_if_left_out_and_others_are_checked() -> None:
    env = env_of(bonus=None, clues=None)
    assert asyncio.run(played(env))[0][0] == "....A..."
    with pytest.raises(OptionError, match="expected an option, got 'clues'"):
        asyncio.run(played(env_of(clues=3)))


def test_seeds_choose_the_level_and_no_seed_a_random_one() -> None:
    firsts = [asyncio.run(played(env_of(seed=seed)))[0][0] for seed in (3, 3, 0, 1, 2)]
    assert firsts[0] == firsts[1]
    assert len(set(firsts)) > 1
    seeds = [asyncio.run(played(env_of(seed=None)))[0][1]["seed"] for _ in range(2)]
    assert seeds[0] != seeds[1]


def test_reset_close_and_step_come_in_any_order() -> None:
    async def go() -> Any:
        env = env_of()
        await env.close()
        first = await env.step(chat("<left>"))
        await env.reset()
        second = await env.step(chat("<left>"))
        await env.close()
        await env.close()
        return first, second

    first, second = asyncio.run(go())
    assert first == second


def test_an_episode_outlives_its_session(pool: SessionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    env = env_of(diary=True)
    asyncio.run(env.reset())
    steps = [asyncio.run(env.step(chat("<left>")))]
    with monkeypatch.context() as patch:
        patch.setattr(pool, "idle_seconds", -1.0)
        assert pool.close_idle() == 1
    steps += [asyncio.run(env.step(chat(reply))) for reply in ("<left>", "<right>")]
    asyncio.run(env.close())
    assert steps == asyncio.run(played(env_of(diary=True), "<left>", "<left>", "<right>"))[1:]


def test_an_ended_episode_gives_its_session_back(pool: SessionPool) -> None:
    env = env_of()
    asyncio.run(env.reset())
    assert len(pool) == 1
    asyncio.run(env.step(chat("<right right right>")))
    assert len(pool) == 0


def test_every_call_may_come_from_another_loop_and_thread() -> None:
    alone = asyncio.run(played(env_of(), "<left>", "<right>"))
    found: list[Any] = []

    def work() -> None:
        env = env_of()
        calls = [asyncio.run(env.reset()), *(asyncio.run(env.step(chat(reply))) for reply in ("<left>", "<right>"))]
        asyncio.run(env.close())
        found.append(calls)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == [alone] * 8


def test_each_game_has_a_class_by_short_name_and_id() -> None:
    for nick, env_id in text.text_envs().items():
        made = swift.env_class(nick)
        assert made is swift.env_class(env_id)
        assert made.env_id == env_id
    assert swift.env_class("mortar_mayhem_grid").__name__ == "MortarMayhemGridEnv"
    with pytest.raises(UnknownIdError, match="Unknown text environment"):
        swift.env_class("frozen_lakes")


class Base:
    """Stand-in for a class of ms-swift."""

    def __init__(self, *arguments: Any, **_: Any):
        self.env_config = arguments[0] if arguments else None


@pytest.fixture
def ms_swift(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    tables = types.SimpleNamespace(envs={}, multi_turns={}, orms={})
    parts = {"rollout.gym_env": {"Env": Base, "envs": tables.envs}, "rewards.orm": {"orms": tables.orms}}
    parts["rollout.multi_turn"] = {"OpenEnvScheduler": Base, "GYMScheduler": Base, "multi_turns": tables.multi_turns}
    for name in ("swift", "swift.rollout", "swift.rewards"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for name, entries in parts.items():
        module = types.ModuleType(f"swift.{name}")
        vars(module).update(entries)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return tables


def loaded(path: Path, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_plugin_registers_every_game_and_the_schedulers(ms_swift: types.SimpleNamespace) -> None:
    loaded(PLUGIN, "_plugin_0f3a")
    assert set(ms_swift.envs) == {*text.text_envs(), *text.text_envs().values()}
    assert ms_swift.envs["frozen_lake"] is swift.env_class("frozen_lake")
    kinds = ("sudoku", "openenv", "image")
    assert set(ms_swift.multi_turns) == {f"jaxgym_{kind}_scheduler" for kind in kinds}
    reward = ms_swift.orms["jaxgym_return"](args=None)
    infos = [{"total_reward": 0.5}, {"total_reward": 2.0}]
    assert reward(["a", "b"], rollout_infos=infos, trainer_state=None) == [0.5, 2.0]


@pytest.mark.parametrize("entries", ["x", 3, ["seed"]])
def test_entries_that_have_no_names_are_rejected(entries: Any) -> None:
    with pytest.raises(OptionError, match=r"^FrozenLake-v0: env_config: expected a mapping such as .*, got "):
        asyncio.run(swift.env_class("frozen_lake")(entries).reset())


@pytest.mark.parametrize("path", sorted(PLUGIN.parent.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_row_of_the_examples_can_be_played(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 64
    seen = [row["env_config"] for row in rows]
    assert len({(entries["name"], entries["seed"]) for entries in seen}) == len(rows)
    for options in {json.dumps({**entries, "seed": None}): entries for entries in seen}.values():
        given = episodes.options_of(options)
        text.make(
            options["name"],
            levels="fresh",
            **{name: value for name, value in given.items() if name not in SESSION_OPTIONS},
        )


def test_the_classes_are_ms_swifts_where_it_is_there(ms_swift: types.SimpleNamespace) -> None:
    del ms_swift
    assert issubclass(loaded(Path(str(swift.__file__)), "_swift_copy").TextEnv, Base)
    assert not issubclass(swift.TextEnv, Base)


# The scheduler of Sudoku.

BOARD = np.asarray([[(3 * (row % 3) + row // 3 + column) % 9 + 1 for column in range(9)] for row in range(9)], np.int8)


def board_text(*empty: tuple[int, int]) -> str:
    board = BOARD.copy()
    for cell in empty:
        board[cell] = 0
    return sudoku.board_texts(board[None])[0]


class Server:
    """Server that answers with texts, the last of which ends the game."""

    def __init__(self, *texts: str):
        self.texts, self.moves, self.is_closed = list(texts), list[str](), False

    async def areset(self) -> Any:
        return {"messages": [{"content": self.texts.pop(0)}], "prompt": "unread"}, {}

    async def astep(self, action: Any) -> Any:
        self.moves.append(action["message"])
        return {"prompt": self.texts.pop(0)}, float(not self.texts), not self.texts, {}

    async def aclose(self) -> None:
        self.is_closed = True


def started(row: dict[str, Any]) -> tuple[Any, Any]:
    """Return a scheduler and the request of a row whose episode has started on the pool of this process."""
    scheduler: Any = sudoku.SudokuScheduler()
    request = types.SimpleNamespace(uuid="u", messages=[], data_dict={"env_config": row})
    asyncio.run(scheduler.on_trajectory_start([request]))
    return scheduler, request


def made(scheduler: Any, request: Any, *replies: str) -> list[Any]:
    """Make turns and close the episode; return their results."""
    choices = [types.SimpleNamespace(message=types.SimpleNamespace(content=reply)) for reply in replies]
    after = [asyncio.run(scheduler.on_turn_end(request, choice, turn)) for turn, choice in enumerate(choices, 1)]
    asyncio.run(scheduler._close_and_remove("u"))
    return after


def trajectory(server: Server, *replies: str) -> tuple[list[Any], list[Any]]:
    scheduler: Any = sudoku.SudokuScheduler()
    scheduler._create_env = lambda _: server
    request = types.SimpleNamespace(uuid="u", messages=[], data_dict={"env_config": {"seed": 0, "bonus": None}})
    asyncio.run(scheduler.on_trajectory_start([request]))
    turns, said = [], [message["content"] for message in request.messages]
    for turn, reply in enumerate(replies, start=1):
        choice = types.SimpleNamespace(message=types.SimpleNamespace(content=reply))
        turns.append(asyncio.run(scheduler.on_turn_end(request, choice, turn)))
        said.append(scheduler._envs["u"].text if "u" in scheduler._envs else None)
    return turns, said


def test_a_flawless_game_scores_4_and_shows_board_and_hints() -> None:
    first, second = (0, 0), (8, 8)
    last = board_text(second)
    server = Server(board_text(first, second), f"{board_text(first, second)}\n{last}", f"done\n{board_text()}")
    turns, said = trajectory(server, "I say [1 1 1].", f"9, 9, {BOARD[8, 8]}")
    assert server.moves == ["[1 1 1]", f"[9 9 {BOARD[8, 8]}]"]
    assert said[0].endswith("A rejected move does not end it.")
    assert said[1].startswith(board_text(first, second))
    assert "GUARANTEED MOVES (only one option): [1 1 1]" in said[1]
    assert said[2].startswith(f"Step 1. Progress: 1 cells filled.\n\nBoard:\n{last}\nMOVES TRIED")
    infos = turns[-1]["rollout_infos"]
    assert infos["total_reward"] == 4.0
    assert infos["step_rewards"] == [2.5, 1.5]
    assert {name: infos[f"{name}_reward"] for name in ("empty_cell", "repetition", "progress", "correct")} == {
        "empty_cell": 1.0,
        "repetition": 0.0,
        "progress": 1.0,
        "correct": 1.0,
    }
    assert turns[-1]["done"]
    assert server.is_closed


def test_rejected_and_repeated_moves_cost_and_no_move_ends_the_game() -> None:
    board = board_text((0, 0))
    server = Server(board, "Invalid move; please resubmit", "Invalid move; please resubmit", "unread")
    turns, _ = trajectory(server, "[1 1 9]", "[1 1 9]", "I give up")
    first, second, third = (turn["rollout_infos"] for turn in turns)
    assert first["total_reward"] == 1 - 0.5
    assert second["total_reward"] == 1 - 0.5 - 1
    assert third["total_reward"] == second["total_reward"] - 1
    assert third["step_rewards"] == [0.5, -1.0, -1.0]
    assert third["valid_move_reward"] == -0.5
    assert [turn["done"] for turn in turns] == [False, False, True]
    assert server.is_closed


@pytest.mark.parametrize("replies", [("[1 1 1]", "[1 1 1]", "[1 1 2]"), ("[1 1 1]", "[9 9 9]", "?"), ("?",)])
def test_step_rewards_are_changes_of_the_score(replies: tuple[str, ...]) -> None:
    scheduler, request = started({"seed": 0, "clues": [60]})
    infos = [after["rollout_infos"] for after in made(scheduler, request, *replies)]
    totals = [0.0, *(info["total_reward"] for info in infos)]
    assert infos[-1]["step_rewards"] == pytest.approx(np.diff(totals))
    assert infos[-1]["total_reward"] == pytest.approx(sum(infos[-1]["step_rewards"]))


@pytest.mark.parametrize(
    ("entries", "stated"),
    [
        ({"max_turns": 2}, "The episode also ends after 2 turns."),
        ({"max_steps": 7}, "solved, or after 7 moves, including rejected ones."),
        ({}, "solved, or after 100 moves, including rejected ones."),
    ],
)
def test_the_prompt_states_the_limits_of_an_episode(entries: dict[str, Any], stated: str) -> None:
    scheduler, request = started({"seed": 0, "clues": [60], **entries})
    assert stated in request.messages[0]["content"]
    limit = min(entries.values(), default=100)
    after = made(scheduler, request, *["[1 1 1]"] * limit)
    assert [turn["done"] for turn in after] == [False] * (limit - 1) + [True]


def test_the_prompt_states_the_limits_of_a_server() -> None:
    server = Server(board_text((0, 0)))
    limits = "The episode ends when the puzzle is solved, or after 9 moves.\nThe episode also ends after 3 turns."

    async def areset() -> Any:
        return {"messages": [{"content": server.texts.pop(0)}], "prompt": f"Rules.\n{limits}"}, {}

    server.areset = areset
    rules = trajectory(server)[1][0]
    assert limits in rules
    assert "The episode ends when the puzzle is solved.\n" not in rules


@pytest.mark.parametrize("name", sorted({"hints", *SESSION_OPTIONS} - {"max_turns"}))
@pytest.mark.parametrize("row", [{}, {"base_url": "http://host"}], ids=["pool", "server"])
def test_an_option_without_effect_is_an_error(name: str, row: dict[str, str]) -> None:
    option = {**text.text_spec_of("sudoku")[1].options, **SESSION_OPTIONS}[name]
    with pytest.raises(OptionError, match=f"expected an option of this scheduler, got '{name}'"):
        started({"seed": 0, name: "clues=78:30" if option.default is None else option.default, **row})


@pytest.mark.parametrize("content", [None, "", [{"type": "thinking", "thinking": "[1 1 1]"}]])
def test_an_empty_completion_is_an_invalid_turn_of_the_scheduler(content: Any) -> None:
    turns, _ = trajectory(Server(board_text((0, 0))), content)
    infos = turns[-1]["rollout_infos"]
    assert (infos["total_reward"], infos["step_rewards"], turns[-1]["done"]) == (-1.0, [-1.0], True)


def test_the_scheduler_records_why_each_reply_ended_and_its_tokens() -> None:
    scheduler: Any = sudoku.SudokuScheduler()
    scheduler._create_env = lambda _: Server(board_text((0, 0)), "Invalid move; please resubmit", "unread")
    request = types.SimpleNamespace(uuid="u", messages=[], data_dict={"env_config": {"seed": 0}})
    asyncio.run(scheduler.on_trajectory_start([request]))
    kept: Any = {}
    for turn, (content, reason, tokens) in enumerate([("[1 1 9]", "stop", [4, 5]), (None, "length", None)], 1):
        message = types.SimpleNamespace(content=content)
        choice = types.SimpleNamespace(message=message, finish_reason=reason, token_ids=tokens)
        kept = asyncio.run(scheduler.on_turn_end(request, choice, turn))["rollout_infos"]
    assert json.loads(json.dumps(kept))["turns"] == [
        {"finish_reason": "stop", "prompt_tokens": None, "completion_tokens": 2},
        {"finish_reason": "length", "prompt_tokens": None, "completion_tokens": None},
    ]


def test_a_game_whose_server_is_gone_ends_with_the_score_that_it_has() -> None:
    server = Server(board_text((0, 0), (1, 1)), board_text((1, 1)))

    async def gone(_: Any) -> Any:
        raise ConnectionError("the server is gone")

    scheduler: Any = sudoku.SudokuScheduler()
    scheduler._create_env = lambda _: server
    request = types.SimpleNamespace(uuid="u", messages=[], data_dict={"env_config": {"seed": 0}})
    asyncio.run(scheduler.on_trajectory_start([request]))
    choice = types.SimpleNamespace(message=types.SimpleNamespace(content=f"[1 1 {BOARD[0, 0]}]"))
    server.texts.append("unread")
    played = asyncio.run(scheduler.on_turn_end(request, choice, 1))["rollout_infos"]
    server.astep = gone
    ended = asyncio.run(scheduler.on_turn_end(request, choice, 2))
    assert ended["done"]
    assert ended["rollout_infos"]["total_reward"] == played["total_reward"]
    assert ended["rollout_infos"]["step_rewards"] == [*played["step_rewards"], 0.0]
    assert ended["rollout_infos"]["error"] == "the server is gone"
    assert server.is_closed


def test_a_trajectory_that_is_unknown_has_a_total_reward() -> None:
    scheduler: Any = sudoku.SudokuScheduler()
    ended = asyncio.run(scheduler.on_turn_end(types.SimpleNamespace(uuid="other"), None, 1))
    infos = {"total_reward": 0.0, "step_rewards": [], "gym_done": True, "error": "no episode is open."}
    assert ended == {"done": True, "rollout_infos": infos}
    assert scheduler.max_concurrent_envs >= 1
    assert dict(scheduler.env_config_defaults) == {}


def test_rows_with_an_address_are_played_on_a_server() -> None:
    scheduler: Any = sudoku.SudokuScheduler()
    wrapper = scheduler._create_env({"base_url": "http://host"})
    assert isinstance(wrapper, OpenEnvWrapper)
    assert wrapper._url == "http://host"
    assert isinstance(scheduler._create_env({"seed": 3}), sudoku.LocalSudoku)


@pytest.mark.parametrize(
    ("given", "sent"),
    [({}, {"seed": 3}), ({"seed": 4}, {"seed": 4}), ({"split": "test", "index": 0}, {"split": "test", "index": 0})],
)
def test_what_a_row_resets_with_goes_before_its_seed(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], sent: dict[str, Any]
) -> None:
    asked: list[Any] = []

    def create(_: Any, entries: dict[str, Any]) -> Server:
        asked.append(entries["reset_kwargs"])
        return Server(board_text((0, 0)))

    monkeypatch.setattr(OpenEnvScheduler, "_create_env", create)
    scheduler: Any = sudoku.SudokuScheduler()
    row = {"base_url": "http://host", "seed": 3, "reset_kwargs": given}
    request = types.SimpleNamespace(uuid="u", messages=[], data_dict={"env_config": row})
    asyncio.run(scheduler.on_trajectory_start([request]))
    assert asked == [sent]
