"""Suite of an evaluation: tasks, their difficulties, and the held-out levels of each difficulty.

    task  ->  difficulties 1, 2, ...  ->  id, options and level seeds  ->  one row for each episode

The levels of a suite version never change. A change of the tasks, difficulties, options or seeds, or of the levels that
an environment makes from a seed, increases `SUITE_VERSION`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxgym import levels, text
from jaxgym.errors import OptionError, nearest
from jaxgym.serve.rollout.runs import Row

SUITE_VERSION = 1

MOST_EPISODES = 1 << 10
"""Maximum number of episodes of a difficulty."""

_SMALL_SEQUENCE, _LARGE_SEQUENCE = 10, 20  # sizes of the command arrays, each with one compiled program
_REWARD = 0.1  # of a command
_SCANNED = 4096  # seeds whose paths are measured at a time


@dataclasses.dataclass(frozen=True)
class Difficulty:
    """Difficulty of a task.

    Attributes:
        number: Number of items to remember, or the rank among the difficulties, from 1 on.
        label: Short description.
        env_id: The environment.
        options: Options of the environment and its text interface.
        best_return: Return of a successful episode; None if the environment reports success.
    """

    number: int
    label: str
    env_id: str
    options: Mapping[str, Any]
    best_return: float | None = None

    def is_success(self, record: Mapping[str, Any]) -> bool:
        """Return whether the episode of a rollout's record is successful."""
        if self.best_return is None:
            return bool(record["is_solved"])
        return record["total_reward"] > self.best_return - _REWARD / 2


@dataclasses.dataclass(frozen=True)
class SuiteTask:
    """Game with its difficulties, the easiest first.

    Attributes:
        axis: Meaning of the number of a difficulty.
        difficulties: The difficulties, with increasing numbers.
        seeds: Function of the difficulty and the number of episodes that returns the level seeds.
    """

    axis: str
    difficulties: Sequence[Difficulty]
    seeds: Callable[[Difficulty, int], list[int]]


def _consecutive_seeds(difficulty: Difficulty, episodes: int) -> list[int]:
    return levels.held_out_seeds(episodes, difficulty.number * MOST_EPISODES).tolist()


def _seeds_of_paths(difficulty: Difficulty, episodes: int) -> list[int]:
    """Return the first held-out seeds whose path has the difficulty's number of tiles."""
    env, params, _ = text.make_registered(difficulty.env_id, levels="fresh", **difficulty.options)
    found, start = list[int](), 0
    while len(found) < episodes:
        seeds = levels.held_out_seeds(_SCANNED, start)
        paths = np.asarray(levels.make_level_buffer(env, params, seeds).path)
        found += seeds[np.bitwise_count(paths).sum(axis=-1) == difficulty.number].tolist()
        start += _SCANNED
    return found[:episodes]


def _mortar_mayhem(count: int) -> Difficulty:
    # Four directions, because an agent that waits would complete "stay". Each turn of phase 1 shows one command, and
    # three actions are enough to turn around and to move.
    options = {
        "command_count": [count],
        "max_commands": _SMALL_SEQUENCE if count <= _SMALL_SEQUENCE else _LARGE_SEQUENCE,
        "allowed_commands": 4,
        "command_show_duration": [1],
        "command_show_delay": [0],
        "explosion_delay": [2],
        "explosion_duration": [1],
        "reward_command_success": _REWARD,
    }
    label = f"{count} command{'s' * (count > 1)}"
    return Difficulty(count, label, "MortarMayhem-Grid-v0", options, best_return=_REWARD * count)


def _mystery_path(tiles: int) -> Difficulty:
    options = {"show_origin": True, "show_goal": True, "max_steps": 256}
    return Difficulty(tiles, f"{tiles} tiles", "MysteryPath-Grid-v0", options)


def _ranked(env_id: str, label: str, options: Iterable[tuple[Any, Mapping[str, Any]]]) -> list[Difficulty]:
    return [
        Difficulty(rank, label.format(value), env_id, given) for rank, (value, given) in enumerate(options, start=1)
    ]


