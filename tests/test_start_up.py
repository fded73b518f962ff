"""Ctrl-C while a command starts: exit code 130 and no output, during any import.

A `sitecustomize` of the process raises the interrupt when a module is imported for the first time.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxgym import interrupts

ROOT = Path(__file__).parents[1]
HOOK = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.environ["INTERRUPT_AT"] = ""
            signal.raise_signal(signal.SIGINT)
        return None

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
"""
SERVE = ("-m", "jaxgym", "serve", "openenv", "--env", "frozen_lake", "--port", "0")
LIST = ("-m", "jaxgym", "list")
TRAIN = ("-m", "baselines.train", "--list")
SCRIPT = ("-c", "import sys; sys.argv[0] = 'jaxgym'; from jaxgym.__main__ import main; main()", "list")


# Some stand for all where time is short: each one starts a process.
QUICK = [(SERVE, "jax"), (LIST, "tyro"), (TRAIN, "flax")]
OTHERS = [
    (SCRIPT, "gymnasium"),
    *(
        (SERVE, name)
        for name in ("uvicorn", "gymnasium", "jaxgym.serve.command", "tyro", "jaxgym.serve.openenv.server")
    ),
    *((SERVE, name) for name in ("uvloop", "jaxgym.text")),
    *((LIST, name) for name in ("gymnasium", "numpy", "jaxgym.cli", "jaxgym.commands", "jax", "jaxlib")),
    *((TRAIN, name) for name in ("gymnasium", "jax", "optax")),
]


@pytest.mark.parametrize(
    ("command", "module"),
    [*QUICK, *(pytest.param(*other, marks=pytest.mark.slow) for other in OTHERS)],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
def test_an_interrupt_at_an_import_ends_a_command_with_130(
    command: tuple[str, ...], module: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": paths, "INTERRUPT_AT": module}
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == interrupts.CODE, ended.stderr[-500:]
    progress = ("jaxgym: loading frozen_lake", "jaxgym: frozen_lake at ")
    assert not [line for line in ended.stderr.splitlines() if not line.startswith(progress)]
