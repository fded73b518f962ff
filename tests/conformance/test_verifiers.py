"""The `openenv` taskset of verifiers plays on our server; skipped if no environment with verifiers is given.

    VERIFIERS=/path/to/environment/bin/vf-eval pytest tests/conformance/test_verifiers.py

The model is a stub with the replies of the scripted expert. verifiers needs another version of mcp than OpenEnv 0.10,
so it has a virtual environment of its own without our packages.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jaxgym.serve.pool import SessionPool
from tests.conformance import run
from tests.conformance.experts import expert
from tests.serve import chat_server

COMMAND = os.environ.get("VERIFIERS", "")
SEEDS = (3, 4, 5)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not COMMAND, reason="VERIFIERS names no vf-eval")]

CONFIG = """
model = "tiny"
push = false
output_dir = "out"
[client]
base_url = "{model}"
[env.player.harness]
id = "null"
[env.player.runtime]
type = "subprocess"
[env.taskset]
id = "openenv"
base_url = "{server}"
resets = [{resets}]
"""


def streamed(content: str) -> bytes:
    """Return a reply as a stream of server-sent events."""
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    choices = [({"role": "assistant", "content": content}, None), ({}, "stop")]
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    chunks = [
        *({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in choices),
        {**chunk, "choices": [], "usage": usage},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in chunks) + b"data: [DONE]\n\n"


def replies(nick: str, seed: int) -> list[str]:
    """Return the expert's replies in the episode of a seed."""
    pool, play, said = SessionPool(capacity=1), expert(nick, seed), list[str]()
    session = pool.open(nick, seed, {"levels": "fresh", "rewards": "environment"}).id
    while True:
        said.append(play())
        result = pool.step_one(session, said[-1])
        if result.terminated or result.truncated:
            return said


@pytest.mark.parametrize("nick", ["frozen_lake", "sudoku"])
def test_the_openenv_taskset_plays_whole_episodes(nick: str, tmp_path: Path) -> None:
    known = {seed: replies(nick, seed) for seed in SEEDS}

    def answer(body: dict[str, Any]) -> bytes:
        content = next(message["content"] for message in reversed(body["messages"]) if message["role"] == "user")
        said = json.loads(content if isinstance(content, str) else content[0]["text"])
        assert said["action_schema"]["required"] == ["message"]
        info = said["observation"]["info"]
        return streamed(known[info["seed"]][info["turn"]])

    with run.served(("openenv", "--env", nick, "--max-sessions", "4")) as server, chat_server.serving(answer) as model:
        resets = ", ".join(f"{{seed = {seed}}}" for seed in SEEDS)
        (tmp_path / "run.toml").write_text(CONFIG.format(model=model, server=server, resets=resets))
        keys = {"OPENAI_API_KEY": "none", "PRIME_API_KEY": "none"}
        command = [COMMAND, "@", "run.toml"]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, **keys}, check=True, capture_output=True, timeout=500)

    (found,) = tmp_path.glob("out/*/traces.jsonl")
    traces = [json.loads(line)["traces"][0] for line in found.read_text().splitlines()]
    assert [trace["errors"] for trace in traces] == [[]] * len(SEEDS)
    rewards = {trace["task"]["data"]["reset"]["seed"]: trace["rewards"]["openenv_reward"]["score"] for trace in traces}
    assert rewards == dict.fromkeys(SEEDS, 1.0)
    calls = {trace["task"]["data"]["reset"]["seed"]: len(trace["calls"]) for trace in traces}
    assert calls == {seed: len(said) for seed, said in known.items()}
