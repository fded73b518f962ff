"""Environments of SkyRL, NeMo Gym and VAGEN without these packages: equal to the pool, and closed in every case."""

import asyncio
import base64
import gc
import json
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from jaxgym.errors import OptionError
from jaxgym.serve import episodes
from jaxgym.serve.errors import UnknownSessionError
from jaxgym.serve.images import png
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.trainers import nemo, rows, skyrl, vagen
from tests.serve import corridor

LAKE = {"name": "frozen_lake", "map_name": "4x4", "size": 4, "invalid_reply_penalty": 0.25}
MOVES = ("down", "jump", "down", "right", "right", "down", "right")  # one is invalid; the others reach the goal
REPLIES = tuple(f"<action>{move}</action>" for move in MOVES)
MALFORMED = ("", "   ", "\x00", "<action>up", "x" * 5000, '{"a": ', "<image>", "\ud800", "<action></action>")


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_pools", [made])
        yield made


class Turn(NamedTuple):
    """Result of a turn for a trainer; the text is empty after the end."""

    text: str
    image: bytes | None
    reward: float
    has_ended: bool


class Played(NamedTuple):
    """Episode of an adapter; the first text has the system prompt."""

    text: str
    image: bytes | None
    turns: list[Turn]


def of_pool(pool: SessionPool, config: dict[str, Any], seed: int, replies: tuple[str, ...]) -> Played:
    """Play an episode with single calls of the pool."""
    options = {name: value for name, value in config.items() if name != "name"}
    opening = pool.open(config["name"], seed, {"levels": "fresh", **options})
    turns = list[Turn]()
    for reply in replies:
        result = pool.step_one(opening.id, reply)
        has_ended = result.terminated or result.truncated
        turns.append(Turn(result.text, result.image, result.reward, has_ended))
        if has_ended:
            break
    pool.close([opening.id])
    return Played(joined(opening.system_prompt, opening.text), opening.image, turns)


def joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def shown(message: dict[str, Any]) -> tuple[str, bytes | None]:
    """Return the text and the image of a message in OpenAI's format."""
    if isinstance(message["content"], str):
        return message["content"], None
    parts = {part["type"]: part for part in message["content"]}
    head, _, encoded = parts["image_url"]["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    return parts.get("text", {"text": ""})["text"], base64.b64decode(encoded)


def of_skyrl(config: dict[str, Any], seed: int, replies: tuple[str, ...]) -> Played:
    """Play an episode as SkyRL's generator does."""
    extras = {"seed": seed, "env_config": {**config, "unused": None}, "max_turns": 40, "data_source": "x"}
    env = skyrl.SkyRLEnv(env_config={}, extras=extras)
    chat, _ = env.init([{"role": "user", "content": "placeholder"}])
    assert [message["role"] for message in chat] == ["system", "user"]
    turns = list[Turn]()
    for reply in replies:
        step = env.step(reply)
        assert isinstance(step["reward"], float)
        assert len(step["observations"]) == (not step["done"])
        text, image = ("", None) if step["done"] else shown(step["observations"][0])
        turns.append(Turn(text, image, step["reward"], step["done"]))
        if step["done"]:
            break
    metrics = env.get_metrics()
    assert metrics["total_reward"] == pytest.approx(sum(turn.reward for turn in turns))
    assert metrics["num_turns"] == len(turns)
    env.close()
    text, image = shown(chat[1])
    return Played(joined(chat[0]["content"], text), image, turns)


def response(*items: dict[str, Any]) -> Any:
    """Return a response of a model in the form of NeMo Gym."""
    return types.SimpleNamespace(output=[types.SimpleNamespace(**item) for item in items])


def call_of(arguments: str, name: str = "move", call_id: str = "1") -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def message_of(text: str) -> dict[str, Any]:
    return {"type": "message", "content": [types.SimpleNamespace(type="output_text", text=text)]}


def part_of(content: list[dict[str, str]]) -> tuple[str, bytes]:
    """Return the text and the image of content in the format of the Responses API."""
    image, said = content
    assert (image["type"], said["type"]) == ("input_image", "input_text")
    head, _, encoded = image["image_url"].partition(",")
    assert head == "data:image/png;base64"
    return said["text"], base64.b64decode(encoded)


def of_nemo(config: dict[str, Any], seed: int, replies: tuple[str, ...]) -> Played:
    """Play an episode as NeMo Gym's agent does: in sessions with images by the tool `move`, else by texts."""
    options = {name: value for name, value in config.items() if name != "name"}
    row = nemo.row_of(config["name"], seed, options)
    request, metadata = row["responses_create_params"], {name: row[name] for name in ("seed", "env_config")}
    image = part_of(request["input"][0]["content"])[1] if "tools" in request else None
    server = nemo.NemoServer()

    async def play() -> Played:
        first, about = await server.reset(metadata, "a")
        assert about["supports_explicit_close"]
        turns = list[Turn]()
        for reply in replies:
            direction = reply.removeprefix("<action>").removesuffix("</action>")
            item = message_of(reply) if image is None else call_of(json.dumps({"direction": direction}))
            text, reward, terminated, truncated, info = await server.step(
                response({"type": "reasoning"}, item), metadata, "a"
            )
            shown = None
            if image is not None:
                assert (text, info["tool_outputs"][0]["call_id"]) == (None, "1")
                text, shown = part_of(info["tool_outputs"][0]["output"])
            turns.append(Turn(text or "", shown, reward, terminated or truncated))
            if terminated or truncated:
                break
        await server.close_session("a")
        await server.close_session("a")
        return Played(first, image, turns)

    return asyncio.run(play())


def of_vagen(config: dict[str, Any], seed: int, replies: tuple[str, ...]) -> Played:
    """Play an episode as VAGEN's agent loop does."""
    env = vagen.VagenEnv(env_config={**config, "unused": None})

    def shown(observation: dict[str, Any]) -> tuple[str, bytes | None]:
        images = observation.get("multi_modal_input", {"<image>": []})["<image>"]
        text = observation["obs_str"]
        assert (text.count("<image>"), text.count("<video>")) == (len(images), 0)
        if not images:
            return text, None
        assert images[0].mode == "RGB"
        # The bytes of the pool, if the pixels are the same and not scaled.
        return text.removeprefix("<image>"), png(np.asarray(images[0]))

    async def play() -> Played:
        first, about = await env.reset(seed=seed)
        assert about["seed"] == seed
        system, turns = await env.system_prompt(), list[Turn]()
        for reply in replies:
            observation, reward, has_ended, info = await env.step(reply)
            assert isinstance(reward, float)
            assert info["success"] == (has_ended and not info["truncated"])
            turns.append(Turn(*shown(observation), reward, has_ended))
            if has_ended:
                break
        await env.close()
        await env.close()
        text, image = shown(first)
        return Played(joined(shown(system)[0], text), image, turns)

    return asyncio.run(play())


ADAPTERS = [of_skyrl, of_nemo, of_vagen]
adapters = pytest.mark.parametrize("play", ADAPTERS)
Play = Callable[[dict[str, Any], int, tuple[str, ...]], Played]


@adapters
@pytest.mark.parametrize("mode", ["text", "both", "image"])
def test_texts_images_and_rewards_equal_those_of_the_pool(pool: SessionPool, play: Play, mode: str) -> None:
    config = {**LAKE, "observation_mode": mode, "image_scale": 1}
    played, expected = play(config, 3, REPLIES), of_pool(pool, config, 3, REPLIES)
    assert [turn.has_ended for turn in expected.turns] == [False] * 6 + [True]
    assert (played.image, played.image is None) == (expected.image, mode == "text")
    assert [turn[2:] for turn in played.turns] == [turn[2:] for turn in expected.turns]
    assert [turn.image for turn in played.turns[:-1]] == [turn.image for turn in expected.turns[:-1]]
    calls_tools = play is of_nemo and mode != "text"
    texts, wanted = ([each.text, *(turn.text for turn in each.turns[:-1])] for each in (played, expected))
    if calls_tools:  # the prompt and the error text name the tool
        for place in (2, 0):
            assert "move(direction: up | down | left | right)" in texts[place]
            assert "<action>" not in texts[place]
            del texts[place], wanted[place]
    assert texts == wanted
    assert sum(turn.reward for turn in played.turns) == 0.75
    assert len(pool) == 0


@adapters
def test_malformed_replies_are_invalid_turns(pool: SessionPool, play: Play) -> None:
    played = play({**LAKE, "max_turns": len(MALFORMED)}, 0, MALFORMED)
    assert [turn.reward for turn in played.turns] == [-0.25] * len(MALFORMED)
    assert played.turns[-1].has_ended
    assert len(pool) == 0


@adapters
def test_many_trajectories_leave_no_session(pool: SessionPool, play: Play) -> None:
    for seed in range(200):
        play({"name": "corridor", "max_turns": 1}, seed, ("<left>",))
    assert len(pool) == 0


@pytest.mark.parametrize("config", [None, {}, "frozen_lake", {"seed": 3}])
def test_a_row_without_a_name_is_an_error(config: Any) -> None:
    with pytest.raises(
        OptionError, match=r"^env_config: expected a mapping such as \{\"name\": \"frozen_lake\"\}, got"
    ):
        skyrl.SkyRLEnv(extras={"env_config": config}).init([])


# Life cycle.


def test_a_limit_of_skyrl_ends_the_trajectory(pool: SessionPool) -> None:
    env = skyrl.SkyRLEnv(extras={"env_config": LAKE, "seed": 0, "max_turns": 2})
    env.init([])
    steps = [env.step("?"), env.step("?")]
    assert [step["done"] for step in steps] == [False, True]
    assert len(pool) == 0


def test_a_dropped_environment_is_closed_by_the_next_one(pool: SessionPool) -> None:
    for _ in range(3):
        env = skyrl.SkyRLEnv(extras={"env_config": LAKE, "seed": 0})
        env.init([])
        env.step("?")
        del env
        gc.collect()
    assert len(pool) == 1
    rows.close_dropped()
    assert len(pool) == 0


def test_a_started_environment_starts_again(pool: SessionPool) -> None:
    env = skyrl.SkyRLEnv(extras={"env_config": {**LAKE, "seed": 5}})
    first, about = env.init([])
    env.step(REPLIES[0])
    assert (env.init([]), about["seed"], env.turns) == ((first, about), 5, 0)
    env.close()
    env.close()
    assert len(pool) == 0


# Tool calls.


def test_malformed_tool_calls_are_invalid_turns_and_every_call_has_a_result(pool: SessionPool) -> None:
    server, row = nemo.NemoServer(), {"seed": 0, "env_config": {**LAKE, "observation_mode": "image"}}
    responses = [
        response(message_of("<action>up</action>")),
        response(call_of("{", "move")),
        response(call_of("[" * 10**5, "move")),
        response(call_of('["up"]', "move")),
        response(call_of('{"direction": "jump"}', "move")),
        response(call_of("{}", "\ud800")),
        response(call_of('{"direction": 1}', "move", "1"), call_of('{"direction": "up"}', "move", "2")),
    ]

    async def play() -> None:
        await server.reset(row, "a")
        for number, each in enumerate(responses, 1):
            text, reward, *_, info = await server.step(each, row, "a")
            assert (reward, info["step"]) == (-0.25, number)
            assert info["invalid_reply"]
            json.dumps(info)
            calls = [item.call_id for item in each.output if item.type == "function_call"]
            assert [output["call_id"] for output in info.get("tool_outputs", [])] == calls
            assert (text is None) == bool(calls)
        await server.close_session("a")

    asyncio.run(play())
    assert len(pool) == 0


def test_nemo_sessions_start_again_and_unknown_ones_are_an_error(pool: SessionPool) -> None:
    server, row = nemo.NemoServer(), {"seed": 0, "env_config": LAKE}

    async def play() -> None:
        first = await server.reset(row, "a")
        assert await server.reset(row, "a") == first
        assert len(pool) == 1
        await server.close_session("a")
        with pytest.raises(UnknownSessionError, match=r"Call /reset first\.$"):
            await server.step(response(message_of("up")), row, "a")

    asyncio.run(play())
    assert len(pool) == 0
