"""Rollouts, on the corridor of `tests.serve.corridor` (seed 3 starts at cell 4 of `.......G`) and on Frozen Lake."""

import asyncio
import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from jaxgym import cli
from jaxgym.errors import OptionError, UnknownIdError
from jaxgym.serve import episodes
from jaxgym.serve import rollout as rollouts
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.rollout import command, policies, runs
from tests.serve import chat_server, corridor

QUICK = rollouts.RolloutSettings(retries=2, backoff_seconds=0.0, turn_seconds=5.0)
RIGHT = "<right>"


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_pools", [made])
        yield made
    assert len(made) == 0, "a trajectory left its session open"


class Says(rollouts.Policy):
    """Model that replies with a function of the request."""

    def __init__(self, function: Callable[[rollouts.Request], Any]):
        self.function, self.asked = function, 0

    async def reply(self, request: rollouts.Request) -> rollouts.Choice:
        self.asked += 1
        said = self.function(request)
        return rollouts.Choice(rollouts.Message(await said if asyncio.iscoroutine(said) else said))


def row(seed: int = 3, name: str = "corridor", **options: Any) -> runs.Row:
    return {"env_config": {"name": name, "seed": seed, **options}}


def play(
    rows: Sequence[runs.Row],
    policy: rollouts.Policy | Callable[[rollouts.Request], Any],
    settings: rollouts.RolloutSettings = QUICK,
    **others: Any,
) -> list[dict[str, Any]]:
    policy = policy if isinstance(policy, rollouts.Policy) else Says(policy)
    return rollouts.rollout(rows, rollouts.Scheduler(policy, settings), **others)


# Trajectories.


def test_a_record_has_the_whole_chat_and_what_came_of_it() -> None:
    replies = iter(["<left>", "jump", "right", "<right right right>"])
    record = play([{**row(bonus=2.0, invalid_reply_penalty=0.5, clues=None), "tag": "a"}], lambda _: next(replies))[0]
    assert [message["role"] for message in record["messages"]] == [
        "system",
        "user",
        *["assistant", "user"] * 3,
        "assistant",
    ]
    assert record["messages"][1]["content"] == "....A..."
    assert record["messages"][3]["content"] == "1: ...A...."
    assert record["env"] == "Corridor-v0"
    assert record["env_config"] == {"name": "corridor", "seed": 3, "bonus": 2.0, "invalid_reply_penalty": 0.5}
    assert record["columns"] == {"tag": "a"}
    assert record["text_version"] == 1
    assert record["step_rewards"] == [0.0, -0.5, 0.0, 2.0]
    assert record["total_reward"] == record["reward"] == 1.5
    assert record["components"] == {"environment": 2.0, "invalid_reply_penalty": -0.5}
    counts = {
        name: record[name]
        for name in ("num_turns", "num_invalid_replies", "num_exact", "is_solved", "stopped", "error")
    }
    assert counts == {
        "num_turns": 4,
        "num_invalid_replies": 1,
        "num_exact": 2,
        "is_solved": True,
        "stopped": "done",
        "error": None,
    }
    assert json.loads(json.dumps(record)) == record


def test_max_turns_cuts_a_trajectory() -> None:
    record = play([row()], lambda _: "<stay>", rollouts.RolloutSettings(max_turns=3))[0]
    assert (record["num_turns"], record["stopped"], record["truncated"]) == (3, "max_turns", False)
    assert record["messages"][-1] == {"role": "assistant", "content": "<stay>"}


def test_rows_of_several_games_are_played_together_and_records_keep_their_order() -> None:
    rows = [row(seed, name) for seed in range(3) for name in ("corridor", "FrozenLake-v0")]
    policy = rollouts.ScriptedPolicy("random", seed=1)
    with pytest.raises(OptionError, match="does not define reply_of"):
        play(rows, policy)
    records = play(
        rows,
        lambda request: RIGHT if request.env_config["name"] == "corridor" else "down",
        rollouts.RolloutSettings(max_turns=4),
    )
    assert [(record["env"], record["env_config"]["seed"]) for record in records] == [
        (env_id, seed) for seed in range(3) for env_id in ("Corridor-v0", "FrozenLake-v0")
    ]
    assert [summary.env for summary in rollouts.summaries(records)] == ["Corridor-v0", "FrozenLake-v0", "all"]


