"""Training on several devices, simulated on the CPU in a process of its own, and in several processes."""

import dataclasses
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from baselines import devices
from baselines.config import SCALES
from baselines.errors import ConfigError
from baselines.runs import read_rows

ROOT = Path(__file__).parents[2]
SIMULATED = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.baselines.on_two_devices"]
    done = subprocess.run(command, cwd=ROOT, env=SIMULATED, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow  # which all that use the process are
def test_two_devices_learn_what_one_learns_with_the_same_environments(compared: dict[str, Any]) -> None:
    assert compared["devices"] == 2
    assert compared["difference"] < 1e-4
    assert compared["episodes"] == [
        16.0,
        16.0,
    ]  # 8 environments x 8 steps, episodes of 4 steps: sums are over all devices


@pytest.mark.slow
def test_seeds_spread_over_devices_learn_what_they_learn_together(compared: dict[str, Any]) -> None:
    assert compared["seeds difference"] < 1e-4


@pytest.mark.slow
def test_a_run_on_two_devices_goes_on_as_if_nothing_had_been(compared: dict[str, Any]) -> None:
    assert compared["updates"] == [1, 2, 3, 4]
    assert compared["rows equal"]
    assert compared["resumed difference"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": 3}, "num_envs: expected a multiple of the 3 devices, got 64"),
        ({"devices": 2, "num_seeds": 3}, "num_seeds: expected a multiple of the 2 devices, got 3"),
        ({"devices": 16}, "a number of environments of each device that divides into 8 minibatches, got 4"),
    ],
)
def test_what_does_not_divide_among_devices_is_rejected(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(SCALES["cpu"], **changes)


def test_more_devices_than_there_are_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"expected at least 8 devices, got 1\. Choose --devices 1 or fewer"):
        devices.make_mesh(dataclasses.replace(SCALES["cpu"], devices=8))


def test_a_process_that_cannot_be_is_rejected() -> None:
    with pytest.raises(ConfigError, match="process_id: expected a number from 0 to 1, got 2"):
        devices.start("localhost:1", 2, 2)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.slow
def test_two_processes_train_one_agent_and_go_on(tmp_path: Path) -> None:
    argv = "--scale cpu --options command_count=[2] observation=symbolic --train-levels 0 --held-out-levels 2"
    argv += " --num-envs 8 --num-steps 8 --minibatches 2 --memory-size 8 --hidden-size 8 --block-updates 2"
    argv += f" --checkpoint-updates 2 --devices 2 --decay-steps 256 --name run --runs-dir {tmp_path}"
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    for extra in ("--total-steps 128", "--total-steps 256 --resume"):
        shared = f"{argv} {extra} --coordinator 127.0.0.1:{free_port()} --num-processes 2"
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "baselines.train", *shared.split(), "--process-id", str(number)],
                **dict(cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True),
            )
            for number in range(2)
        ]
        try:
            said = [process.communicate(timeout=280) for process in processes]
        finally:
            for process in processes:
                process.kill()
        if any("collectives" in err and "not" in err for _, err in said):
            pytest.skip(f"this jaxlib has no collectives between processes on a CPU: {said[0][1][-300:]}")
        assert [process.returncode for process in processes] == [0, 0], [err[-1500:] for _, err in said]
    assert [row["update"] for row in read_rows(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4]
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["update"] == 4