TASKS: Mapping[str, SuiteTask] = {
    "mortar_mayhem": SuiteTask(
        "commands", [_mortar_mayhem(count) for count in range(1, _LARGE_SEQUENCE + 1)], _consecutive_seeds
    ),
    "mystery_path": SuiteTask("tiles of the path", [_mystery_path(tiles) for tiles in range(7, 14)], _seeds_of_paths),
    "searing_spotlights": SuiteTask(
        "rank: less and less light",
        _ranked(
            "SearingSpotlights-v0",
            "light off after {} steps",
            [(steps, {"light_dim_off_duration": steps}) for steps in (64, 32, 16, 8, 4)],
        ),
        _consecutive_seeds,
    ),
    "babyai": SuiteTask(
        "rank: longer and longer missions",
        [
            Difficulty(rank, name, f"BabyAI-{name}-v0", {})
            for rank, name in enumerate(("GoToObj", "GoToLocal", "PickupLoc", "PutNextLocal", "GoToSeqS5R2"), start=1)
        ],
        _consecutive_seeds,
    ),
    "frozen_lake": SuiteTask(
        "rank: larger and larger lakes",
        _ranked("FrozenLake-v0", "{0} x {0} cells", [(size, {"size": size}) for size in (4, 6, 8, 10, 12)]),
        _consecutive_seeds,
    ),
    "sudoku": SuiteTask(
        "rank: more and more empty cells",
        _ranked("Sudoku-v0", "{} empty cells", [(empty, {"clues": [81 - empty]}) for empty in (5, 10, 20, 35, 50)]),
        _consecutive_seeds,
    ),
    "textcraft": SuiteTask(
        "depth of the goal",
        _ranked("TextCraft-v0", "depth {}", [(depth, {"depth": [depth]}) for depth in range(1, 6)]),
        _consecutive_seeds,
    ),
}
"""The tasks by name."""


def difficulties_of(name: str, numbers: Sequence[int] = ()) -> list[Difficulty]:
    """Return the difficulties of a task with the given numbers, or all of them.

    Raises:
        OptionError: If there is no such task or difficulty.
    """
    if name not in TASKS:
        raise OptionError(f"expected a task, got {name!r}{nearest(name, TASKS)}. The tasks are {', '.join(TASKS)}.")
    known = {difficulty.number: difficulty for difficulty in TASKS[name].difficulties}
    for number in numbers:
        if number not in known:
            raise OptionError(f"{name}: expected a difficulty from {min(known)} to {max(known)}, got {number}.")
    return [known[number] for number in sorted(set(numbers))] if numbers else list(known.values())


def rows_for(
    tasks: Sequence[str], episodes: int, *, numbers: Sequence[int] = (), observation_mode: str = "text"
) -> list[Row]:
    """Return the rows of an evaluation, the easiest difficulty of each task first.

    Args:
        tasks: Names of tasks.
        episodes: Number of episodes of each difficulty. Fewer episodes play the first levels of more.
        numbers: Numbers of the difficulties of every task; all if empty.
        observation_mode: The session option: "text", "image" or "both".

    Raises:
        OptionError: If a task or a difficulty does not exist, or the number of episodes is out of range.
    """
    if not 1 <= episodes <= MOST_EPISODES:
        raise OptionError(f"episodes: expected an integer from 1 to {MOST_EPISODES}, got {episodes}.")
    if not tasks:
        raise OptionError(f"expected at least one task, got none. The tasks are {', '.join(TASKS)}.")
    mode = {} if observation_mode == "text" else {"observation_mode": observation_mode}
    return [
        {
            "task": name,
            "difficulty": difficulty.number,
            "env_config": {"name": difficulty.env_id, "seed": seed, **difficulty.options, **mode},
        }
        for name in dict.fromkeys(tasks)
        for difficulty in difficulties_of(name, numbers)
        for seed in TASKS[name].seeds(difficulty, episodes)
    ]
