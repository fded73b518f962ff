"""A pool of sessions, on a corridor: <left>, <stay>, <right>, each a step of the eight cells `.......G`.

seed 3 starts at cell 4:   ....A...
"""

import asyncio
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest

from jaxgym import levels, text
from jaxgym.errors import OptionError, UnknownIdError
from jaxgym.serve.pool import (
    CapacityError,
    ClosedSessionError,
    RequestError,
    SessionError,
    SessionPool,
    TurnResult,
    UnknownSessionError,
)
from jaxgym.serve.pool.pool import MOST_SESSIONS
from tests.serve import corridor

ROOT = Path(__file__).parents[2]
REPLIES = ("<left>", "<right>", "<stay>", "left", "right right", "what?")


@pytest.fixture(scope="module")
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=64)
    made.prepare("corridor")
    yield made
    assert len(made) == 0, "a test left sessions open"


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    events: list[str] = []

    def listen(event: str, duration: float, **_: Any) -> None:
        del duration
        if "compile" in event or "trac" in event:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.unregister_event_duration_listener(listen)


def play(pool: SessionPool, seed: int, replies: list[str], **options: Any) -> list[str]:
    opening = pool.open("corridor", seed, options)
    texts = [opening.text, *(pool.step([opening.id], [reply])[0].text for reply in replies)]
    pool.close([opening.id])
    return texts


def one(pool: SessionPool, replies: list[str], seed: int = 3, **options: Any) -> list[TurnResult]:
    opening = pool.open("corridor", seed, options)
    results = [pool.step_one(opening.id, reply) for reply in replies]
    pool.close([opening.id])
    return results


def test_an_opening_has_id_seed_instructions_and_first_text(pool: SessionPool) -> None:
    opening = pool.open("Corridor-v0", 3)
    assert opening.id in pool
    assert opening[1:] == ("Corridor-v0", 3, pool.prepare("corridor"), "", "....A...", 1, None, None)
    pool.close([opening.id])
    assert opening.id not in pool


def test_ids_can_not_be_guessed(pool: SessionPool) -> None:
    ids = [opening.id for opening in pool.open_many("corridor", range(10))]
    assert len(set(ids)) == 10
    assert min(map(len, ids)) >= 32
    pool.close(ids)


def test_the_level_is_that_of_the_seed(pool: SessionPool) -> None:
    env, params, _ = text.make("corridor")
    for seed in (0, 5, 2**31 + 7):
        opening = pool.open("corridor", seed)
        assert corridor.scene_of(pool, opening.id).position == int(levels.level_from_seed(env, seed, params).start)
        pool.close([opening.id])


def test_a_held_out_seed_starts_its_own_level_of_mystery_path() -> None:
    shown = {"show_goal": True, "show_origin": True}
    env, params, interface = text.make("mystery_path_grid", levels="fresh", **shown)

    @jax.jit
    def first_scene(seed: jax.Array) -> Any:
        return env.scene(env.initial_state(levels.level_from_seed(env, seed, params), params), params)

    seeds = [7, *levels.held_out_seeds(3).tolist()]
    scenes = [jax.tree.map(np.asarray, first_scene(np.uint32(seed))) for seed in seeds]
    expected = [interface.open(scene, params) for scene in scenes]
    assert len(set(expected)) > 1
    own_pool = SessionPool(capacity=8)
    for options in ({}, {"levels": None}):
        openings = own_pool.open_many("mystery_path_grid", seeds, {**shown, **options})
        assert [opening.text for opening in openings] == expected


def test_without_a_seed_a_training_level_is_drawn(pool: SessionPool) -> None:
    seeds = [opening.seed for opening in pool.open_many("corridor", [None] * 8)]
    assert len(set(seeds)) == 8
    assert max(seeds) < levels.SPLIT_SIZE
    pool.close(list(pool._sessions))


