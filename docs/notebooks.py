"""Runs the notebooks of docs/notebooks/, and keeps what their cells show: a part of `make docs`.

What stands in the outputs is a real run's, but for paths of this machine, and for what TensorFlow writes to the
kernel's own standard error.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent / "notebooks").glob("*.ipynb"))
LIMIT = 60  # seconds for a cell
SHOWN_HOME = "~/.local/state/clusterkit"
SHOWN = (
    (r"/tmp/clusterkit-\w+", "/tmp/clusterkit"),
    (r"/[\w./-]+/site-packages/", "…/site-packages/"),
    (r"/tmp/tmp\w+/", ""),
)


def execute(path: Path, home: Path) -> Any:
    """The notebook with the outputs of its cells, run in an empty directory. Raises CellExecutionError."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as directory:
        client = NotebookClient(notebook, timeout=LIMIT, resources={"metadata": {"path": directory}})
        client.execute(env={**os.environ, "CLUSTERKIT_HOME": str(home)})
    return notebook


def cleaned(notebook: Any, home: Path) -> Any:
    """The notebook as others are to see it."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    text = nbformat.writes(notebook).replace(str(home), SHOWN_HOME)
    for pattern, shown in SHOWN:
        text = re.sub(pattern, shown, text)
    return nbformat.reads(text, as_version=4)


def main() -> None:
    """Write all of them again."""
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as directory:
            home = Path(directory) / "home"
            nbformat.write(cleaned(execute(path, home), home), path)


if __name__ == "__main__":
    main()
