"""Memory cells of other packages: by module, by a registered name, in saved runs, and as the tutorial shows it."""

import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import baselines
from baselines import memories, ppo, train, zoo
from baselines.config import SCALES, Config, from_json
from baselines.errors import ConfigError
from baselines.game import make_game
from baselines.memories import cell_of, make_memory
from baselines.memories.cell import MemoryCell, ResidualStack
from baselines.networks import make_network
from jaxgym.errors import ContractError
from jaxgym.spaces import Discrete

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests/external/jaxgym_external_cell"
NAME = "jaxgym_external_cell:MovingAverages"
SMALL: dict[str, Any] = {"num_envs": 4, "num_steps": 4, "minibatches": 2, "memory_size": 8, "hidden_size": 8}


def cell_of_the_page() -> type[MemoryCell]:
    """Return the cell of the tutorial, which the package holds as a file."""
    spec = importlib.util.spec_from_file_location("cell_of_the_page", PACKAGE / "jaxgym_external_cell.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MovingAverages


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove what a test registers."""
    monkeypatch.setattr(memories, "_CELLS", dict(memories._CELLS))


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> type[MemoryCell]:
    """Make the cell importable."""
    monkeypatch.syspath_prepend(PACKAGE)
    return cell_of(NAME)


def test_a_module_and_a_class_name_a_cell(on_path: type[MemoryCell]) -> None:
    cell = make_memory(Config(memory=NAME, memory_size=24))
    assert isinstance(cell, on_path)
    assert cell.size == 24  # pyright: ignore[reportAttributeAccessIssue]
    stack = make_memory(Config(memory=NAME, memory_size=24, memory_layers=2))
    assert isinstance(stack, ResidualStack)
    assert [type(layer) for layer in stack.cells] == [on_path, on_path]
    assert from_json(json.loads(json.dumps(dataclasses.asdict(Config(memory=NAME))))).memory == NAME


def test_a_network_calls_a_cell_for_all_that_it_needs(on_path: type[MemoryCell]) -> None:
    """`preprocess` comes before the encoder, and acting reads what `precompute` returns."""

    class Blind(on_path):
        def preprocess(self, state: Any, observation: Any, starts: Any) -> Any:
            del starts
            return state, 0 * observation

        def precompute(self, params: Any) -> Any:
            return {**params, "logits": params["logits"] + 100}

    baselines.register_memory("blind", Blind)
    network = make_network(Config(memory="blind", memory_size=8, hidden_size=8, dtype="float32"), Discrete(3))
    seen, starts = np.ones((2, 1, 2, 5), np.float32) * [[[[1]]], [[[2]]]], np.zeros((1, 2), bool)
    state = network.memory.initial_state(2)
    params: Any = network.init(jax.random.key(0), state, seen[0], starts)
    (_, one), (_, other) = (network.apply(params, state, observation, starts) for observation in seen)
    np.testing.assert_array_equal(one.logits, other.logits)
    ready = network.precompute(params)["params"]["memory"]
    np.testing.assert_array_equal(ready["logits"], params["params"]["memory"]["logits"] + 100)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "no_such_package:Cell",
            r"^expected memory to name a class as module:MyCell, got 'no_such_package:Cell' \(No mod",
        ),
        (
            "jaxgym_external_cell:Cell",
            r"got 'jaxgym_external_cell:Cell' \(module 'jaxgym_external_cell' has no attribute",
        ),
        ("jaxgym_external_cell:jax", "^expected memory 'jaxgym_external_cell:jax' to be a class, got <module 'jax'"),
        ("collections:OrderedDict", "Make it a subclass of baselines.memories.cell.MemoryCell"),
        (":Cell", r"got ':Cell' \(Empty module name\)"),
        (".cells:Cell", r"got '\.cells:Cell' \(TypeError: the 'package' argument is required"),
        ("cells_that_raise:Cell", r"got 'cells_that_raise:Cell' \(RuntimeError: no license\)"),
        ("cells_that_exit:Cell", r"got 'cells_that_exit:Cell' \(SystemExit: 3\)"),
        ("averages", r"^memory: expected one of clock, .*, got 'averages'$"),
    ],
)
@pytest.mark.usefixtures("on_path")
def test_what_names_no_cell_is_an_error(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cells_that_raise.py").write_text("raise RuntimeError('no license')\n")
    (tmp_path / "cells_that_exit.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=message):
        make_memory(Config(memory=name))


def test_a_registered_name_is_that_of_one_cell(on_path: type[MemoryCell]) -> None:
    class Another(on_path):
        pass

    baselines.register_memory("of my own", on_path)
    baselines.register_memory("of my own", on_path)  # as a module that is imported twice does
    assert cell_of("of my own") is on_path
    with pytest.raises(ConfigError, match=r"^expected a new name, got 'gru', the name of GRU"):
        baselines.register_memory("gru", on_path)
    with pytest.raises(ConfigError, match=r"^expected a new name, got 'of my own', the name of MovingAverages"):
        baselines.register_memory("of my own", Another)
    with pytest.raises(ConfigError, match=r"^expected a name without a colon, got 'a:b'"):
        baselines.register_memory("a:b", on_path)
    with pytest.raises(ConfigError, match=r"^expected memory 'text' to be a class, got 'gru'"):
        baselines.register_memory("text", "gru")  # pyright: ignore[reportArgumentType]


Sound: Any = cell_of_the_page()
ZEROS = jnp.zeros((3, 8), jnp.float32)


class TestAFaultyCellIsAnErrorOfMakeMemory:
    """`make_memory` checks the shapes of a cell's state and outputs."""

    @pytest.mark.parametrize(
        ("method", "function", "message"),
        [
            ("initial_state", MemoryCell.initial_state, "initial_state: expected arrays, got NotImplementedError"),
            (
                "initial_state",
                lambda *_: ZEROS[0],
                r"initial_state\(3\): expected an array of shape \(3, \.\.\.\), got",
            ),
            (
                "initial_state",
                lambda *_: {"h": ZEROS.T},
                r"initial_state\(3\)\['h'\]: expected .*, got float32 \(8, 3\)",
            ),
            ("__call__", lambda *_: 1 / 0, "__call__: expected arrays, got ZeroDivisionError: division by zero"),
            ("__call__", lambda *_: None, "__call__: expected a state and outputs, got None"),
            ("__call__", lambda _, state, *__: state, "__call__: expected a state and outputs, got "),
            ("__call__", lambda _, state, *__: (state, None), r"outputs of shape \(6, 3, H\), got None"),
            ("__call__", lambda _, state, inputs, __: (state, inputs[0]), r"outputs of shape \(6, 3, H\), got float32"),
            ("__call__", lambda _, state, inputs, __: (state, inputs.swapaxes(0, 1)), r"got float32 \(3, 6, 8\)"),
            (
                "__call__",
                lambda _, state, inputs, __: (state.T, inputs),
                r"state: expected float32 \(3, 8\), as in ini",
            ),
            ("__call__", lambda _, state, inputs, __: (state > 0, inputs), r"as in initial_state, got bool \(3, 8\)"),
            ("from_config", classmethod(lambda cls, *_: cls()), "from_config: expected a MemoryCell, got TypeError: "),
            ("from_config", classmethod(lambda *_: None), "from_config: expected a MemoryCell, got None"),
        ],
    )
    def test_shapes(self, method: str, function: Any, message: str) -> None:
        baselines.register_memory("faulty", type("Faulty", (Sound,), {method: function}))
        config = Config(memory="faulty", memory_size=8, dtype="float32")
        with pytest.raises(ContractError, match=f"^memory 'faulty': .*{message}"):
            make_memory(config)
        with pytest.raises(ContractError, match=f"^memory 'faulty': .*{message}"):
            make_network(config, Discrete(3))

    def test_the_size_of_outputs_in_a_stack(self) -> None:
        def wide(_: Any, state: Any, inputs: Any, __: Any) -> Any:
            return state, jnp.concatenate([inputs, inputs], axis=-1)

        baselines.register_memory("wide", type("Wide", (Sound,), {"__call__": wide}))
        make_memory(Config(memory="wide", memory_size=8))
        with pytest.raises(
            ContractError, match=r"^memory 'wide': expected outputs of size 8 \(--memory-size\) .*, got 16"
        ):
            make_memory(Config(memory="wide", memory_size=8, memory_layers=2))


def scan(
    step: Callable[[Any, Any, Any], Any], state: Any, inputs: Any, starts: Any, out: Callable[[Any], Any] = lambda h: h
) -> Any:
    """Return the state after all steps, and the outputs."""

    def make(carry: Any, given: Any) -> Any:
        carry = step(carry, *given)
        return carry, out(carry)

    return jax.lax.scan(make, state, (inputs, starts))


def accumulate(state: Any, given: Any, start: Any) -> Any:
    return 0.5 * jnp.where(start[:, None], 0.0, state) + given


def step_differs(_: Any, state: Any, inputs: Any, starts: Any) -> Any:
    return scan(accumulate, state, inputs if len(inputs) > 1 else 5.0 * inputs, starts)


def state_differs(_: Any, state: Any, inputs: Any, starts: Any) -> Any:
    after, outputs = scan(accumulate, state, inputs, starts)
    return (after if len(inputs) == 1 else 0.9 * after), outputs


def ignores_starts(_: Any, state: Any, inputs: Any, starts: Any) -> Any:
    return scan(lambda state, given, _: 0.5 * state + given, state, inputs, starts)


def ignores_starts_inside(_: Any, state: Any, inputs: Any, starts: Any) -> Any:
    return scan(accumulate, state, inputs, starts.at[1:].set(False))


def starts_elsewhere(_: Any, state: Any, inputs: Any, starts: Any) -> Any:
    return scan(lambda state, given, start: 0.5 * jnp.where(start[:, None], 1.0, state) + given, state, inputs, starts)


def mixes(_: Any, state: Any, inputs: Any, starts: Any) -> Any:
    return scan(accumulate, state, inputs - inputs.mean(axis=1, keepdims=True), starts)


def has_no_gradient(_: Any, state: Any, inputs: Any, starts: Any) -> Any:
    return scan(accumulate, state, inputs, starts, out=lambda state: jnp.sqrt(state * 0))


def is_not_a_number(_: Any, state: Any, inputs: Any, starts: Any) -> Any:
    return scan(accumulate, state, inputs, starts, out=lambda state: jnp.log(-state * state))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            step_differs,
            "__call__: expected the same outputs from T = 1 and from a sequence, got outputs that",
        ),
        (state_differs, "__call__: expected the same state from T = 1 and T > 1"),
        (ignores_starts, "starts: expected an episode that starts at step 0 to begin from initial_state"),
        (ignores_starts_inside, "__call__: expected the same outputs from T = 1 and from a sequence"),
        (starts_elsewhere, "starts: expected an episode that starts at step 0 to begin from initial_state"),
        (mixes, "__call__: expected environments to be independent"),
        (has_no_gradient, "expected finite gradients, got NaN or infinity"),
        (is_not_a_number, "__call__: expected finite outputs, got NaN or infinity"),
    ],
)
def test_check_memory_finds_a_faulty_cell(call: Any, message: str) -> None:
    baselines.register_memory("faulty", type("Faulty", (Sound,), {"__call__": call}))
    make_memory(Config(memory="faulty", memory_size=8, dtype="float32"))
    with pytest.raises(ContractError, match=f"^memory 'faulty': {message}"):
        baselines.check_memory("faulty")


