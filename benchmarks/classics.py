"""Train agents with and without memory on the classic memory tasks, and write a table beside published results.

    python -m benchmarks.classics --out runs/classics --processes 4 --minutes 60

Each training is one process of `python -m baselines.train`. Finished runs are not repeated, and interrupted ones are
resumed. --minutes is the time after which no further training starts; the table then has gaps. --flags go to every
training.
"""

import dataclasses
import json
import shlex
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from benchmarks.trainings import held_out, train

_TRXL = ("--memory-layers", "2", "--memory-window", "128", "--learning-rate-start", "2.5e-4")
AGENTS: dict[str, tuple[str, ...]] = {"gru": (), "mingru": (), "none": (), "trxl": _TRXL}
"""Further flags of each memory."""


class ClassicTask(NamedTuple):
    """A row of the table.

    Attributes:
        env: id of the environment.
        options: options of the environment.
        flags: flags of the training that differ from `SETTINGS`.
        published: published results, empty if there are none for these rules.
    """

    env: str
    options: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    published: str = ""


# Targets are rare at first, and an episode needs five of them.
_CUBES = ("--total-steps", "30000000", "--entropy-end", "1e-3", "--gamma", "0.97", "--learning-rate-start", "7e-4")

TASKS: dict[str, ClassicTask] = {
    "color-cubes-medium": ClassicTask(
        *("ColorCubes-v0", ("preset=medium",), _CUBES),
        published="LSTM, GTrXL, SHM, FFM and MLP: 0.00",
    ),
    "color-cubes-trivial": ClassicTask(
        *("ColorCubes-v0", ("preset=trivial",), ("--gamma", "0.97")),
        published="GTrXL, SHM and FFM: 1.00; LSTM: 0.52; MLP: 0.00",
    ),
    "color-cubes-extreme": ClassicTask(
        *("ColorCubes-v0", ("preset=extreme",), (*_CUBES, "--total-steps", "16000000")),
        published="LSTM, GTrXL, SHM, FFM and MLP: 0.00",
    ),
    "t-maze": ClassicTask("T-Maze-v0", ("is_dense=true", "corridor_length=50")),
    "t-maze-active": ClassicTask("T-Maze-Active-v0", ("is_dense=true",)),
    "t-maze-lamp": ClassicTask("T-Maze-Lamp-v0", ("is_dense=true",)),
    "endless-t-maze-1": ClassicTask(
        *("Endless-TMaze-v0", ("num_corridors=1",)), published="LSTM, SHM and FFM: 1.00; GTrXL and MLP: about 0.5"
    ),
    "endless-t-maze-5": ClassicTask("Endless-TMaze-v0"),
    "key-to-door": ClassicTask("KeyToDoor-v0"),
    "visual-match": ClassicTask("Passive-VisualMatch-v0"),
    "memory-cards": ClassicTask("MemoryCards-v0", ("max_steps=100",)),
    "numpad": ClassicTask("Numpad-v0"),
    "numpad-continuous": ClassicTask("NumpadContinuous-v0"),
    "ballet-2": ClassicTask("Ballet-v0", ("preset=2_delay16",)),
    "ballet-8": ClassicTask("Ballet-v0", ("preset=8_delay16",)),
    "boss-fight": ClassicTask("BossFight-v0"),
}
"""Rows of the table by name."""

SETTINGS = (
    *("--scale", "throughput", "--num-envs", "512", "--num-steps", "128", "--minibatches", "16"),
    *("--block-updates", "8", "--total-steps", "8000000", "--train-levels", "0", "--normalize-advantage"),
    *("--gamma", "0.99", "--entropy-start", "1e-2", "--entropy-end", "1e-4"),
    *("--memory-size", "256", "--hidden-size", "256", "--held-out-levels", "50", "--eval-repeats", "4"),
)


@dataclasses.dataclass(frozen=True)
class ClassicsArguments:
    """Write the table of the classic memory tasks."""

    out: Path = Path("runs/classics")
    """Folder of the runs, of table.md and of table.json."""
    tasks: tuple[str, ...] = tuple(TASKS)
    """Rows to train."""
    agents: tuple[str, ...] = tuple(AGENTS)
    """Memories to train, each on all tasks before the next one."""
    processes: int = 1
    """Number of trainings at the same time."""
    minutes: float = 60.0
    """Minutes after which no further training starts."""
    flags: str = ""
    """More flags of every training, such as --flags="--scale cpu"; they override the settings of this script."""


def flags_of(arguments: ClassicsArguments, task: str, memory: str) -> list[str]:
    """Return the flags of one training."""
    env, options, own, _ = TASKS[task]
    flags = (*SETTINGS, *own, *AGENTS.get(memory, ()), *shlex.split(arguments.flags))
    return ["--env", env, "--memory", memory, *flags, "--options", "observation=symbolic", *options]


def results_of(out: Path) -> dict[str, dict[str, Any]]:
    """Return the held-out results of the evaluated runs by task and memory."""
    found: dict[str, dict[str, Any]] = {}
    for task in TASKS:
        for memory in AGENTS:
            results = held_out(out / f"{task}-{memory}")
            if results:
                found.setdefault(task, {})[memory] = results
    return found


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the Markdown table: success and return of each agent, beside published results."""
    lines = ["| task | published | " + " | ".join(AGENTS) + " |", "| --- | --- |" + " ---: |" * len(AGENTS)]
    for name, task in TASKS.items():
        own = results.get(name, {})
        cells = [
            f"{own[agent]['success']:.3f} ({own[agent]['return']:.3f})" if agent in own else "not run"
            for agent in AGENTS
        ]
        lines.append(f"| {' '.join((task.env, *task.options))} | {task.published or '–'} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train what is missing, and write the table."""
    arguments = tyro.cli(ClassicsArguments, prog="python -m benchmarks.classics")
    arguments.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * arguments.minutes
    with ThreadPoolExecutor(arguments.processes) as executor:
        for memory in arguments.agents:
            for task in arguments.tasks:
                executor.submit(train, arguments.out / f"{task}-{memory}", flags_of(arguments, task, memory), end)
    results = results_of(arguments.out)
    (arguments.out / "table.json").write_text(json.dumps(results, indent=1) + "\n")
    (arguments.out / "table.md").write_text(table(results))
    print(table(results))


if __name__ == "__main__":
    main()