def test_with_a_level_buffer_the_seed_counts_through_it(pool: SessionPool) -> None:
    env, params, _ = text.make("corridor")
    buffer = levels.make_level_buffer(env, params, [4, 9])
    starts = [int(levels.level_from_seed(env, seed, params).start) for seed in (4, 9, 4)]
    openings = [pool.open("corridor", seed, {"levels": buffer}) for seed in (0, 1, 2)]
    assert [int(corridor.scene_of(pool, opening.id).position) for opening in openings] == starts
    pool.close([opening.id for opening in openings])


def test_an_outcome_tells_text_reward_and_ending(pool: SessionPool) -> None:
    first, second, third = one(pool, ["<right>", "<right>", "<right>"])
    assert first == ("1: .....A..", 0.0, False, False, 1, None, {"environment": 0.0}, 0.0, False, {}, None)
    assert not (second.terminated)
    assert not (second.truncated)
    assert not (second.info)
    assert third[:9] == ("3: .......A won", 1.0, True, False, 3, None, {"environment": 1.0}, 1.0, True)
    assert third.info == {"success": True, "position": 7, "episode_return": 1.0, "episode_length": 3}


def test_a_turn_may_have_several_actions_and_drops_the_rest_at_the_end(pool: SessionPool) -> None:
    (moved,) = one(pool, ["<left left right>"])
    assert (moved.text, moved.number) == ("1: ...A....", 1)
    (won,) = one(pool, ["<right right right left left left left>"])
    assert (won.text, won.reward, won.info["episode_length"]) == ("1: .......A won", 1.0, 3)
    (long,) = one(pool, ["<left left left right right right right right right>"])
    assert (long.text, long.info["episode_length"]) == ("1: .......A won", 9)


def test_a_move_without_actions_changes_nothing(pool: SessionPool) -> None:
    moved, looked = one(pool, ["<right>", "look"])
    assert (looked.text, looked.reward, looked.number) == ("2: .....A..", 0.0, 2)
    assert looked.invalid_reply is None
    assert moved.invalid_reply is None


def test_an_invalid_reply_tells_why_costs_a_turn_and_moves_nothing(pool: SessionPool) -> None:
    invalid, moved = one(pool, ["jump", "<left>"])
    assert invalid.invalid_reply == "Say left, stay or right."
    assert invalid.text == "1: Say left, stay or right.\n....A..."
    assert moved.text == "2: ...A...."


def test_costs_are_parts_of_the_reward(pool: SessionPool) -> None:
    penalties = {"invalid_reply_penalty": 1.0, "format_penalty": 0.5, "step_penalty": 0.25}
    exact, loose, invalid = one(pool, ["<stay>", "stay", "jump"], **penalties)
    none = {"environment": 0.0, "invalid_reply_penalty": 0.0, "format_penalty": 0.0, "step_penalty": -0.25}
    assert exact.components == none
    assert loose.components == {**none, "format_penalty": -0.5}
    assert invalid.components == {**none, "invalid_reply_penalty": -1.0}
    assert [exact.reward, loose.reward, invalid.reward] == [-0.25, -0.75, -1.25]
    assert invalid.total_reward == -2.25


def test_a_reward_tracker_of_the_game_scores_an_episode(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3, {"diary": True, "step_penalty": 0.25})
    results = [pool.step_one(opening.id, reply) for reply in ("<right>", "<left>", "<right>", "jump")]
    assert [result.components["news"] for result in results] == [0.5, 0.5, 0.0, 0.0]
    assert results[0].reward == 0.25
    pool.reset_one(opening.id, 3)
    assert pool.step_one(opening.id, "<right>").components["news"] == 0.5
    pool.close([opening.id])


def test_a_session_may_score_the_environments_reward_alone(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3, {"diary": True, "rewards": "environment"})
    assert pool.step_one(opening.id, "<right>").components == {"environment": 0.0}
    pool.close([opening.id])


def test_max_turns_truncates_and_counts_invalid_replies(pool: SessionPool) -> None:
    first, second = one(pool, ["jump", "<stay>"], max_turns=2)
    assert not first.truncated
    assert (second.truncated, second.terminated, second.is_solved) == (True, False, False)
    assert second.info["episode_length"] == 1


