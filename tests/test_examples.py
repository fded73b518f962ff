"""What the documents show runs as it is shown: code blocks, the notebook, the scripts."""

import re
import runpy
import shlex
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARKDOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in MARKDOWN if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_blocks_of_a_page_run_one_after_the_other(page: Path) -> None:
    names: dict[str, object] = {}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, page.name, "exec"), names)


def test_the_notebook_is_stored_without_outputs() -> None:
    notebook = nbformat.read(ROOT / "examples/quickstart.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell for cell in code if cell.outputs or cell.execution_count]


# The notebook's kernel speaks through sockets whose libraries warn; what the cells raise still fails the test.
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


def test_the_mortar_mayhem_player_completes_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, film = str(ROOT / "examples/play_mortar_mayhem.py"), tmp_path / "film.gif"
    monkeypatch.setattr("sys.argv", [script, str(film), "--commands", "2"])
    runpy.run_path(script, run_name="__main__")
    assert "commands completed: 100%" in capsys.readouterr().out
    assert film.read_bytes().startswith(b"GIF")