def test_no_more_trajectories_run_at_a_time_than_allowed() -> None:
    going, most = set[str](), 0

    async def wait(request: rollouts.Request) -> str:
        nonlocal most
        going.add(request.uuid)
        most = max(most, len(going))
        await asyncio.sleep(0.001)
        going.discard(request.uuid)
        return RIGHT

    play([row(seed) for seed in range(9)], wait, rollouts.RolloutSettings(concurrency=3, max_turns=2))
    assert most == 3


def test_a_seed_that_is_left_out_is_drawn_and_told() -> None:
    records = play(
        [{"env_config": {"name": "corridor", "seed": None}}] * 2,
        lambda _: "<right right right>",
        rollouts.RolloutSettings(max_turns=1),
    )
    seeds = [record["env_config"]["seed"] for record in records]
    assert all(isinstance(seed, int) for seed in seeds)
    assert seeds[0] != seeds[1]


@pytest.mark.parametrize(
    ("config", "error", "says"),
    [
        ({"name": "corridors"}, UnknownIdError, "did you mean"),
        ({}, UnknownIdError, "Unknown text environment"),
        ({"name": "corridor", "bonsu": 1}, OptionError, "did you mean 'bonus'"),
    ],
)
def test_a_row_that_cannot_be_played_is_rejected_before_any_is(config: Any, error: type[Exception], says: str) -> None:
    policy = Says(lambda _: RIGHT)
    with pytest.raises(error, match=says):
        play([row(), {"env_config": config}], policy)
    assert policy.asked == 0


def test_a_wrong_seed_costs_its_own_trajectory() -> None:
    records = play([row(), {"env_config": {"name": "corridor", "seed": -1}}], lambda _: "<right right right>")
    assert records[0]["error"] is None
    assert "seed: expected an integer from 0 to 4294967295, or None, got -1." in records[1]["error"]


def test_a_subclass_may_change_every_hook() -> None:
    class Short(rollouts.Scheduler):
        async def on_turn_end(
            self, request: rollouts.Request, choice: rollouts.Choice, current_turn: int
        ) -> dict[str, Any]:
            ended = await super().on_turn_end(request, choice, current_turn)
            return {**ended, "rollout_infos": {**ended["rollout_infos"], "note": choice.message.content}}

        def step(self, request: rollouts.Request, choice: rollouts.Choice, current_turn: int) -> dict[str, Any]:
            stepped = super().step(request, choice, current_turn)
            request.messages[-1]["content"] += " Think!"
            return stepped

        def check_finished(self, request: rollouts.Request, choice: rollouts.Choice, current_turn: int) -> bool:
            del request
            return choice.finish_reason == "stop" and current_turn == 2

    record = rollouts.rollout([row()], Short(Says(lambda _: "<stay>"), QUICK))[0]
    assert record["num_turns"] == 2
    assert record["note"] == "<stay>"
    assert record["messages"][3]["content"] == "1: ....A... Think!"


@pytest.mark.parametrize(
    "settings",
    [
        {"max_turns": 0},
        {"concurrency": 0},
        {"retries": -1},
        {"turn_seconds": 0.0},
        {"turn_seconds": math.nan},
        {"backoff_seconds": math.nan},
    ],
)
def test_terms_that_cannot_be_kept_are_rejected(settings: Any) -> None:
    with pytest.raises(OptionError, match=r"expected .* got "):
        rollouts.RolloutSettings(**settings)


