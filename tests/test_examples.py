"""Code blocks of the documents and the scripts run as shown."""

import dataclasses
import importlib.util
import json
import random
import re
import runpy
import shlex
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import baselines
import jaxgym
from baselines.game import make_game
from baselines.grpo.settings import Settings
from baselines.ppo import make_init, make_setup
from baselines.presets import PRESETS
from jaxgym import cli, levels, text

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SAVED = re.compile(r"^Save this as `(\w+)\.py`", re.MULTILINE)
MARKDOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_TURNS = 200
LOGGERS = ROOT / "docs/how_to/loggers.md"
OWN_MEMORY = ROOT / "docs/tutorials/own_memory.md"  # tests/baselines/test_own_memory.py runs it
INTEROP = ROOT / "docs/how_to/other_libraries.md"  # tests/test_interop.py runs it, by section
LANGUAGE_MODEL = ROOT / "docs/how_to/language_model.md"  # tests/conformance/clients/test_language_model.py runs it
PAGES = [page for page in MARKDOWN if page not in (INTEROP, LANGUAGE_MODEL) and BLOCK.search(page.read_text())]


class Logged(list[tuple[str, float, int]]):
    """Name, value and step of logged values; the methods have the parameters of the three loggers."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.append((tag, scalar_value, global_step))

    def log(self, data: dict[str, float], step: int) -> None:
        self.extend((name, value, step) for name, value in data.items())

    def log_params(self, params: dict[str, Any]) -> None:
        assert params["env"] == "FrozenLake-v0"

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.log(metrics, step)

    def __enter__(self) -> "Logged":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def loggers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Logged]:
    """Provide stand-ins for the loggers that pages import, none of which is a dependency."""
    logged = {name: Logged() for name in ("tensorboard", "wandb", "mlflow")}
    board, wandb, mlflow = (types.ModuleType(name) for name in ("tensorboardX", "wandb", "mlflow"))
    board.SummaryWriter = lambda _: logged["tensorboard"]  # pyright: ignore[reportAttributeAccessIssue]
    wandb.init = lambda *, project, config: logged["wandb"]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: ARG005
    mlflow.start_run = lambda *, run_name: logged["mlflow"]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: ARG005
    for name in ("log_params", "log_metrics"):
        setattr(mlflow, name, getattr(logged["mlflow"], name))
    for module in (board, wandb, mlflow):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return logged


@pytest.mark.slow
def test_the_code_blocks_of_the_page_of_loggers_run_and_they_get_what_the_log_has(
    loggers: dict[str, Logged], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("baselines.train.record_video", lambda *_, **__: [])  # half a minute of compiling
    run_blocks(LOGGERS)
    for name, logged in loggers.items():
        rows = [json.loads(line) for line in (tmp_path / "runs" / name / "metrics.jsonl").read_text().splitlines()]
        assert {
            (tag, value, step) for tag, value, step in logged if tag in ("held_out_normalized_return", "update")
        } == {(tag, row[tag], row["steps"]) for row in rows[1::2] for tag in ("held_out_normalized_return", "update")}
        assert {"loss", "return", "steps_per_second"} < {tag for tag, *_ in logged}


def run_blocks(page: Path) -> None:
    """Run the blocks of a page in one namespace; a later block can import the file that an earlier one is."""
    names: dict[str, object] = {}
    known, written = jaxgym.registered_envs(), page.read_text()
    saved = {name: types.ModuleType(name) for name in SAVED.findall(written)}
    sys.modules.update(saved)
    try:
        for block in BLOCK.findall(written):
            exec(compile(block, page.name, "exec"), names)
    finally:
        for name in saved:
            del sys.modules[name]
        for env_id in set(jaxgym.registered_envs()) - set(known):
            jaxgym.unregister(env_id)  # other tests read the table of environments


# Each compiles for seconds; the pages of the environments have the same first lines.
SLOW_PAGES = (
    "babyai",
    "ballet",
    "boss_fight",
    "color_cubes",
    "demonstrations",
    "difficulty",
    "endless_mortar_mayhem",
    "endless_mystery_path",
    "gymnasium",
    "key_to_door",
    "levels",
    "ms_swift",
    "mystery_path",
    "numpad",
    "own_training_loop",
    "searing_spotlights",
    "textcraft",
    "trained_agents",
    "trainers",
    "visual_match",
    "wrappers",
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page.stem in SLOW_PAGES else page
        for page in PAGES
        if page not in (LOGGERS, OWN_MEMORY)
    ],
    ids=lambda page: page.stem,
)
def test_the_code_blocks_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(page)


def test_the_datasets_of_ms_swift_are_what_their_commands_write() -> None:
    folder = ROOT / "examples/ms_swift"
    commands = re.findall(
        r"^jaxgym (dataset .*--format swift) >(\w+\.jsonl)", (ROOT / "docs/how_to/ms_swift.md").read_text(), re.M
    )
    written = {name: cli.run(shlex.split(argv)) for argv, name in commands}
    assert len(written) == 3
    assert written == {path.name: path.read_text() for path in folder.glob("*.jsonl")}


def optimal_turns(rows: list[dict[str, Any]]) -> list[int]:
    """Return the steps of the scripted expert in each row's episode; the rows belong to one game."""
    name = rows[0]["name"]
    options = {key: value for key, value in rows[0].items() if key not in ("name", "seed", "max_turns")}
    env, params, _ = text.make(name, **options, levels="fresh")
    expert = jaxgym.spec_of(env.env_id).expert
    assert expert is not None

    def play(seed: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: Any, _: None) -> tuple[Any, None]:
            state, turns, is_over = carry
            action = expert(env, state, params)
            _, after, _, terminated, _ = env.step_env(jax.random.key(0), state, action, params)
            state = jax.tree.map(lambda old, new: jnp.where(is_over, old, new), state, after)
            return (state, turns + ~is_over, is_over | terminated), None

        state = env.initial_state(levels.level_from_seed(env, seed, params), params)
        (_, turns, is_over), _ = jax.lax.scan(step, (state, jnp.int32(0), jnp.bool_(False)), length=MOST_TURNS)
        return turns, is_over

    turns, is_over = jax.jit(jax.vmap(play))(jnp.asarray([row["seed"] for row in rows], jnp.uint32))
    assert is_over.all()
    return turns.tolist()


