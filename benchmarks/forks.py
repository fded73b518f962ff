"""Measure how many copies of a session a pool makes per second, and the speed and size of saved sessions.

    python benchmarks/forks.py --env Sudoku-v0 TextCraft-v0

The session has made `--turns` random valid turns. The time of `fork` does not include `close`. Each row of the result
is a table row: the best of `--repeats` measurements. Without `--env`, one id of each game is measured.
"""

import argparse
import gc
import platform
import time
from collections.abc import Callable
from typing import Any

import jax

import jaxgym
from jaxgym import text
from jaxgym.serve.pool import SessionPool

SMALL, LARGE = 8, 1024
GAMES = (
    *("FrozenLake-v0", "Sudoku-v0", "TextCraft-v0", "MortarMayhem-v0", "MortarMayhem-Grid-v0", "MortarMayhemB-v0"),
    *("Endless-MortarMayhem-v0", "MysteryPath-v0", "MysteryPath-Grid-v0", "Endless-MysteryPath-v0"),
    *("SearingSpotlights-v0", "Endless-SearingSpotlights-v0", "MiniGrid-MemoryS17Random-v0", "BabyAI-GoToLocal-v0"),
    "BabyAI-BossLevel-v0",
)


def replies(env_id: str, count: int) -> list[str]:
    """Return random valid replies."""
    env, _, interface = text.make(env_id, levels="fresh")
    keys = jax.random.split(jax.random.key(0), count)
    actions = jax.jit(jax.vmap(env.action_space().sample))(keys).tolist()
    return [interface.reply_of(tuple(action) if isinstance(action, list) else action) for action in actions]


def fastest(repeats: int, run: Callable[[], Any], clean_up: Callable[[Any], None]) -> float:
    """Return the smallest wall time of a call in seconds; the first call, which compiles, is not measured."""
    clean_up(run())
    times = list[float]()
    for _ in range(repeats):
        begun = time.perf_counter()
        made = run()
        times.append(time.perf_counter() - begun)
        clean_up(made)
    return min(times)


def measure(env_id: str, turns: int, repeats: int) -> str:
    pool = SessionPool(capacity=2 * LARGE)
    trunk = pool.open(env_id, 3).id
    for reply in replies(env_id, turns):
        pool.step_one(trunk, reply)
    gc.freeze()
    rates = list[float]()
    for count in (SMALL, LARGE):
        for reseed in (False, True):
            seconds = fastest(repeats, lambda n=count, r=reseed: pool.fork(trunk, n, reseed=r), pool.close)
            rates.append(count / seconds)
    ids = pool.fork(trunk, LARGE)
    saved = pool.save(ids)
    saving = fastest(3, lambda: pool.save(ids), lambda _: None)
    pool.close(ids)
    loading = fastest(3, lambda: pool.load(saved), pool.close)
    cells = [f"{rate:,.0f}".replace(",", " ") for rate in (*rates, LARGE / saving, LARGE / loading)]
    return f"| `{env_id}` | {' | '.join(cells)} | {len(saved) / LARGE / 1000:.1f} kB |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", nargs="+", default=GAMES, help="ids that have a text interface")
    parser.add_argument("--turns", type=int, default=20, help="turns before the fork")
    parser.add_argument("--repeats", type=int, default=50, help="measurements of which the best one counts")
    settings = parser.parse_args()
    if jax.config.jax_platforms == "cpu":
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # see docs/benchmarks.md
    device = jax.devices()[0]
    print(
        f"{device.device_kind} ({device.platform}), {platform.machine()}, Python {platform.python_version()}, "
        f"jax {jax.__version__}, jaxgym {jaxgym.__version__}\n"
    )
    names = [f"{count} at once{new}" for count in (SMALL, LARGE) for new in ("", ", reseeded")]
    print(f"| environment | {' | '.join(names)} | saved/s | loaded/s | size |")
    print("| --- |" + " ---: |" * 7)
    for env_id in settings.env:
        print(measure(env_id, settings.turns, settings.repeats), flush=True)


if __name__ == "__main__":
    main()
