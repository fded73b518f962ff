"""Images of observations: the encoder, equal bytes over all protocols, histories, and errors of options."""

import asyncio
import base64
import dataclasses
import io
import json
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from jaxgym.errors import OptionError
from jaxgym.serve import episodes, images, swift, trl
from jaxgym.serve import rollout as rollouts
from jaxgym.serve.agentgym.wrapper import AgentGymWrapper
from jaxgym.serve.messages import OMITTED, recent, user_message
from jaxgym.serve.openenv.client import OpenEnvScheduler
from jaxgym.serve.openenv.rpc import Methods
from jaxgym.serve.openenv.sessions import ClientSessions, ResetOptions
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.swift import images as swift_images
from jaxgym.serve.swift.history import HistoryHooks
from jaxgym.serve.swift.images import ImageHooks
from jaxgym.serve.web.http import Hosted
from tests.serve import corridor

GAME, SEED = "FrozenLake-v0", 0
OPTIONS = {"observation_mode": "image", "max_turns": 4, "map_name": "4x4", "size": 4}
MOVES = ("right", "right", "left")  # over safe ice in the first row of the map SFFF
REPLIES = tuple(f"<action>{move}</action>" for move in MOVES)


@pytest.fixture(scope="module")
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_pools", [made])
        yield made


@pytest.fixture(scope="module")
def expected(pool: SessionPool) -> list[bytes]:
    """Return the images of the episode, from single steps of the pool."""
    opening = pool.open(GAME, SEED, OPTIONS)
    made = [opening.image, *(pool.step_one(opening.id, reply).image for reply in REPLIES)]
    pool.close([opening.id])
    assert len({*made}) == 3  # the last image shows the same lake as the second one
    return [image for image in made if image is not None]


def decoded(image: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))


# The encoder.


@pytest.mark.parametrize(("colors", "scale"), [(1, 1), (5, 3), (256, 2), (4000, 2)])
def test_an_image_has_the_pixels_of_the_frame_enlarged(colors: int, scale: int) -> None:
    draws = np.random.default_rng(colors)
    palette = draws.integers(0, 256, (colors, 3), dtype=np.uint8)
    frame = palette[draws.integers(colors, size=(40, 70))]
    image = images.png(frame, scale)
    np.testing.assert_array_equal(decoded(image), frame.repeat(scale, axis=0).repeat(scale, axis=1))
    assert image == images.png(np.asfortranarray(frame), scale)


@pytest.mark.parametrize(("shape", "scale"), [((84, 84, 3), 3), ((56, 56, 3), 4), ((400, 336, 3), 1), ((8, 4, 3), 32)])
def test_the_default_scale_makes_images_of_about_252_px(shape: tuple[int, ...], scale: int) -> None:
    assert images.default_scale(shape) == scale


def test_frames_encoded_together_keep_their_order() -> None:
    frames = [images.Frame(np.full((4, 4, 3), level, np.uint8), 1) for level in range(9)]
    assert images.encode_all(frames) == [images.png(*frame) for frame in frames]


# Equal bytes.


def test_batches_and_coroutines_return_equal_images(pool: SessionPool, expected: list[bytes]) -> None:
    openings = pool.open_many(GAME, [SEED] * 3, OPTIONS)
    ids = [opening.id for opening in openings]
    assert [opening.image for opening in openings] == expected[:1] * 3
    for reply, image in zip(REPLIES, expected[1:], strict=True):
        assert [result.image for result in pool.step(ids, [reply] * 3)] == [image] * 3
    last = pool.step(ids, ["?"] * 3)[0]
    assert (last.truncated, last.image) == (True, expected[-1])
    assert pool.step_one(ids[0], "?").image == expected[-1]  # after the end
    assert pool.reset(ids[:1], [SEED])[0].image == expected[0]

    async def play() -> list[bytes | None]:
        opening = await pool.areset(ids[1], SEED)
        return [opening.image, *[(await pool.astep(ids[1], reply)).image for reply in REPLIES]]

    assert asyncio.run(play()) == expected
    pool.close(ids)


