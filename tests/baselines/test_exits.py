"""How commands end."""

import os
import sys

import pytest

from baselines import exits
from baselines.errors import ConfigError, RunError
from jaxgym import interrupts
from jaxgym.errors import LevelError, OptionError, UnknownIdError


@pytest.fixture(autouse=True)
def _hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the process stays changed."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)


@pytest.mark.parametrize("error", [ConfigError, RunError, LevelError, OptionError, UnknownIdError])
def test_what_a_person_can_put_right_is_told_in_a_sentence(error: type[Exception]) -> None:
    with pytest.raises(SystemExit, match=r"^error: do this$"), exits.told():
        raise error("do this")


@pytest.mark.parametrize(
    ("resume", "said"),
    [("", "interrupted\n"), (exits.RESUME, f"interrupted: {exits.RESUME}\n")],
    ids=["score", "train"],
)
def test_an_interrupt_ends_with_the_code_of_shells(resume: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info, exits.told(resume):
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
        with pytest.raises(SystemExit) as exit_info, exits.told():
            output.write("table")
        monkeypatch.undo()
    assert exit_info.value.code == interrupts.UNREAD
    assert capsys.readouterr().err == ""


def test_an_error_of_the_program_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), exits.told():
        raise ZeroDivisionError
