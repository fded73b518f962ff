"""The command line: its output and its errors."""

import io
import os
import subprocess
import sys
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest

import jaxgym
from jaxgym import cli, commands, interrupts
from jaxgym.errors import OptionError, UnknownIdError
from jaxgym.human import keys
from jaxgym.options import parse_options
from tests.ids import is_babyai

ENV = "MortarMayhemB-Grid-v0"
TRAINED = "MortarMayhem-Grid-v0"  # has an agent in the zoo
OPTIONS = ("command_count=[1]", "explosion_delay=[3]")


def rejected(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *argv: str) -> tuple[int, str]:
    """Return exit code and error of a failing command; the error is one line."""
    monkeypatch.setattr(sys, "argv", ["jaxgym", *argv])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    output = capsys.readouterr()
    assert output.err.count("\n") == 1
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code, output.err


def test_list_names_every_id_and_every_option_of_one() -> None:
    listed = cli.run(["list"])
    assert all(env_id in listed for env_id in jaxgym.registered_envs() if not is_babyai(env_id))
    listed = cli.run(["list", ENV])
    assert all(f"\n{name} " in listed for name in jaxgym.spec_of(ENV).all_options)
    assert all(f"\n{name} " in listed for name in jaxgym.presets(ENV))


def test_a_large_family_is_one_row_and_a_pattern_lists_its_ids() -> None:
    (row,) = (line for line in cli.run(["list"]).splitlines() if "BabyAI" in line)
    assert row.split("  ")[0] == "BabyAI-* (98 ids)"
    assert row.endswith("jaxgym list 'BabyAI-*' lists them")
    _, _, *rows = cli.run(["list", "BabyAI-*"]).splitlines()
    assert [line.split()[0] for line in rows] == [env_id for env_id in jaxgym.registered_envs() if is_babyai(env_id)]
    with pytest.raises(UnknownIdError, match=r"^expected a pattern of ids, got 'Babbage-\*'\. The ids are "):
        cli.run(["list", "Babbage-*"])


def test_list_names_the_short_name_of_a_game_in_words_and_the_options_of_its_words() -> None:
    listed = cli.run(["list", "FrozenLake-v0"])
    assert "its short name is frozen_lake" in listed
    assert "\ndialect " in listed
    assert cli.run(["list", "frozen_lake"]) == listed


def test_the_values_of_options_are_json_or_words() -> None:
    argv = ["command_count=[3,4]", "observation=symbolic", "show_goal=True", "max_coins=null", "agent_speed=2.5"]
    assert parse_options(argv) == {
        "command_count": [3, 4],
        "observation": "symbolic",
        "show_goal": True,
        "max_coins": None,
        "agent_speed": 2.5,
    }


@pytest.mark.parametrize(
    "argv", [["show", "--out", "x.png"], ["record", "--policy", "noop", "--out", "x.gif"], ["play"], ["talk"]]
)
def test_levels_are_rejected_where_a_seed_names_the_level(
    argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, *flags = argv
    code, error = rejected(capsys, monkeypatch, command, "mystery_path_grid", "levels=10", *flags)
    assert (code, error) == (
        cli.MISUSED,
        "jaxgym: expected no levels= option, got one. --seed selects the level.\n",
    )


def test_a_game_may_be_called_by_its_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def received(name: str, *_: object, **__: object) -> None:
        raise OptionError(name)

    monkeypatch.setattr(commands, "Stage", received)
    flags = {"show": ["--out", f"{tmp_path}/x.png"], "play": []}
    flags["record"] = ["--policy", "noop", "--out", f"{tmp_path}/x.gif"]
    for command, argv in flags.items():
        with pytest.raises(OptionError, match=r"^FrozenLake-v0$"):
            cli.run([command, "frozen_lake", *argv])


def test_an_option_that_is_given_twice_is_rejected() -> None:
    with pytest.raises(OptionError, match=r"^expected each option once, got 'preset' twice\. Remove one\.$"):
        parse_options(["preset=jmlr2025", "preset=iclr2023"])


def test_an_option_after_another_flag_than_env_is_rejected() -> None:
    with pytest.raises(OptionError, match=r"^size=8: expected NAME=VALUE directly after --env ID"):
        cli.run(["rollout", "--env", "FrozenLake-v0", "--model", "expert", "size=8"])


def test_show_writes_a_picture_with_and_without_what_is_hidden(tmp_path: Path) -> None:
    plain, whole = tmp_path / "plain.png", tmp_path / "whole.png"
    cli.run(["show", ENV, *OPTIONS, "--out", str(plain), "--seed", "3"])
    cli.run(["show", ENV, *OPTIONS, "--out", str(whole), "--seed", "3", "--ground-truth"])
    assert iio.imread(plain).shape == iio.imread(whole).shape == (336, 336, 3)
    ring = (iio.imread(whole) == (0, 255, 0)).all(axis=-1)
    assert ring.any()
    assert (iio.imread(whole)[~ring] == iio.imread(plain)[~ring]).all()


@pytest.mark.parametrize(("policy", "num_frames"), [("noop", 4), ("expert", 5)])
def test_record_writes_an_episode_to_its_end_or_the_last_step(tmp_path: Path, policy: str, num_frames: int) -> None:
    out = tmp_path / "video.gif"
    steps = ["--steps", "3"] if policy == "noop" else ["--steps", str(2**40)]
    said = cli.run(["record", ENV, *OPTIONS, "--policy", policy, "--out", str(out), *steps])
    assert f"{num_frames} frames" in said
    assert np.asarray(iio.imread(out)).shape[1:] == (336, 336, 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("policy", ["zoo", f"zoo:{TRAINED}"])
def test_record_writes_an_episode_of_the_agent_that_comes_with_the_package(tmp_path: Path, policy: str) -> None:
    out = tmp_path / "video.mp4"
    assert "6 frames" in cli.run(["record", TRAINED, "--policy", policy, "--out", str(out), "--steps", "5"])
    assert out.read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["show", "MortarMayhem-Gird-v0", "--out", "a.png"], "did you mean 'MortarMayhem-Grid-v0'"),
        (["show", ENV, "command_cuont=[3]", "--out", "a.png"], "did you mean 'command_count'"),
        (["show", ENV, "command_count", "--out", "a.png"], "NAME=VALUE"),
        (["show", ENV, "observation=symbolic", "--out", "a.png"], "Leave out observation"),
        (["show", ENV, "--out", "a.jpg"], ".png"),
        (["show", ENV, "--out", "a.png", "--seed", "-1"], "--seed: expected an integer from 0"),
        (["record", ENV, "--policy", "exprt", "--out", "a.gif"], "got 'exprt' (did you mean 'expert'?)."),
        (["record", ENV, "--policy", "{folder}", "--out", "a.gif"], "expected a run with config.json"),
        (
            ["record", ENV, "--policy", "zoo:Nothing-v0", "--out", "a.gif"],
            "agent: expected one of",
        ),
        (["play", "nothing"], "Unknown environment id 'nothing'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_told_in_one_line_and_exits_with_2(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    argv: list[str],
    says: str,
) -> None:
    code, error = rejected(capsys, monkeypatch, *(word.format(folder=tmp_path) for word in argv))
    assert code == cli.MISUSED
    assert says in error


@pytest.mark.parametrize(("name", "what"), [("taken.png", "got the directory"), ("no/level.png", "no does not exist")])
def test_a_place_where_no_file_can_be_written_is_rejected_with_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, what: str
) -> None:
    (tmp_path / "taken.png").mkdir()
    code, error = rejected(capsys, monkeypatch, "show", ENV, "--out", str(tmp_path / name))
    assert code == cli.MISUSED
    assert "--out: " in error
    assert what in error


