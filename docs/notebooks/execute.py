"""Execute the notebooks and store their outputs: `python -m docs.notebooks.execute [NAME ...]`.

The install cell has the tag `skip-execution`. The cell with the tag `parameters` sets the sizes; `execute` can replace
them. Progress bars and warnings, which go to stderr, are not stored.
"""

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SKIPPED, PARAMETERS = "skip-execution", "parameters"
_TIMEOUT_SECONDS = 900


def tagged(notebook: nbformat.NotebookNode, tag: str) -> list[nbformat.NotebookNode]:
    """Return the cells with a tag."""
    return [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]


def execute(path: Path, parameters: Mapping[str, Any] | None = None) -> nbformat.NotebookNode:
    """Execute a notebook in a temporary folder and return it with its outputs.

    Args:
        path: the notebook.
        parameters: values for names of the `parameters` cell.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)
    for name, value in (parameters or {}).items():
        (cell,) = tagged(notebook, PARAMETERS)
        cell.source += f"\n{name} = {value!r}"
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=_TIMEOUT_SECONDS,
            kernel_name="python3",
            skip_cells_with_tag=SKIPPED,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        return client.execute()


def clean(notebook: nbformat.NotebookNode) -> None:
    """Remove progress bars, warnings and the version of the kernel, which differ from run to run."""
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


def main() -> None:
    """Execute the named notebooks, or all of them."""
    for path in [path for path in NOTEBOOKS if path.stem in sys.argv[1:] or not sys.argv[1:]]:
        begin = time.monotonic()
        notebook = execute(path)
        clean(notebook)
        nbformat.write(notebook, path)
        sys.stdout.write(f"{path.name}: {time.monotonic() - begin:.0f} s, {path.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()
