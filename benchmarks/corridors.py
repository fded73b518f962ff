"""Find the longest corridor of T-Maze-v0 that PPO solves online with each memory.

    python -m benchmarks.corridors --out runs/corridors --processes 4 --minutes 60

An agent trains on the shortest corridor first. Each further training starts from the agent of the one before. Training
levels have sampled lengths, from a tenth of the given one up to it, because an agent that knows one length counts
steps. If two trainings do not solve corridors of the given length, longer ones are not tried. A corridor is solved if
the success on held-out levels is at least 0.95, with sampled actions and both signs. All options of T-Maze-v0 are the
defaults, except for a penalty of 0.1 for each step behind the shortest way. The time span of the slowest units starts
at `--span` steps.

Each training is one process of `python -m baselines.train`. Finished runs are not repeated, and interrupted ones are
resumed. --minutes is the time after which no further training starts.
"""

import dataclasses
import json
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tyro

from baselines.evaluate import MAX_STEPS
from benchmarks.trainings import held_out, run, train

MEMORIES = ("mingru", "lru", "s5", "ffm", "mlstm", "gated_deltanet", "gru", "lstm", "trxl")
"""Memories, those with the cheapest long rollouts first."""
LENGTHS = (100, 300, 1000, 3000, 10_000, 30_000)
SOLVED = 0.95
"""Least success on held-out levels of a solved corridor."""

# A wrong action is punished at once, and the turn is rewarded at once, so a short horizon suffices. Only the gradient
# of the turn has to reach the sign, through the recurrent state. Normalized advantages would be noise once the agent
# walks without errors. The last reward shows whether the agent is late, so that the value can account for it. Without
# an entropy bonus, the agent can learn to walk on at the end of the corridor, too.
SETTINGS = (
    *("--scale", "cpu", "--memory-size", "64", "--hidden-size", "64", "--train-levels", "0", "--unroll", "4"),
    *("--gamma", "0.9", "--gae-lambda", "0.95", "--clip", "0.2", "--max-grad-norm", "0.5", "--weight-decay", "0"),
    *("--minibatches", "4", "--block-updates", "10", "--last-action-reward", "--no-bootstrap-time-limits"),
    *("--held-out-levels", "100", "--keep-checkpoints", "1"),
)
FIRST = ("--epochs", "4", "--entropy-start", "0.03", "--entropy-end", "0.003")
"""Flags of the training on the shortest corridor."""
FURTHER = ("--epochs", "2", "--entropy-start", "0.003", "--entropy-end", "0.0003")
"""Flags of all further trainings."""
TRANSFORMERS = ("trxl", "gtrxl")


@dataclasses.dataclass(frozen=True)
class CorridorArguments:
    """Find the longest corridor that each memory solves."""

    out: Path = Path("runs/corridors")
    """Folder of the runs, of table.md and of table.json."""
    memories: tuple[str, ...] = MEMORIES
    """Memories to train."""
    lengths: tuple[int, ...] = LENGTHS
    """Lengths of the corridor in squares, in ascending order."""
    span: int = 30_000
    """Time span of the slowest units at the start, in steps (--memory-span)."""
    steps: int = 64_000
    """Environment steps of an update at which the number of environments, 16 to 64, is chosen."""
    updates: int = 80
    """Updates of the first training."""
    further_updates: int = 40
    """Updates of each further training."""
    attempts: int = 2
    """Largest number of trainings for one length; each continues with the agent of the one before."""
    learning_rate: float = 1e-3
    """Learning rate at the start of the first training; a quarter of it in all others. It decays to a fifth."""
    seed: int = 0
    """Seed of all trainings."""
    processes: int = 1
    """Number of trainings at the same time."""
    minutes: float = 60.0
    """Minutes after which no further training starts."""
    flags: str = ""
    """More flags of every training; they override the settings of this script."""