def test_the_time_limit_of_the_environment_truncates(pool: SessionPool) -> None:
    first, second = one(pool, ["<stay>", "<stay>"], max_steps=2)
    assert (first.truncated, second.truncated, second.terminated) == (False, True, False)


def test_an_invalid_reply_ends_the_episode_where_asked_for(pool: SessionPool) -> None:
    moved, invalid, after = one(pool, ["<right>", "jump", "<right>"], on_invalid_reply="end", invalid_reply_penalty=1.0)
    assert not moved.terminated
    assert (invalid.terminated, invalid.truncated, invalid.reward) == (True, False, -1.0)
    assert invalid.info["position"] == 5
    assert (after.text, after.reward, after.terminated) == (invalid.text, 0.0, True)


@pytest.mark.parametrize("options", [{"on_invalid_reply": "end"}, {"max_turns": 1}])
def test_no_reply_is_asked_for_after_an_invalid_one_that_ends_the_episode(
    pool: SessionPool, options: dict[str, Any]
) -> None:
    opening = pool.open("t_maze", 3, options)
    result = pool.step_one(opening.id, "jump")
    pool.close([opening.id])
    expected = 'Invalid reply: expected one of right, up, left, down, got "jump".'
    assert result.text.splitlines()[0] == expected
    assert result.invalid_reply == f"{expected} Reply in this format: <action>right</action>."


def test_the_fallback_stands_in_for_an_invalid_reply_where_asked_for(pool: SessionPool) -> None:
    (invalid,) = one(pool, ["jump"], on_invalid_reply="fallback", invalid_reply_penalty=1.0)
    assert (invalid.text, invalid.reward) == ("1: ....A...", -1.0)
    assert invalid.invalid_reply == "Say left, stay or right."


def test_after_the_end_the_last_text_comes_again_without_reward(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3)
    won = pool.step_one(opening.id, "<right right right>")
    again = pool.step_one(opening.id, "<left>")
    assert again == won._replace(reward=0.0, components={"environment": 0.0})
    assert corridor.scene_of(pool, opening.id).position == 7
    played = corridor.looked(pool, opening.id)
    assert (played.text, played.number, played.total_reward, played.last) == (won.text, 1, 1.0, won)
    pool.close([opening.id])


def test_a_session_that_was_not_started_starts_with_its_first_step(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3, start=False)
    assert opening.text == ""
    assert corridor.looked(pool, opening.id).text is None
    assert pool.step_one(opening.id, "<right>").text == "1: .....A.."
    played = corridor.looked(pool, opening.id)
    assert (played.game.env_id, played.seed, played.text) == ("Corridor-v0", 3, "1: .....A..")
    assert (played.number, played.total_reward, played.last) == (1, 0.0, None)
    pool.close([opening.id])


def test_a_reset_starts_another_episode_in_the_same_session(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3)
    pool.step_one(opening.id, "<right right right>")
    (again,) = pool.reset([opening.id], [3])
    assert again == opening
    assert pool.step_one(opening.id, "<right>")[4] == 1
    pool.close([opening.id])


def test_the_frame_is_that_of_the_state(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3, start=False)
    frame = pool.frame(opening.id)
    chex.assert_shape(frame, (84, 84, 3))
    chex.assert_type(frame, np.uint8)
    assert frame.max() == 4
    pool.step_one(opening.id, "<right>")
    assert pool.frame(opening.id).max() == 5
    pool.close([opening.id])


def test_different_games_and_options_share_a_pool(pool: SessionPool) -> None:
    ids = [pool.open("corridor", 3, options).id for options in ({}, {"shouts": True}, {"length": 6}, None)]
    results = pool.step(ids, ["<left>", "jump", "<left>", "<right>"])
    alone = [
        one(pool, [reply], **options)[0].text
        for options, reply in (({}, "<left>"), ({"shouts": True}, "jump"), ({"length": 6}, "<left>"), ({}, "<right>"))
    ]
    assert [result.text for result in results] == alone
    assert alone[1].startswith("1: SAY LEFT")
    pool.close(ids)


