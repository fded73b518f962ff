"""AgentGym's BabyAI over HTTP: the recorded episodes of its own server, and the routes around them."""

import asyncio
import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from jaxgym.envs.babyai import agentgym
from jaxgym.envs.minigrid import render
from jaxgym.errors import OptionError
from jaxgym.serve.agentgym.babyai import BabyAIPool
from jaxgym.serve.agentgym.server import load
from jaxgym.serve.errors import UnknownSessionError
from jaxgym.serve.web.serving import AgentGym
from tests.parity import babyai_text
from tests.serve.test_agentgym import ask, get, post, served

RECORDINGS = babyai_text.load(Path(__file__).parents[1] / "data" / "babyai" / "agentgym.json.gz")
ENDED = [recorded for recorded in RECORDINGS if "error" in recorded["steps"][-1]["result"]]
LATE = next(each for each in RECORDINGS if any(0 < step["result"].get("reward", 0) <= 0.5 for step in each["steps"]))
"""Episode in which the mission is fulfilled with a low reward, so that it goes on."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with served("babyai") as base:
        yield base


@pytest.mark.parametrize("recorded", [*ENDED[:3], LATE], ids=lambda recorded: str(recorded["data_idx"]))
def test_a_recorded_episode_is_answered_alike(base: str, recorded: dict[str, Any]) -> None:
    number = post(base, "/create")["id"]
    assert post(base, "/reset", id=number, data_idx=recorded["data_idx"]) == recorded["reset"]
    for step in recorded["steps"]:
        answer = post(base, "/step", id=number, action=step["action"])
        if "error" in step["result"]:
            assert answer == {"error": f"The task with environment {number} has finished."}
        else:
            assert answer == step["result"]
    assert post(base, "/reset", id=number, data_idx=recorded["data_idx"]) == recorded["reset"]
    assert post(base, "/close", id=number) is True
    assert post(base, "/close", id=number) is False


def test_steps_of_a_batch_are_those_of_single_environments(base: str) -> None:
    numbers = [post(base, "/create")["id"] for _ in range(3)]
    begun = post(base, "/reset_batch", ids=numbers, data_idxs=[recorded["data_idx"] for recorded in ENDED[:3]])
    assert begun == [recorded["reset"] for recorded in ENDED[:3]]
    for steps in zip(*(recorded["steps"][:-1] for recorded in ENDED[:3]), strict=False):
        answers = post(base, "/step_batch", ids=numbers, actions=[step["action"] for step in steps])
        assert answers == [step["result"] for step in steps]
    post(base, "/reset", id=numbers[0], data_idx=0)
    unknown = post(base, "/step_batch", ids=[numbers[0], 10**6], actions=["", ""])
    assert list(unknown[0]) == ["observation", "reward", "score", "done"]
    assert list(unknown[1]) == ["error"]
    assert "expected one for each of 1 ids" in post(base, "/step_batch", ids=[numbers[0]], actions=[])["error"]
    for number in numbers:
        post(base, "/close", id=number)


def test_the_observation_has_the_goal(base: str) -> None:
    number = post(base, "/create")["id"]
    assert get(base, f"/observation?id={number}") == {
        "observation": "Environment not initialized",
        "reward": 0,
        "score": 0,
        "done": False,
        "deleted": False,
    }
    assert "without a task" in post(base, "/step", id=number, action="turn left")["error"]
    begun = post(base, "/reset", id=number, data_idx=3)
    assert get(base, f"/observation?id={number}") == begun
    made = post(base, "/step", id=number, action="jump")
    goal = begun["observation"].partition("\n")[0]
    assert get(base, f"/observation?id={number}")["observation"] == f"{goal}\n{made['observation']}"
    post(base, "/close", id=number)


@pytest.mark.parametrize("data_idx", [-1, agentgym.NUM_TASKS])
def test_a_task_that_does_not_exist_is_an_error(base: str, data_idx: int) -> None:
    number = post(base, "/create")["id"]
    answer = post(base, "/reset", id=number, data_idx=data_idx)
    assert answer == {"error": f"data_idx: expected an integer from 0 to {agentgym.NUM_TASKS - 1}, got {data_idx}."}
    status, _ = ask(base, "POST", "/reset", {"id": number})
    assert status == 422
    post(base, "/close", id=number)


def test_the_frame_is_that_of_the_level_without_padding(base: str) -> None:
    number = post(base, "/create")["id"]
    post(base, "/reset", id=number, data_idx=3)
    sent = post(base, "/render", id=number).removeprefix("data:image/png;base64,")
    frame = np.asarray(Image.open(io.BytesIO(base64.b64decode(sent))).convert("RGB"))
    assert frame.shape == (4 * 32, 4 * 32, 3)
    world = agentgym.world_of(agentgym.begin(agentgym.task_of(3)))
    np.testing.assert_array_equal(frame, render.draw_grid(world, 32))
    post(base, "/close", id=number)


def test_a_greeting_and_a_prompt(base: str) -> None:
    assert get(base, "/") == "This is environment BabyAI."
    assert "go to THING NUMBER" in get(base, "/instruction_text")


def test_a_full_server_and_options(base: str) -> None:
    answers = [ask(base, "POST", "/create") for _ in range(17)]
    assert [status for status, _ in answers] == [200] * 16 + [503]
    for _, answer in answers[:16]:
        assert post(base, "/close", id=answer["id"]) is True
    with pytest.raises(OptionError, match="babyai: expected no options, got size"):
        load(AgentGym("babyai", ("size=5",), host="127.0.0.1", port=0))


def test_idle_sessions_are_closed_and_two_steps_of_one_session_follow_each_other() -> None:
    async def play() -> None:
        pool = BabyAIPool(4, 0.5)
        key, idle = [(await pool.aopen("babyai", 0, {}, start=False)).id for _ in range(2)]
        await pool.areset(key, agentgym.NUM_TASKS - 1)
        await pool.areset(key, 0)
        turned = await asyncio.gather(*(pool.astep(key, action) for action in ("turn left", "turn right")))
        assert [result.number for result in turned] == [1, 2]
        assert turned[1].text == agentgym.begin(agentgym.task_of(0)).observation
        await asyncio.sleep(0.6)
        await pool.astep(key, "turn left")
        pool.close_idle()
        assert key in pool
        assert idle not in pool
        with pytest.raises(UnknownSessionError):
            await pool.astep(idle, "turn left")

    asyncio.run(play())
