"""A pool on actors plays as a pool of one process; a stand-in for Ray runs the actors in this process."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from jaxgym.errors import ContractError, OptionError
from jaxgym.serve import episodes
from jaxgym.serve.episodes import Episode
from jaxgym.serve.errors import (
    CapacityError,
    ClosedSessionError,
    PartialStepError,
    RequestError,
    UnknownSessionError,
)
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.pool.games import GameTable
from jaxgym.serve.ray import PartialCallError, RayPool, placement
from jaxgym.serve.ray import pool as ray_pool
from jaxgym.serve.ray.actor import Actor, Merger
from jaxgym.serve.trainers.episode import play
from tests.serve.ray_stand_in import StandIn

GAME, OPTIONS = "frozen_lake", {"size": 4, "max_turns": 5}
REPLIES = [f"<action>{move}</action>" for move in ("down", "right", "right", "down", "left")]


@pytest.fixture(scope="module")
def ray() -> Iterator[StandIn]:
    with pytest.MonkeyPatch.context() as patch:
        made = StandIn()
        patch.setitem(sys.modules, "ray", made)
        yield made


@pytest.fixture
def pool(ray: StandIn) -> RayPool:
    """Return a pool without sessions; all tests use its actors, which have compiled their programs."""
    pool = RayPool(2, capacity=16)
    for handle in ray.actors.values():
        handle.is_dead = False
        sessions = handle._actor._pool
        sessions.close(list(sessions._sessions))
    return pool


@pytest.fixture(scope="module")
def local() -> SessionPool:
    return SessionPool(16)


def actor_of(session_id: str) -> int:
    return placement.number_of(session_id, 2)


def kill(ray: StandIn, number: int) -> Any:
    handle = ray.actors[f"jaxgym-{number}-of-2"]
    handle.is_dead = True
    return handle


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 64])
@pytest.mark.parametrize("num_actors", [1, 2, 3, 8])
@pytest.mark.parametrize("first", [0, 1, 7])
def test_new_sessions_are_spread_evenly(count: int, num_actors: int, first: int) -> None:
    parts = placement.shares(count, first % num_actors, num_actors)
    sizes = [len(part) for part in parts.values()]
    assert sorted(index for part in parts.values() for index in part) == list(range(count))
    assert len(sizes) == min(count, num_actors)
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert count == 0 or next(iter(parts)) == first % num_actors


def test_an_id_leads_to_its_actor_and_another_start_has_other_ids() -> None:
    prefixes = {placement.prefix_of_start(3) for _ in range(8)}
    assert len(prefixes) == 8
    assert {placement.number_of(prefix + "7", 4) for prefix in prefixes} == {3}


@pytest.mark.parametrize("session_id", ["", "4-a-b", "-1-a-b", "a", None, 3, "\u0663-a-b"])
def test_an_id_of_no_actor_is_an_unknown_session(session_id: Any) -> None:
    with pytest.raises(UnknownSessionError, match="Unknown session"):
        placement.number_of(session_id, 3)


def test_all_other_actors_follow_in_any_order() -> None:
    orders = {tuple(placement.others(1, 4)) for _ in range(100)}
    assert {frozenset(order) for order in orders} == {frozenset({0, 2, 3})}
    assert len(orders) > 1


def test_texts_and_rewards_are_those_of_a_pool_of_one_process(pool: RayPool, local: SessionPool) -> None:
    theirs, mine = local.open_many(GAME, range(7), OPTIONS), pool.open_many(GAME, range(7), OPTIONS)
    assert Counter(actor_of(opening.id) for opening in mine).most_common()[0][1] == 4
    assert [opening._replace(id="") for opening in mine] == [opening._replace(id="") for opening in theirs]
    ids, local_ids = [opening.id for opening in mine], [opening.id for opening in theirs]
    for reply in REPLIES:
        assert pool.step(ids[::-1], [reply] * 7)[::-1] == local.step(local_ids, [reply] * 7)
    again, there = pool.reset(ids, range(7, 14)), local.reset(local_ids, range(7, 14))
    assert [opening._replace(id="") for opening in again] == [opening._replace(id="") for opening in there]
    assert pool.step_one(ids[3], REPLIES[0]) == local.step_one(local_ids[3], REPLIES[0])
    assert len(pool) == 7
    pool.close(ids)
    assert len(pool) == 0


def test_processes_with_one_name_use_the_same_actors(pool: RayPool) -> None:
    opened = pool.open(GAME, 3, OPTIONS)
    assert RayPool(2).step_one(opened.id, REPLIES[0]).number == 1
    assert len(RayPool(2, name="other")) == 0


def test_coroutines_play_on_all_actors(pool: RayPool) -> None:
    async def ask(_: Any) -> str:
        return REPLIES[0]

    async def run() -> list[Any]:
        rows = [{"name": GAME, "seed": seed, **OPTIONS} for seed in range(6)]
        return list(await asyncio.gather(*(play(row, ask, pool=pool) for row in rows)))

    assert {len(played.rewards) for played in asyncio.run(run())} <= set(range(1, 6))
    assert len(pool) == 0


def merged(merger: Merger, calls: list[tuple[list[str], list[Any]]]) -> list[Any]:
    """Return the results or errors of calls that arrive together."""

    async def run() -> list[Any]:
        return list(await asyncio.gather(*(merger.future(*call) for call in calls), return_exceptions=True))

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [([3], [3]), ([1, 2, 3], [6]), ([256, 1], [256, 1]), ([200, 200, 5], [400, 5])],
)
def test_an_actor_makes_waiting_calls_together(sizes: list[int], batches: list[int]) -> None:
    made: list[int] = []

    def make(ids: Any, values: Any) -> list[Any]:
        made.append(len(ids))
        return list(zip(ids, values, strict=True))

    calls = [([f"{call}-{row}" for row in range(size)], [*range(call, call + size)]) for call, size in enumerate(sizes)]
    assert merged(Merger(make), calls) == [list(zip(*call, strict=True)) for call in calls]
    assert made == batches


def test_each_of_the_calls_that_are_made_together_has_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = GameTable._parsed

    def parsed(table: GameTable, reply: Any) -> Any:
        return ContractError("the parser failed") if reply == "faulty" else sound(table, reply)

    monkeypatch.setattr(GameTable, "_parsed", parsed)
    actor = Actor(0, 8, None)
    a, b, c, d = (opening.id for opening in actor._pool.open_many(GAME, range(4), OPTIONS))
    unknown, first, again, other = merged(
        actor._mergers["step"], [(["0-x-y", a], ["?"] * 2), ([b], ["?"]), ([b], ["?"]), ([c, d], ["?"] * 2)]
    )
    assert isinstance(unknown, UnknownSessionError)
    assert [[turn.number for turn in part] for part in (first, again, other)] == [[1], [2], [1, 1]]
    faulty, other = merged(actor._mergers["step"], [([a, b], ["faulty", "?"]), ([c, d], ["?"] * 2)])
    assert isinstance(faulty, PartialStepError)
    assert [type(faulty.results[a]), faulty.results[b].number, *faulty.results] == [ContractError, 3, a, b]
    assert [turn.number for turn in other] == [2, 2]


def test_a_call_whose_client_has_gone_is_made_without_an_answer() -> None:
    async def run() -> list[Any]:
        merger = Merger(lambda _, values: [*values])
        gone, waits = merger.future(["a"], [1]), merger.future(["b"], [2])
        gone.cancel()
        return await waits

    assert asyncio.run(run()) == [2]


def test_only_the_sessions_of_a_dead_actor_end_and_new_ones_open(pool: RayPool, ray: StandIn) -> None:
    ids = [opening.id for opening in pool.open_many(GAME, range(6), OPTIONS)]
    lost = [session_id for session_id in ids if actor_of(session_id) == 1]
    kept = [session_id for session_id in ids if actor_of(session_id) == 0]
    dead = kill(ray, 1)
    with pytest.raises(ClosedSessionError, match="Actor 1 of the pool has died"):
        pool.step_one(lost[0], "no action")
    with pytest.raises(PartialCallError, match="Actor 1 of the pool has died") as caught:
        pool.step(ids, ["no action"] * 6)
    assert set(caught.value.results) == set(kept)
    assert [result.number for result in pool.step(kept, ["no action"] * 3)] == [2] * 3
    opened = pool.open_many(GAME, range(4), OPTIONS)
    assert {actor_of(opening.id) for opening in opened} == {0}
    assert [opening.seed for opening in opened] == [0, 1, 2, 3]
    assert actor_of(asyncio.run(pool.aopen(GAME, 3, OPTIONS)).id) == 0
    assert len(pool) == 8
    pool.close(kept)
    dead.restart()
    with pytest.raises(ClosedSessionError, match="ended when its actor restarted"):
        pool.step_one(lost[0], REPLIES[0])
    assert {actor_of(opening.id) for opening in pool.open_many(GAME, range(2), OPTIONS)} == {0, 1}
    kill(ray, 0)
    kill(ray, 1)
    for call in (lambda: pool.open(GAME, 3, OPTIONS), lambda: len(pool), lambda: asyncio.run(pool.aopen(GAME, 3))):
        with pytest.raises(ClosedSessionError, match="has died"):
            call()


def test_a_faulty_parser_fails_its_session_on_any_actor(pool: RayPool, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = GameTable._parsed

    def parsed(table: GameTable, reply: Any) -> Any:
        return ContractError("the parser failed") if reply == "faulty" else sound(table, reply)

    monkeypatch.setattr(GameTable, "_parsed", parsed)
    ids = [opening.id for opening in pool.open_many(GAME, range(6), OPTIONS)]
    with pytest.raises(PartialStepError, match="the parser failed") as caught:
        pool.step(ids, ["faulty", *["no action"] * 5])
    results = [caught.value.results[session_id] for session_id in ids]
    assert isinstance(results[0], ContractError)
    assert [result.number for result in results[1:]] == [1] * 5
    assert [result.number for result in pool.step(ids, ["no action"] * 6)] == [1, *[2] * 5]


def test_an_episode_goes_on_after_its_actor_has_died(pool: RayPool, local: SessionPool, ray: StandIn) -> None:
    expected, episode = (Episode(GAME, 3, OPTIONS, some) for some in (local, pool))
    expected.start()
    number = actor_of(episode.start().id)
    assert expected.step(REPLIES[0]) == episode.step(REPLIES[0])
    kill(ray, number)
    for reply in REPLIES[1:]:
        assert expected.step(reply) == episode.step(reply)


def test_a_full_actor_leaves_sessions_to_others_until_all_are_full(pool: RayPool) -> None:
    ids = [opening.id for opening in pool.open_many(GAME, range(16), OPTIONS)]
    pool.close([session_id for session_id in ids if actor_of(session_id) == 1])
    assert {actor_of(pool.open(GAME, 3, OPTIONS).id) for _ in range(8)} == {1}
    with pytest.raises(CapacityError):
        pool.open(GAME, 3, OPTIONS)
    pool.close([session_id for session_id in ids if actor_of(session_id) == 0][:1])
    with pytest.raises(CapacityError):
        pool.open_many(GAME, [0, 1], OPTIONS)
    assert len(pool) == 15


def test_a_group_has_one_actor_and_one_difficulty(pool: RayPool) -> None:
    options = {"max_turns": 1, "size": 4, "adapt": "max_steps=90:80", "adapt_group": 2}
    opened = [pool.open_many(GAME, [0, 1, 0], options), [asyncio.run(pool.aopen(GAME, 1, options))]]
    openings = [opening for part in opened for opening in part]
    assert [actor_of(opening.id) for opening in openings] == [0, 1, 0, 1]
    assert {opening.difficulty for opening in openings} == {90}
    pool.step([opening.id for opening in openings], ["no action"] * 4)
    assert [(each["option"], each["groups"]) for each in pool.difficulties()] == [("max_steps", 1)] * 2


def test_invalid_calls_change_nothing(pool: RayPool) -> None:
    ids = [opening.id for opening in pool.open_many(GAME, range(4), OPTIONS)]
    calls: list[tuple[Any, str]] = [
        (lambda: pool.step(ids, ["a"]), "expected one for each of 4 ids"),
        (lambda: pool.step([*ids, ids[0]], ["a"] * 5), "got one twice"),
        (lambda: pool.step(ids, ["a", "b", "c", 3]), "expected a string"),
        (lambda: pool.step(ids[0], "a"), "got the string"),
        (lambda: pool.open_many(GAME, [0, -1], OPTIONS), "seed: expected an integer"),
        (lambda: RayPool(0), "num_actors"),
        (lambda: RayPool(2, capacity=1), "capacity"),
    ]
    for call, message in calls:
        with pytest.raises(RequestError, match=message):
            call()
    with pytest.raises(OptionError, match="plain data"):
        pool.open(GAME, 3, {"levels": object()})
    with pytest.raises(OptionError, match="size"):
        pool.open(GAME, 3, {"size": -1})
    assert len(pool) == 4
    assert [result.number for result in pool.step(ids, [REPLIES[0]] * 4)] == [1] * 4


def test_the_adapters_of_a_process_share_a_pool(pool: RayPool, monkeypatch: pytest.MonkeyPatch) -> None:
    del pool
    monkeypatch.setattr(episodes, "_pools", [])
    monkeypatch.setattr(ray_pool, "_shared", [])
    shared = ray_pool.share(2)
    assert ray_pool.share(2) is shared
    episode = Episode(GAME, 3, OPTIONS)
    assert actor_of(episode.start().id) in (0, 1)
    assert len(shared) == 1
    episode.close()
    assert len(shared) == 0
    with pytest.raises(RequestError, match="expected 2 as in the first call"):
        ray_pool.share(3)


def test_without_ray_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "jaxgym\[ray\]"'):
        RayPool(2)
