"""Runs: the rows of a dataset are played, rewarded and saved, and the results are summarized.

The folder of a run has `completions.jsonl`, one trajectory on each line, and `settings.json`. The reward of a
trajectory is a weighted sum of reward functions and the return of the episode.
"""

import asyncio
import dataclasses
import json
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxgym import text
from jaxgym.errors import OptionError, nearest
from jaxgym.serve.episodes import check_row_options, options_of
from jaxgym.serve.rollout.policies import Request
from jaxgym.serve.rollout.scheduler import Scheduler

COMPLETIONS, SETTINGS = "completions.jsonl", "settings.json"

Record = dict[str, Any]


class Folder:
    """Folder of a run that can be continued; `records` are its trajectories without an error, by row index."""

    def __init__(self, path: Path, settings: Mapping[str, Any]):
        """Open or create a folder; drop incomplete lines and failed trajectories.

        Args:
            path: The folder.
            settings: Settings that determine the trajectories, in JSON.

        Raises:
            OptionError: If the folder is of a run with other settings, or its settings file is invalid.
            OSError: If it can't be written.
        """
        self.path = path
        plain = json.loads(json.dumps(settings))
        known = path / SETTINGS
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not known.exists():
                _write(known, json.dumps(plain, indent=1) + "\n")
        except OSError as error:
            raise OSError(f"can't write to {path}: {error.strerror}. Use another folder.") from error
        try:
            before = json.loads(known.read_text())
        except ValueError as error:
            raise OptionError(f"{known}: expected JSON, got {error}. Use another folder.") from error
        differs = _difference("", before, plain)
        if differs is not None:
            name, before, after = differs
            raise OptionError(
                f"{path}: expected {name}={reprlib.repr(before)} as in the run of this folder, got "
                f"{reprlib.repr(after)}. Use the same settings to continue the run, or another --out folder."
            )
        self.records: dict[int, Record] = {}
        self._file = path / COMPLETIONS
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                record = _record_of(line)
                if record is not None and record["error"] is None:
                    self.records[record["index"]] = record
            _write(self._file, "".join(json.dumps(record) + "\n" for record in self.records.values()))

    def add(self, record: Record) -> None:
        """Append a trajectory."""
        with self._file.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.records[record["index"]] = record


def _difference(name: str, before: Any, after: Any) -> tuple[str, Any, Any] | None:
    """Return the path of the first difference of two JSON values, and both values there; None if they are equal."""
    if before == after:
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        places = sorted({*before, *after})
        pairs = [(f"{name}[{place!r}]" if name else place, before.get(place), after.get(place)) for place in places]
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            return f"number of {name}", len(before), len(after)
        pairs = [(f"{name}[{place}]", *pair) for place, pair in enumerate(zip(before, after, strict=True))]
    else:
        return name or "settings", before, after
    return next((found for pair in pairs if (found := _difference(*pair)) is not None), (name, before, after))


def _record_of(line: str) -> Record | None:
    """Return the trajectory of a line, or None if the line is incomplete."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return None
    return record if isinstance(record, dict) and {"index", "error"} <= record.keys() else None


def _write(path: Path, content: str) -> None:
    """Write a file atomically."""
    beside = path.with_suffix(".partial")
    beside.write_text(content)
    beside.replace(path)


GYM = "gym"
"""Name of the column with the sum of an episode's rewards, the last column."""

RewardFunction = Callable[..., Sequence[float]]
"""Function with the signature of ms-swift's: it takes `completions`, the last replies, and every column of the rows as
a keyword argument, including `messages` and `rollout_infos`. All arguments are lists; it returns a number for each
trajectory."""

_CONCISE, _WORDY = 400, 4000


def format_reward(completions: Sequence[str], rollout_infos: Sequence[Mapping[str, Any]], **_: Any) -> list[float]:
    """Return the share of replies in the form of the prompt, from 0 to 1; 0 without a reply."""
    del completions
    return [infos["num_exact"] / infos["num_turns"] if infos["num_turns"] else 0.0 for infos in rollout_infos]


def length_reward(completions: Sequence[str], messages: Sequence[Sequence[Mapping[str, Any]]], **_: Any) -> list[float]:
    """Return 1 for a mean reply length of at most 400 characters, falling linearly to 0 at 4000, or without a reply."""
    del completions
    rewards = []
    for chat in messages:
        lengths = [len(message["content"]) for message in chat if message["role"] == "assistant"]
        mean = sum(lengths) / len(lengths) if lengths else _WORDY
        rewards.append(min(max((_WORDY - mean) / (_WORDY - _CONCISE), 0.0), 1.0))
    return rewards


BUILT_IN: Mapping[str, RewardFunction] = {"format": format_reward, "length": length_reward}
"""Reward functions by name."""


class Blend:
    """Weighted sum of reward functions and the gym column, the last of `columns`."""

    def __init__(self, functions: Sequence[str | RewardFunction] = (), weights: Sequence[float] | None = None):
        """Make a weighted sum of functions or names of `BUILT_IN`; the weights are 1 if None.

        Raises:
            OptionError: If a name is unknown or used twice, or the weights are not one finite number for each column.
        """
        named: dict[str, RewardFunction] = {}
        for function in functions:
            if isinstance(function, str) and function not in BUILT_IN:
                known = ", ".join(BUILT_IN)
                raise OptionError(f"Unknown reward {function!r}{nearest(function, BUILT_IN)}. Use one of {known}.")
            name = function if isinstance(function, str) else getattr(function, "__name__", type(function).__name__)
            if name in named or name == GYM:
                raise OptionError(f"expected reward functions with different names, got {name!r} twice.")
            named[name] = BUILT_IN[function] if isinstance(function, str) else function
        self._functions = named
        self.columns = (*named, GYM)
        self.weights = tuple(weights) if weights is not None else (1.0,) * len(self.columns)
        if len(self.weights) != len(self.columns):
            raise OptionError(
                f"reward_weights: expected {len(self.columns)} numbers ({', '.join(self.columns)}), "
                f"got {len(self.weights)}."
            )
        if not all(map(math.isfinite, self.weights)):
            raise OptionError(f"reward_weights: expected finite numbers, got {list(self.weights)}.")

    def of(
        self, chat: Sequence[Mapping[str, Any]], infos: Mapping[str, Any], row: Mapping[str, Any]
    ) -> tuple[float, dict[str, float]]:
        """Return the reward of a trajectory and its columns; raise `OptionError` unless each one is a number."""
        said = [message["content"] for message in chat if message["role"] == "assistant"]
        columns = {name: [value] for name, value in row.items()} | {"messages": [chat], "rollout_infos": [infos]}
        rewards: dict[str, float] = {}
        for name, function in self._functions.items():
            given = list(function([said[-1] if said else ""], **columns))
            if len(given) != 1:
                raise OptionError(f"{name}: expected one reward for one trajectory, got {len(given)}.")
            rewards[name] = float(given[0])
        rewards[GYM] = float(infos["total_reward"])
        return sum(weight * rewards[name] for name, weight in zip(self.columns, self.weights, strict=True)), rewards


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