def test_without_a_limit_given_every_trajectory_ends() -> None:
    most = rollouts.RolloutSettings().max_turns
    record = play([row()], lambda _: "what?", dataclasses.replace(QUICK, max_turns=most))[0]
    assert (record["stopped"], record["num_turns"]) == ("max_turns", 512)
    assert cli.Rollout().max_turns == most


# Policies that fail.


def test_a_policy_that_fails_is_asked_again_and_one_that_never_answers_costs_its_trajectory() -> None:
    asked: dict[int, int] = {}

    def answer(request: rollouts.Request) -> str:
        seed = request.env_config["seed"]
        asked[seed] = asked.get(seed, 0) + 1
        if seed == 0 or asked[seed] == 1:
            raise RuntimeError("no luck")
        return "<right right right>"

    records = play([row(0), row(3)], answer)
    assert records[0]["error"] == "the policy raised RuntimeError: no luck"
    assert (records[0]["stopped"], records[0]["num_turns"], records[0]["total_reward"]) == ("error", 0, 0.0)
    assert records[1]["error"] is None
    assert asked == {0: 3, 3: 2}


def test_a_final_failure_is_not_tried_again() -> None:
    def reject(_: rollouts.Request) -> str:
        raise rollouts.PolicyError("never", is_final=True)

    policy = Says(reject)
    assert play([row()], policy)[0]["error"] == "never"
    assert policy.asked == 1


def test_a_policy_that_stalls_is_left_after_a_while() -> None:
    settings = rollouts.RolloutSettings(turn_seconds=0.02, retries=1, backoff_seconds=0.0)
    records = play([row(), row()], lambda _: asyncio.sleep(30.0, RIGHT), settings)
    assert [record["error"] for record in records] == ["no reply within 0.02 s."] * 2


def test_waiting_times_double(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("jaxgym.serve.rollout.scheduler.asyncio.sleep", sleep)

    def fail(_: rollouts.Request) -> str:
        raise rollouts.PolicyError("busy")

    play([row()], fail, rollouts.RolloutSettings(retries=3, backoff_seconds=0.5))
    assert waits == [0.5, 1.0, 2.0]


# Functions over batches.


def test_chats_that_wait_make_one_batch() -> None:
    sizes: list[int] = []

    def function(chats: list[Any]) -> list[str]:
        sizes.append(len(chats))
        return ["<right right right>" if chat[1]["content"] == "....A..." else "<stay>" for chat in chats]

    records = play(
        [row(seed) for seed in range(8)],
        rollouts.BatchPolicy(function, max_batch=5),
        rollouts.RolloutSettings(max_turns=1),
    )
    assert sum(sizes) == 8
    assert max(sizes) <= 5
    assert len(sizes) < 8
    assert [record["is_solved"] for record in records] == [
        record["messages"][1]["content"] == "....A..." for record in records
    ]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda chats: [RIGHT] * (len(chats) + 1), "expected 1 replies from the function, got 2"),
        (lambda chats: [7 for _ in chats], "expected a string or a Choice from the function, got 7"),
        (lambda chats: chats[0]["no"], "the function raised TypeError"),
    ],
)
def test_a_function_that_gives_nonsense_costs_its_trajectories(function: Any, says: str) -> None:
    assert says in play([row()], rollouts.BatchPolicy(function))[0]["error"]


# Scripted policies.


def test_the_expert_solves_what_it_plays() -> None:
    records = play(rollouts.rows_of(["frozen_lake"], 6), rollouts.ScriptedPolicy("expert"))
    assert [record["is_solved"] for record in records] == [True] * 6
    summary = rollouts.summaries(records)[0]
    assert (summary.success, summary.total_reward, summary.invalid_replies, summary.errors) == (1.0, 1.0, 0.0, 0)


