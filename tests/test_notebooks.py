"""The notebooks run, and are stored with an install cell, outputs and figures."""

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from docs.notebooks.execute import NOTEBOOKS, SKIPPED, execute, tagged
from tests.serve import chat_server

ROOT = Path(__file__).parents[1]
LARGEST_BYTES = 300_000
SMALL: dict[str, dict[str, Any]] = {
    "compare_memories": {"TOTAL_STEPS": 1, "NUM_ENVS": 8},
    "language_model": {"EPISODES": 4},
    "own_environment": {"TOTAL_STEPS": 1, "NUM_ENVS": 8},
    "quickstart": {"TOTAL_STEPS": 1, "NUM_ENVS": 4, "NUM_STEPS": 20},
    "train_and_evaluate": {"TOTAL_STEPS": 1, "NUM_ENVS": 8},
}

of_each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_there_are_small_sizes_for_each_notebook() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SMALL)


@of_each_notebook
def test_the_code_parses(path: Path) -> None:
    for cell in code_cells(path):
        source = TransformerManager().transform_cell(cell.source)
        compile(source, path.name, "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@of_each_notebook
def test_the_first_code_cell_installs_jaxgym(path: Path) -> None:
    (install,) = tagged(nbformat.read(path, as_version=4), SKIPPED)
    assert install == code_cells(path)[0]
    assert install.source == code_cells(NOTEBOOKS[0])[0].source
    assert "%pip install" in install.source


@of_each_notebook
def test_outputs_of_a_run_from_top_to_bottom_are_stored(path: Path) -> None:
    nbformat.validate(nbformat.read(path, as_version=4))
    install, *others = code_cells(path)
    assert install.execution_count is None
    assert [cell.execution_count for cell in others] == list(range(1, len(others) + 1))
    outputs = [output for cell in others for output in cell.outputs]
    assert any(kind.startswith("image/") for output in outputs for kind in output.get("data", {}))
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]


@of_each_notebook
def test_a_notebook_is_small(path: Path) -> None:
    assert path.stat().st_size < LARGEST_BYTES


@of_each_notebook
def test_links_lead_to_notebooks_and_pages(path: Path) -> None:
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    links = [link.partition(")")[0] for link in text.split("](")[1:]]
    relative = [link for link in links if "://" not in link]
    assert relative
    assert not [link for link in relative if not (path.parent / link).is_file()]


# A kernel speaks through sockets whose libraries warn; what the cells raise still fails the test.
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@of_each_notebook
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    execute(path, SMALL[path.stem])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_model_at_an_endpoint_plays_in_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (path,) = (path for path in NOTEBOOKS if path.stem == "language_model")
    requests: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> str:
        requests.append(body)
        return "<action>wait</action>"

    with chat_server.serving(answer) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        notebook = execute(path, {"EPISODES": 2})
    printed = "".join(output.text for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output)
    assert "endpoint" in printed
    assert {body["model"] for body in requests} == {"tiny"}
    assert all(body["messages"][0]["role"] == "system" for body in requests)
