"""Drives our side of the protocols of language models with the frameworks' own clients.

    make conformance                                  # with the harness in CONFORMANCE_DIR
    make conformance CONFORMANCE_FLAGS='--only trl'   # the lines whose name has that word

A line passes where its harness has no failure and no warning.
"""

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import tyro

ROOT = Path(__file__).parents[2]
SECONDS_TO_LOAD = 120
MISSING = "no harness in {}: name its folder with CONFORMANCE_DIR. Nothing was run.\n"


@dataclasses.dataclass(frozen=True)
class Line:
    """One run of a script of the harness, or of a file of tests.

    Attributes:
        name: What is driven by what.
        script: The script, or the path of the tests from the root of the checkout.
        words: Its arguments.
        server: What `jaxgym serve` is told, if a server is driven; the script is given its address.
        source: The environment variable that names a checkout or a command of the framework, if one is needed.
    """

    name: str
    script: str
    words: tuple[str, ...]
    server: tuple[str, ...] = ()
    source: str = ""


def swift(game: str, policy: str, config: str = "{}", *words: str) -> Line:
    """A game as an environment of ms-swift, 64 trajectories at once."""
    factory = f"jaxgym.serve.swift:{game}"
    options = ("--env-class", factory, "--env-config", config, "--policy", policy, "--concurrency", "64", *words)
    return Line(f"ms-swift {game}", "swift_gym.py", options)


def trl(game: str, calls: str) -> Line:
    """A game as an environment of TRL."""
    return Line(f"TRL {game}", "trl_env.py", ("--factory", f"jaxgym.serve.trl:{game}", "--calls", calls))


PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0")
FORWARD = "text:<action>forward</action>"
ACT = '[["act", {"actions": "forward"}], ["act", {"actions": "jump"}]]'
SHORT = '{"command_count": [1], "command_show_duration": [1], "command_show_delay": [0]}'
PLUGIN = ROOT / "examples/ms_swift/jaxgym_plugin.py"

ROOM = 80


def openenv(game: str, script: str, *words: str) -> Line:
    """A server of OpenEnv, driven by a script."""
    kind = " ".join(word for word in words if word.endswith("_scheduler")) or "client"
    server = ("openenv", "--env", game, "--max-sessions", str(ROOM))
    return Line(f"OpenEnv {game} {kind}", script, (*words, "--capacity", str(ROOM)), server=server)


WALK = json.dumps([{"message": f"<action>{way}</action>"} for way in ("right", "down", "left", "up") * 30])
MOVE = ("--action", '{"message": "<action>up</action>"}', "--bad-action", '{"nope": 1}')
OURS = ("--plugin", str(PLUGIN), "--scheduler")
# Of the folder examples in a checkout of ms-swift, which its package leaves out.
THEIRS = os.path.join(os.environ.get("SWIFT_EXAMPLES", ""), "train/grpo/plugin/openenv/sudoku_scheduler.py")
SOLVED = ("--sudoku", "--policy", "builtin:sudoku", "--max-turns", "60")

LINES = (
    swift("FrozenLakeEnv", "builtin:frozen_lake", '{"size": 4}', "--expect-reward", "1", "--bench-seconds", "3"),
    swift("SudokuEnv", "builtin:sudoku", "{}", "--max-turns", "60"),
    swift("MortarMayhemGridEnv", FORWARD, SHORT),
    swift("MysteryPathGridEnv", FORWARD, '{"max_steps": 16}'),
    Line(
        "ms-swift plugin",
        "swift_gym.py",
        (
            "--plugin",
            str(PLUGIN),
            "--env-name",
            "frozen_lake",
            "--policy",
            "builtin:frozen_lake",
            "--expect-reward",
            "1",
        ),
    ),
    trl("FrozenLakeEnv", '[["move", {"direction": "left"}], ["move", {"direction": "up"}]]'),
    trl("SudokuEnv", '[["place", {"row": 1, "column": 1, "number": 1}]]'),
    trl("TextCraftEnv", '[["inventory", {}], ["craft", {"command": "1 nothing using 1 nothing"}]]'),
    trl("MortarMayhemGridEnv", ACT),
    trl("MysteryPathGridEnv", ACT),
    openenv("frozen_lake", "openenv_client.py", *MOVE, "--done-actions", WALK, "--sessions", "64"),
    openenv("sudoku", "swift_openenv.py", "--scheduler", "openenv_scheduler", "--policy", "text:[1 1 1]"),
    openenv("sudoku", "swift_openenv.py", *OURS, "jaxgym_openenv_scheduler", "--policy", "text:[1 1 1]"),
    openenv(
        "sudoku",
        "swift_openenv.py",
        *OURS,
        "jaxgym_sudoku_scheduler",
        *SOLVED,
    ),
    dataclasses.replace(
        openenv("sudoku", "swift_openenv.py", "--plugin", THEIRS, "--scheduler", "sudoku_scheduler", *SOLVED),
        source="SWIFT_EXAMPLES",
    ),
    Line(
        "AgentGym textcraft",
        "agentgym_client.py",
        ("--env", "textcraft", "--policy", "builtin:textcraft"),
        server=("agentgym", "--env", "textcraft"),
        source="AGENTGYM_SRC",
    ),
    Line(
        "AgentGym frozen_lake",  # with the client of BabyAI, whose answers have the keys of the guide
        "agentgym_client.py",
        ("--env", "babyai", "--action", "left", "--policy", "tests.conformance.react:frozen_lake"),
        server=("agentgym", "--env", "frozen_lake"),
        source="AGENTGYM_SRC",
    ),
    Line("TextArena", "tests/conformance/test_textarena.py", ()),
    Line("MCP fastmcp and mcp", "tests/conformance/test_mcp.py", ()),
    Line("ms-swift scripts", "tests/conformance/test_swift_scripts.py", ()),
    Line("OpenEnv verifiers", "tests/conformance/test_verifiers.py", (), source="VERIFIERS"),
)


