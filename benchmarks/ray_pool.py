"""Measure the turns per second of `RayPool` with different numbers of actors, on one machine.

    python benchmarks/ray_pool.py --actors 1 2 --clients 16 --sessions 256

Starts a Ray cluster in which each actor of the largest pool has a node with `--cores` processor cores of its own. The
clients run on the remaining cores, so every pool has the same clients, and each of its actors has the same number of
cores. Clients step their sessions by one call per turn, with random valid replies; episodes that end are restarted and
not counted as turns. The pools are measured in turn. Each line is one measurement; the medians and their ratios to the
first number of actors follow each round.
"""

import argparse
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax
import ray
from ray.cluster_utils import Cluster

import jaxgym
from jaxgym import text
from jaxgym.serve.ray import RayPool

NAME = "benchmark"


@ray.remote(num_cpus=0, resources={"client": 1})
class Client:
    """Process with sessions of its own on each pool."""

    def __init__(self, number: int, cores: int):
        """Make client `number`, for pools whose actors have `cores` cores."""
        self._number, self._cores = number, cores
        self._pool: Any = None

    def open(self, num_actors: int, game: str, sessions: int) -> None:
        """Open the sessions on the pool with `num_actors` actors."""
        self._pool = RayPool(num_actors, name=NAME, num_cpus=self._cores)
        self._game, self._sessions = game, sessions
        seeds = range(self._number * sessions, (self._number + 1) * sessions)
        self._ids = [opening.id for opening in self._pool.open_many(game, seeds)]

    def play(self, start: float, seconds: float) -> float:
        """Play until `seconds` after the time `start`, then close the sessions; return the turns per second."""
        env, params, interface = text.make(self._game)
        draw = random.Random(self._number)
        replies = [interface.reply_of(action) for action in range(env.action_space(params).n)]
        ids, turns, seed = self._ids, 0, 10**6 * (self._number + 1)
        while (now := time.time()) < start + seconds:
            results = self._pool.step(ids, draw.choices(replies, k=len(ids)))
            if now >= start:
                turns += len(ids)
            ended = [place for place, result in zip(ids, results, strict=True) if result.terminated or result.truncated]
            if ended:
                self._pool.reset(ended, range(seed, seed + len(ended)))
                seed += len(ended)
        took = time.time() - start
        self._pool.close(ids)
        return turns / took


def started_cluster(cores: int, num_nodes: int, node_cpus: int, num_clients: int) -> Cluster:
    """Start a head node for the clients and nodes for the actors, each on cores of its own."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) <= cores * num_nodes:
        raise SystemExit(f"expected more than {cores * num_nodes} cores, got {len(allowed)}. Use fewer --cores.")
    os.sched_setaffinity(0, allowed[cores * num_nodes :])  # processes inherit the cores of their parent
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "resources": {"client": num_clients}, "object_store_memory": 2**28},
    )
    for number in range(num_nodes):
        os.sched_setaffinity(0, allowed[cores * number : cores * (number + 1)])
        cluster.add_node(num_cpus=node_cpus, object_store_memory=2**28)
    os.sched_setaffinity(0, allowed[cores * num_nodes :])
    return cluster


def in_actors(num_actors: int, function: Callable[[Any], Any]) -> list[Any]:
    """Return the result of a function of the actor in the process of each actor."""
    actors = [ray.get_actor(f"{NAME}-{number}-of-{num_actors}") for number in range(num_actors)]
    return ray.get([actor.__ray_call__.remote(function) for actor in actors])


def check_cores(num_actors: int, cores: int) -> None:
    """Raise `RuntimeError` if an actor does not have its own cores, or has another number of them."""
    found = in_actors(num_actors, lambda _: sorted(os.sched_getaffinity(0)))
    print(f"cores of the actors of pool {num_actors}: {found}", flush=True)
    if len({core for part in found for core in part}) != cores * num_actors or {*map(len, found)} != {cores}:
        raise RuntimeError(f"expected {cores} cores of its own for each actor, got {found}. Start again.")


def measured(
    clients: list[Any], num_actors: int, game: str, sessions: int, settings: argparse.Namespace
) -> tuple[float, float]:
    """Return the turns per second of all clients together, and the mean number of cores that an actor kept busy."""
    ray.get([client.open.remote(num_actors, game, sessions) for client in clients])
    start = time.time() + settings.warm_up
    calls = [client.play.remote(start, settings.seconds) for client in clients]
    time.sleep(max(0, start - time.time()))
    began, before = time.time(), in_actors(num_actors, lambda _: time.process_time())
    rate = sum(ray.get(calls))
    used = sum(in_actors(num_actors, lambda _: time.process_time())) - sum(before)
    return rate, used / num_actors / (time.time() - began)


def main(settings: argparse.Namespace) -> None:
    """Measure each environment, number of sessions and number of actors several times, in turn."""
    cores, numbers = settings.cores, sorted(settings.actors, reverse=True)
    print(
        f"jaxgym {jaxgym.__version__}, jax {jax.__version__}, Ray {ray.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}, cores {sorted(os.sched_getaffinity(0))}; {settings}",
        flush=True,
    )
    cluster = started_cluster(cores, numbers[0], cores * len(numbers), settings.clients)
    ray.init(address=cluster.address)
    capacity = 2 * settings.clients * max(settings.sessions)
    pools = [RayPool(count, capacity * count, name=NAME, num_cpus=cores) for count in numbers]
    for count, pool in zip(numbers, pools, strict=True):
        check_cores(count, cores)
        for game in settings.env:
            pool.prepare(game)
    clients = [Client.remote(number, cores) for number in range(settings.clients)]
    found: dict[tuple[str, int], dict[int, list[float]]] = {
        (game, sessions): {count: [] for count in settings.actors}
        for game in settings.env
        for sessions in settings.sessions
    }
    for _ in range(settings.repeats):
        for (game, sessions), rates in found.items():
            for count in settings.actors:
                rate, busy = measured(clients, count, game, sessions, settings)
                rates[count].append(rate)
                print(
                    f"{game}, {sessions} sessions a client: {count} actors: {rate:,.0f} turns/s, {busy:.2f} cores busy "
                    "in each",
                    flush=True,
                )
        print_medians(found.items())
    ray.shutdown()
    cluster.shutdown()


def print_medians(found: Iterable[tuple[tuple[str, int], dict[int, list[float]]]]) -> None:
    """Print the median of each number of actors, and its ratio to the first one."""
    for (game, sessions), rates in found:
        medians = {count: statistics.median(each) for count, each in rates.items()}
        first = next(iter(medians))
        for count, median in medians.items():
            print(
                f"{game}, {sessions} sessions a client: {count} actors: median of {len(rates[count])} {median:,.0f} "
                f"turns/s, {median / medians[first]:.2f} times {first}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--env", nargs="+", default=["FrozenLake-v0"], help="ids of environments with a discrete action space"
    )
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2], help="numbers of actors")
    parser.add_argument("--cores", type=int, default=2, help="processor cores of each actor")
    parser.add_argument("--clients", type=int, default=16, help="client processes")
    parser.add_argument("--sessions", type=int, nargs="+", default=[256], help="numbers of sessions of each client")
    parser.add_argument("--seconds", type=float, default=10, help="seconds of a measurement")
    parser.add_argument("--warm-up", type=float, default=2, help="seconds of play before a measurement")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each number of actors")
    main(parser.parse_args())
