"""An environment of another package: installed as its users would, then made, played, recorded and served.

tests/external --pip--> a folder --PYTHONPATH--> programs and commands, each in a process of its own
"""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tests/external"
NAME = "echo_game.more:SlowEcho-v0"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables of a process that has the package installed."""
    source, site = tmp_path_factory.mktemp("source") / "package", tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE, source)
    flags = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, str(source)], check=True)
    paths = os.pathsep.join([str(site), str(ROOT)])
    return {**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}


def printed(program: str, environment: dict[str, str], *argv: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", program, *argv], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_its_ids_are_known_and_its_module_is_imported_on_first_use(environment: dict[str, str]) -> None:
    program = """
import sys, gymnasium, jaxgym
from jaxgym import testing, text
from jaxgym.errors import UnknownIdError

ids = jaxgym.registered_envs()
assert {"Echo-v0", "Broken-v0"} <= set(ids) and "jaxgym/Echo-v0" in gymnasium.registry
assert "echo" not in text.text_envs() and "echo_game" not in sys.modules
env, params = jaxgym.make("Echo-v0", delay=1)
assert int(params.delay) == 1 and "echo_game" in sys.modules and text.text_envs()["echo"] == "Echo-v0"
assert "echo_game.more" not in sys.modules
for _ in range(2):
    slow, params = jaxgym.make("echo_game.more:SlowEcho-v0")
    assert slow.env_id == "SlowEcho-v0" and int(params.delay) == 5
assert gymnasium.make("jaxgym/SlowEcho-v0").reset(seed=0)[0].shape == (4,)

def message(name):
    try:
        jaxgym.make(name)
    except UnknownIdError as error:
        print(error)

for name in ("Broken-v0", "no_such_module:Echo-v0", "echo_game:Ech-v0"):
    message(name)
"""
    broken, missing, unknown = printed(program, environment).splitlines()
    assert broken == (
        "Broken-v0: expected its entry point 'echo_game.broken:SPEC' to be a jaxgym.Spec, got ImportError: the engine "
        "of this game is not installed. Correct the entry point, or repair the package that declares it."
    )
    assert missing == (
        "'no_such_module:Echo-v0': expected a module that can be imported, got ModuleNotFoundError: No module named "
        "'no_such_module'."
    )
    assert unknown == "Unknown environment id 'Ech-v0' (did you mean 'Echo-v0'?). See jaxgym.registered_envs()."


def test_it_plays_as_text_in_sessions_and_in_the_classes_of_trainers(environment: dict[str, str]) -> None:
    program = """
from jaxgym import text
from jaxgym.serve import rollout, trl
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.rollout import runs
from jaxgym.serve.rollout.scripted import ScriptedPolicy

env, params, interface = text.make("echo_game.more:SlowEcho-v0", delay=1)
print(interface.system_prompt(params).splitlines()[0])
pool = SessionPool(capacity=2)
opened = pool.open("echo", 3, {"delay": 1})
number = opened.text.split()[-1].rstrip(".")
for _ in range(2):
    outcome, = pool.step([opened.id], [f"<action>{number}</action>"])
print(outcome.reward, outcome.terminated)
tools = trl.env_class("echo")(delay=0)
print(tools.reset(seed=3).splitlines()[0])
scheduler = rollout.Scheduler(ScriptedPolicy("expert"), rollout.RolloutSettings())
played = rollout.rollout(runs.rows_of(["slow_echo", "Echo-v0"], 4), scheduler)
print([record["reward"] for record in played])
"""
    rules, ended, shown, rewards = printed(program, environment).splitlines()
    assert rules == "A number is shown once. Repeat it after 1 blank screens."
    assert ended == "1.0 True"
    assert shown == "A number is shown once. Repeat it after 0 blank screens."
    assert json.loads(rewards) == [1.0] * 4


def test_every_command_takes_it(environment: dict[str, str], tmp_path: Path) -> None:
    program = """
import io, sys
from jaxgym import cli

name, folder = sys.argv[1:]
print(cli.run(["list", name]))
print(cli.run(["list"]))
out = ["--ground-truth", "--out"]
print(cli.run(["show", name, *out, f"{folder}/image.png"]))
print(cli.run(["record", name, "--policy", "expert", *out, f"{folder}/video.gif"]))
sys.stdin = io.StringIO("<action>two</action>\\n" * 7)
cli.run(["talk", name, "--seed", "3"])
print(cli.run(["rollout", "--env", name, "--model", "expert", "--episodes", "2", "--out", f"{folder}/chats"]))
"""
    said = printed(program, environment, NAME, str(tmp_path))
    for part in ("its short name is slow_echo", "image.png", "video.gif: 7 frames", "The episode", "SlowEcho-v0  "):
        assert part in said
    assert re.search(r"^Broken-v0 .*can't be imported$", said, re.MULTILINE)
    assert json.loads((tmp_path / "chats/completions.jsonl").read_text().splitlines()[0])["env"] == "SlowEcho-v0"


@pytest.mark.parametrize("protocol", ["openenv", "agentgym"])
def test_a_server_takes_it(environment: dict[str, str], protocol: str) -> None:
    command = [sys.executable, "-m", "jaxgym", "serve", protocol, "--env", NAME, "--port", "0"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        try:
            address = next(found[0] for line in server.stdout if (found := re.search(r"http://[\d.]+:\d+", line)))
            path = "/reset" if protocol == "openenv" else "/create"
            request = urllib.request.Request(address + path, b"{}", {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                assert answer.status == 200
        finally:
            server.terminate()


@pytest.mark.slow
def test_an_agent_learns_it(environment: dict[str, str], tmp_path: Path) -> None:
    flags = ["--scale", "cpu", "--num-envs", "16", "--num-steps", "16", "--total-steps", "2048", "--block-updates", "2"]
    flags += ["--hidden-size", "16", "--memory-size", "16", "--train-levels", "0", "--held-out-levels", "4"]
    argv = ["--env", NAME, "--options", "delay=1", *flags, "--runs-dir", str(tmp_path), "--name", "echo"]
    for arguments in (["baselines.train", *argv], ["baselines.evaluate", str(tmp_path / "echo")]):
        finished = subprocess.run(
            [sys.executable, "-m", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
    assert json.loads((tmp_path / "echo/config.json").read_text())["env"] == NAME
