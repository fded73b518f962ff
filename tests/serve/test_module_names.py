"""Names such as `"module:MyGame-v0"`, which import a module, are allowed only in programs and command lines.

A request, an argument of a tool or a row of a dataset that gives such a name is rejected, and imports nothing.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import jaxgym
from jaxgym import text
from jaxgym.errors import UnknownIdError
from jaxgym.serve import episodes, swift, trl
from jaxgym.serve import rollout as rollouts
from jaxgym.serve.agentgym.server import load
from jaxgym.serve.openenv.sessions import SPARE
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.rollout import runs
from jaxgym.serve.rollout.scripted import ScriptedPolicy, game_of
from jaxgym.serve.web import http
from jaxgym.serve.web.serving import AgentGym, OpenEnv
from tests.serve import corridor, test_mcp_transport, test_openenv
from tests.serve.running import running

MODULE = "module_of_a_request"
NAME = f"{MODULE}:Corridor-v0"


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Create an importable module; the test fails if it is imported."""
    corridor.register()
    (tmp_path / f"{MODULE}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    assert MODULE not in sys.modules


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch) -> SessionPool:
    made = SessionPool(capacity=2)
    monkeypatch.setattr(episodes, "_pools", [made])
    return made


def test_the_name_imports_the_module_in_a_program() -> None:
    for make in (jaxgym.make, jaxgym.spec_of, jaxgym.presets, text.make):
        make(NAME)
        assert sys.modules.pop(MODULE)


def test_a_session_has_no_such_name(pool: SessionPool) -> None:
    for find in (pool.open, pool.prepare, text.text_spec_of, text.make_registered, swift.env_class, trl.env_class):
        with pytest.raises(UnknownIdError, match=MODULE):
            find(NAME)


def test_a_row_of_a_dataset_has_no_such_name(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"env_config": {"name": NAME, "seed": 3}}))
    policy = ScriptedPolicy("random")
    with pytest.raises(UnknownIdError, match=MODULE):
        rollouts.rollout(runs.read_rows(file), rollouts.Scheduler(policy, rollouts.RolloutSettings()))
    with pytest.raises(UnknownIdError, match=MODULE):
        policy.check(NAME, {})
    with pytest.raises(UnknownIdError, match=MODULE):
        game_of(NAME, {})
    assert trl.env_class("corridor")().reset(seed=3, env_config={"name": NAME})  # the class fixes the game
    for entries in ({"env": NAME}, {"env_id": NAME}, {"preset": NAME}):
        with pytest.raises(ValueError, match=MODULE if "preset" in entries else "expected an option, got"):
            trl.env_class("corridor")().reset(seed=3, env_config=entries)


def test_a_request_of_openenv_has_no_such_name() -> None:
    serving = OpenEnv(env="corridor", max_sessions=test_openenv.ROOM)
    hosted = http.host(serving, {"rewards": "environment"}, spare=SPARE)
    with test_openenv.served(hosted) as address:
        for entry in ("name", "env", "env_id", "env_config", "preset"):
            with test_openenv.joined(address) as client:
                test_openenv.reset(client, seed=3, **{entry: NAME})
        with httpx.Client(base_url=f"http://{address}", headers=test_mcp_transport.BOTH) as client:
            assert client.get(f"/{NAME}/tasks").status_code >= 400
            client.headers["Mcp-Session-Id"] = test_mcp_transport.initialize(client).headers["mcp-session-id"]
            for tool, arguments in (("reply", {"message": NAME}), ("reset", {"seed": NAME}), (NAME, {"env": NAME})):
                params = {"name": tool, "arguments": arguments}
                asked: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                assert "error" in client.post("/mcp", json=asked).text.lower()


def test_a_request_of_agentgym_has_no_such_name() -> None:
    serving = AgentGym("corridor", port=0, max_sessions=4)
    with (
        running(load(serving), serving) as (port, _),
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        assert client.post(f"/{NAME}/create").status_code >= 400
        for entry in ("name", "env", "env_name", "data_idx", "id"):
            client.post("/create", json={entry: NAME})
            client.post("/reset", json={"id": 0, "data_idx": 0, entry: NAME})
