"""Copies of sessions: forks, saves and turns that are taken back have the same future as the session."""

import hashlib
import hmac
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jaxgym import levels, text
from jaxgym.errors import OptionError
from jaxgym.serve.pool import CapacityError, RequestError, SessionPool, TurnResult, UnknownSessionError
from jaxgym.serve.pool.session import SessionSnapshot
from tests.ids import short_names_of_programs
from tests.serve import corridor

ROOT = Path(__file__).parents[2]
REPLIES = ("<left>", "<right>", "<stay>", "left", "right right", "what?", "look")
QUICK = ("sudoku",)  # `frozen_lake` is reseeded below
CHANCE_OPTIONS = {
    "frozen_lake": {"is_slippery": True},
    "visual_match": {"explore_frames": 1, "apple_reward_high": 2.0, "fix_apple_reward": False},
}
"""Options with which games have chance events."""
DIARY = {"diary": True, "step_penalty": 0.25, "format_penalty": 0.5, "max_turns": 9}
TURNS = 12


@pytest.fixture(scope="module")
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=16, keeps_history=True, undo_turns=TURNS)
    made.prepare("corridor", DIARY)
    yield made
    assert len(made) == 0, "a test left sessions open"


@pytest.fixture
def opened(pool: SessionPool) -> Iterator[str]:
    """Provide a session after two turns; close all sessions afterwards."""
    session_id = pool.open("corridor", 3, DIARY).id
    played(pool, session_id, ["<left>", "right"])
    yield session_id
    pool.close(list(pool._sessions))


def snapshot(pool: SessionPool, session_id: str) -> SessionSnapshot:
    """Return everything that a session has."""
    session = corridor.looked(pool, session_id)
    return session.game.snapshots([session])[0]


def played(pool: SessionPool, session_id: str, replies: list[str]) -> list[TurnResult]:
    return [pool.step_one(session_id, reply) for reply in replies]


def random_replies(name: str, generator: random.Random) -> list[str]:
    """Return replies, most of them valid."""
    if name == "corridor":
        return generator.choices(REPLIES, k=TURNS)
    env, _, interface = text.make(name, levels="fresh")
    keys = jax.random.split(jax.random.key(generator.randrange(2**31)), TURNS)
    actions = jax.jit(jax.vmap(env.action_space().sample))(keys).tolist()
    said = [interface.reply_of(tuple(action) if isinstance(action, list) else action) for action in actions]
    return [reply if generator.random() < 0.8 else generator.choice(["?", said[0]]) for reply in said]


@pytest.mark.parametrize(
    "name",
    [
        "corridor",
        *(pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in short_names_of_programs()),
    ],
)
def test_forks_saves_and_undone_sessions_have_the_same_future(name: str) -> None:
    corridor.register()
    generator, options = random.Random(name), DIARY if name == "corridor" else {}
    pool = SessionPool(16, keeps_history=True, undo_turns=TURNS)
    for seed in (3, levels.SPLIT_SIZE + generator.randrange(99)):
        replies, turn = random_replies(name, generator), generator.randrange(1, TURNS)
        trunk = pool.open(name, seed, options).id
        before = played(pool, trunk, replies[:turn])
        one, other = pool.fork(trunk, 2)
        (loaded,) = pool.load(pool.save([trunk]))
        assert snapshot(pool, one) == snapshot(pool, other) == snapshot(pool, loaded) == snapshot(pool, trunk)
        after, last = played(pool, trunk, replies[turn:]), snapshot(pool, trunk)
        played(pool, other, ["?", *replies[:3]])
        for copy in (one, loaded):
            assert played(pool, copy, replies[turn:]) == after
            assert snapshot(pool, copy) == last
        number = last.record.number
        for copy in (trunk, one, loaded):
            assert pool.undo(copy, number - 1) == before[0].text if number > 1 else True
            assert played(pool, copy, replies[1:]) == [*before, *after][1:]
            assert snapshot(pool, copy) == last
        pool.close([trunk, one, other, loaded])


