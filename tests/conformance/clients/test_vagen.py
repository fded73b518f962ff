"""`VagenEnv` as a subclass of VAGEN's `GymImageEnv`; skipped without a checkout of VAGEN in the variable VAGEN.

A loop of this file calls the environment as `GymAgentLoop` does, which needs verl 0.6. It checks observations by the
rules of `convert_obs_to_content`.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
if "VAGEN" not in os.environ:
    pytest.skip("set VAGEN to a checkout of VAGEN", allow_module_level=True)
sys.path.append(os.environ["VAGEN"])

from vagen.envs.gym_image_env import GymImageEnv  # noqa: E402

from jaxgym.serve.trainers import rows  # noqa: E402
from jaxgym.serve.trainers.vagen import VagenEnv  # noqa: E402
from tests.conformance.clients import policies, trajectories  # noqa: E402

LAKE = {"name": "frozen_lake", "size": 4, "max_turns": 20, "invalid_reply_penalty": 0.25}
EXAMPLE = Path(__file__).parents[3] / "examples/vagen/frozen_lake.yaml"
SEEDS = (0, 1, 2, 3)


def content_of(observation: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the text and the images of an observation."""
    text, images = observation["obs_str"], observation.get("multi_modal_input", {}).get("<image>", [])
    assert (text.count("<image>"), text.count("<video>")) == (len(images), 0)
    assert all(isinstance(image, Image.Image) for image in images)
    return text.replace("<image>", ""), images


async def run(config: dict[str, Any], seed: int, policy: policies.Policy, max_turns: int = 80) -> dict[str, Any]:
    """Return the texts, images, replies and rewards of a trajectory."""
    env = VagenEnv(env_config=config)
    observation, _ = await env.reset(seed=seed)
    system, images = content_of(await env.system_prompt())
    assert system
    assert not images
    seen: dict[str, Any] = {"texts": [], "images": [], "replies": [], "rewards": [], "success": False}
    chat = [{"role": "system", "content": system}]
    for turn in range(1, max_turns + 1):
        text, images = content_of(observation)
        seen["texts"].append(text)
        seen["images"].append(images)
        chat.append({"role": "user", "content": text})
        reply = policy(chat, turn)
        chat.append({"role": "assistant", "content": reply})
        observation, reward, has_ended, info = await env.step(reply)
        seen["replies"].append(reply)
        seen["rewards"].append(float(reward))
        seen["success"] = info["success"]
        if has_ended or info["success"]:
            break
    await env.close()
    return seen


def run_all(
    config: dict[str, Any], seeds: Any, make_policy: Callable[[], policies.Policy], **more: Any
) -> list[dict[str, Any]]:
    async def go() -> list[dict[str, Any]]:
        return await asyncio.gather(*(run(config, seed, make_policy(), **more) for seed in seeds))

    return asyncio.run(go())


def test_the_class_is_one_of_vagen() -> None:
    assert issubclass(VagenEnv, GymImageEnv)
    assert VagenEnv({"name": "frozen_lake"}).config == {"name": "frozen_lake"}


def test_texts_and_rewards_are_those_of_the_pool() -> None:
    seeds = [*SEEDS, SEEDS[0]]
    played = run_all(LAKE, seeds, lambda: policies.frozen_lake)
    for seed, seen in zip(seeds, played, strict=True):
        turns = trajectories.turns_of(LAKE, seed, seen["replies"])
        assert seen["texts"] == [text for text, _ in turns[:-1]]
        assert seen["rewards"] == [reward for _, reward in turns[1:]]
        assert (sum(seen["rewards"]), seen["success"]) == (1, True)
    assert played[0] == played[-1]


def test_the_rows_of_the_example_are_valid_and_have_one_image_in_each_turn() -> None:
    text, image = yaml.safe_load(EXAMPLE.read_text())["envs"]
    for entry in (text, image):
        first, last, repeats = entry["seed"]
        assert (entry["name"], last - first + 1, repeats) == ("Jaxgym", entry["n_envs"], 1)
    played = run_all(text["config"], range(16), lambda: policies.frozen_lake, max_turns=text["max_turns"])
    assert all(seen["success"] for seen in played)
    (seen,) = run_all(image["config"], [image["seed"][0]], policies.constant("<action>right</action>"))
    assert [len(images) for images in seen["images"]] == [1] * len(seen["replies"])
    assert seen["images"][0][0].size == (252, 252)


def test_malformed_replies_are_invalid_turns() -> None:
    replies = [*trajectories.MALFORMED, "<video>"]
    (seen,) = run_all(LAKE, SEEDS[:1], lambda: lambda _, turn: replies[turn % len(replies)])
    assert seen["rewards"] == [-0.25] * LAKE["max_turns"]


def test_a_thousand_trajectories_leave_no_session() -> None:
    for _ in range(4):
        run_all({**LAKE, "max_turns": 2}, range(250), policies.constant("<action>up</action>"))
        assert trajectories.open_sessions() == 0


def test_a_failing_engine_leaves_no_session() -> None:
    def fail(_: Any, turn: int) -> str:
        if turn > 1:
            raise RuntimeError("the engine is down")
        return "?"

    with pytest.raises(RuntimeError, match="the engine is down"):
        run_all(LAKE, range(16), lambda: fail)
    gc.collect()
    rows.close_dropped()
    assert trajectories.open_sessions() == 0
