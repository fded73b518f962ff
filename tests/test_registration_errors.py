"""Malformed ids, short names, specs and entry points."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import gymnax
import pytest

import jaxgym
from jaxgym import text
from jaxgym.errors import UnknownIdError
from tests.ids import without_new_ids

GRID = "MortarMayhem-Grid-v0"
MALFORMED = ["", "X", "a b-v0", "x:y-v0", "a/b-v0", "../etc-v0", "X-v1.0", "*-v0", "Ünï-v0", "x-v0\n", ".-v0", None, 3]


@pytest.mark.parametrize("given", MALFORMED)
def test_a_malformed_id_is_rejected_before_anything_is_registered(given: Any) -> None:
    before = jaxgym.registered_envs(), gymnax.registered_envs.copy(), list(gymnasium.registry)
    for spec in (jaxgym.spec_of(GRID), "module:SPEC"):
        with pytest.raises(ValueError, match=r"^expected an id such as 'MyGame-v0', got ") as raised:
            jaxgym.register(given, spec)
        assert f"got {given!r}. Use ASCII letters" in str(raised.value)
    assert (jaxgym.registered_envs(), gymnax.registered_envs, list(gymnasium.registry)) == before


def test_an_id_of_gymnax_is_not_replaced() -> None:
    with pytest.raises(ValueError, match=r"^'CartPole-v1' is an id of gymnax\. Choose another id\.$"):
        jaxgym.register("CartPole-v1", jaxgym.spec_of(GRID))
    assert "CartPole-v1" not in jaxgym.registered_envs()


@pytest.mark.parametrize("given", ["", "a b", "a:b", "a-b", "Sudoku-v0", "ä", 3])
def test_a_malformed_short_name_is_rejected(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^Lake-v0: expected a short name such as 'my_game', got "):
        jaxgym.register("Lake-v0", jaxgym.spec_of("FrozenLake-v0"), short_name=given)
    assert "Lake-v0" not in jaxgym.registered_envs()


class Unfinished(jaxgym.Environment[Any, Any, Any, Any]):
    """An environment without any method."""


@pytest.mark.parametrize(
    "given", [None, 3, "module", "module:", ":SPEC", "a module:SPEC", jaxgym.Environment, {"Lake-v0": None}]
)
def test_what_is_no_spec_and_no_entry_point_is_not_registered(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^Lake-v0: expected a jaxgym\.Spec or an entry point such as '.*', got "):
        jaxgym.register("Lake-v0", given)
    assert "Lake-v0" not in jaxgym.registered_envs()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("environment", jaxgym.EnvParams, r"environment: expected a subclass of jaxgym\.Environment, got <class"),
        ("environment", 3, r"environment: expected a subclass of jaxgym\.Environment, got 3"),
        ("environment", Unfinished, "environment: expected Unfinished to define sample_level"),
        ("params", jaxgym.EnvParams(), r"params: expected a subclass of jaxgym\.EnvParams, got EnvParams\("),
        ("max_steps", "50", r"max_steps: expected an integer from .*, got '50'"),
        ("max_steps", 2.5, r"max_steps: expected an integer from .*, got 2\.5"),
        ("text", text.TextInterface, r"text: expected a jaxgym\.TextSpec or None, got <class"),
        ("human", 3, r"human: expected a jaxgym\.Human or None, got 3"),
        ("expert", 3, "expert: expected a function or None, got 3"),
    ],
)
def test_a_spec_with_a_field_of_another_kind_is_rejected(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        dataclasses.replace(jaxgym.spec_of("FrozenLake-v0"), **{field: value})


def test_a_text_spec_has_a_function_and_options() -> None:
    for build, options, message in (
        (None, {}, "build: expected a function of the environment and the options, got None"),
        (print, ["size"], "options: expected a mapping from names to options, got"),
        (print, {"size": 3}, "options: size: expected an option such as Integer, got 3"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            jaxgym.TextSpec(build, options)  # pyright: ignore[reportArgumentType] — what this test is about


def test_a_module_that_exits_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_that_exits.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownIdError, match=r"expected a module that can be imported, got SystemExit: 3\.$"):
        jaxgym.make("module_that_exits:Lake-v0")
    with without_new_ids():
        jaxgym.register("Lake-v0", "module_that_exits:SPEC")
        with pytest.raises(UnknownIdError, match=r"^Lake-v0: expected its entry point .*, got SystemExit: 3\. Correct"):
            jaxgym.make("Lake-v0")


def test_an_entry_point_that_is_no_spec_is_an_error() -> None:
    with without_new_ids():
        jaxgym.register("Lake-v0", "jaxgym.environment:Environment")
        with pytest.raises(
            UnknownIdError, match=r"^Lake-v0: expected its entry point .* to be a jaxgym\.Spec, got <cl"
        ):
            jaxgym.make("Lake-v0")


DECLARED = """
[jaxgym.envs]
bad id = module:SPEC
NoAttribute-v0 = module
Sudoku-v0 = module:SPEC
Spaced-v0 = jaxgym.envs.sudoku : SPEC [extra]
Spaced-v0 = another:SPEC
"""


def with_packages(folder: Path, **entry_points: str) -> list[str]:
    """Install packages with these entry points; return stdout and stderr of a process that lists their environments."""
    for name, declared in entry_points.items():
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(declared)
    program = f"import sys; sys.path.append({str(folder)!r}); import jaxgym; from jaxgym import registry\n"
    program += "for env_id in set(registry.ids()) - set(registry._BUILT_IN):"
    program += " print(env_id, jaxgym.spec_of(env_id).environment.__name__)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [finished.stdout, finished.stderr]


def test_a_malformed_declaration_of_a_package_is_a_warning(tmp_path: Path) -> None:
    out, err = with_packages(tmp_path, first=DECLARED)
    assert out.split() == ["Spaced-v0", "Sudoku"]
    for told in (
        "'bad id' of first is not added: expected an id such as 'MyGame-v0', got 'bad id'.",
        "'NoAttribute-v0' of first is not added: NoAttribute-v0: expected a jaxgym.Spec or an entry point",
        "'Sudoku-v0' of first is not added: 'Sudoku-v0' is already registered.",
        "'Spaced-v0' of first is not added: 'Spaced-v0' is already registered.",
    ):
        assert err.count(told) == 1, told
    assert err.count("UserWarning") == 4


def test_unreadable_entry_points_are_a_warning(tmp_path: Path) -> None:
    out, err = with_packages(tmp_path, broken="[console_scripts]\nno value\n")
    assert not out
    assert "The entry points of installed packages can't be read: " in err
