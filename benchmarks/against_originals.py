"""Compare the speed of jaxgym with memory-gym and minigrid: random actions, auto-reset, one machine, one process each.

    make parity PARITY_FLAGS='--seeds 1'     # once: makes .parity, which contains all three
    .parity/bin/python -m benchmarks.against_originals --batch 1024
    .parity/bin/python -m benchmarks.against_originals --env BabyAI-GoToLocal-v0 --levels 10000

The original steps one environment; jaxgym steps a batch in one program, and reads every observation (see
`throughput.py`). Each figure is the best of the repeats, in steps of one environment, without compile time. The output
is a Markdown table.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIDES = ("original", "jaxgym")
VERSIONS = {
    "original": ("memory-gym", "minigrid", "pygame", "gymnasium", "numpy"),
    "jaxgym": ("jax", "jaxlib", "numpy"),
}
DEFAULTS = (
    "MortarMayhem-v0",
    "MortarMayhem-Grid-v0",
    "MortarMayhemB-v0",
    "MortarMayhemB-Grid-v0",
    "Endless-MortarMayhem-v0",
    "SearingSpotlights-v0",
    "Endless-SearingSpotlights-v0",
    "MysteryPath-v0",
    "MysteryPath-Grid-v0",
    "Endless-MysteryPath-v0",
)


def measure_original(env_id: str, settings: argparse.Namespace) -> float:
    """Return steps/s of one environment of memory-gym or minigrid."""
    os.environ.update(SDL_VIDEODRIVER="dummy", SDL_AUDIODRIVER="dummy", PYGAME_HIDE_SUPPORT_PROMPT="1")
    import gymnasium
    import memory_gym
    import minigrid

    gymnasium.register_envs((memory_gym, minigrid))
    env = gymnasium.make(env_id, disable_env_checker=True).unwrapped
    env.action_space.seed(0)
    env.reset(seed=0)
    best = float("inf")
    for _ in range(settings.repeats):
        actions = [env.action_space.sample() for _ in range(settings.original_steps)]
        begun = time.perf_counter()
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        best = min(best, time.perf_counter() - begun)
    return settings.original_steps / best


def measure_jaxgym(env_id: str, settings: argparse.Namespace) -> float:
    """Return steps/s of a batch of jaxgym's environments."""
    import jaxgym
    from benchmarks import throughput

    env, params = jaxgym.make(env_id, levels=settings.levels)
    made = throughput.measure(env, params, settings.batch, settings.steps, settings.repeats, "frames")
    return made["steps_per_s"]


def device() -> str:
    """Return the device that jaxgym runs on."""
    import jax

    first = jax.devices()[0]
    return processor() if first.platform == "cpu" else first.device_kind


def processor() -> str:
    """Return the processor's name and the number of cores that this process may use."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def measure_side(settings: argparse.Namespace) -> dict[str, Any]:
    """Measure one side in this process."""
    measure = {"original": measure_original, "jaxgym": measure_jaxgym}[settings.side]
    rates = {env_id: measure(env_id, settings) for env_id in settings.env}
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in VERSIONS[settings.side])
    return {"rates": rates, "versions": versions, "device": device() if settings.side == "jaxgym" else processor()}


def measure_elsewhere(side: str) -> dict[str, Any]:
    """Measure one side in a process of its own with the same arguments."""
    command = [sys.executable, "-m", "benchmarks.against_originals", *sys.argv[1:], "--side", side]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(finished.stdout.splitlines()[-1])


def table(sides: dict[str, dict[str, Any]], settings: argparse.Namespace) -> str:
    """Return a Markdown table of the results, with the setup above it."""
    lines = [
        f"- original: one environment; {sides['original']['device']}; {sides['original']['versions']}",
        f"- jaxgym: a batch of {settings.batch}; {sides['jaxgym']['device']}; {sides['jaxgym']['versions']}",
        f"- Python {platform.python_version()}; best of {settings.repeats} runs, of {settings.original_steps} steps "
        f"for the original and {settings.batch} × {settings.steps} for jaxgym",
        "",
        "| environment | original, steps/s | jaxgym, steps/s | ratio |",
        "| --- | ---: | ---: | ---: |",
    ]
    for env_id in settings.env:
        original, ours = (sides[side]["rates"][env_id] for side in SIDES)
        lines.append(f"| `{env_id}` | {original:,.0f} | {ours:,.0f} | {ours / original:,.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", nargs="+", default=DEFAULTS, metavar="ID", help="ids of Memory Gym or MiniGrid")
    parser.add_argument("--levels", type=int, help="training levels in a level buffer; else as `make` has it")
    parser.add_argument("--batch", type=int, default=1024, help="environments of jaxgym side by side")
    parser.add_argument("--steps", type=int, default=100, help="steps a run of jaxgym")
    parser.add_argument("--original-steps", type=int, default=5000, help="steps a run of the original")
    parser.add_argument("--repeats", type=int, default=5, help="runs; the best counts")
    parser.add_argument("--side", choices=SIDES, help="measure this side only, and print it as JSON")
    settings = parser.parse_args()
    if settings.side:
        print(json.dumps(measure_side(settings)))
    else:
        print(table({side: measure_elsewhere(side) for side in SIDES}, settings))


if __name__ == "__main__":
    main()
