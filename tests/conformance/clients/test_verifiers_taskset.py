"""verifiers' own runner plays the tasks of `examples/verifiers` with our harness; skipped where verifiers is absent.

The model is a server with a scripted player, which reads the chat of each request.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxgym.serve import episodes
from jaxgym.serve.episodes import options_of
from jaxgym.serve.messages import content_text
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.trainers.dataset import dataset
from tests.conformance.clients.policies import frozen_lake
from tests.conformance.clients.tiny_chat import bad_replies
from tests.serve import chat_server
from tests.serve.replay import replay

pytest.importorskip("verifiers.v1")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

EXAMPLE = Path(__file__).parents[3] / "examples/verifiers"
OPTIONS = {"size": 4, "max_turns": 12}
TRAJECTORIES, ROWS = 1000, 50


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionPool]:
    made = SessionPool(capacity=512)
    monkeypatch.setattr(episodes, "_pools", [made])
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.setenv("NO_KEY", "none")
    yield made
    assert len(made) == 0


@contextlib.contextmanager
def model(policy: Callable[[list[dict[str, Any]], int], Any]) -> Iterator[tuple[str, list[list[dict[str, Any]]]]]:
    """Serve a scripted player; yield the URL and the list of the chats that it gets."""
    chats: list[list[dict[str, Any]]] = []

    def answer(body: dict[str, Any]) -> Any:
        chats.append(body["messages"])
        chat = [{**message, "content": content_text(message["content"])} for message in body["messages"]]
        return policy(chat, sum(message["role"] == "assistant" for message in chat) + 1)

    with chat_server.serving(answer) as url:
        yield url, chats


def play(url: str, count: int, copies: int = 1, options: dict[str, Any] = OPTIONS) -> list[Any]:
    """Return the episodes of the first tasks, played as verifiers' evaluation does."""
    import verifiers.v1 as vf
    from verifiers.v1.clients import ModelContext
    from verifiers.v1.configs.client import EvalClientConfig

    taskset = {"id": "jaxgym-games", "games": ["frozen_lake"], "num_rows": count, "options": options}
    config_type = vf.env_config_type("jaxgym-games")
    env = vf.environment_class("jaxgym-games")(config_type.model_validate({"taskset": taskset}))
    context = ModelContext(model="tiny", client=EvalClientConfig(base_url=url, api_key_var="NO_KEY"))

    async def run() -> list[Any]:
        gate = asyncio.Semaphore(128)
        async with env.serving():
            slots = [slot for task in env.taskset for slot in env.slots(task, copies)]
            return await asyncio.gather(*(env.run_slot(slot, context, gate) for slot in slots))

    return asyncio.run(run())


def chat_of(trace: Any) -> list[tuple[str, str]]:
    messages = [message.model_dump() for message in trace.branches[-1].messages]
    return [(message["role"], content_text(message["content"])) for message in messages]


def check(pool: SessionPool, played: list[Any]) -> list[float]:
    """Compare the texts and rewards of episodes with those of the pool; return the rewards that verifiers reads."""
    for episode in played:
        assert episode.ok
        (trace,) = episode.traces
        chat = chat_of(trace)
        replies = [content for role, content in chat if role == "assistant"]
        texts, results = replay(pool, trace.task.data.env_config, replies)
        assert [content for role, content in chat if role != "assistant"] == texts[: len(replies) + 1]
        assert chat[0][0] == "system"
        assert trace.reward == pytest.approx(sum(result.reward for result in results))
    return [episode.traces[0].reward for episode in played]


def test_a_player_wins_and_the_texts_and_rewards_are_those_of_the_pool(pool: SessionPool) -> None:
    with model(frozen_lake) as (url, _):
        played = play(url, 8, copies=4)
    assert check(pool, played) == [1.0] * 32
    assert len({repr(chat_of(episode.traces[0])) for episode in played}) == 8
    assert all(episode.traces[0].metrics["success"] == 1.0 for episode in played)


def test_malformed_replies_are_invalid_turns(pool: SessionPool) -> None:
    with model(bad_replies) as (url, _):
        played = play(url, 2, options=OPTIONS | {"invalid_reply_penalty": 0.125})
    assert check(pool, played) == [-0.125 * 12] * 2


def test_a_thousand_trajectories_leave_no_session(pool: SessionPool) -> None:
    with model(frozen_lake) as (url, _):
        played = play(url, ROWS, TRAJECTORIES // ROWS, OPTIONS | {"max_turns": 1})
    assert [episode.ok for episode in played] == [True] * TRAJECTORIES
    assert len(pool) == 0


def test_a_failing_model_is_an_error_and_leaves_no_session(pool: SessionPool) -> None:
    with model(lambda _chat, turn: 400 if turn > 1 else "no action") as (url, _):
        assert not any(episode.ok for episode in play(url, 4))
    assert len(pool) == 0


def test_every_turn_brings_one_image(pool: SessionPool) -> None:
    with model(frozen_lake) as (url, chats):
        played = play(url, 1, options=OPTIONS | {"observation_mode": "both"})
    assert check(pool, played) == [1.0]
    for turn, chat in enumerate(chats, 1):
        parts = [part for message in chat if message["role"] == "user" for part in message["content"]]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        assert len(urls) == turn
        assert all(each.startswith("data:image/png;base64,") for each in urls)


@pytest.mark.usefixtures("pool")
def test_the_command_of_verifiers_plays_a_file_of_the_dataset_command(tmp_path: Path) -> None:
    with model(frozen_lake) as (url, _):
        client = f'client = {{base_url = "{url}", api_key_var = "NO_KEY"}}\n'
        head = f'model = "tiny"\npush = false\noutput_dir = "out"\n{client}'
        (tmp_path / "run.toml").write_text(head + dataset("verifiers", ["frozen_lake"], 3, OPTIONS, "heldout"))
        program = f"import sys; sys.path[:0] = {sys.path!r}; from verifiers.v1.cli.eval.main import main; main()"
        subprocess.run([sys.executable, "-c", program, "@", "run.toml"], cwd=tmp_path, check=True, capture_output=True)
    (found,) = tmp_path.glob("out/*/traces.jsonl")
    traces = [json.loads(line)["traces"][0] for line in found.read_text().splitlines()]
    configs = [trace["task"]["data"]["env_config"] for trace in traces]
    assert sorted(config["seed"] - 2**31 for config in configs) == [0, 1, 2]
    assert all(options_of(config) == OPTIONS for config in configs)
    assert [trace["rewards"]["total_reward"]["score"] for trace in traces] == [1.0] * 3