def test_check_memory_finds_a_precompute_that_changes_the_outputs() -> None:
    def precompute(_: Any, params: Any) -> Any:
        return {**params, "logits": params["logits"] + 1}

    baselines.register_memory("faulty", type("Faulty", (Sound,), {"precompute": precompute}))
    with pytest.raises(ContractError, match=r"^memory 'faulty': precompute: expected the same outputs, got"):
        baselines.check_memory("faulty")


@pytest.mark.parametrize("layers", [0, 2])
def test_check_memory_accepts_the_cell_of_the_page(on_path: type[MemoryCell], layers: int) -> None:
    del on_path
    baselines.check_memory(NAME, Config(memory_size=8, dtype="float32", memory_layers=layers))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(memories._CELLS) - {"stack4", "stack16"}))
def test_check_memory_accepts_the_built_in_cells(name: str) -> None:
    for dtype in ("float32", "bfloat16"):
        baselines.check_memory(name, Config(memory_size=16, dtype=dtype, memory_window=8))


def test_the_folder_of_a_run_is_named_after_the_class() -> None:
    config = Config(env="my_games:Id-v0", memory="a.b:MyCell", scale="cpu")
    assert re.fullmatch(r"Id-v0_MyCell_cpu_seed0_\d+-\d+", train.default_name(config))


