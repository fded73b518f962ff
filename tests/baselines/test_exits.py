"""Exits of the commands."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jax.errors import JaxRuntimeError

from baselines import exits
from baselines.errors import ConfigError, RunError
from jaxgym import interrupts
from jaxgym.errors import LevelError, OptionError, UnknownIdError


@pytest.fixture(autouse=True)
def _hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the process after a test."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)


@pytest.mark.parametrize("error", [ConfigError, RunError, LevelError, OptionError, UnknownIdError])
def test_what_a_person_can_put_right_is_told_in_a_sentence(error: type[Exception]) -> None:
    with pytest.raises(SystemExit, match=r"^error: do this$"), exits.exit_on_error():
        raise error("do this")


@pytest.mark.parametrize(
    ("resume", "said"),
    [("", "interrupted\n"), (exits.RESUME, f"interrupted: {exits.RESUME}\n")],
    ids=["evaluate", "train"],
)
def test_an_interrupt_ends_with_the_code_of_shells(resume: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info, exits.exit_on_error(resume):
        raise KeyboardInterrupt
    assert exit_info.value.code == interrupts.CODE
    assert capsys.readouterr().err == said


def test_a_reader_who_leaves_ends_a_command_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(SystemExit) as exit_info, exits.exit_on_error():
            output.write("table")
        monkeypatch.undo()
    assert exit_info.value.code == interrupts.UNREAD
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError(), JaxRuntimeError("INTERNAL: a bug"), ModuleNotFoundError("a bug", name="baselines.nothing")],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_program_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)), exits.exit_on_error():
        raise error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENAMETOOLONG, "File name too long", "a/b"), r"^error: a/b: File name too long$"),
        (OSError(errno.ENOSPC, "No space left on device"), r"^error: No space left on device$"),
        (
            JaxRuntimeError("RESOURCE_EXHAUSTED: of 9 bytes\nat"),
            r"^error: out of memory \(.*9 bytes\)\. To use less memory, reduce the number of environments",
        ),
        (
            MemoryError("Unable to allocate 9 bytes"),
            r"^error: out of memory \(.*9 bytes\)\. To use less memory, reduce the number of environments",
        ),
        (
            ModuleNotFoundError("no", name="imageio"),
            r'^error: missing packages: imageio\. Install them with: pip install "jaxgym\[baselines\]"$',
        ),
    ],
    ids=["file", "output", "device", "host", "package"],
)
def test_what_a_machine_lacks_is_told_in_a_sentence(error: Exception, said: str) -> None:
    with pytest.raises(SystemExit, match=said), exits.exit_on_error():
        raise error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no file that is always full")
def test_an_output_that_is_full_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(SystemExit, match=r"^error: No space left on device$"), exits.exit_on_error():
            output.write("table")


def test_baselines_say_which_package_is_missing_and_what_brings_it() -> None:
    hidden = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "tqdm" else find(name, *more)
import baselines
"""
    ran = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    last_line = ran.stderr.splitlines()[-1]
    message = 'missing packages: tqdm. Install them with: pip install "jaxgym[baselines]"'
    assert last_line == f"ModuleNotFoundError: {message}"


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_an_output_that_is_closed_leads_to_no_traceback(closed: str) -> None:
    command = f'"{sys.executable}" -m baselines.train --list {closed}'
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