def test_sessions_play_the_same_alone_and_among_others(pool: SessionPool) -> None:
    generator = random.Random(0)
    scripts = [generator.choices(REPLIES, k=6) for _ in range(64)]
    alone = {seed: play(pool, seed, scripts[seed]) for seed in (0, 17, 63)}
    openings = pool.open_many("corridor", range(64))
    ids = [opening.id for opening in openings]
    together = [[opening.text] for opening in openings]
    for turn in range(6):
        order = generator.sample(range(64), k=64)
        results = pool.step([ids[seed] for seed in order], [scripts[seed][turn] for seed in order])
        for seed, result in zip(order, results, strict=True):
            together[seed].append(result.text)
    pool.close(ids)
    assert {seed: together[seed] for seed in alone} == alone


def test_sessions_play_the_same_in_another_process(pool: SessionPool) -> None:
    program = """
from jaxgym.serve.pool import SessionPool
from tests.serve import corridor
corridor.register()
pool = SessionPool(capacity=4)
opening = pool.open("corridor", 12)
print(opening.text, *[pool.step_one(opening.id, reply).text for reply in ("<left>", "jump", "right right")], sep="|")
"""
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "|".join(play(pool, 12, ["<left>", "jump", "right right"]))


def test_nothing_is_compiled_in_service(pool: SessionPool, compilations: list[str]) -> None:
    generator = random.Random(1)
    ids = [opening.id for opening in pool.open_many("corridor", range(60))]
    for size in (1, 2, 15, 16, 17, 59, 60):
        chosen = generator.sample(ids, k=size)
        pool.step(chosen, generator.choices(REPLIES, k=size))
        pool.reset(chosen, range(size))
    pool.close(ids)
    assert compilations == []


def test_games_that_differ_in_numbers_alone_share_their_programs(pool: SessionPool, compilations: list[str]) -> None:
    assert one(pool, ["<right right right>"], bonus=5.0)[0].reward == 5.0
    assert not [event for event in compilations if "backend_compile" in event]


