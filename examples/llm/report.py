"""Summarize runs: `python examples/llm/report.py RUNS OUT` writes a table and the curves of each game in `RUNS`.

`RUNS` has, for each game, the results `GAME-base.json`, `GAME-sft.json` and `GAME-grpo.json` of `evaluate.py`, and the
folder `GAME-grpo-run` of `grpo.py`. It needs matplotlib.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

STAGES = {"base": "as published", "sft": "after SFT", "grpo": "after SFT and GRPO"}
PANELS = {
    "reward of the rollouts": "reward",
    "success on validation levels": "success",
    "invalid replies": "invalid_reply_rate",
    "tokens of an episode": "completions/mean_length",
}
HEADER = ("game", "model", "success, sampled", "success, greedy", "invalid replies", "tokens of a reply", "episodes")


def table(runs: Path) -> str:
    """Return the results as a table in Markdown."""
    lines = ["| " + " | ".join(HEADER) + " |", "| --- " * len(HEADER) + "|"]
    for sft in sorted(runs.glob("*-sft.json")):
        game = sft.name.removesuffix("-sft.json")
        for stage, label in STAGES.items():
            path = runs / f"{game}-{stage}.json"
            if path.exists():
                lines.append("| " + " | ".join([game, label, *_cells(json.loads(path.read_text()))]) + " |")
    return "\n".join(lines) + "\n"


def _cells(result: dict[str, Any]) -> list[str]:
    shares = [
        f"{result[name]['success']:.3f} ({result[name]['interval'][0]:.3f} to {result[name]['interval'][1]:.3f})"
        if name in result
        else "not run"
        for name in ("sampled", "greedy")
    ]
    sampled = result["sampled"]
    return [*shares, f"{sampled['invalid_reply_rate']:.1%}", f"{sampled['reply_tokens']:.1f}", str(sampled["episodes"])]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file with one JSON object on each line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def draw(run: Path, path: Path) -> None:
    """Draw the curves of a run of `grpo.py`."""
    updates, validations = rows_of(run / "curve.jsonl"), rows_of(run / "validation.jsonl")
    figure, axes = plt.subplots(1, len(PANELS), figsize=(14, 3), layout="constrained")
    for axis, (title, name) in zip(axes, PANELS.items(), strict=True):
        rows = [row for row in (validations if name == "success" else updates) if name in row]
        axis.plot([row["step"] for row in rows], [row[name] for row in rows], marker="o" if name == "success" else "")
        axis.set(title=title, xlabel="update")
        axis.grid(alpha=0.3)
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    """Write the table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path, help="folder of the table and the figures")
    args = parser.parse_args()
    if not list(args.runs.glob("*-base.json")):
        parser.error(f"expected a folder with GAME-base.json of evaluate.py, got {args.runs}.")
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "table.txt").write_text(table(args.runs))
    for run in sorted(args.runs.glob("*-grpo-run")):
        draw(run, args.out / f"{run.name.removesuffix('-grpo-run')}.svg")


if __name__ == "__main__":
    main()