@contextlib.contextmanager
def served(words: tuple[str, ...]) -> Iterator[str]:
    """Yields the address of a server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jaxgym", "serve", *words, "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        for _ in range(SECONDS_TO_LOAD):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def rows_of(report: str) -> list[dict[str, str]]:
    """Returns the rows of a report: that of a script, or of pytest."""
    if report.startswith("{"):
        return json.loads(report)["rows"]
    rows: list[dict[str, str]] = []
    for case in xml.etree.ElementTree.fromstring(report).iter("testcase"):
        wrong = next((part for part in case if part.tag in ("failure", "error")), None)
        status = "SKIP" if case.find("skipped") is not None else "PASS" if wrong is None else "FAIL"
        rows.append(
            {"name": case.get("name", ""), "status": status, "note": "" if wrong is None else wrong.get("message", "")}
        )
    return rows


def run(line: Line, harness: Path) -> bool | None:
    """Runs a line, writes its row and what went wrong; returns whether all is well, or None where it is skipped."""
    if line.source and not Path(os.environ.get(line.source) or "nowhere").exists():
        sys.stdout.write(f"{line.name:32} skipped: {line.source} names nothing that exists.\n")
        return None
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        report = Path(folder) / "report.json"
        words = [sys.executable, harness / line.script, *line.words, "--path", ROOT, "--strict", "--json", report]
        if line.script.startswith("tests/"):
            words = [sys.executable, *PYTEST, f"--junitxml={report}", line.script]
        if line.server:
            words += ["--url", stack.enter_context(served(line.server))]
        finished = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        rows = rows_of(report.read_text()) if report.exists() else []
    count = {
        status: sum(row["status"] == status for row in rows) for status in ("PASS", "WARN", "FAIL", "SKIP", "INFO")
    }
    shown = ", ".join(f"{number} {status}" for status, number in count.items() if number) or "did not start"
    sys.stdout.write(f"{line.name:32} {shown}\n")
    for row in rows:
        if row["status"] in ("WARN", "FAIL", "INFO"):
            sys.stdout.write(f"    {row['status']} {row['name']}: {row['note']}\n")
    if not rows:
        sys.stdout.write(finished.stdout[-2000:] + finished.stderr[-2000:])
    sys.stdout.flush()
    return bool(rows) and finished.returncode == 0


@dataclasses.dataclass(frozen=True)
class Arguments:
    """What to run."""

    harness: Annotated[Path, tyro.conf.Positional]
    """Folder of the harness."""
    only: str = ""
    """Run the lines whose name has this word."""


def main(arguments: Arguments) -> int:
    """Runs the lines; returns the exit code."""
    if not (arguments.harness / "common.py").exists():
        sys.stdout.write(MISSING.format(arguments.harness))
        return 0
    lines = [line for line in LINES if arguments.only.lower() in line.name.lower()]
    done = [run(line, arguments.harness.resolve()) for line in lines]
    passed = [is_well for is_well in done if is_well is not None]
    skipped = f", {len(done) - len(passed)} skipped" if len(passed) < len(done) else ""
    sys.stdout.write(f"{sum(passed)} of {len(passed)} lines pass{skipped}.\n")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Arguments, description=__doc__)))