def test_openenv_mcp_and_agentgym_send_equal_images(pool: SessionPool, expected: list[bytes]) -> None:
    encoded = [base64.b64encode(image).decode() for image in expected]
    hosted = Hosted(pool, GAME, "frozen_lake", OPTIONS, pool.prepare(GAME, OPTIONS))
    sessions = ClientSessions(hosted, 4, 0.0)
    methods, session, wrapper = Methods(sessions), sessions.open(), AgentGymWrapper(GAME, pool, OPTIONS)

    async def call(tool: str, **arguments: Any) -> Any:
        given = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        return (await methods.answer(given, session))["result"]

    async def play() -> None:
        seen = [await session.reset(ResetOptions(seed=SEED)), *[await session.step(reply) for reply in REPLIES]]
        assert [json.loads(each)["observation"]["image"] for each in seen] == encoded
        results = [await call("begin", seed=SEED), *[await call("move", direction=move) for move in MOVES]]
        contents = [{"type": "image", "data": image, "mimeType": "image/png"} for image in encoded]
        assert [result["content"][1] for result in results] == contents
        assert "image" not in results[0]["structured_content"]["observation"]
        number = (await wrapper.create(None))["id"]
        last = [await wrapper.reset(None, number, SEED), *[await wrapper.step(None, number, each) for each in REPLIES]]
        assert [each["image"] for each in last] == encoded
        assert await wrapper.close(None, number) == {"closed": True}

    asyncio.run(play())
    sessions.close(session)


@pytest.mark.usefixtures("pool")
def test_trl_gets_images_of_pillow(expected: list[bytes]) -> None:
    env = trl.make(GAME, **OPTIONS)
    parts = [env.reset(seed=SEED), *(env.move(direction=move) for move in MOVES)]  # type: ignore[attr-defined]
    for (image, said), png in zip(parts, expected, strict=True):
        assert (image["type"], said["type"], image["image"].mode) == ("image", "text", "RGB")
        np.testing.assert_array_equal(np.asarray(image["image"]), decoded(png))
    assert "You are the red disc." in parts[0][1]["text"]
    assert parts[1][1]["text"] == "You chose: right."
    env._episode.close()  # type: ignore[union-attr]