def flags_of(arguments: CorridorArguments, memory: str, length: int, start: Path | None) -> list[str]:
    """Return the flags of a training for corridors of one length, from random parameters or those of another run."""
    num_envs = max(16, min(64, arguments.steps // (length + 1)) // 8 * 8)
    updates = arguments.further_updates if start else arguments.updates
    # The first steps of a new optimizer change all parameters by the learning rate, also those with small gradients.
    rate = arguments.learning_rate / (4 if start else 1)
    window = ("--memory-window", str(min(length + 1, 1024)), "--memory-layers", "2")
    return [
        *("--env", "T-Maze-v0", "--memory", memory, "--memory-span", str(arguments.span), *SETTINGS),
        *("--sampled-options", f"corridor_length=[{max(length // 10, 1)},{length}]"),
        *("--num-envs", str(num_envs), "--num-steps", str(length + 1)),
        *("--total-steps", str(updates * num_envs * (length + 1)), "--seed", str(arguments.seed)),
        *("--learning-rate-start", str(rate), "--learning-rate-end", str(rate / 5)),
        *(window if memory in TRANSFORMERS else ()),
        *((*FURTHER, "--start-from", str(start)) if start else FIRST),
        *shlex.split(arguments.flags),
        *("--options", f"corridor_length={length}", "penalty=-0.1", "observation=symbolic"),
    ]


def folder_of(arguments: CorridorArguments, memory: str, length: int, attempt: int) -> Path:
    """Return the folder of a run."""
    return arguments.out / f"{memory}-{length}-{attempt}"


def is_solved(folder: Path, length: int) -> bool:
    """Return whether a run solves corridors of a length; evaluate again if the default step limit was too low."""
    results = held_out(folder)
    if results and results["share_truncated"] and length >= MAX_STEPS:
        run(folder, ["-m", "baselines.evaluate", str(folder), "--max-steps", str(length + 1)])
        results = held_out(folder)
    return bool(results and results["success"] >= SOLVED)


def climb(arguments: CorridorArguments, memory: str, end: float) -> None:
    """Train on longer and longer corridors, until one is not solved."""
    start: Path | None = None
    for length in arguments.lengths:
        for attempt in range(arguments.attempts):
            folder = folder_of(arguments, memory, length, attempt)
            train(folder, flags_of(arguments, memory, length, start), end)
            if not held_out(folder):
                return
            start = folder
            if is_solved(folder, length):
                break
        else:
            return


def results_of(arguments: CorridorArguments) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the held-out results of the last run by memory and length."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for memory in arguments.memories:
        for length in arguments.lengths:
            for attempt in range(arguments.attempts):
                results = held_out(folder_of(arguments, memory, length, attempt))
                if results:
                    found.setdefault(memory, {})[length] = results
    return found


def table(arguments: CorridorArguments, results: dict[str, dict[int, dict[str, Any]]]) -> str:
    """Return the Markdown table: success at each length, and the longest corridor that is solved."""
    lines = ["| memory | " + " | ".join(map(str, arguments.lengths)) + " | longest solved |"]
    lines.append("| --- |" + " ---: |" * (len(arguments.lengths) + 1))
    for memory in arguments.memories:
        own = results.get(memory, {})
        cells = [f"{own[length]['success']:.2f}" if length in own else "not run" for length in arguments.lengths]
        solved = [length for length, found in own.items() if found["success"] >= SOLVED]
        longest = max(solved, default="none") if memory in results else "not run"
        lines.append(f"| {' | '.join([memory, *cells])} | {longest} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train what is missing, and write the table."""
    arguments = tyro.cli(CorridorArguments, prog="python -m benchmarks.corridors")
    arguments.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * arguments.minutes
    with ThreadPoolExecutor(arguments.processes) as executor:
        for climbing in [executor.submit(climb, arguments, memory, end) for memory in arguments.memories]:
            climbing.result()
    results = results_of(arguments)
    (arguments.out / "table.json").write_text(json.dumps(results, indent=1) + "\n")
    (arguments.out / "table.md").write_text(table(arguments, results))
    print(table(arguments, results))


if __name__ == "__main__":
    main()