@pytest.mark.standard_promotion
@pytest.mark.parametrize("name", [pytest.param("memory", marks=pytest.mark.slow), "frozen_lake", "sudoku"])
def test_rows_and_scripts_allow_the_longest_optimal_episode(name: str) -> None:
    folder = ROOT / "examples/ms_swift"
    rows = [json.loads(line)["env_config"] for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    limits = re.findall(r"MAX_TURNS:-(\d+)", "".join(script.read_text() for script in folder.glob("*.sh")))
    assert len(limits) == 2
    for game in sorted({row["name"] for row in rows}):
        of_game = [row for row in rows if row["name"] == game]
        for row, turns in zip(of_game, optimal_turns(of_game), strict=True):
            allowed = [int(limit) for limit in limits]
            assert turns <= row.get("max_turns", min(allowed)) <= min(allowed), row


def test_the_mortar_mayhem_player_completes_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, film = str(ROOT / "examples/play_mortar_mayhem.py"), tmp_path / "film.gif"
    monkeypatch.setattr("sys.argv", [script, str(film), "--commands", "2"])
    runpy.run_path(script, run_name="__main__")
    assert "commands completed: 100%" in capsys.readouterr().out
    assert film.read_bytes().startswith(b"GIF")


def load_script(name: str) -> types.ModuleType:
    """Return a script of examples/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ppo_gru() -> types.ModuleType:
    return load_script("ppo_gru")


def test_the_single_file_script_is_short_and_imports_nothing_of_the_baselines() -> None:
    lines = (ROOT / "examples/ppo_gru.py").read_text().splitlines()
    assert len(lines) <= 400
    assert not [line for line in lines if re.match(r"\s*(from|import) +(baselines|benchmarks|tests)", line)]


def test_the_gpu_mode_has_the_settings_of_the_preset(ppo_gru: types.ModuleType) -> None:
    preset, script = PRESETS["fast/mmbg-gru"], ppo_gru.Config()
    names = {
        **{"learning_rate": "learning_rate_start", "entropy_coef": "entropy_start", "entropy_coef_end": "entropy_end"},
        **{"size": "memory_size", "eval_episodes": "eval_repeats"},
    }
    own = {"eval_every", "eval_steps"}  # the preset evaluates once, at the end
    for field in dataclasses.fields(script):
        if field.name not in own:
            assert getattr(script, field.name) == getattr(preset, names.get(field.name, field.name)), field.name
    assert script.size == preset.hidden_size
    assert script.num_blocks == preset.num_blocks
    # All that the preset has beside these settings is off or the default.
    assert (preset.bptt, preset.reconstruction, preset.normalize_advantage, preset.decay_steps) == (0, 0.0, False, 0)


@pytest.mark.standard_promotion
def test_the_gpu_mode_has_the_network_of_the_preset(ppo_gru: types.ModuleType) -> None:
    preset = dataclasses.replace(PRESETS["fast/mmbg-gru"], train_levels=4, held_out_levels=2)
    game = make_game(preset)
    trained = jax.eval_shape(make_init(make_setup(preset, game)), jnp.int32(0), game.params)
    ppo = ppo_gru.PPO(dataclasses.replace(ppo_gru.Config(), train_levels=4, held_out_levels=2))
    state = jax.eval_shape(ppo.init, 0, ppo.env_params)
    count = [sum(leaf.size for leaf in jax.tree.leaves(tree.params)) for tree in (state, trained)]
    assert count[0] - count[1] == 2 * preset.memory_size  # a bias of the hidden state's gates, as in PyTorch
    after, metrics = jax.eval_shape(ppo.block, state, ppo.env_params)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), after) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), state
    )
    assert set(metrics) == {"return", "length", "success", "loss", "entropy"}


@pytest.mark.slow
def test_the_gradient_of_the_scripts_gru_is_that_of_automatic_differentiation(
    ppo_gru: types.ModuleType, get_key: Callable[[], jax.Array]
) -> None:
    steps, batch, size = 8, 3, 5
    with jax.numpy_rank_promotion("allow"):
        shapes = ((size, 3 * size), (3 * size,), (batch, size), (steps, batch, 3 * size))
        arguments = [jax.random.normal(get_key(), shape) for shape in shapes]
        starts = jax.random.bernoulli(get_key(), 0.3, (steps, batch))
        weights = jax.random.normal(get_key(), (steps, batch, size))
        assert starts.any()

        def gradients(recur: Callable[..., jax.Array]) -> Any:
            def loss(arguments: list[jax.Array]) -> jax.Array:
                return (weights * recur(*arguments, starts, jnp.float32)).sum()

            return jax.grad(loss)(arguments)

        for own, automatic in zip(gradients(ppo_gru.recur), gradients(ppo_gru.recur_plain), strict=True):
            np.testing.assert_allclose(own, automatic, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.standard_promotion
def test_the_scripts_value_of_a_time_limit_is_that_of_the_last_observation(ppo_gru: types.ModuleType) -> None:
    config = dataclasses.replace(
        ppo_gru.CPU, options=("observation=symbolic", "max_steps=2"), num_envs=4, size=8, train_levels=4
    )
    ppo = ppo_gru.PPO(config)
    state = jax.jit(ppo.init)(0, ppo.env_params)
    step = jax.jit(ppo.step)
    play, first, _ = step(state.params, state.play, ppo.env_params)
    assert not first.ended.any()
    after, second, results = step(state.params, play, ppo.env_params)
    assert second.ended.all()
    assert (results["length"] == 2).all()
    # Two steps of the environment by hand, without a time limit and therefore without the reset after it.
    params = dataclasses.replace(ppo.env_params, max_steps_in_episode=0)
    last = jax.vmap(ppo.env.step, (None, 0, 0, None))(jax.random.key(1), play.env_state, second.action, params)
    value = ppo.act(state.params, after.hidden, last[0], jnp.zeros(4, bool))[2]
    np.testing.assert_allclose(second.reward, last[2] + config.gamma * value, rtol=1e-5, atol=1e-6)
    assert (jnp.abs(value) > 1e-3).any()


@pytest.mark.standard_promotion
def test_the_single_file_script_trains_and_reports(
    ppo_gru: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"num_envs": 8, "num_steps": 8, "block_updates": 2, "size": 8, "train_levels": 50, "held_out_levels": 4}
    config = dataclasses.replace(ppo_gru.CPU, **small, total_steps=300, eval_every=2, eval_steps=64)
    state, held_out = ppo_gru.train(config)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["steps"] for row in rows] == [128, 256, 384]
    assert ["held_out_return" in row for row in rows] == [False, True, True]
    assert rows[-1].items() >= {name: round(value, 4) for name, value in held_out.items()}.items()
    assert int(state.update) == 6
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
    assert 1 <= held_out["held_out_length"] <= 2 * 8


@pytest.mark.slow
@pytest.mark.standard_promotion
def test_the_cpu_mode_of_the_single_file_script_solves_its_game(ppo_gru: types.ModuleType) -> None:
    _, held_out = ppo_gru.train(ppo_gru.CPU)
    assert held_out["held_out_return"] > 0.18  # the best is 0.2


def test_the_loop_of_your_own_trains_resumes_and_acts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, path = load_script("own_loop"), tmp_path / "run"
    small = {"num_envs": 8, "num_steps": 8, "minibatches": 2, "block_updates": 2, "memory_size": 8, "hidden_size": 8}
    monkeypatch.setattr(script, "CONFIG", dataclasses.replace(script.CONFIG, **small, train_levels=50))
    calls = [("--updates", "2"), ("--updates", "6", "--target", "9"), ("--updates", "99", "--target", "-1")]
    for flags in calls:
        monkeypatch.setattr("sys.argv", ["own_loop.py", str(path), *flags, "--zoo", "MortarMayhem-Grid-v0"])
        monkeypatch.setattr(script, "play", lambda agent, *_: len(agent.config.env))
        script.main()
    lines = capsys.readouterr().out.splitlines()
    updates = [line.partition(":")[0] for line in lines if line.startswith(("update", "resumed"))]
    assert updates == ["update 2", "resumed at update 2", "update 4", "update 6", "resumed at update 6", "update 8"]
    assert lines[-1] == "MortarMayhem-Grid-v0, trained agent: mean return 20.000"


@pytest.mark.slow
def test_an_agent_of_the_zoo_scores_in_the_loop_of_your_own() -> None:
    script = load_script("own_loop")
    agent = baselines.load("MortarMayhem-Grid-v0")
    assert script.play(agent, 4, 130) > 0.9


@pytest.mark.parametrize("name", [pytest.param("frozen_lake", marks=pytest.mark.slow), "sudoku"])
def test_the_tree_search_beats_its_policy(name: str) -> None:
    script = load_script("tree_search")
    if name == "sudoku":
        policy = script.make_sudoku_policy(random.Random(0))
        alone, searched = script.compare(name, {"clues": [60]}, policy, 1, 10, copies=1, depth=0)
        assert searched == pytest.approx(4.0)  # the best score of a game
    else:
        options = {"is_slippery": True, "max_turns": 60}
        alone, searched = script.compare(name, options, script.lake_policy, 30, 30 * 129, copies=32, depth=20)
    assert searched > alone + 0.1


@pytest.mark.slow
@pytest.mark.standard_promotion
def test_grpo_on_branches_learns_a_small_lake(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(
        options=("dialect=ragen", "size=2"),
        **{"max_turns": 6, "train_levels": 30, "held_out_levels": 40, "new_openings": False, "groups": 32},
        **{"width": 32, "layers": 1, "heads": 2, "minibatch": 64, "sample_batch": 64, "updates": 40},
        **{"learning_rate": 3e-3, "kl": 0.1},
    )
    first, last = load_script("grpo_branching").train(settings)
    assert capsys.readouterr().out.count("update ") == 40
    assert last > first + 0.2
