"""Adapters for trainers, on the corridor of `tests.serve.corridor` (seed 3 starts at cell 4 of `.......G`)."""

import asyncio
from collections.abc import Iterator

import pytest

from jaxgym.errors import UnknownIdError
from jaxgym.serve import episodes
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.trainers.episode import Observation, Played, play
from tests.serve import corridor
from tests.serve.replay import replay

RIGHT = "<right>"
BAD_REPLIES = (
    "",
    "   ",
    "nothing here",
    "<action></action>",
    "\x00",
    "<action>up",
    "x" * 5000,
    '{"a": ',
    "éÄ☃ <image>",
)


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_pools", [made])
        yield made


class Player:
    """Repeats a reply and keeps what it was shown; None stops the episode."""

    def __init__(self, *replies: str | None) -> None:
        self.replies = replies
        self.seen: list[Observation] = []

    async def __call__(self, observation: Observation) -> str | None:
        self.seen.append(observation)
        await asyncio.sleep(0)
        return self.replies[min(len(self.seen), len(self.replies)) - 1]


def test_an_episode_has_the_texts_and_rewards_of_a_session(pool: SessionPool) -> None:
    config = {"name": "corridor", "seed": 3, "step_penalty": 0.25}
    player = Player("nothing", RIGHT)
    played = asyncio.run(play(config, player))
    (system_prompt, *texts), results = replay(pool, config, ["nothing", RIGHT, RIGHT, RIGHT])
    assert [observation.text for observation in player.seen] == texts[:-1]
    assert [observation.system_prompt for observation in player.seen] == [system_prompt, "", "", ""]
    assert played.rewards == [result.reward for result in results]
    assert (played.total_reward, played.has_ended) == (results[-1].total_reward, True)
    assert played.metrics == {"success": 1.0, "turns": 4.0, "invalid_replies": 1.0}
    assert len(pool) == 0


def test_many_episodes_at_once_equal_one_alone_and_leave_no_session(pool: SessionPool) -> None:
    async def both() -> list[Played]:
        return await asyncio.gather(*(play({"name": "corridor", "seed": seed}, Player(RIGHT)) for seed in range(64)))

    for seed, played in enumerate(asyncio.run(both())):
        assert played == asyncio.run(play({"name": "corridor", "seed": seed}, Player(RIGHT)))
    assert len(pool) == 0


def test_malformed_replies_are_invalid_turns(pool: SessionPool) -> None:
    played = asyncio.run(play({"name": "corridor", "seed": 3, "max_turns": 9}, Player(*BAD_REPLIES)))
    assert (len(played.rewards), played.invalid_replies, played.total_reward) == (9, 9, 0.0)
    assert played.result is not None
    assert played.result.truncated
    assert len(pool) == 0


@pytest.mark.parametrize(("player", "limit", "turns"), [(Player("<stay>"), 3, 3), (Player("<stay>", None), 9, 1)])
def test_a_trainer_can_stop_an_episode(pool: SessionPool, player: Player, limit: int, turns: int) -> None:
    played = asyncio.run(play({"name": "corridor", "seed": 3}, player, limit))
    assert (len(played.rewards), played.has_ended) == (turns, False)
    assert len(pool) == 0


def test_no_reply_is_a_reward_of_zero() -> None:
    played = asyncio.run(play({"name": "corridor", "seed": 3}, Player(None)))
    assert (played.rewards, played.total_reward) == ([], 0.0)
    assert played.metrics == {"success": 0.0, "turns": 0.0, "invalid_replies": 0.0}


def test_a_session_closes_where_the_model_fails_or_the_trainer_cancels(pool: SessionPool) -> None:
    async def fail(_: Observation) -> str:
        raise RuntimeError("the engine is down")

    async def cancel() -> None:
        task = asyncio.ensure_future(play({"name": "corridor", "seed": 3}, lambda _: asyncio.sleep(60, RIGHT)))
        while not len(pool):
            await asyncio.sleep(0.001)
        task.cancel()
        await task

    with pytest.raises(RuntimeError, match="the engine is down"):
        asyncio.run(play({"name": "corridor", "seed": 3}, fail))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    assert len(pool) == 0


def test_an_invalid_row_is_an_error() -> None:
    with pytest.raises(UnknownIdError):
        asyncio.run(play({"seed": 3}, Player(RIGHT)))


def test_an_image_is_a_part_of_the_user_message() -> None:
    observation = Observation("Rules.", "Go!", b"png")
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}}
    text = {"type": "text", "text": "Go!"}
    system = {"role": "system", "content": "Rules."}
    assert observation.messages() == [system, {"role": "user", "content": [url, text]}]
    assert observation.messages({"type": "image"}) == [system, {"role": "user", "content": [{"type": "image"}, text]}]
    assert Observation("", "Go!", None).messages({"type": "image"}) == [{"role": "user", "content": "Go!"}]