def test_an_agent_is_kept_and_loaded_with_its_cell(
    on_path: type[MemoryCell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {**SMALL, "env": "FrozenLake-v0", "options": ("observation=symbolic",), "held_out_levels": 2}
    config = dataclasses.replace(SCALES["cpu"], **changes, train_levels=0, memory=NAME)
    game = make_game(config)
    setup = ppo.make_setup(config, game)
    params = jax.jit(lambda: ppo.init_state(setup, jax.numpy.int32(0), game.params).params)()
    zoo.keep(zoo.TrainedAgent(game, setup, params), {}, tmp_path)
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    agent = baselines.load("FrozenLake-v0")
    assert isinstance(agent.setup.network.memory, on_path)
    state = agent.initial_recurrent_state(2)
    assert state.shape == (2, 8)


def blocks_of_the_page() -> list[str]:
    page = (ROOT / "docs/tutorials/own_memory.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def test_the_cell_of_the_page_is_the_one_of_the_package_and_is_short() -> None:
    code = blocks_of_the_page()[0]
    assert code == (PACKAGE / "jaxgym_external_cell.py").read_text()
    assert len(code.splitlines()) < 60


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "record_video", lambda *_, **__: [])  # half a minute of compiling
    names: dict[str, object] = {}
    for block in blocks_of_the_page():
        exec(compile(block, "own_memory.md", "exec"), names)
    assert capsys.readouterr().out.splitlines()[-1].startswith("held-out normalized return")
    assert (tmp_path / "runs/averages/evaluation.json").exists()


@pytest.mark.slow
def test_an_installed_cell_trains_and_is_evaluated(tmp_path: Path) -> None:
    site, runs = tmp_path / "site", tmp_path / "runs"
    install = ["-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--target", site, PACKAGE]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}

    def run(*argv: str) -> str:
        command = [sys.executable, "-m", *argv]
        finished = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    flags += ["--block-updates=2", "--total-steps=64", "--train-levels=20", "--held-out-levels=2", "--scale=cpu"]
    game = ["--env=FrozenLake-v0", "--memory", NAME, "--name=averages", "--options", "observation=symbolic"]
    assert "held-out normalized return" in run("baselines.train", *flags, *game)
    assert f'"memory": "{NAME}"' in (runs / "averages/config.json").read_text()
    assert "held-out levels (2)" in run("baselines.evaluate", "runs/averages")
