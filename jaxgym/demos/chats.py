"""Demonstrations as chats, one JSON object on each line, for supervised fine-tuning."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxgym.demos.episodes import BATCH, Demonstration, play
from jaxgym.errors import OptionError
from jaxgym.serve.messages import user_message
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.rollout import ScriptedPolicy
from jaxgym.serve.rollout.scripted import game_of
from jaxgym.text import TextInterface

Row = dict[str, Any]
"""Line of the file: `messages`, `env_config`, `return`, `success` and `text_version`."""


def write_chats(
    path: Path, name: str, options: Mapping[str, Any], seeds: Sequence[int] | np.ndarray, max_steps: int
) -> list[tuple[float, bool]]:
    """Write a chat of the expert for each level seed, and return the return and the success of each.

    Args:
        path: The file; it is replaced at the end.
        name: Id or short name of an environment with a text interface and an expert.
        options: Options of the environment, of its text interface and of sessions.
        seeds: Level seeds, at least one.
        max_steps: Number of turns after which a chat ends.

    Raises:
        UnknownIdError, OptionError, LevelError: If the environment, an option or a seed is invalid.
    """
    if options.get("adapt") is not None:
        raise OptionError(f"adapt: expected None, got {options['adapt']!r}. Write demonstrations with a fixed option.")
    ScriptedPolicy("expert").check(name, options)
    env, params, interface = game_of(name, options)
    played, pool, results = play(env, params, seeds, max_steps), SessionPool(BATCH), list[tuple[float, bool]]()
    pool.prepare(env.env_id, options)
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent) as beside:
        made = Path(beside) / path.name
        with made.open("w", encoding="utf-8") as file:
            for demonstrations in played:
                for row in _chats(pool, interface, options, demonstrations):
                    file.write(f"{json.dumps(row)}\n")
                    results.append((row["return"], row["success"]))
        made.replace(path)
    return results


def _chats(
    pool: SessionPool,
    interface: TextInterface[Any],
    options: Mapping[str, Any],
    demonstrations: Sequence[Demonstration],
) -> list[Row]:
    """Return the rows of episodes that are played again in sessions, which make the texts."""
    openings = pool.open_many(interface.env_id, [one.seed for one in demonstrations], options)
    ids, rows = [opening.id for opening in openings], list[Row]()
    for opening in openings:
        messages = [{"role": "system", "content": opening.system_prompt}, user_message(opening.text, opening.image)]
        config_of_row = {"name": opening.env_id, "seed": opening.seed, **options}
        rows.append({"messages": messages, "env_config": config_of_row, "text_version": opening.text_version})
    actions = [one.actions.tolist() for one in demonstrations]
    playing, turn = list(range(len(rows))), 0
    while playing:
        replies = [
            interface.reply_of(tuple(action) if isinstance(action, list) else action)
            for action in (actions[row][turn] for row in playing)
        ]
        results = pool.step([ids[row] for row in playing], replies)
        still = list[int]()
        for row, reply, result in zip(playing, replies, results, strict=True):
            rows[row]["messages"].append({"role": "assistant", "content": reply})
            rows[row] |= {"return": result.total_reward, "success": result.is_solved}
            if not (result.terminated or result.truncated) and turn + 1 < len(actions[row]):
                rows[row]["messages"].append(user_message(result.text, result.image))
                still.append(row)
        playing, turn = still, turn + 1
    pool.close(ids)
    return rows
