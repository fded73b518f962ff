"""`RayPool` on a cluster of two Ray nodes, also with verl's own worker; skipped where Ray is absent."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxgym.serve import episodes
from jaxgym.serve.errors import ClosedSessionError
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.ray import PartialCallError, RayPool, placement
from jaxgym.serve.ray import pool as ray_pool

ray: Any = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

GAME, OPTIONS = "frozen_lake", {"size": 4, "max_turns": 12}
EXAMPLE = Path(__file__).parents[3] / "examples/verl/agent_loop.yaml"
SECONDS = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Start a cluster of two nodes with one CPU each, so that each node has one actor."""
    from ray.cluster_utils import Cluster

    made = Cluster()
    try:
        for _ in range(2):
            made.add_node(num_cpus=1, object_store_memory=100 * 2**20)
        ray.init(address=made.address)
        yield
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture(scope="module")
def pool(cluster: None) -> RayPool:
    del cluster
    return RayPool(2, capacity=128)


def actor_of(session_id: str) -> int:
    return placement.number_of(session_id, 2)


def close_all(pool: RayPool, ids: list[str]) -> None:
    """Close sessions; `close` does not wait for the actors."""
    pool.close(ids)
    end = time.monotonic() + SECONDS
    while len(pool) and time.monotonic() < end:
        time.sleep(0.1)
    assert len(pool) == 0


def test_each_node_has_an_actor_and_texts_are_those_of_a_pool_of_one_process(pool: RayPool) -> None:
    assert [node["Resources"]["CPU"] for node in ray.nodes()] == [1, 1]
    assert ray.available_resources().get("CPU", 0) == 0
    local = SessionPool(64)
    theirs, mine = local.open_many(GAME, range(40), OPTIONS), pool.open_many(GAME, range(40), OPTIONS)
    assert [opening._replace(id="") for opening in mine] == [opening._replace(id="") for opening in theirs]
    ids, local_ids = [opening.id for opening in mine], [opening.id for opening in theirs]
    for move in ("down", "right", "nothing", "right", "down"):
        assert pool.step(ids, [f"<action>{move}</action>"] * 40) == local.step(
            local_ids, [f"<action>{move}</action>"] * 40
        )
    close_all(pool, ids)


def test_an_actor_computes_on_one_thread_for_each_of_its_cpus(pool: RayPool) -> None:
    assert len(pool) == 0

    def threads(_: Any) -> list[str]:
        return [(each / "comm").read_text().strip() for each in Path("/proc/self/task").iterdir()]

    for number in range(2):
        found = ray.get(ray.get_actor(f"jaxgym-{number}-of-2").__ray_call__.remote(threads))
        assert found.count("tf_XLAEigen") == 1


def test_images_are_those_of_a_pool_of_one_process(pool: RayPool) -> None:
    options = OPTIONS | {"observation_mode": "both"}
    mine, theirs = pool.open(GAME, 3, options), SessionPool(1).open(GAME, 3, options)
    assert mine.image
    assert mine._replace(id="") == theirs._replace(id="")
    close_all(pool, [mine.id])


def test_tasks_of_the_job_use_the_actors_of_the_name(pool: RayPool) -> None:
    opened = pool.open(GAME, 3, OPTIONS)

    @ray.remote(num_cpus=0)
    def step(session_id: str) -> tuple[int, int]:
        from jaxgym.serve.ray import RayPool

        found = RayPool(2)
        return found.step_one(session_id, "<action>left</action>").number, len(found)

    assert ray.get([step.remote(opened.id) for _ in range(2)]) in ([(1, 1), (2, 1)], [(2, 1), (1, 1)])
    close_all(pool, [opened.id])


@pytest.mark.parametrize("restarts", [True, False], ids=["with a restart", "for good"])
def test_a_killed_actor_ends_its_sessions_only_and_new_ones_open(pool: RayPool, restarts: bool) -> None:
    ids = [opening.id for opening in pool.open_many(GAME, range(8), OPTIONS)]
    killed = 1 if restarts else 0
    kept = [session_id for session_id in ids if actor_of(session_id) != killed]
    ray.kill(ray.get_actor(f"jaxgym-{killed}-of-2"), no_restart=not restarts)
    with pytest.raises(PartialCallError, match=f"Actor {killed} of the pool has died|its actor restarted") as caught:
        pool.step(ids, ["no action"] * 8)
    assert set(caught.value.results) == set(kept)
    for session_id in set(ids) - set(kept):
        with pytest.raises(ClosedSessionError, match=r"has died|its actor restarted"):
            pool.step_one(session_id, "no action")
    assert [result.number for result in pool.step(kept, ["no action"] * 4)] == [2] * 4
    opened = [opening.id for opening in pool.open_many(GAME, range(8), OPTIONS)]
    assert [result.number for result in pool.step(opened, ["no action"] * 8)] == [1] * 8
    end = time.monotonic() + SECONDS
    while restarts and killed not in map(actor_of, opened) and time.monotonic() < end:
        time.sleep(0.2)
        opened += [opening.id for opening in pool.open_many(GAME, range(2), OPTIONS)]
    assert {actor_of(session_id) for session_id in opened} >= ({0, 1} if restarts else {1})
    close_all(pool, [*ids, *opened])


def test_the_loops_of_verl_play_on_the_actors_of_the_example(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    del cluster
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop import agent_loop

    import jaxgym.serve.trainers.verl  # noqa: F401 registers the loop without actors
    from tests.conformance.clients import test_verl, tiny_chat

    monkeypatch.setattr(episodes, "_pools", [])
    monkeypatch.setattr(ray_pool, "_shared", [])
    # The actors of the name from the tests before: one of them is dead.
    monkeypatch.setattr(ray_pool, "RayPool", lambda count: RayPool(count, name="verl", num_cpus=0))
    (entry,) = OmegaConf.load(EXAMPLE)
    monkeypatch.setitem(agent_loop._agent_loop_registry, "jaxgym", entry)
    rows = [row for row in test_verl.rows(8, OPTIONS) for _ in range(4)]
    tokens = tiny_chat.tokenizer()
    batch, _ = test_verl.played(tokens, rows)
    assert test_verl.check(tokens, SessionPool(64), rows, batch) == [1.0] * 32
    (_, shared), *_ = ray_pool._shared
    assert episodes.shared_pool() is shared
    close_all(shared, [])


def test_an_episode_of_an_event_loop_goes_on_after_its_actor_was_killed(cluster: None) -> None:
    del cluster

    async def run(pool: Any, kill: bool) -> list[Any]:
        episode, results = episodes.Episode(GAME, 3, OPTIONS, pool), []
        opening = await episode.astart()
        for turn in range(6):
            if kill and turn == 3:
                ray.kill(ray.get_actor(f"episode-{actor_of(opening.id)}-of-2"))
            results.append(await episode.astep("<action>left</action>"))
        return results

    made = RayPool(2, name="episode", num_cpus=0)
    assert asyncio.run(run(made, kill=True)) == asyncio.run(run(SessionPool(1), kill=False))
