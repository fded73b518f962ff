"""Run our side of the protocols of language models with the frameworks' own clients.

    make conformance                                  # all lines
    make conformance CONFORMANCE_FLAGS='--only trl'   # the lines whose name contains that word

A line is a file of tests, or one case of it. It passes if no test fails and at least one test runs.
"""

import contextlib
import dataclasses
import os
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import tyro

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SECONDS_TO_LOAD = 300
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0")


class Line(NamedTuple):
    """A file of tests below this folder, optionally one of its cases, and the variable that names its Python."""

    name: str
    file: str
    case: str = ""
    python: str = ""


SWIFT, OPENENV = "clients/test_swift_gym.py", "clients/test_swift_openenv.py"
LINES = (
    Line("ms-swift FrozenLakeEnv", SWIFT, "FrozenLakeEnv"),
    Line("ms-swift SudokuEnv", SWIFT, "SudokuEnv"),
    Line("ms-swift MortarMayhemGridEnv", SWIFT, "MortarMayhemGridEnv"),
    Line("ms-swift MysteryPathGridEnv", SWIFT, "MysteryPathGridEnv"),
    Line("ms-swift plugin", SWIFT, "plugin"),
    Line("ms-swift history", "clients/test_swift_history.py"),
    Line("ms-swift scripts", "test_swift_scripts.py"),
    Line("TRL", "clients/test_trl.py"),
    Line("TRL example", "test_trl_example.py"),
    Line("TRL with images", "clients/test_trl_images.py"),
    Line("Llama decoder", "clients/test_language_model.py"),
    Line("TRL chats of SFT and GRPO", "test_llm_example.py"),
    Line("SkyRL", "clients/test_skyrl.py"),
    Line("NeMo Gym", "clients/test_nemo.py"),
    Line("VAGEN", "clients/test_vagen.py"),
    Line("OpenEnv client", "clients/test_openenv.py"),
    Line("OpenEnv openenv_scheduler", OPENENV, "openenv_scheduler"),
    Line("OpenEnv jaxgym_openenv_scheduler", OPENENV, "jaxgym_openenv_scheduler"),
    Line("OpenEnv jaxgym_sudoku_scheduler", OPENENV, "jaxgym_sudoku_scheduler"),
    Line("OpenEnv sudoku_scheduler", OPENENV, "sudoku_scheduler"),
    Line("OpenEnv verifiers", "test_verifiers.py"),
    Line("AgentGym textcraft", "clients/test_agentgym.py", "textcraft"),
    Line("AgentGym frozen_lake", "clients/test_agentgym.py", "frozen_lake"),
    Line("AgentGym babyai", "clients/test_agentgym.py", "babyai"),
    Line("TextArena", "test_textarena.py"),
    Line("verl", "clients/test_verl.py", python="TRAINERS"),
    Line("AReaL", "clients/test_areal.py", python="TRAINERS"),
    Line("slime", "clients/test_slime.py", python="TRAINERS"),
    Line("Ray pool", "clients/test_ray.py", python="TRAINERS"),
    Line("verifiers taskset", "clients/test_verifiers_taskset.py", python="VERIFIERS_PYTHON"),
    Line("MCP fastmcp and mcp", "test_mcp.py"),
)


@contextlib.contextmanager
def served(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield the address of a server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jaxgym", "serve", *argv, "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        for _ in range(SECONDS_TO_LOAD):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(1)
        else:
            raise TimeoutError(f"expected a server on port {port} within {SECONDS_TO_LOAD} s, got none")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def results(report: str) -> list[tuple[str, str, str]]:
    """Return status, name and message of each test in a report of pytest."""
    rows = []
    for case in xml.etree.ElementTree.fromstring(report).iter("testcase"):
        part = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        status = "PASS" if part is None else "SKIP" if part.tag == "skipped" else "FAIL"
        rows.append((status, case.get("name", ""), "" if part is None else part.get("message", "")))
    return rows


def run(line: Line) -> bool | None:
    """Run a line and write its result; return whether it passes, or None if all of it is skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        narrowed = ("-k", f"[{line.case}]") if line.case else ()
        own = os.environ.get(line.python, "")
        python = own if Path(own).is_file() else sys.executable
        command = [python, *PYTEST, f"--junitxml={report}", FOLDER / line.file, *narrowed]
        finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        rows = results(report.read_text()) if report.exists() else []
    is_skipped = bool(rows) and all(status == "SKIP" for status, *_ in rows)
    counts = {status: sum(row[0] == status for row in rows) for status in ("PASS", "FAIL", "SKIP")}
    shown = ", ".join(f"{number} {status}" for status, number in counts.items() if number) or "did not start"
    sys.stdout.write(f"{line.name:32} {f'SKIP: {rows[0][2]}' if is_skipped else shown}\n")
    for status, name, message in rows:
        if status != "PASS" and not is_skipped:
            sys.stdout.write(f"    {status} {name}: {message}\n")
    if not rows:
        sys.stdout.write(finished.stdout[-2000:] + finished.stderr[-2000:])
    sys.stdout.flush()
    return None if is_skipped else bool(rows) and finished.returncode == 0


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Command-line arguments."""

    only: str = ""
    """Run the lines whose name has this word."""


def main(arguments: Arguments) -> int:
    """Run the lines; return the exit code."""
    passes = [run(line) for line in LINES if arguments.only.lower() in line.name.lower()]
    ran = [is_well for is_well in passes if is_well is not None]
    skipped = f", {len(passes) - len(ran)} skipped" if len(ran) < len(passes) else ""
    sys.stdout.write(f"{sum(ran)} of {len(ran)} lines pass{skipped}.\n")
    return 0 if passes and all(ran) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Arguments, description=__doc__)))
