"""Playing a game as text on the command line."""

import io
import subprocess
import sys

import pytest

from jaxgym import cli, text

GAME = ("mortar_mayhem_b_grid", "command_count=[1]", "explosion_delay=[1]", "actions_per_turn=2")


def talked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], replies: str, *argv: str) -> str:
    monkeypatch.setattr(sys, "stdin", io.StringIO(replies))
    assert cli.run(["talk", *argv]) == ""
    return capsys.readouterr().out


def test_a_game_is_played_to_its_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _, params, interface = text.make("mortar_mayhem_b_grid", command_count=[1], explosion_delay=[1], actions_per_turn=2)
    said = talked(monkeypatch, capsys, "jump\n\n<action>wait 2</action>\nwait\n", *GAME, "--seed", "3")
    assert said.startswith(f"{interface.system_prompt(params)}\n\nCommands: ")
    assert 'got "jump"' in said
    assert said.count("[reward") == 2, "a blank line is no reply, and nothing follows the end"
    assert "You chose: wait 2.\nCommands: " in said
    assert "The episode has ended." in said
    assert said.endswith(" in 2 replies.\n")
    assert (
        talked(monkeypatch, capsys, "", "MortarMayhemB-Grid-v0", *GAME[1:], "--seed", "3").splitlines()[:12]
        == (said.splitlines()[:12])
    )


def test_an_input_that_ends_ends_the_game(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert talked(monkeypatch, capsys, "", *GAME).endswith("No more replies: reward 0 in 0 replies.\n")


def test_a_pipe_of_any_bytes_is_read_and_ends_with_0() -> None:
    command = [sys.executable, "-m", "jaxgym", "talk", *GAME]
    finished = subprocess.run(command, input=b"\xff\x00up\n", capture_output=True, check=False, timeout=300)
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == b""
    assert b"Invalid reply: expected one of" in finished.stdout
    assert finished.stdout.endswith(b"No more replies: reward 0 in 1 reply.\n")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["Nothing-v0"], "Unknown text environment 'Nothing-v0'"),
        (["mystery_path_girdd"], "did you mean 'mystery_path_grid'"),
        ([*GAME, "nothing=1"], "expected an option, got 'nothing'"),
        ([*GAME, "max_turns=3"], "got 'max_turns'. An option of a session needs a session pool"),
        ([*GAME, "--seed", "-1"], "--seed: expected an integer from 0"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["jaxgym", "talk", *argv])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert exit_info.value.code == cli.MISUSED
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