def test_the_random_policy_plays_the_same_again() -> None:
    rows = rollouts.rows_of(["frozen_lake"], 4)
    settings = rollouts.RolloutSettings(max_turns=6)
    first, again, other = (play(rows, rollouts.ScriptedPolicy("random", seed), settings) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_game_without_an_expert_is_rejected() -> None:
    with pytest.raises(OptionError, match="Corridor-v0 has no expert"):
        play([row()], rollouts.ScriptedPolicy("expert"))


# Rewards.


def shout(completions: Sequence[str], tag: Sequence[str], **_: Any) -> list[float]:
    return [float(text == said) for text, said in zip(completions, tag, strict=True)]


def test_rewards_blend_by_weight_with_the_gym_column_last() -> None:
    blend = rollouts.Blend(["format", "length", shout], [1.0, 0.5, 0.25, 10.0])
    assert blend.columns == ("format", "length", "shout", "gym")
    replies = iter(["stay", "<right right right>"])
    record = play([{**row(), "tag": "<right right right>"}], lambda _: next(replies), blend=blend)[0]
    assert record["rewards"] == {"format": 0.5, "length": 1.0, "shout": 1.0, "gym": 1.0}
    assert record["reward"] == 0.5 + 0.5 + 0.25 + 10.0


def test_long_replies_are_worth_less() -> None:
    def worth(length: int) -> float:
        chat: list[Mapping[str, Any]] = [{"role": "assistant", "content": "x" * length}]
        return rollouts.BUILT_IN["length"]([""], messages=[chat])[0]

    assert [worth(length) for length in (0, 400, 2200, 4000, 9000)] == [1.0, 1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("functions", "weights", "says"),
    [
        (["format"], [1.0], r"reward_weights: expected 2 numbers \(format, gym\), got 1"),
        ([], [1.0, 2.0], r"reward_weights: expected 1 numbers \(gym\), got 2"),
        (["fromat"], None, "did you mean 'format'"),
        (["format", "format"], None, "different names, got 'format' twice"),
        (["format"], [1.0, math.nan], r"reward_weights: expected finite numbers, got \[1.0, nan\]"),
    ],
)
def test_rewards_that_do_not_fit_are_rejected(functions: Any, weights: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        rollouts.Blend(functions, weights)


def test_a_reward_function_gives_one_number_for_each_trajectory() -> None:
    with pytest.raises(OptionError, match="expected one reward for one trajectory, got 2"):
        play([row()], lambda _: "<right right right>", blend=rollouts.Blend([lambda *_, **__: [1.0, 2.0]]))


# Folders.


def test_a_killed_run_goes_on_from_what_is_on_disk(tmp_path: Path) -> None:
    rows = [row(seed) for seed in range(4)]
    settings = rollouts.RolloutSettings(max_turns=2, retries=0)

    def some(request: rollouts.Request) -> str:
        if request.env_config["seed"] == 2:
            raise rollouts.PolicyError("down")
        return RIGHT

    play(rows[:3], some, settings, folder=rollouts.Folder(tmp_path, {"a": 1}))
    file = tmp_path / "completions.jsonl"
    assert len(file.read_text().splitlines()) == 3
    file.write_text(file.read_text() + '{"index": 3, "err')
    policy = Says(lambda _: RIGHT)
    folder = rollouts.Folder(tmp_path, {"a": 1})
    assert sorted(folder.records) == [0, 1]
    records = play(rows, policy, settings, folder=folder)
    assert policy.asked <= 4
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(line["index"] for line in lines) == [0, 1, 2, 3]
    assert sorted(lines, key=lambda line: line["index"]) == records
    assert records == play(rows, lambda _: RIGHT, settings)


def test_a_folder_of_another_run_is_rejected(tmp_path: Path) -> None:
    rollouts.Folder(tmp_path, {"seed": 1, "rows": [1]})
    with pytest.raises(OptionError, match="expected seed=1 as in the run of this folder, got 2"):
        rollouts.Folder(tmp_path, {"seed": 2, "rows": [1]})
    with pytest.raises(
        OptionError, match=r"expected number of rows=1 as in the run of this folder, got 2\. Use the same settings"
    ):
        rollouts.Folder(tmp_path, {"seed": 1, "rows": [1, 2]})
    with pytest.raises(
        OptionError, match=r"expected rows\[0\]=1 as in the run of this folder, got 'xxx.{,40}\. Use the same"
    ):
        rollouts.Folder(tmp_path, {"seed": 1, "rows": ["x" * 1000]})
    with pytest.raises(OptionError, match="expected tag=None as in the run of this folder, got 1"):
        rollouts.Folder(tmp_path, {"seed": 1, "rows": [1], "tag": 1})
    (tmp_path / "settings.json").write_text("")
    with pytest.raises(OptionError, match=r"settings.json: expected JSON, got .*\. Use another folder"):
        rollouts.Folder(tmp_path, {"seed": 1, "rows": [1]})


def test_a_folder_that_can_not_be_made_is_told_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path, why in ((file, "File exists"), (file / "folder", "Not a directory")):
        with pytest.raises(OSError, match=f"can't write to {path}: {why}. Use another folder"):
            rollouts.Folder(path, {})


def test_a_run_that_is_rejected_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="did you mean 'size'"):
        cli.run(["rollout", "--env", "frozen_lake", "siz=4", "--model", "random", "--out", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


def test_rows_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row()) + "\n\n" + json.dumps({**row(), "tag": 1}) + "\n")
    assert runs.read_rows(file) == [row(), {**row(), "tag": 1}]
    file.write_text(json.dumps({**row(), "tag": "a\u2028b"}, ensure_ascii=False), encoding="utf-8")
    assert runs.read_rows(file) == [{**row(), "tag": "a\u2028b"}]
    nameless = ("{}", "[]", '{"env_config": "name"}')
    for line, says in (("\n{", "line 2: expected a JSON object"), *((line, "got no name") for line in nameless)):
        file.write_text(line)
        with pytest.raises(OptionError, match=says):
            runs.read_rows(file)
    file.write_bytes(b"\xff")
    with pytest.raises(OptionError, match="expected UTF-8 text"):
        runs.read_rows(file)


def test_a_column_seed_is_the_level_seed_as_in_the_trainers(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    lines = [{"env_config": {"name": "frozen_lake", **seed}, **column} for seed, column in SEEDS]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert [read["env_config"].get("seed") for read in runs.read_rows(file)] == [7, 7, 3, 3, None]


SEEDS = (({}, {"seed": 7}), ({"seed": 3}, {"seed": 7}), ({"seed": 3}, {"seed": None}), ({"seed": 3}, {}), ({}, {}))
"""Seeds in `env_config` and in the column, of which the column counts."""


# Endpoints.


def test_an_endpoint_is_asked_with_the_whole_chat() -> None:
    bodies: list[Any] = []

    def answer(body: Any) -> str:
        bodies.append(body)
        return "<stay>" if len(bodies) == 1 else "<right right right>"

    with chat_server.serving(answer) as url:
        record = play([row()], rollouts.EndpointPolicy(url, sampling={"temperature": 0.5}))[0]
    assert record["is_solved"]
    assert [body["model"] for body in bodies] == ["tiny", "tiny"]
    assert bodies[0]["temperature"] == 0.5
    assert bodies[1]["messages"] == record["messages"][:-1]


def test_an_endpoint_that_fails_in_every_way_costs_attempts_only() -> None:
    failures = iter([503, b"<html>", b"{}", 429, b'{"choices": []}', b'{"choices": [{"message": null}]}'])

    def answer(_: Any) -> Any:
        return next(failures, "<right right right>")

    with chat_server.serving(answer) as url:
        record = play(
            [row()], rollouts.EndpointPolicy(url, "m"), rollouts.RolloutSettings(retries=6, backoff_seconds=0.0)
        )[0]
    assert (record["error"], record["is_solved"]) == (None, True)
    assert sum(record["failures"].values()) == 6
    assert all("expected a completion" in reason for reason in record["failures"])
    assert rollouts.summaries([record])[0].failures == 6


USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}


@pytest.mark.parametrize(
    "said",
    [
        chat_server.completion(None, "length", usage=USAGE),
        chat_server.completion("", "length", usage=USAGE),
        chat_server.completion("  \n", "stop", usage=USAGE),
        chat_server.completion([], "content_filter", usage=USAGE),
        chat_server.completion([{"type": "thinking", "thinking": "<stay>"}], "length", usage=USAGE),
        {"choices": [{"finish_reason": "length", "message": {"role": "assistant"}}], "usage": USAGE},
    ],
)
def test_a_completion_without_text_is_an_invalid_turn_that_counts(said: Any) -> None:
    win = chat_server.completion([{"type": "text", "text": "<right right right>"}], usage=USAGE)
    answers = iter([said, said, win])
    with chat_server.serving(lambda _: next(answers)) as url:
        record = play([row(invalid_reply_penalty=0.5)], rollouts.EndpointPolicy(url, "m"))[0]
    assert (record["error"], record["failures"]) == (None, {})
    assert (record["num_turns"], record["num_invalid_replies"], record["num_empty"]) == (3, 2, 2)
    assert record["step_rewards"] == [-0.5, -0.5, 1.0]
    reason = said["choices"][0]["finish_reason"]
    assert record["turns"] == [
        {"finish_reason": why, "prompt_tokens": 20, "completion_tokens": 5} for why in (reason, reason, "stop")
    ]
    assert record["num_length"] == 2 * (reason == "length")
    assert (record["prompt_tokens"], record["completion_tokens"]) == (60, 15)
    summary = rollouts.summaries([record, record])[0]
    assert (summary.episodes, summary.turns, summary.invalid_replies) == (2, 3.0, 2.0)
    assert (summary.prompt_tokens, summary.completion_tokens) == (60.0, 15.0)
    assert summary.truncated_replies == record["num_length"]


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": "20", "completion_tokens": True}])
def test_tokens_that_an_endpoint_does_not_give_are_unknown_and_not_zero(usage: Any) -> None:
    known = chat_server.completion("<stay>", usage=USAGE)
    unknown = chat_server.completion("<right right right>", usage=usage)
    answers = iter([known, unknown, chat_server.completion("<right right right>", usage=USAGE)])
    with chat_server.serving(lambda _: next(answers)) as url:
        policy = rollouts.EndpointPolicy(url, "m")
        records = play([row(), row()], policy, dataclasses.replace(QUICK, concurrency=1))
    assert [record["completion_tokens"] for record in records] == [None, 5]
    assert [record["prompt_tokens"] for record in records] == [None, 20]
    summary = rollouts.summaries(records)[0]
    assert math.isnan(summary.completion_tokens)
    assert command.lines_of(summary)[-3:] == ("-", "-", "0")


def test_a_policy_without_a_reply_has_an_invalid_turn() -> None:
    record = play(
        [row()], rollouts.BatchPolicy(lambda chats: [None for _ in chats]), rollouts.RolloutSettings(max_turns=2)
    )[0]
    assert (record["error"], record["num_turns"], record["num_invalid_replies"], record["num_empty"]) == (None, 2, 2, 2)
    record = play([row()], lambda _: None, rollouts.RolloutSettings(max_turns=2))[0]
    assert (record["error"], record["num_turns"], record["num_invalid_replies"], record["num_empty"]) == (None, 2, 2, 2)


def test_every_episode_of_a_summary_is_in_the_means_or_counted_as_an_error() -> None:
    def answer(request: rollouts.Request) -> str:
        seed = request.env_config["seed"]
        if seed == 0 or (seed == 1 and len(request.messages) > 4):
            raise rollouts.PolicyError("down", is_final=True)
        return "<stay>" if seed == 2 else "<right right right right right right>"

    settings = dataclasses.replace(QUICK, max_turns=3)
    records = play([row(0), row(1, length=8), row(2), row(3)], answer, settings)
    assert [record["stopped"] for record in records][2:] == ["max_turns", "done"]
    assert [record["error"] for record in records[:1]] == ["down"]
    summary = rollouts.summaries(records)[0]
    assert summary.episodes == 4
    whole = [record for record in records if record["error"] is None]
    assert summary.errors == 4 - len(whole)
    assert summary.failures == summary.errors
    assert summary.max_turns == sum(record["stopped"] == "max_turns" for record in whole) / len(whole)
    assert summary.success == sum(record["is_solved"] for record in whole) / len(whole)
    assert summary.turns == sum(len(record["turns"]) for record in whole) / len(whole)


def test_an_episode_without_a_turn_earns_no_reward_for_the_form_of_its_replies() -> None:
    def fail(_: rollouts.Request) -> str:
        raise rollouts.PolicyError("down", is_final=True)

    record = play([row()], fail, blend=rollouts.Blend(["format", "length"]))[0]
    assert record["rewards"] == {"format": 0.0, "length": 0.0, "gym": 0.0}


@pytest.mark.parametrize(
    ("tokens", "reason", "count"),
    [([5, 6, 2, 0, 0], "stop", 3), ([5, 6, 7], "length", 3), ([2, 2], "stop", 1), ([], "length", 0)],
)
def test_a_local_model_counts_tokens_up_to_its_end_token(tokens: list[int], reason: str, count: int) -> None:
    choice = policies.choice_of("up", tokens, 9, {2, 3})
    assert (choice.finish_reason, choice.prompt_tokens, choice.completion_tokens) == (reason, 9, count)


@pytest.mark.parametrize(
    ("said", "attempts", "says"),
    [
        (400, 1, "got status 400"),
        (500, 3, "got status 500"),
        (0.3, 3, "expected a completion of OpenAI's chat API, got APITimeoutError"),
        (401, 1, "Set the environment variable OPENAI_API_KEY"),
        (404, 1, "Check the URL, which ends in /v1 on most servers, and --model-name"),
        (b"nonsense", 3, "expected a completion of OpenAI's chat API, got JSONDecodeError"),
    ],
)
def test_what_an_endpoint_did_is_told(said: Any, attempts: int, says: str) -> None:
    asked: list[Any] = []

    def answer(body: Any) -> Any:
        asked.append(body)
        return said

    with chat_server.serving(answer) as url:
        patience = 0.1 if isinstance(said, float) else 60.0
        record = play([row()], rollouts.EndpointPolicy(url, "m", timeout_seconds=patience))[0]
    assert says in record["error"]
    assert len(asked) == attempts


def test_an_endpoint_that_is_not_there_is_told() -> None:
    record = play([row()], rollouts.EndpointPolicy("http://127.0.0.1:9/v1", "m"))[0]
    assert "got APIConnectionError: Connection error" in record["error"]
    assert record["error"].endswith("and that the server is running.")
    assert sum(record["failures"].values()) == 1


def test_a_lost_endpoint_is_tried_again() -> None:
    async def failure_after_a_reply() -> rollouts.PolicyError:
        request = rollouts.Request("0", [{"role": "user", "content": "?"}], {})
        with chat_server.serving(lambda _: "up") as url:
            policy = rollouts.EndpointPolicy(url, "m")
            await policy.reply(request)
        with pytest.raises(rollouts.PolicyError) as failure:
            await policy.reply(request)
        return failure.value

    assert not asyncio.run(failure_after_a_reply()).is_final


def test_rows_of_games_take_no_name_and_no_seed() -> None:
    for entry, value in (("seed", 3), ("name", "sudoku")):
        with pytest.raises(OptionError, match=f"expected an option, got '{entry}'. Each row has its own {entry}"):
            rollouts.rows_of(["frozen_lake"], 4, options={entry: value})


# The command.


def test_the_command_plays_and_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "rollout",
        "--env",
        "FrozenLake-v0",
        "size=4",
        "--model",
        "expert",
        "--episodes",
        "5",
        "--out",
        str(tmp_path),
    ]
    printed = cli.run([*argv, "--reward-funcs", "format", "--reward-weights", "0.5", "1"])
    header, _, cells = (line.split() for line in printed.splitlines())
    assert header[:4] == ["game", "episodes", "errors", "success"]
    assert cells[:4] == ["FrozenLake-v0", "5", "0", "100.0%"]
    assert rollouts.Folder(tmp_path, json.loads((tmp_path / "settings.json").read_text())).records[4]["env_config"] == {
        "name": "FrozenLake-v0",
        "seed": 4,
        "size": 4,
    }
    assert "5/5" in capsys.readouterr().err
    assert len((tmp_path / "completions.jsonl").read_text().splitlines()) == 5
    assert cli.run([*argv, "--reward-funcs", "format", "--reward-weights", "0.5", "1"]) == printed
    with pytest.raises(OptionError, match=r"expected rewards\['format'\]=0.5 as in the run of this folder, got None"):
        cli.run(argv)