def test_coroutines_are_stepped_together(pool: SessionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    step = pool._step
    monkeypatch.setattr(pool, "_step", lambda sessions, replies: sizes.append(len(sessions)) or step(sessions, replies))

    async def play_one(seed: int) -> list[str]:
        opening = await pool.aopen("corridor", seed)
        texts = [opening.text] + [(await pool.astep(opening.id, reply)).text for reply in ("<left>", "jump", "<stay>")]
        await pool.aclose(opening.id)
        return texts

    async def play_all() -> list[list[str]]:
        return await asyncio.gather(*(play_one(seed) for seed in range(20)))

    texts = asyncio.run(play_all())
    assert sizes == [20, 20, 20]
    monkeypatch.undo()
    assert texts[5] == play(pool, 5, ["<left>", "jump", "<stay>"])


def test_an_event_loop_may_be_closed_between_two_steps(pool: SessionPool) -> None:
    opening = asyncio.run(pool.aopen("corridor", 3))
    texts = [asyncio.run(pool.astep(opening.id, "<right>")).text for _ in range(2)]
    assert texts == ["1: .....A..", "2: ......A."]
    asyncio.run(pool.aclose(opening.id))


def test_a_call_of_a_loop_that_was_closed_holds_up_nobody(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3)
    loop = asyncio.new_event_loop()
    task = loop.create_task(pool.astep(opening.id, "<right>"))
    loop.call_soon(loop.stop)  # before the calls of this round are made
    loop.run_forever()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    assert asyncio.run(pool.astep(opening.id, "<left>")).text in ("1: ...A....", "2: ....A...")
    pool.close([opening.id])


def test_a_cancelled_call_is_not_made(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3)

    async def cancel() -> None:
        task = asyncio.create_task(pool.astep(opening.id, "<right>"))
        pool._calls._lock.acquire()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        pool._calls._free()

    asyncio.run(cancel())
    assert pool.step_one(opening.id, "<right>").text == "1: .....A.."
    pool.close([opening.id])


def test_a_loop_goes_on_while_another_thread_holds_the_pool(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3)

    async def both() -> str:
        pool._calls._lock.acquire()
        task = asyncio.create_task(pool.astep(opening.id, "<right>"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        threading.Thread(target=pool._calls._free).start()
        return (await task).text

    assert asyncio.run(both()) == "1: .....A.."
    pool.close([opening.id])


def test_threads_play_as_if_alone(pool: SessionPool) -> None:
    texts: dict[int, list[str]] = {}

    def play_one(seed: int) -> None:
        opening = pool.open("corridor", seed)
        texts[seed] = [opening.text, *(pool.step_one(opening.id, reply).text for reply in REPLIES)]
        pool.close([opening.id])

    threads = [threading.Thread(target=play_one, args=(seed,)) for seed in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {seed: play(pool, seed, list(REPLIES)) for seed in range(24)}


def test_calls_for_one_session_are_made_one_after_the_other(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3)

    async def twice() -> list[TurnResult]:
        return await asyncio.gather(*(pool.astep(opening.id, "<stay>") for _ in range(3)))

    assert [result.number for result in asyncio.run(twice())] == [1, 2, 3]
    pool.close([opening.id])


def test_an_error_of_one_call_does_not_disturb_the_others(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3)

    async def both() -> list[Any]:
        calls = (pool.astep(opening.id, "<right>"), pool.astep("nobody", "<right>"))
        return await asyncio.gather(*calls, return_exceptions=True)

    result, error = asyncio.run(both())
    assert result.text == "1: .....A.."
    assert isinstance(error, UnknownSessionError)
    pool.close([opening.id])


@pytest.mark.parametrize(
    ("ids", "replies", "error", "says"),
    [
        (["nobody"], ["<left>"], UnknownSessionError, r"Unknown session 'nobody'\. Use an id that open"),
        (["0", "0"], ["<left>", "<left>"], RequestError, "ids: expected different sessions, got '.*' twice"),
        (["0", "1"], ["<left>"], RequestError, r"replies: expected one for each of 2 ids, got 1\."),
        (["0", "1"], ["<left>", None], RequestError, r"reply: expected a string, got None\."),
        (["0", "nobody"], ["<left>", "<left>"], UnknownSessionError, "Unknown session"),
        (["0", ["1"]], ["<left>", "<left>"], UnknownSessionError, r"Unknown session \['1'\]"),
        (["0"], "<left>", RequestError, "replies: expected a list, got the string '<left>'"),
        (["0"], [b"<left>" * 10**6], RequestError, r"reply: expected a string, got b'<left>.{,60}\.$"),
    ],
)
def test_a_call_that_is_rejected_steps_nobody(
    pool: SessionPool, ids: list[Any], replies: Any, error: type[SessionError], says: str
) -> None:
    opened = {str(place): opening.id for place, opening in enumerate(pool.open_many("corridor", [3, 3]))}
    with pytest.raises(error, match=says):
        pool.step([opened.get(str(name), name) for name in ids], replies)
    assert [corridor.looked(pool, name).number for name in opened.values()] == [0, 0]
    pool.close(list(opened.values()))


def test_an_id_that_is_no_string_disturbs_no_other_call(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3)
    wrong: Any = [1]

    async def both() -> list[Any]:
        return await asyncio.gather(
            pool.astep(opening.id, "<left>"), pool.astep(wrong, "<left>"), pool.areset(wrong), return_exceptions=True
        )

    result, *errors = asyncio.run(both())
    assert result.number == 1
    for call in (lambda: pool.step_one(wrong, "<left>"), lambda: pool.reset_one(wrong), lambda: pool.close([wrong])):
        with pytest.raises(UnknownSessionError) as error:
            call()
        errors.append(error.value)
    assert {str(error) for error in errors} == {f"Unknown session {wrong!r}. Use an id that open returned."}
    assert wrong not in pool
    pool.close([opening.id])


def test_a_closed_session_can_not_be_used(pool: SessionPool) -> None:
    opening = pool.open("corridor", 3)
    pool.close([opening.id])
    with pytest.raises(ClosedSessionError, match=r"was closed\. Open another one"):
        pool.step_one(opening.id, "<left>")
    with pytest.raises(ClosedSessionError):
        pool.close([opening.id])


def test_a_full_pool_rejects_sessions_and_opens_none(pool: SessionPool) -> None:
    ids = [opening.id for opening in pool.open_many("corridor", range(60))]
    with pytest.raises(CapacityError, match="at most 64 open sessions, got 5 more than the 60 open ones"):
        pool.open_many("corridor", range(5))
    assert len(pool) == 60
    pool.close(ids)


def test_idle_sessions_make_room(pool: SessionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("jaxgym.serve.pool.pool.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(pool, "idle_seconds", 60.0)
    idle, busy = pool.open_many("corridor", [1, 2], start=False)
    clock[0] = 150.0
    pool.step_one(busy.id, "<stay>")
    clock[0] = 170.0
    assert pool.close_idle() == 1
    with pytest.raises(ClosedSessionError, match="was closed after 60 s without a call"):
        pool.step_one(idle.id, "<left>")
    pool.close([busy.id])


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "0", True])
def test_a_seed_that_is_none_is_rejected(pool: SessionPool, seed: Any) -> None:
    with pytest.raises(RequestError, match="seed: expected an integer from 0 to 4294967295"):
        pool.open("corridor", seed)


@pytest.mark.parametrize(
    ("name", "options", "error", "says"),
    [
        ("corridors", {}, UnknownIdError, "did you mean 'corridor'"),
        (["corridor"], {}, UnknownIdError, "did you mean 'corridor'"),
        ("corridor", "size=4", OptionError, "options: expected a mapping from names to values, got 'size=4'"),
        ("corridor", {1: 2, "size": 4}, OptionError, "options: expected a mapping from names to values"),
        ("corridor", {"max_turn": 3}, OptionError, "did you mean 'max_turns'"),
        ("corridor", {"on_invalid_reply": "die"}, OptionError, "expected 'retry' or 'end' or 'fallback', got 'die'"),
        ("corridor", {"step_penalty": -1}, OptionError, "expected a finite float32 number from 0.0 up, got -1"),
    ],
)
def test_a_game_that_is_none_is_rejected(
    pool: SessionPool, name: Any, options: Any, error: type[ValueError], says: str
) -> None:
    with pytest.raises(error, match=says):
        pool.open(name, 0, options)


def test_a_fallback_that_the_text_interface_lacks_is_rejected(
    pool: SessionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corridor.CorridorTextInterface, "fallback", text.TextInterface.fallback)
    with pytest.raises(OptionError, match="on_invalid_reply: expected 'retry' or 'end', got 'fallback'"):
        pool.open("corridor", 3, {"on_invalid_reply": "fallback", "max_turns": 7})


@pytest.mark.parametrize("capacity", [0, 1.5, True, MOST_SESSIONS + 1, 10**12])
def test_a_capacity_that_is_none_or_more_than_a_machine_holds_is_rejected(capacity: Any) -> None:
    with pytest.raises(RequestError, match=f"capacity: expected an integer from 1 to {MOST_SESSIONS}"):
        SessionPool(capacity=capacity)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), "60", True])
def test_an_idle_time_that_is_none_is_rejected(seconds: Any) -> None:
    with pytest.raises(RequestError, match="idle_seconds: expected a positive number or None"):
        SessionPool(idle_seconds=seconds)


def test_every_rejection_is_a_session_error_and_a_value_error() -> None:
    for kind in (UnknownSessionError, ClosedSessionError, CapacityError, RequestError):
        assert issubclass(kind, SessionError)
        assert issubclass(kind, ValueError)
