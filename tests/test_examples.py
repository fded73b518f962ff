"""What the documents show runs as it is shown: code blocks, the notebook, the scripts."""

import json
import re
import runpy
import shlex
import sys
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import nbclient
import nbformat
import pytest

import jaxgym
from jaxgym import levels, text

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARKDOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_TURNS = 200
TRAINING = ROOT / "docs/training.md"
PAGES = [page for page in MARKDOWN if BLOCK.search(page.read_text())]


class Logged(list[tuple[str, float, int]]):
    """Name, value and step of what a logger was given; the methods have the parameters of the three originals."""

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
    """Doubles of the loggers that pages import, none of which is a dependency."""
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
def test_the_code_blocks_of_the_training_page_run_and_its_loggers_get_what_the_log_has(
    loggers: dict[str, Logged], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("baselines.train.record_video", lambda *_, **__: [])  # half a minute of compiling
    run_blocks(TRAINING)
    for name, logged in loggers.items():
        rows = [json.loads(line) for line in (tmp_path / "runs" / name / "metrics.jsonl").read_text().splitlines()]
        assert {(tag, value, step) for tag, value, step in logged if tag in ("held_out_score", "update")} == {
            (tag, row[tag], row["steps"]) for row in rows[1::2] for tag in ("held_out_score", "update")
        }
        assert {"loss", "return", "steps_per_second"} < {tag for tag, *_ in logged}


def run_blocks(page: Path) -> None:
    names: dict[str, object] = {}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", [page for page in PAGES if page != TRAINING], ids=lambda page: page.stem)
def test_the_code_blocks_of_a_page_run_one_after_the_other(page: Path) -> None:
    run_blocks(page)


def test_the_notebook_is_stored_without_outputs() -> None:
    notebook = nbformat.read(ROOT / "examples/quickstart.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell for cell in code if cell.outputs or cell.execution_count]


# The notebook's kernel speaks through sockets whose libraries warn; what the cells raise still fails the test.
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAXGYM_SMALL", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "examples/quickstart.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()


def test_the_datasets_of_ms_swift_are_what_their_commands_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = ROOT / "examples/ms_swift/make_dataset.py"
    commands = dict(re.findall(r"make_dataset\.py (.*) >(.*\.jsonl)", script.read_text()))
    written = {}
    for words, name in commands.items():
        monkeypatch.setattr("sys.argv", [str(script), *shlex.split(words)])
        runpy.run_path(str(script), run_name="__main__")
        written[name] = capsys.readouterr().out
    kept = sorted(script.parent.glob("*.jsonl"))
    assert len(kept) == 3
    assert [path.name for path in kept if path.read_text() != written.get(path.name)] == []


def optimal_turns(rows: list[dict[str, Any]]) -> list[int]:
    """The steps that the scripted expert takes to the end of each row's episode; the rows are of one game."""
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
@pytest.mark.parametrize("name", ["memory", "frozen_lake", "sudoku"])
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
