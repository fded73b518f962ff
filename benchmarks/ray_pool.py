"""Measure the turns per second of `RayPool` with different numbers of actors, on one machine.

    python benchmarks/ray_pool.py --actors 1 2 --clients 8

Starts a Ray cluster with one node for each actor of the largest pool. Client processes step their sessions by one call
per turn, with random valid replies; episodes that end are restarted and not counted as turns. Each line is one
measurement; the last lines are the medians and their ratio to the first number of actors.
"""

import argparse
import os
import platform
import random
import statistics
import time
from collections.abc import Sequence

import ray
from ray.cluster_utils import Cluster

import jaxgym
from jaxgym import text
from jaxgym.serve.ray import RayPool


@ray.remote(num_cpus=0)
def play(num_actors: int, game: str, sessions: int, number: int, start: float, seconds: float) -> float:
    """Return the turns per second of one client, whose clock runs from `start`."""
    pool = RayPool(num_actors, name="benchmark", num_cpus=1)
    env, params, interface = text.make(game)
    draw = random.Random(number)
    replies = [interface.reply_of(action) for action in range(env.action_space(params).n)]
    ids = [opening.id for opening in pool.open_many(game, range(number * sessions, (number + 1) * sessions))]
    turns, seed = 0, 10**6 * (number + 1)
    while (now := time.time()) < start + seconds:
        results = pool.step(ids, draw.choices(replies, k=sessions))
        if now >= start:
            turns += sessions
        ended = [place for place, result in zip(ids, results, strict=True) if result.terminated or result.truncated]
        if ended:
            pool.reset(ended, range(seed, seed + len(ended)))
            seed += len(ended)
    took = time.time() - start
    pool.close(ids)
    return turns / took


def measured(settings: argparse.Namespace, num_actors: int) -> float:
    """Return the turns per second of all clients together."""
    start = time.time() + settings.warm_up
    game, sessions, seconds = settings.env, settings.sessions, settings.seconds
    calls = [play.remote(num_actors, game, sessions, number, start, seconds) for number in range(settings.clients)]
    return sum(ray.get(calls))


def main(settings: argparse.Namespace) -> None:
    """Measure each number of actors several times, in turn."""
    cluster = Cluster()
    for _ in range(max(settings.actors)):
        cluster.add_node(num_cpus=len(settings.actors), object_store_memory=2**29)
    ray.init(address=cluster.address)
    print(
        f"jaxgym {jaxgym.__version__}, Ray {ray.__version__}, {platform.machine()}, {os.cpu_count()} cores; {settings}"
    )
    pools = {
        count: RayPool(count, settings.clients * settings.sessions * count, name="benchmark")
        for count in settings.actors
    }
    for pool in pools.values():
        pool.prepare(settings.env)
    found: dict[int, list[float]] = {count: [] for count in settings.actors}
    for _ in range(settings.repeats):
        for count in settings.actors:
            found[count].append(measured(settings, count))
            print(f"{count} actors: {found[count][-1]:,.0f} turns/s", flush=True)
    _print_medians(settings.actors, found)
    ray.shutdown()
    cluster.shutdown()


def _print_medians(actors: Sequence[int], found: dict[int, list[float]]) -> None:
    first = statistics.median(found[actors[0]])
    for count in actors:
        median = statistics.median(found[count])
        print(f"{count} actors: median {median:,.0f} turns/s, {median / first:.2f} times {actors[0]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="FrozenLake-v0", help="environment id with a discrete action space")
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2], help="numbers of actors")
    parser.add_argument("--clients", type=int, default=8, help="client processes")
    parser.add_argument("--sessions", type=int, default=256, help="sessions of each client")
    parser.add_argument("--seconds", type=float, default=10, help="seconds of a measurement")
    parser.add_argument(
        "--warm-up", type=float, default=15, help="seconds before a measurement, for the start of clients"
    )
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each number of actors")
    main(parser.parse_args())