PROGRAM = """
import json, sys
from jaxgym.serve.pool import SessionPool
from tests.serve import corridor
corridor.register()
pool = SessionPool(64)
ids = pool.load(open(sys.argv[1], "rb").read(), b"secret")
replies = json.loads(sys.argv[2])
print(json.dumps([[pool.step_one(name, reply) for reply in said] for name, said in zip(ids, replies, strict=True)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("names", [["corridor"], short_names_of_programs()], ids=["corridor", "all"])
def test_saved_sessions_continue_in_another_process(names: list[str], tmp_path: Path) -> None:
    corridor.register()
    generator, pool, path = random.Random(1), SessionPool(64), tmp_path / "saved"
    replies = {name: random_replies(name, generator) for name in names}
    ids = {name: pool.open(name, 5, DIARY if name == "corridor" else {}).id for name in names}
    for name, session_id in ids.items():
        played(pool, session_id, replies[name][:4])
    path.write_bytes(pool.save(list(ids.values()), b"secret"))
    rest = [replies[name][4:] for name in names]
    expected = [played(pool, session_id, said) for session_id, said in zip(ids.values(), rest, strict=True)]
    argv = [sys.executable, "-c", PROGRAM, str(path), json.dumps(rest)]
    finished = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(finished.stdout) == json.loads(json.dumps(expected))


# Forks.


def test_a_fork_is_another_session_and_leaves_the_first_one_alone(pool: SessionPool, opened: str) -> None:
    before = snapshot(pool, opened)
    ids = pool.fork(opened, 5)
    assert len({opened, *ids}) == 6
    pool.step(ids, ["<right right right right>"] * 5)
    assert snapshot(pool, opened) == before
    pool.close([opened])
    assert [result.reward for result in pool.step(ids, ["<left>"] * 5)] == [0.0] * 5  # these episodes have ended


@pytest.mark.usefixtures("opened")
def test_a_session_that_was_not_started_can_be_forked_saved_and_loaded(pool: SessionPool) -> None:
    fresh = pool.open("corridor", 4, DIARY, start=False).id
    copies = [*pool.fork(fresh), *pool.load(pool.save([fresh])), pool.open("corridor", 4, DIARY).id]
    assert len({tuple(played(pool, copy, ["<right>"])[0].text for copy in copies)}) == 1
    assert corridor.looked(pool, fresh).text is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n: expected an integer of at least 1, got 0"),
        ({"n": 1.5}, "n: expected an integer"),
        ({"seed": 3}, "seed: expected None, or an integer of at least 0 with reseed=True, got 3"),
        ({"seed": -1, "reseed": True}, "seed: expected None, or an integer"),
    ],
)
def test_wrong_arguments_of_a_fork_are_errors(
    pool: SessionPool, opened: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        pool.fork(opened, **arguments)
    with pytest.raises(UnknownSessionError):
        pool.fork("unknown")


def test_a_fork_without_room_changes_nothing(pool: SessionPool, opened: str) -> None:
    with pytest.raises(CapacityError):
        pool.fork(opened, 16)
    assert len(pool) == 1


def test_reseeded_forks_have_other_slips_and_the_same_lake() -> None:
    pool = SessionPool(16)

    def cells(ids: list[str]) -> list[tuple[int, ...]]:
        """Return the cells after a step down, and close the sessions."""
        pool.step(ids, ["<action>down</action>"] * len(ids))
        reached = [tuple(corridor.scene_of(pool, copy).player_cell.tolist()) for copy in ids]
        pool.close(ids)
        return reached

    trunk = pool.open("frozen_lake", 3, {"is_slippery": True}).id
    pool.step_one(trunk, "<action>right</action>")
    assert len(set(cells(pool.fork(trunk, 15)))) == 1
    batches = [cells(pool.fork(trunk, 15, reseed=True, seed=seed)) for seed in range(8)]
    counts = Counter(cell for batch in batches for cell in batch)
    assert len(counts) == 3  # down, or a slip to either side; one of the cells can be its own
    assert min(counts.values()) > 20  # each has a probability of 1/3: the deviation of a count is 5.2
    assert cells(pool.fork(trunk, 3, reseed=True, seed=5)) == batches[5][:3]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*short_names_of_programs(), "endless_searing_spotlights", "t_maze_lamp"])
def test_reseeding_changes_no_scene_and_only_the_future_of_games_with_chance(name: str) -> None:
    generator, pool = random.Random(name), SessionPool(16)
    options = CHANCE_OPTIONS.get(name, {})
    replies = random_replies(name, generator) * 10
    trunk = pool.open(name, 3, options).id
    played(pool, trunk, replies[:3])
    (copy,) = pool.fork(trunk, reseed=True, seed=0)
    game = corridor.looked(pool, trunk).game
    (state, output), (own_state, own_output) = (
        (game._programs.states.view(rows), corridor.scene_of(pool, name))
        for name, rows in ((name, np.frombuffer(snapshot(pool, name).state, np.uint8)[None]) for name in (trunk, copy))
    )
    jax.tree.map(np.testing.assert_array_equal, output, own_output)
    chance = (*CHANCE_OPTIONS, "memory_cards", "t_maze_lamp", "color_cubes", "boss_fight")
    is_random = name in chance or "spotlights" in name
    same = jax.tree.map(np.array_equal, state, own_state)
    assert all(jax.tree.leaves(same)) == (not is_random)
    scene = jax.jit(jax.vmap(game._programs.logic.env.scene, (0, None)))
    jax.tree.map(np.testing.assert_array_equal, *(scene(one, game.params) for one in (state, own_state)))
    assert (played(pool, trunk, replies) != played(pool, copy, replies)) == is_random


# Turns that are taken back.


def test_undo_returns_the_earlier_text_and_revives_an_ended_episode(pool: SessionPool, opened: str) -> None:
    shown = corridor.looked(pool, opened).text
    won = pool.step_one(opened, "<right right right right>")
    assert won.terminated
    assert pool.undo(opened) == shown
    assert pool.step_one(opened, "<right right right right>") == won
    pool.undo(opened, 3)
    assert corridor.looked(pool, opened).number == 0
    with pytest.raises(
        RequestError, match="turns: expected at most 0, the number of turns that can be taken back, got 1"
    ):
        pool.undo(opened)


def test_undo_keeps_the_last_turns_of_the_current_episode() -> None:
    corridor.register()
    pool = SessionPool(4, undo_turns=2)
    opening = pool.open("corridor", 3)
    texts = [opening.text, *(result.text for result in played(pool, opening.id, ["<left>", "<right>", "what?"]))]
    with pytest.raises(RequestError, match=r"expected at most 2, .*, got 3"):
        pool.undo(opening.id, 3)
    assert pool.undo(opening.id, 2) == texts[1]
    pool.step_one(opening.id, "<left>")
    pool.reset_one(opening.id, 5)
    with pytest.raises(RequestError, match="expected at most 0"):
        pool.undo(opening.id)


def test_without_undo_turns_no_snapshot_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    corridor.register()
    pool = SessionPool(4)
    opening = pool.open("corridor", 3)
    game = corridor.looked(pool, opening.id).game
    monkeypatch.setattr(game, "snapshots", None)
    pool.step_one(opening.id, "<left>")
    assert corridor.looked(pool, opening.id).past is None
    with pytest.raises(RequestError, match=r"increase SessionPool\(undo_turns=\.\.\.\)"):
        pool.undo(opening.id)
    with pytest.raises(RequestError, match="undo_turns: expected an integer of at least 0, got -1"):
        SessionPool(4, undo_turns=-1)


# Saved sessions.


def signed(body: bytes, key: bytes = b"", version: int = 1) -> bytes:
    return b"jaxgym sessions %d %s\n" % (version, hmac.new(key, body, hashlib.sha256).hexdigest().encode()) + body


def test_a_save_names_no_session_and_follows_no_later_turn(pool: SessionPool, opened: str) -> None:
    data = pool.save([opened])
    assert opened.encode() not in data
    assert pool.save([opened]) == data
    number = corridor.looked(pool, opened).number
    pool.step_one(opened, "<left>")
    (copy,) = pool.load(data)
    assert corridor.looked(pool, copy).number == number


def test_a_pool_takes_histories_and_turns_only_if_it_keeps_them(pool: SessionPool, opened: str) -> None:
    data = pool.save([opened])
    plain = SessionPool(4)
    (copy,) = plain.load(data)
    assert (corridor.looked(plain, copy).history, corridor.looked(plain, copy).past) == (None, None)
    (back,) = pool.load(plain.save([copy]))
    history = corridor.looked(pool, back).history
    assert history is not None
    assert history.after(0, 0) == []
    assert played(pool, back, REPLIES[:3]) == played(plain, copy, REPLIES[:3])


def test_damaged_saves_and_other_keys_are_errors(pool: SessionPool, opened: str) -> None:
    data = pool.save([opened], b"secret")
    assert pool.load(data, b"secret")
    generator = random.Random(0)
    places = generator.sample(range(len(data)), k=50)
    damaged = [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in places]
    for wrong in (*damaged, *(data[:place] for place in places), b"", data + b" ", None, "text"):
        with pytest.raises(RequestError, match="data: expected "):
            pool.load(wrong, b"secret")  # pyright: ignore[reportArgumentType]
    with pytest.raises(RequestError, match="key: expected bytes, got 'secret'"):
        pool.save([opened], "secret")  # pyright: ignore[reportArgumentType]
    for key in (b"", b"public"):
        with pytest.raises(RequestError, match="the data are damaged, or the key differs"):
            pool.load(data, key)
    with pytest.raises(RequestError, match="expected sessions in version 1, got version b'2'"):
        pool.load(signed(b"{}", version=2))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a JSON document."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places(entry, (*path, key))


ODD = (None, True, -1, 10**30, 1e300, "x", [], {}, {"tuple": []}, {"bytes": "AAAA"}, {"array": ["|O", [1], "AAAA"]})


def test_a_forged_save_is_an_error_or_plays_on(pool: SessionPool, opened: str) -> None:
    pool.step_one(opened, "<right right right right>")
    body = pool.save([opened]).partition(b"\n")[2]
    generator, messages = random.Random(0), set[str]()
    for place in places(json.loads(body)):
        forged = {"whole": json.loads(body)}
        holder, *_ = [forged]
        for key in ("whole", *place)[:-1]:
            holder = holder[key]
        holder[("whole", *place)[-1]] = generator.choice(ODD)
        try:
            ids = pool.load(signed(json.dumps(forged["whole"]).encode()))
        except (RequestError, CapacityError, OptionError) as error:
            messages.add(str(error))
        else:
            for copy in ids:
                played(pool, copy, ["<left>", "?"])
            pool.close(ids)
        assert len(pool) == 1
    assert len(messages) > 10


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"games": [], "sessions": [1]}',
        b'{"games": [["Corridor-v0", {}, 1, ""]], "sessions": []}',
        b"9" * 5000,
        b'{"games": "", "sessions": []}',
    ],
)
def test_a_save_of_anything_else_is_an_error(pool: SessionPool, body: bytes) -> None:
    with pytest.raises(RequestError, match="data: expected saved sessions, got"):
        pool.load(signed(body))


def test_a_save_of_another_layout_or_of_too_many_sessions_is_an_error(pool: SessionPool, opened: str) -> None:
    saved = json.loads(pool.save([opened]).partition(b"\n")[2])
    many = {**saved, "sessions": saved["sessions"] * 17}
    with pytest.raises(CapacityError, match="expected at most 16 sessions, got 17 saved ones"):
        pool.load(signed(json.dumps(many).encode()))
    saved["games"][0][3] = "0" * 64
    with pytest.raises(RequestError, match="expected sessions of this version, got another layout"):
        pool.load(signed(json.dumps(saved).encode()))


def test_sizes_are_bounded(pool: SessionPool, opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pool.save([opened])
    monkeypatch.setattr("jaxgym.serve.pool.saves.MOST_SAVED_BYTES", 100)
    with pytest.raises(RequestError, match="data: expected at most 100 bytes"):
        pool.load(data)
    with pytest.raises(RequestError, match="ids: expected at most 100 bytes"):
        pool.save([opened])


@pytest.mark.usefixtures("opened")
def test_sessions_on_a_level_buffer_can_be_forked_but_not_saved(pool: SessionPool) -> None:
    env, params, _ = text.make("corridor")
    other = pool.open("corridor", 0, {"levels": levels.make_level_buffer(env, params, [4, 9])}).id
    (copy,) = pool.fork(other)
    assert played(pool, copy, ["<left>"]) == played(pool, other, ["<left>"])
    with pytest.raises(RequestError, match="Corridor-v0: options: expected plain data, got Level"):
        pool.save([other])
