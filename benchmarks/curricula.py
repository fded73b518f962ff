"""Compare curricula with equal probabilities of all training levels: steps to a score, and success on the worst levels.

    python -m benchmarks.curricula --out runs/curricula --processes 8 --minutes 25

Each training is one process of `python -m baselines.train`, followed by one of `python -m baselines.evaluate --cvar`.
Finished runs are not repeated, and interrupted ones are resumed. --minutes is the time after which no further training
starts; the table then has gaps. --flags go to every training.

A score is reached at the first evaluation with at least this normalized return on held-out levels. Its steps include
those of the episodes that choose levels.
"""

import dataclasses
import json
import shlex
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tyro

from baselines.runs import read_rows
from benchmarks.trainings import run, train

REACHED = 0.9
"""Normalized return on held-out levels that counts as reached."""


class CurriculumGame(NamedTuple):
    """A game of the table.

    Attributes:
        env: id of the environment.
        options: options of the environment.
        grown: options of each stage of the curriculum `grow`; empty if the game is not trained with it.
        flags: flags of the training that differ from `SETTINGS`.
    """

    env: str
    options: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


GAMES: dict[str, CurriculumGame] = {
    "mortar-mayhem": CurriculumGame(
        "MortarMayhem-Grid-v0", ("command_count=[6]",), ("command_count=[[1],[2],[3],[4],[5],[6]]",)
    ),
    "mystery-path": CurriculumGame("MysteryPath-Grid-v0"),
    "searing-spotlights": CurriculumGame(
        *("SearingSpotlights-v0", ("num_coins=[2]", "max_coins=2"), ("num_coins=[[1],[2]]",)),
        flags=("--num-steps", "256", "--minibatches", "32"),
    ),
}
CURRICULA = ("none", "plr", "sfl", "grow")

SETTINGS = (
    *("--scale", "throughput", "--memory", "mingru", "--memory-size", "256", "--hidden-size", "256"),
    *("--num-envs", "512", "--num-steps", "128", "--minibatches", "16", "--block-updates", "8"),
    *("--total-steps", "30000000", "--entropy-start", "1e-3", "--keep-checkpoints", "1"),
    *("--held-out-levels", "200", "--eval-every", "1"),
)


@dataclasses.dataclass(frozen=True)
class CurriculaArguments:
    """Write the table of the curricula."""

    out: Path = Path("runs/curricula")
    """Folder of the runs, of table.md and of table.json."""
    games: tuple[str, ...] = tuple(GAMES)
    """Games to train."""
    curricula: tuple[str, ...] = CURRICULA
    """Curricula to train with."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Training seeds, each for all games before the next one."""
    train_levels: int = 10_000
    """Training levels of all runs without `grow`, which samples fresh ones."""
    processes: int = 1
    """Number of trainings at the same time."""
    minutes: float = 60.0
    """Minutes after which no further training starts."""
    flags: str = ""
    """More flags of every training, such as --flags="--scale cpu"; they override the settings of this script."""


def flags_of(arguments: CurriculaArguments, game: str, curriculum: str, seed: int) -> list[str]:
    """Return the flags of one training."""
    env, options, grown, own = GAMES[game]
    levels = 0 if curriculum == "grow" else arguments.train_levels
    flags = ("--env", env, "--curriculum", curriculum, "--train-levels", str(levels), "--seed", str(seed))
    grow = ("--grown-options", *grown) if curriculum == "grow" else ()
    own = (*own, *shlex.split(arguments.flags))
    return [*flags, *SETTINGS, *own, *grow, "--options", "observation=symbolic", *options]


def steps_to(rows: Iterable[Mapping[str, Any]], score: float = REACHED) -> int | None:
    """Return the environment steps until the score is reached, those that choose levels included; None if it is not."""
    chosen = 0
    for row in rows:
        chosen += int(row.get("curriculum_steps") or 0)
        if row.get("held_out_normalized_return", -1.0) >= score:
            return row["steps"] + chosen
    return None


def train_and_evaluate(arguments: CurriculaArguments, game: str, curriculum: str, seed: int, end: float) -> None:
    """Train an agent, and evaluate it on the worst levels, unless that is done."""
    folder = arguments.out / f"{game}-{curriculum}-seed{seed}"
    train(folder, flags_of(arguments, game, curriculum, seed), end)
    if (folder / "evaluation.json").is_file() and not (folder / "evaluation-cvar.json").is_file():
        run(folder, ["-m", "baselines.evaluate", str(folder), "--cvar"])


def results_of(arguments: CurriculaArguments) -> dict[str, dict[str, Any]]:
    """Return steps, success and success on the worst levels of each evaluated run, by name and seed."""
    found: dict[str, dict[str, Any]] = {}
    for game in GAMES:
        for curriculum in CURRICULA:
            for seed in arguments.seeds:
                folder = arguments.out / f"{game}-{curriculum}-seed{seed}"
                if not (folder / "evaluation-cvar.json").is_file():
                    continue
                result = json.loads((folder / "evaluation-cvar.json").read_text())["cvar"]
                own = {name: result[name] for name in ("success", "cvar_success")}
                steps = {"steps": steps_to(read_rows(folder / "metrics.jsonl"))}
                found.setdefault(f"{game}-{curriculum}", {})[str(seed)] = steps | own
    return found


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the Markdown table: means over training seeds, and the values of each seed."""
    lines = [
        f"| environment | curriculum | million steps to {REACHED} | success | success on the worst 10 % |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for game, (env, *_) in GAMES.items():
        for curriculum in CURRICULA:
            if curriculum == "grow" and not GAMES[game].grown:
                continue
            runs = list(results.get(f"{game}-{curriculum}", {}).values())
            if not runs:
                lines.append(f"| {env} | {curriculum} | not run | not run | not run |")
                continue
            steps = ", ".join("–" if own["steps"] is None else f"{own['steps'] / 1e6:.1f}" for own in runs)
            scores = [
                f"{np.mean([own[name] for own in runs]):.3f} ({', '.join(f'{own[name]:.3f}' for own in runs)})"
                for name in ("success", "cvar_success")
            ]
            lines.append(f"| {env} | {curriculum} | {steps} | {' | '.join(scores)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train what is missing, and write the table."""
    arguments = tyro.cli(CurriculaArguments, prog="python -m benchmarks.curricula")
    arguments.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * arguments.minutes
    with ThreadPoolExecutor(arguments.processes) as executor:
        for seed in arguments.seeds:
            for game in arguments.games:
                for curriculum in arguments.curricula:
                    if curriculum != "grow" or GAMES[game].grown:
                        executor.submit(train_and_evaluate, arguments, game, curriculum, seed, end)
    results = results_of(arguments)
    (arguments.out / "table.json").write_text(json.dumps(results, indent=1) + "\n")
    (arguments.out / "table.md").write_text(table(results))
    print(table(results))


if __name__ == "__main__":
    main()
