"""Train agents with and without memory on ten tasks and their fully observable twins, and write the memory gap table.

    python -m benchmarks.memory_gap --out runs/memory-gap --processes 4 --minutes 20

Four agents per task: PPO without memory on the twin, then without memory, with GRU and with minGRU on the normal task.
Each training is one process of `python -m baselines.train`. Finished runs are not repeated, and interrupted ones are
resumed. --minutes is the time after which no further run starts; the table then has gaps. --flags go to every training.
"""

import dataclasses
import json
import shlex
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tyro

from benchmarks.trainings import held_out, train

AGENTS = {
    "full": ("none", "full"),
    "none": ("none", "partial"),
    "gru": ("gru", "partial"),
    "mingru": ("mingru", "partial"),
}
"""Memory and observability of each agent."""

TASKS: dict[str, tuple[str, ...]] = {
    "T-Maze-v0": ("is_dense=true",),
    "T-Maze-Active-v0": ("is_dense=true",),
    "MiniGrid-MemoryS7-v0": (),
    "MemoryCards-v0": ("max_steps=100",),
    "Numpad-v0": (),
    "Passive-VisualMatch-v0": (),
    "MortarMayhemB-Grid-v0": ("command_count=[5]",),
    "MortarMayhem-Grid-v0": ("command_count=[5]",),
    "MysteryPath-Grid-v0": (),
    "SearingSpotlights-v0": (),
}
"""Options of each task."""

# Few games have enough levels to hold some out of a level buffer, so resets sample training levels; sampling a path is
# slow, and there are many.
FRESH = ("--train-levels", "0")
LEVELS = {"MysteryPath-Grid-v0": ("--train-levels", "20000")}
SETTINGS = (
    *(
        "--scale",
        "throughput",
        "--num-envs",
        "512",
        "--num-steps",
        "128",
        "--minibatches",
        "16",
        "--block-updates",
        "8",
    ),
    *("--gamma", "0.99", "--entropy-start", "1e-2", "--entropy-end", "1e-4", "--normalize-advantage"),
    *("--memory-size", "256", "--hidden-size", "256", "--held-out-levels", "50", "--eval-repeats", "4"),
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Write the memory gap table."""

    out: Path = Path("runs/memory-gap")
    """Folder of the runs, of table.md and of table.json."""
    tasks: tuple[str, ...] = tuple(TASKS)
    """Ids to train."""
    agents: tuple[str, ...] = tuple(AGENTS)
    """Agents to train: full, none, gru, mingru."""
    observation: str = "symbolic"
    """Format of the observation: symbolic or pixels."""
    steps: int = 8_000_000
    """Environment steps of each training."""
    seeds: int = 1
    """Training seeds of each agent."""
    processes: int = 1
    """Number of trainings at the same time."""
    minutes: float = 20.0
    """Minutes after which no further training starts."""
    flags: str = ""
    """More flags of every training, such as --flags="--scale cpu"; they override the settings of this script."""


def flags_of(arguments: Arguments, task: str, agent: str) -> list[str]:
    """Return the flags of one training."""
    memory, observability = AGENTS[agent]
    options = (*TASKS[task], f"observation={arguments.observation}", f"observability={observability}")
    counts = ("--total-steps", str(arguments.steps), "--num-seeds", str(arguments.seeds))
    return [
        *("--env", task, "--memory", memory, *SETTINGS, *counts, *LEVELS.get(task, FRESH)),
        *(*shlex.split(arguments.flags), "--options", *options),
    ]


def results_of(arguments: Arguments) -> dict[str, dict[str, Any]]:
    """Return the held-out results of the evaluated runs by task and agent."""
    found: dict[str, dict[str, Any]] = {}
    for task in TASKS:
        for agent in AGENTS:
            results = held_out(arguments.out / f"{task}-{agent}")
            if results:
                found.setdefault(task, {})[agent] = results
    return found


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the Markdown table: normalized return and return of each agent, and the memory gap."""
    lines = ["| task | " + " | ".join(AGENTS) + " | gap |", "| --- |" + " ---: |" * (len(AGENTS) + 1)]
    for task in TASKS:
        own = results.get(task, {})
        cells = [
            f"{own[agent]['normalized_return']:.3f} ({own[agent]['return']:.3f})" if agent in own else "not run"
            for agent in AGENTS
        ]
        has_gap = {"full", "none"} <= own.keys()
        gap = f"{own['full']['return'] - own['none']['return']:.3f}" if has_gap else "not run"
        lines.append(f"| {' '.join((task, *TASKS[task]))} | {' | '.join(cells)} | {gap} |")
    return "\n".join(lines) + "\n"


NOTE = """# Memory gap

Normalized return on held-out levels, and the return in parentheses. "full" is PPO without memory on the fully
observable twin; "none", "gru" and "mingru" are PPO on the normal task. The gap is the return of "full" minus that of
"none".

"""


def main() -> None:
    """Train what is missing, and write the table."""
    arguments = tyro.cli(Arguments, prog="python -m benchmarks.memory_gap")
    arguments.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * arguments.minutes
    with ThreadPoolExecutor(arguments.processes) as executor:
        for task in arguments.tasks:
            for agent in arguments.agents:
                folder = arguments.out / f"{task}-{agent}"
                executor.submit(train, folder, flags_of(arguments, task, agent), end)
    results = results_of(arguments)
    (arguments.out / "table.json").write_text(json.dumps(results, indent=1) + "\n")
    (arguments.out / "table.md").write_text(NOTE + table(results))
    print(table(results))


if __name__ == "__main__":
    main()