def test_a_person_who_stops_a_command_gets_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", interrupted)
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert exit_info.value.code == interrupts.CODE


def test_a_reader_who_leaves_ends_a_command_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(sys, "argv", ["jaxgym", "list"])
    with os.fdopen(writing, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(SystemExit) as exit_info:
            cli.main()
        monkeypatch.undo()
    assert exit_info.value.code == interrupts.UNREAD
    assert capsys.readouterr().err == ""


def test_letters_that_a_terminal_lacks_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(cli, "run", lambda: "0.5 ± 0.1\n")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    cli.main()
    assert written.getvalue() == b"0.5 ? 0.1\n"


def test_without_pygame_play_says_so_and_exits_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    code, error = rejected(capsys, monkeypatch, "play", ENV, *OPTIONS)
    assert code == cli.FAILED
    assert "jaxgym[play]" in error


@pytest.mark.parametrize(
    ("closed", "argv", "code", "error"),
    [
        ("<&-", "talk frozen_lake", 1, "jaxgym: expected replies on stdin, got a closed stdin. "),
        (">&-", "list FrozenLake-v0", 0, ""),
        (">&-", "--version", 0, ""),
        ("2>&-", "list NoSuchGame", 2, ""),
        ("<&- >&- 2>&-", "list", 0, ""),
    ],
)
def test_a_stream_that_is_closed_leads_to_no_traceback(closed: str, argv: str, code: int, error: str) -> None:
    command = f'"{sys.executable}" -m jaxgym {argv} {closed}'
    finished = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert finished.returncode == code
    assert finished.stderr.startswith(error)
    assert finished.stderr.count("\n") == (1 if error else 0)


@pytest.mark.parametrize(("argv", "code"), [(["record", "--help"], 0), (["rollout", "--nonsense", "3"], 2)])
def test_help_and_wrong_flags_are_answered_before_jax_is_imported(argv: list[str], code: int) -> None:
    program = (
        "import atexit, sys; atexit.register(lambda: print('jax' in sys.modules)); "
        f"sys.argv = {['jaxgym', *argv]}; from jaxgym.__main__ import main; main()"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == code
    assert finished.stdout.splitlines()[-1] == "False"


def test_a_rollout_leaves_accelerators_to_the_model_and_other_commands_do_not() -> None:
    program = """if True:
        import jax
        from jaxgym import cli, commands
        commands.run = lambda arguments: type(arguments).__name__
        for argv in (["list"], ["rollout", "--model", "random"]):
            print(cli.run(argv), jax.config.jax_platforms)
    """
    environment = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=300, check=True
    )
    assert finished.stdout == "List None\nRollout cpu\n"


def test_keys_make_the_actions_of_the_original() -> None:
    assert keys.free_action([], flat=False) == (0, 0)
    assert keys.free_action(["right", "w"], flat=False) == (2, 1)
    assert keys.free_action(["left", "d", "up", "s"], flat=False) == (1, 2), "left and down win"
    assert keys.free_action(["d", "s"], flat=True) == 8
    assert [keys.struck_action("grid", key) for key in ("space", "a", "right", "w", "x")] == [0, 1, 2, 3, None]
    assert [keys.path_action([key]) for key in ("left", "d", "up", "s")] == [0, 1, 2, 3]
    assert [keys.struck_action("steps", key) for key in ("left", "s", "d", "up", "x")] == [0, 1, 2, 3, None]
    minigrid = ("a", "right", "w", "p", "l", "space", "return", "x")
    assert [keys.struck_action("minigrid", key) for key in minigrid] == [*range(7), None]
