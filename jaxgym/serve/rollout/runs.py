"""Runs: the rows of a dataset are played and saved, and the results are summarized."""

import asyncio
import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxgym import text
from jaxgym.errors import OptionError
from jaxgym.serve.episodes import check_row_options, options_of
from jaxgym.serve.rollout.policies import Request
from jaxgym.serve.rollout.records import Folder, Record
from jaxgym.serve.rollout.rewards import Blend
from jaxgym.serve.rollout.scheduler import Scheduler

Row = dict[str, Any]
"""Columns of a dataset row; `env_config` has the `name`, the `seed` and the options of the environment."""


def rows_of(names: Sequence[str], episodes: int, seed: int = 0, options: Mapping[str, Any] | None = None) -> list[Row]:
    """Return rows that alternate between environments; the k-th row of each has the level seed `seed` + k.

    Raises:
        UnknownIdError: If an environment does not exist or has no text interface.
        OptionError: If there is no environment, or an option is `name` or `seed`.
    """
    if not names:
        raise OptionError("expected at least one environment, got none.")
    check_row_options(options or {})
    env_ids = [text.text_spec_of(name)[0] for name in names]
    pairs = ((seed + number // len(env_ids), env_ids[number % len(env_ids)]) for number in range(episodes))
    return [{"env_config": {"name": env_id, "seed": level, **(options or {})}} for level, env_id in pairs]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file with one JSON object on each line; a column `seed` becomes the seed in `env_config`.

    Raises:
        OptionError: If the file is not UTF-8, or a line is not JSON or has no name.
    """
    try:
        text_of_rows = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: expected UTF-8 text with one JSON object on each line, got other bytes.") from error
    rows: list[Row] = []
    for number, line in enumerate(text_of_rows.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise OptionError(
                f"{path}, line {number}: expected a JSON object, got invalid JSON: {error.msg}."
            ) from error
        played = row.get("env_config") if isinstance(row, dict) else None
        if not isinstance(played, dict) or "name" not in played:
            raise OptionError(f'{path}, line {number}: expected {{"env_config": {{"name": ...}}}}, got no name.')
        if row.get("seed") is not None:
            row["env_config"] = {**played, "seed": row["seed"]}
        rows.append(row)
    return rows


def rollout(
    rows: Sequence[Row],
    scheduler: Scheduler,
    blend: Blend | None = None,
    folder: Folder | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> list[Record]:
    """Play every row that is not yet in the folder, and return all trajectories in the order of the rows.

    Args:
        rows: Rows of a dataset.
        scheduler: The scheduler with its policy.
        blend: Reward of a trajectory; the sum of its episode's rewards if None.
        folder: Folder that saves the trajectories, if any.
        on_record: Called with each trajectory at its end.

    Raises:
        UnknownIdError, OptionError, LevelError: If a row is invalid.
    """
    return asyncio.run(arollout(rows, scheduler, blend, folder, on_record))


async def arollout(
    rows: Sequence[Row],
    scheduler: Scheduler,
    blend: Blend | None = None,
    folder: Folder | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> list[Record]:
    """Play rows as `rollout` does, in a running event loop."""
    blend = Blend() if blend is None else blend
    records = {} if folder is None else dict(folder.records)
    ahead = [index for index in range(len(rows)) if index not in records]
    check(rows, scheduler)
    waiting = iter(ahead)

    async def work() -> None:
        for index in waiting:
            record = await _play(index, rows[index], scheduler, blend)
            records[index] = record
            if folder is not None:
                folder.add(record)
            if on_record is not None:
                on_record(record)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(scheduler.settings.concurrency, len(ahead))):
                workers.create_task(work())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return [records[index] for index in range(len(rows))]


def check(rows: Sequence[Row], scheduler: Scheduler) -> None:
    """Check all rows before any episode starts; raises the errors of `SessionPool.prepare`."""
    seen = set[str]()
    for row in rows:
        entries = row.get("env_config") or {}
        options = options_of(entries)
        key = json.dumps([entries.get("name"), options], sort_keys=True, default=repr)
        if key not in seen:
            seen.add(key)
            scheduler.check(entries)


async def _play(index: int, row: Row, scheduler: Scheduler, blend: Blend) -> Record:
    request = Request(f"row-{index}", [], dict(row))
    infos = await scheduler.run(request)
    others = {name: value for name, value in request.data_dict.items() if name not in ("messages", "env_config")}
    reward, rewards = blend.of(request.messages, infos, others)
    env_config = dict(request.env_config)
    env_id = text.text_spec_of(env_config["name"])[0]
    return {
        "index": index,
        "env": env_id,
        "env_config": env_config,
        **({"columns": others} if others else {}),
        "messages": request.messages,
        "reward": reward,
        "rewards": rewards,
        **infos,
    }


@dataclasses.dataclass(frozen=True)
class Summary:
    """Results of the trajectories of one environment, or of "all". Means are over trajectories without an error.

    A mean is NaN if one of these trajectories lacks the number, for example the numbers of tokens of some endpoints.
    `success` and `max_turns` are shares, `total_reward_error` is the standard error of `total_reward`, and `failures`
    is the number of failed attempts at a reply over all trajectories.
    """

    env: str
    episodes: int
    errors: int
    success: float
    total_reward: float
    total_reward_error: float
    reward: float
    turns: float
    invalid_replies: float
    max_turns: float
    truncated_replies: float
    prompt_tokens: float
    completion_tokens: float
    failures: int


def summaries(records: Iterable[Record]) -> list[Summary]:
    """Return a summary for each environment, and one for all if there are several."""
    by_env: dict[str, list[Record]] = {}
    for record in records:
        by_env.setdefault(record["env"], []).append(record)
    if len(by_env) > 1:
        by_env["all"] = [record for group in by_env.values() for record in group]
    return [_summary(env, group) for env, group in by_env.items()]


def _summary(env: str, records: Sequence[Record]) -> Summary:
    whole = [record for record in records if record["error"] is None]
    returns = [record["total_reward"] for record in whole]
    mean = _mean(returns)
    spread = math.sqrt(sum((value - mean) ** 2 for value in returns) / max(len(returns) - 1, 1))
    return Summary(
        env,
        len(records),
        len(records) - len(whole),
        _mean([float(record["is_solved"]) for record in whole]),
        mean,
        spread / math.sqrt(max(len(returns), 1)),
        _mean([record["reward"] for record in whole]),
        _mean([record["num_turns"] for record in whole]),
        _mean([record["num_invalid_replies"] for record in whole]),
        _mean([float(record["stopped"] == "max_turns") for record in whole]),
        _mean([record.get("num_length") for record in whole]),
        _mean([record.get("prompt_tokens") for record in whole]),
        _mean([record.get("completion_tokens") for record in whole]),
        sum(sum(record.get("failures", {}).values()) for record in records),
    )


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else math.nan
