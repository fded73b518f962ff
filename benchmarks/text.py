"""Measure the turns per second of a session pool: text in, text out, in one process.

    python benchmarks/text.py --env FrozenLake-v0 --sessions 64 --mode batch

Every session gets random valid replies, made before the clock starts. Episodes that end are restarted on other levels;
these restarts take time, but are not counted as turns. Modes: "batch" steps all sessions by one call, "coroutines" has
one coroutine per session, "threads" one thread. The last line is the result: turns divided by wall time.
"""

import argparse
import asyncio
import gc
import itertools
import platform
import random
import threading
import time
from typing import Any

import jax

import jaxgym
from jaxgym import text
from jaxgym.serve.pool import SessionPool

REPLIES = 1 << 14


class Player:
    """Random replies, and the clock."""

    def __init__(self, settings: argparse.Namespace):
        self.pool = SessionPool(capacity=settings.sessions)
        options = dict(option.split("=", 1) for option in settings.options)
        env, params, interface = text.make(settings.env)
        sample = jax.jit(jax.vmap(env.action_space(params).sample))
        actions = sample(jax.random.split(jax.random.key(0), REPLIES)).tolist()
        said = [interface.reply_of(tuple(action) if isinstance(action, list) else action) for action in actions]
        self.replies = random.Random(0).choices(settings.replies, k=REPLIES) if settings.replies else said
        self.seeds = itertools.count(settings.sessions)
        self.ids = [
            opening.id for opening in self.pool.open_many(settings.env, range(settings.sessions), options or None)
        ]
        self.turns = self.invalid_replies = 0
        self.stop = 0.0

    def start_clock(self, seconds: float) -> tuple[float, float]:
        self.turns = self.invalid_replies = 0
        self.stop = time.perf_counter() + seconds
        return time.perf_counter(), time.process_time()

    def note(self, results: list[Any]) -> None:
        self.turns += len(results)
        self.invalid_replies += sum(result.invalid_reply is not None for result in results)

    def batch(self) -> None:
        pool, ids, count = self.pool, self.ids, len(self.ids)
        for turn in itertools.count():
            if time.perf_counter() >= self.stop:
                return
            first = turn * count % (REPLIES - count)
            results = pool.step(ids, self.replies[first : first + count])
            self.note(results)
            ended = [name for name, result in zip(ids, results, strict=True) if result[2] or result[3]]
            if ended:
                pool.reset(ended, [next(self.seeds) for _ in ended])

    def coroutines(self) -> None:
        async def play(place: int) -> None:
            pool, name, replies = self.pool, self.ids[place], self.replies
            turn = 31 * place
            while time.perf_counter() < self.stop:
                result = await pool.astep(name, replies[turn % REPLIES])
                turn += 1
                self.turns += 1
                self.invalid_replies += result.invalid_reply is not None
                if result.terminated or result.truncated:
                    await pool.areset(name, next(self.seeds))

        async def play_all() -> None:
            await asyncio.gather(*(play(place) for place in range(len(self.ids))))

        asyncio.run(play_all())

    def threads(self) -> None:
        counts = [0] * len(self.ids)

        def play(place: int) -> None:
            pool, name, replies = self.pool, self.ids[place], self.replies
            turn = 31 * place
            while time.perf_counter() < self.stop:
                result = pool.step_one(name, replies[turn % REPLIES])
                turn += 1
                counts[place] += 1
                if result.terminated or result.truncated:
                    pool.reset_one(name, next(self.seeds))

        threads = [threading.Thread(target=play, args=(place,)) for place in range(len(self.ids))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.turns += sum(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="FrozenLake-v0", help="an id that has a text interface")
    parser.add_argument("--sessions", type=int, default=64, help="sessions side by side")
    parser.add_argument("--mode", default="batch", choices=("batch", "coroutines", "threads"))
    parser.add_argument("--seconds", type=float, default=5.0, help="how long is measured")
    parser.add_argument("--options", nargs="*", default=[], metavar="NAME=WORD", help="options that are words")
    parser.add_argument("--replies", nargs="+", help="what is replied, at random; moves of the game if left out")
    settings = parser.parse_args()
    if jax.config.jax_platforms == "cpu":
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # see docs/benchmarks.md
    begun = time.perf_counter()
    player = Player(settings)
    gc.freeze()  # as a server does after making its games, so that collections skip all of JAX
    opened_s = time.perf_counter() - begun
    play = getattr(player, settings.mode)
    player.start_clock(min(1.0, settings.seconds))
    play()
    wall, processor = player.start_clock(settings.seconds)
    play()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    device = jax.devices()[0]
    print(
        f"{device.device_kind} ({device.platform}), {platform.machine()}, Python {platform.python_version()}, "
        f"jax {jax.__version__}, jaxgym {jaxgym.__version__}"
    )
    print(
        f"{settings.env}, {settings.sessions} sessions, mode {settings.mode}; opened in {opened_s:.1f} s, compiled once"
    )
    print(f"{player.turns} turns, {player.invalid_replies} invalid replies, in {wall:.2f} s")
    print(f"{1e6 * processor / player.turns:.2f} us of processor time a turn")
    print(f"{player.turns / wall:.0f} turns/s")


if __name__ == "__main__":
    main()