class GymScheduler:
    """Part of ms-swift's `GYMScheduler` that runs without ms-swift."""

    def __init__(self) -> None:
        self._envs: dict[str, Any] = {}
        self._next: str | None = None

    async def on_trajectory_start(self, requests: list[Any]) -> None:
        for request in requests:
            env = self._envs[request.uuid] = swift.env_class(GAME)(request.data_dict["env_config"])
            observation, _, system = await env.reset(request)
            request.messages = [{"role": "system", "content": system}, {"role": "user", "content": observation}]

    async def on_turn_end(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        self._next, _, has_ended, _ = await self._envs[infer_request.uuid].step(infer_request.messages)
        if has_ended:
            await self._envs.pop(infer_request.uuid).close()
        return {"done": has_ended, "rollout_infos": {"gym_done": has_ended}}

    def step(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        infer_request.messages.append({"role": "user", "content": self._next})
        return {"infer_request": infer_request}


@pytest.mark.usefixtures("pool")
def test_the_scheduler_of_ms_swift_fills_images_and_rollout_infos(expected: list[bytes]) -> None:
    encoded = [base64.b64encode(image).decode() for image in expected]
    config = {"seed": SEED, **OPTIONS}
    request = types.SimpleNamespace(uuid="a", data_dict={"env_config": config}, images=["old"], messages=[])

    class Scheduler(ImageHooks, GymScheduler):
        pass

    async def play() -> None:
        scheduler = Scheduler()
        await scheduler.on_trajectory_start([request])
        for turn, reply in enumerate((*REPLIES, "up <image>"), 1):
            assert request.images == encoded[:turn]
            assert sum(message["content"].count("<image>") for message in request.messages[1::2]) == turn
            request.messages.append({"role": "assistant", "content": reply})
            ended = await scheduler.on_turn_end(request, None, turn)
            assert ended["rollout_infos"] == {"gym_done": turn == 4, "images": encoded[:turn]}
            if not ended["done"]:
                assert scheduler.step(request, None, turn)["rollout_infos"] == {"images": encoded[: turn + 1]}

    asyncio.run(play())


class Response:  # and its choice, and its message; the tokens are the letters
    def __init__(self, reply: str) -> None:
        self.choices, self.message, self.content = [self], self, reply
        self.token_ids = [ord(letter) for letter in reply]


@dataclasses.dataclass
class Request:
    uuid: str
    data_dict: dict[str, Any]
    images: list[str]
    messages: list[dict[str, Any]]


class RunScheduler(GymScheduler):
    """Part of ms-swift's scheduler that `run` of a history calls; the engine sends the replies of the test."""

    max_turns = 3

    def __init__(self) -> None:
        super().__init__()
        self.infer_engine: Any = self
        self.seen: list[Request] = []

    async def infer_async(self, request: Request, config: Any) -> Response:
        del config
        self.seen.append(request)
        return Response(REPLIES[len(self.seen) - 1])

    def get_response_token_data(self, request: Request, choice: Response) -> tuple[list[int], list[int]]:
        del request
        return choice.token_ids, [1] * len(choice.token_ids)

    def _extract_logprobs_from_choice(self, choice: Response) -> list[float]:
        return [-1.0] * len(choice.token_ids)

    def check_finished(self, *_: Any) -> bool:
        return True  # `done` of the environment replaces it

    async def _close_and_remove(self, uuid: str) -> None:
        if uuid in self._envs:
            await self._envs.pop(uuid).close()


def test_a_short_history_in_ms_swift_is_a_sample_for_each_turn(
    pool: SessionPool, expected: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = types.ModuleType("swift.infer_engine.protocol")
    protocol.RolloutOutput = types.SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, protocol.__name__, protocol)
    encoded = [base64.b64encode(image).decode() for image in expected]

    class Scheduler(ImageHooks, HistoryHooks, RunScheduler):
        history_turns = 1

    scheduler = Scheduler()
    outputs = asyncio.run(scheduler.run(Request("a", {"env_config": {"seed": SEED, **OPTIONS}}, [], []), None))
    assert [request.images for request in scheduler.seen] == [[image] for image in encoded[:3]]
    assert [request.messages for request in scheduler.seen] == [output.messages[:-1] for output in outputs]
    first, last = outputs[0].messages, outputs[-1].messages
    assert [message["content"] for message in first[1:]] == ["<image>", REPLIES[0]]
    assert [message["content"] for message in last[1:]] == [OMITTED, REPLIES[0], "<image>You chose: right.", REPLIES[2]]
    tokens = [[ord(letter) for letter in REPLIES[turn]] for turn in (0, 2)]
    assert outputs[-1].response_token_ids == tokens
    assert outputs[-1].response_loss_mask == [[0] * len(tokens[0]), [1] * len(tokens[1])]
    assert outputs[-1].rollout_logprobs == [[-1.0] * len(tokens[1])]
    infos = {"gym_done": False, "num_turns": 3}
    assert [output.rollout_infos for output in outputs] == [{"images": [image], **infos} for image in encoded[:3]]
    assert len(pool) == 0


def test_a_short_history_of_ms_swift_needs_server_mode_and_positive_numbers() -> None:
    scheduler = HistoryHooks()
    scheduler.history_images = 1
    with pytest.raises(OptionError, match=r"^history_turns: expected None in colocate mode"):
        asyncio.run(scheduler.on_trajectory_start([]))
    with pytest.raises(OptionError, match=r"^history_turns: expected an integer of at least 1, or None, got 0\.$"):
        swift_images.register(history_turns=0)


class LocalEnv:
    """Observations of jaxgym's OpenEnv server, without a server."""

    def __init__(self, pool: SessionPool) -> None:
        hosted = Hosted(pool, GAME, "frozen_lake", OPTIONS, pool.prepare(GAME, OPTIONS))
        self._sessions = ClientSessions(hosted, 1, 0.0)
        self._session = self._sessions.open()

    async def areset(self) -> tuple[Any, dict[str, Any]]:
        return json.loads(await self._session.reset(ResetOptions(seed=SEED)))["observation"], {}

    async def astep(self, action: dict[str, str]) -> tuple[Any, float, bool, dict[str, Any]]:
        answer = json.loads(await self._session.step(action["message"]))
        return answer["observation"], float(answer["reward"]), answer["done"], {}

    async def aclose(self) -> None:
        self._sessions.close(self._session)


def test_the_openenv_scheduler_of_ms_swift_passes_images_on(pool: SessionPool, expected: list[bytes]) -> None:
    encoded = [base64.b64encode(image).decode() for image in expected]

    class Scheduler(OpenEnvScheduler):
        def _create_env(self, env_config: dict[str, Any]) -> Any:
            return LocalEnv(pool)

    async def play() -> None:
        scheduler, request = Scheduler(), Request("a", {}, ["old"], [])
        await scheduler.on_trajectory_start([request])
        for turn, reply in enumerate((*REPLIES, "up <image>"), 1):
            assert request.images == encoded[:turn]
            assert sum(message["content"].count("<image>") for message in request.messages[1::2]) == turn
            request.messages.append({"role": "assistant", "content": reply})
            ended = await scheduler.on_turn_end(request, Response(reply), turn)
            assert ended["rollout_infos"]["images"] == encoded[:turn]
            if not ended["done"]:
                assert scheduler.step(request, None, turn)["rollout_infos"] == {"images": encoded[: turn + 1]}

    asyncio.run(play())
    assert len(pool) == 0


# Rollouts.


class Replying(rollouts.Policy):
    """Policy that repeats fixed replies and keeps the chats that it was given."""

    def __init__(self) -> None:
        self.chats: list[list[dict[str, Any]]] = []

    async def reply(self, request: rollouts.Request) -> rollouts.Choice:
        self.chats.append(request.messages)
        return rollouts.Choice(rollouts.Message((*REPLIES, "?")[len(self.chats) - 1]))


def test_rollouts_send_data_urls_and_only_the_recent_history(pool: SessionPool, expected: list[bytes]) -> None:
    policy, settings = Replying(), rollouts.RolloutSettings(history_turns=2, history_images=1)
    rows = [{"env_config": {"name": GAME, "seed": SEED, **OPTIONS}}]
    record = rollouts.rollout(rows, rollouts.Scheduler(policy, settings, pool))[0]
    assert record["error"] is None
    users = [message for message in record["messages"] if message["role"] == "user"]
    said = ["", *(f"You chose: {move}." for move in MOVES)]
    assert users == [user_message(words, image) for words, image in zip(said, expected, strict=True)]
    assert users[0]["content"][0]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    system, first, reply, *rest = policy.chats[-1]
    assert (system["role"], first["content"], reply["content"]) == ("system", OMITTED, REPLIES[0])
    assert [message["role"] for message in rest] == ["user", "assistant", "user"]
    assert rest[0]["content"] == f"{OMITTED}\nYou chose: right."
    assert rest[-1] == users[-1]


def test_a_history_keeps_the_first_and_the_last_turns() -> None:
    chat = [{"role": "system", "content": "rules"}]
    for turn in range(4):
        chat += [user_message(str(turn), b"png"), {"role": "assistant", "content": "go"}]
    chat = chat[:-1]

    def seen(turns: int | None, shown: int | None) -> list[str]:
        kept = recent(chat, turns, shown)
        assert kept[0] == chat[0]
        return ["image" if isinstance(each["content"], list) else each["content"] for each in kept[1::2]]

    without = [f"{OMITTED}\n{turn}" for turn in range(4)]
    assert recent(chat, None, None) == chat
    assert seen(1, None) == [without[0], "image"]
    assert seen(4, None) == seen(9, 9) == ["image"] * 4
    assert seen(None, 2) == [*without[:2], "image", "image"]
    assert seen(2, 0) == [without[0], *without[2:]]


@pytest.mark.parametrize("settings", [{"history_turns": 0}, {"history_images": -1}])
def test_settings_of_the_history_are_validated(settings: dict[str, int]) -> None:
    with pytest.raises(OptionError, match=r"^history_\w+: expected an integer of at least [01], or None, got "):
        rollouts.RolloutSettings(**settings)


# Options.


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("corridor", {"observation_mode": "image"}, "define the methods image_prompt and image_legend of the text"),
        (
            GAME,
            {"observation_mode": "both", "observation": "symbolic"},
            "got 'both'. For images, the observation needs a frame",
        ),
        (GAME, {"observation_mode": "picture"}, "expected 'text' or 'image' or 'both', got 'picture'"),
        (GAME, {"observation_mode": "image", "image_scale": 17}, "expected an integer from 0 to 16, got 17"),
    ],
)
def test_invalid_options_are_rejected(pool: SessionPool, name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        pool.prepare(name, options)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["image", "both"])
@pytest.mark.parametrize("name", ["babyai_go_to_local", "textcraft", "sudoku", "searing_spotlights", "mystery_path"])
def test_games_have_images_of_their_frames(name: str, mode: str) -> None:
    pool = SessionPool(capacity=1)
    opening = pool.open(name, 3, {"observation_mode": mode, "image_scale": 2})
    assert opening.image is not None
    np.testing.assert_array_equal(decoded(opening.image), pool.frame(opening.id).repeat(2, axis=0).repeat(2, axis=1))
    assert "Each observation has an image" in opening.system_prompt
    assert opening.system_prompt.endswith(opening.reply_format)
