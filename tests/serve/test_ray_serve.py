"""The recipe for Ray Serve in docs/how_to/scale_out.md; skipped where Ray is not installed."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVER = """
import json, sys
import httpx, ray
from games import app
from ray import serve
from websockets.sync.client import connect

ray.init(num_cpus=4, include_dashboard=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
serve.run(app)
assert httpx.get(f"http://127.0.0.1:{sys.argv[1]}/health", timeout=60).json() == {"status": "healthy"}
texts = set()
for _ in range(4):
    with connect(f"ws://127.0.0.1:{sys.argv[1]}/ws", proxy=None) as client:
        for frame in ({"type": "reset", "data": {"seed": 3}}, {"type": "step", "data": {"message": "left"}}):
            client.send(json.dumps(frame))
            told = json.loads(client.recv(120))["data"]["observation"]
        assert told["info"]["turn"] == 1
        texts.add(told["text"])
assert len(texts) == 1

def call(header, method, **params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    told = httpx.post(f"http://127.0.0.1:{sys.argv[1]}/mcp", json=body, headers={"X-Session-Id": header}, timeout=60)
    return told.json()

def begin(header, session_id):
    return call(header, "tools/call", name="begin", arguments={"seed": 3}, session_id=session_id)

sessions = {f"client {number}": "" for number in range(16)}
for client in sessions:
    sessions[client] = call(client, "openenv/session/create")["result"]["session_id"]
for client, session_id in sessions.items():
    assert "result" in begin(client, session_id)
# There are two replicas, so the header of another client reaches the session of the first one or does not.
first = next(iter(sessions.values()))
assert {"result" in begin(client, first) for client in sessions} == {True, False}
serve.shutdown()
ray.shutdown()
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray_serve_runs_the_recipe_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs/how_to/scale_out.md").read_text()
    (recipe,) = re.findall(r"```py\n((?:(?!```).)*?app = Games\.bind\(\)\n)```", page, re.DOTALL)
    (tmp_path / "games.py").write_text(recipe)
    (tmp_path / "drive.py").write_text(DRIVER)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "drive.py", str(port)]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
