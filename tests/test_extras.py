"""A command without its optional packages prints one line that names all of them."""

import os
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

import jaxgym
from jaxgym import extras

ROOT = Path(__file__).parents[1]


def run_without(folder: Path, missing: list[str], *argv: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m` in an environment that lacks some distributions: links to all the others, and no .pth files."""
    packages = Path(sysconfig.get_path("purelib"))
    left_out = {
        file.parts[0] for name in missing for file in metadata.files(name) or () if file.parts[0] not in ("..", "bin")
    }
    for entry in packages.iterdir():
        if entry.name not in left_out and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, "-S", "-m", *argv], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )


@pytest.mark.parametrize(
    ("missing", "argv", "line"),
    [
        (
            extras.requirements("serve"),
            ["jaxgym", "serve", "openenv", "--env", "sudoku"],
            f"jaxgym: missing packages: {', '.join(extras.requirements('serve'))}. "
            'Install them with: pip install "jaxgym[serve]"',
        ),
        (
            ["httptools", "starlette", "uvicorn", "websockets"],
            ["jaxgym", "serve", "openenv", "--env", "sudoku", "--port", "0"],
            "jaxgym: missing packages: httptools, starlette, uvicorn, websockets. "
            'Install them with: pip install "jaxgym[serve]"',
        ),
        (
            ["openai", "tqdm", "tyro"],
            ["jaxgym", "rollout"],
            'jaxgym: missing packages: openai, tqdm, tyro. Install them with: pip install "jaxgym[rollout]"',
        ),
        (
            ["openai", "tyro"],
            ["jaxgym", "eval", "--out", "runs/a"],
            'jaxgym: missing packages: openai, tyro. Install them with: pip install "jaxgym[rollout]"',
        ),
        (
            ["optax", "orbax-checkpoint", "tyro"],
            ["jaxgym", "record", "FrozenLake-v0", "--policy", "zoo", "--out", "a.gif"],
            "jaxgym: missing packages: optax, orbax-checkpoint, tyro. "
            'Install them with: pip install "jaxgym[baselines]"',
        ),
        (
            ["imageio", "tyro"],
            ["jaxgym", "list"],
            'jaxgym: missing packages: imageio, tyro. Install them with: pip install "jaxgym[cli]"',
        ),
        (
            ["matplotlib", "optax", "orbax-checkpoint", "tqdm", "tyro"],
            ["baselines.train", "--list"],
            "error: missing packages: matplotlib, optax, orbax-checkpoint, tqdm, tyro. "
            'Install them with: pip install "jaxgym[baselines]"',
        ),
    ],
    ids=["serve", "serve-with-cli", "rollout", "eval", "record", "list", "train"],
)
def test_one_line_names_every_missing_package(tmp_path: Path, missing: list[str], argv: list[str], line: str) -> None:
    ran = run_without(tmp_path, missing, *argv)
    assert (ran.returncode, ran.stderr, ran.stdout) == (1, f"{line}\n", "")


def test_the_version_needs_no_extra(tmp_path: Path) -> None:
    ran = run_without(tmp_path, extras.requirements("cli"), "jaxgym", "--version")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"jaxgym {jaxgym.__version__}\n", "")


def test_the_requirements_of_an_extra_include_those_of_the_extras_in_it() -> None:
    assert extras.requirements("play") == ["imageio", "pillow", "pygame", "tyro"]
    assert "optax" in extras.requirements("dev")
    assert extras.requirements("no-such-extra") == []


def test_a_package_that_is_installed_and_broken_is_named() -> None:
    message = 'missing packages: tyro.cli. Install them with: pip install "jaxgym[serve]"'
    assert extras.missing("serve", "tyro.cli") == message


def test_the_client_of_openenv_names_the_package_that_it_needs(tmp_path: Path) -> None:
    ran = run_without(tmp_path, ["websockets"], "jaxgym.serve.openenv.client")
    message = "ImportError: missing package: websockets. Install it with: pip install websockets"
    assert ran.stderr.splitlines()[-1] == message
