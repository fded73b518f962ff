"""Play BabyAI of minigrid 3.2.0 and ours side by side: `python -m tests.parity.against_minigrid`.

    make parity
    python -m tests.parity.against_minigrid --ids GoToLocal-v0 --seeds 5 --first-seed 1000

Each episode of the package is recorded, and `tests.parity.babyai` compares the recording with ours: the level of the
seed, its rejected tries, mission and time limit; then observations, cells and results of every step, and some frames.
Every second episode is random. The others follow the package's own bot, with some random actions. The exit code is 1 if
there is a difference.
"""

import argparse
import contextlib
import importlib.metadata
import io
import signal
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX  # in an environment of its own, beside memory-gym
from minigrid.envs.babyai.core import verifier
from minigrid.utils.baby_ai_bot import BabyAIBot

from jaxgym.envs.babyai import table
from tests.parity.babyai import PREFIX, check_episode, check_level

IDS = tuple(table.LEVELS)
MAX_STEPS, NUM_FRAMES = 200, 8
PLAN_SECONDS = 2
"""Time for one plan of the bot, which can search forever."""

RANDOM_SHARE = 0.2
CHANCES = np.asarray([2, 2, 6, 2, 2, 2, 0.2]) / 16.2
KINDS = {
    verifier.GoToInstr: "goto",
    verifier.OpenInstr: "open",
    verifier.PickupInstr: "pickup",
    verifier.PutNextInstr: "putnext",
    verifier.BeforeInstr: "before",
    verifier.AfterInstr: "after",
    verifier.AndInstr: "and",
}
REJECTIONS = ("Sampling rejected: ", "Timeout during mission generation: ")


def clauses_of(instr: Any) -> dict[str, Any]:
    """Return an instruction of the package as the tree of clauses of a recording."""
    described = {
        name: {key: getattr(getattr(instr, attribute), key) for key in ("type", "color", "loc")}
        for name, attribute in (("desc", "desc"), ("move", "desc_move"), ("fixed", "desc_fixed"))
        if hasattr(instr, attribute)
    }
    parts = {
        name: clauses_of(getattr(instr, f"instr_{name}")) for name in ("a", "b") if hasattr(instr, f"instr_{name}")
    }
    return {"kind": KINDS[type(instr)], "strict": getattr(instr, "strict", False), **described, **parts}


def held_by(env: Any) -> tuple[int, int]:
    """Return type and color of what the agent carries, or (0, 0)."""
    return (OBJECT_TO_IDX[env.carrying.type], COLOR_TO_IDX[env.carrying.color]) if env.carrying else (0, 0)


def contents_of(env: Any) -> np.ndarray:
    """Return position, type and color of each thing in a box, (number, 4)."""
    cells = [(x, y, env.grid.get(x, y)) for x in range(env.width) for y in range(env.height)]
    boxes = [
        (x, y, OBJECT_TO_IDX[cell.contains.type], COLOR_TO_IDX[cell.contains.color])
        for x, y, cell in cells
        if cell is not None and cell.type == "box" and cell.contains is not None
    ]
    return np.reshape(np.asarray(boxes, np.int16), (-1, 4))


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` inside if it takes longer."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    # Repeated, because Python drops an exception in a callback of the garbage collector.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def actions_of(env: Any, seed: int) -> Iterator[int]:
    """Yield random actions, or those of the package's bot with random ones between, until the bot gives up."""
    chance = np.random.default_rng(seed)
    bot, action = (BabyAIBot(env) if seed % 2 else None), None
    while True:
        planned = None
        if bot is not None:
            try:
                with deadline(PLAN_SECONDS):
                    planned = bot.replan(action)
            except Exception:  # The bot raises many kinds of errors. Random actions follow.
                bot = None
        if planned is None or chance.random() < RANDOM_SHARE:
            planned = chance.choice(len(CHANCES), p=CHANCES)
        action = int(planned)
        yield action


def record(env_id: str, seed: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return an episode of the package in the form of tests/data/minigrid/README.md."""
    env: Any = gymnasium.make(PREFIX + env_id, disable_env_checker=True).unwrapped
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        seen = env.reset(seed=seed)[0]
    lines = [line for line in printed.getvalue().splitlines() if line.startswith(REJECTIONS)]
    meta = {
        "id": PREFIX + env_id,
        "seed": seed,
        "mission": env.mission,
        "max_steps": env.max_steps,
        "rejections": [line.split(": ", 1)[1] for line in lines],
        "start_carry_pos": [int(place) for place in env.obj_a.init_pos] if env.carrying else None,
        "instr": clauses_of(env.instrs),
    }
    contains = contents_of(env)
    steps, results, times, views, grids = [], [], [], [], []

    def keep(seen: dict[str, Any]) -> None:
        row = seen["image"], env.grid.encode(), env.agent_pos, env.agent_dir, held_by(env)
        steps.append([np.array(each) for each in row])

    def draw() -> None:
        times.append(len(results))
        views.append(env.get_pov_render(tile_size=8))
        grids.append(env.get_full_render(highlight=True, tile_size=8))

    keep(seen)
    draw()
    taken = []
    for action in actions_of(env, seed):
        seen, reward, terminated, truncated, _ = env.step(action)
        taken.append(action)
        results.append((reward, terminated, truncated))
        keep(seen)
        is_last = terminated or truncated or len(taken) == MAX_STEPS
        if is_last or (len(taken) % 30 == 0 and len(views) < NUM_FRAMES - 1):
            draw()
        if is_last:
            break
    image, grid, position, direction, carrying = (np.stack(each) for each in zip(*steps, strict=True))
    reward, terminated, truncated = (np.asarray(each) for each in zip(*results, strict=True))
    meta["success"] = bool(terminated[-1] and reward[-1] > 0)
    arrays = {
        **{"actions": np.asarray(taken), "reward": reward, "terminated": terminated, "truncated": truncated},
        **{"image": image, "grid": grid, "agent_pos": position, "agent_dir": direction, "carrying": carrying},
        **{"contains": contains, "pov_t": np.asarray(times), "full_t": np.asarray(times)},
        **{"pov8": np.stack(views), "full8": np.stack(grids)},
    }
    return arrays, meta


def main() -> int:
    """Compare the chosen ids; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ids", nargs="+", default=IDS, choices=IDS, metavar="ID")
    parser.add_argument("--seeds", type=int, default=30, help="number of seeds of each id")
    parser.add_argument("--first-seed", type=int, default=10_000)
    arguments = parser.parse_args()
    names = ("minigrid", "gymnasium", "numpy", "jax")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    print(f"{versions}; {arguments.seeds} seeds from {arguments.first_seed}")  # noqa: T201 — a command line speaks.
    passed = failed = 0
    for env_id in arguments.ids:
        equal, successes, num_steps, first = 0, 0, 0, None
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            arrays, meta = record(env_id, seed)
            successes, num_steps = successes + meta["success"], num_steps + len(arrays["actions"])
            try:
                check_level(arrays, meta)
                check_episode(arrays, meta)
            except AssertionError as error:
                first = first or f"seed {seed}, {' '.join(str(error).split())[:300]}"
            else:
                equal += 1
        passed, failed = passed + equal, failed + arguments.seeds - equal
        counts = f"{equal:3} of {arguments.seeds}, {num_steps:5} steps, {successes:2} successes"
        print(f"{PREFIX + env_id:40} {counts}: {first or 'equal'}", flush=True)  # noqa: T201
    print(f"{passed} passed, {failed} failed")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