def test_the_first_rows_of_a_file_are_played_as_many_as_are_asked_for(tmp_path: Path) -> None:
    rows = [{"env_config": {"name": "corridor", "seed": seed}} for seed in (5, 6, 7)]
    dataset = tmp_path / "rows.jsonl"
    dataset.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert command.rows_for([], None, 0, {}, dataset) == rows
    assert command.rows_for([], 2, 0, {}, dataset) == rows[:2]
    assert len(command.rows_for(["corridor"], None, 0, {}, None)) == command.EPISODES == 128


def test_the_command_tells_of_errors_and_fails_where_nothing_was_played(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        chat_server.serving(lambda _: 404) as url,
        pytest.raises(cli.FailureError, match="every episode failed"),
    ):
        cli.run(["rollout", "--env", "corridor", "--model", url, "--episodes", "3"])
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].split() == ["Corridor-v0", "3", "3", *["-"] * 9, "3"]
    assert "\nErrors:\n3 x " in printed
    assert "got status 404" in printed


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--env", "frozen_lake"], "expected exactly one of --model and --hf"),
        (["--env", "frozen_lake", "--model", "expert", "--hf", "folder"], "expected exactly one of --model and --hf"),
        (["--env", "frozen_lake", "--model", "gpt"], "a URL with http://"),
        (["--model", "expert"], "expected environments with --env"),
        (["--env", "frozen_lakes", "--model", "expert"], "did you mean"),
        (
            ["--env", "frozen_lake", "--model", "expert", "--episodes", "0"],
            "--episodes: expected an integer of at least 1, got 0",
        ),
        (["--env", "frozen_lake", "--model", "expert", "--reward-weights", "1", "2"], "reward_weights: expected 1"),
        (
            ["--env", "frozen_lake", "--model", "expert", "--seed", str(2**32 - 2), "--episodes", "3"],
            "expected level seeds up to 4294967295, got 4294967296 for 3 episodes from --seed 4294967294. Use a lower",
        ),
        (["--rows", os.devnull, "--model", "expert"], f"{os.devnull}: expected at least 1 rows, got 0."),
        (["--rows", os.devnull, "--model", "expert", "--episodes", "2"], "expected at least 2 rows, got 0."),
        (
            ["--rows", os.devnull, "--model", "expert", "--env", "size=8"],
            "expected no options with --rows, got size. Put options into",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(
    argv: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["jaxgym", "rollout", *argv])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert exit_info.value.code == cli.MISUSED
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_local_model_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'^missing packages: .* pip install torch transformers "jaxgym\[rollout\]"$'):
        policies.local_model(Path("folder"))


def test_an_endpoint_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r'^missing packages: openai\. .*: pip install "jaxgym\[rollout\]"$'):
        rollouts.EndpointPolicy("http://host/v1")


def test_a_summary_of_failures_has_no_means() -> None:
    summary = rollouts.summaries([{"env": "a", "error": "down"}])[0]
    assert (summary.episodes, summary.errors) == (1, 1)
    assert math.isnan(summary.total_reward)
