"""docs/notebooks/: they run, and what is kept of them is what a reader may see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.environment import clean_environment
from tests.support import ROOT, Lazily, module_at

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(180)]

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
jupyter = Lazily("jupyter_core.utils")
nbformat = Lazily("nbformat")


@pytest.fixture(scope="module")
def notebooks() -> Any:
    """docs/notebooks.py as a module. The event loop of Jupyter's client stays, with its descriptors."""
    pytest.importorskip("nbclient", reason="make setup installs it")
    jupyter.ensure_event_loop()
    return module_at(ROOT / "docs/notebooks.py")


def outputs_of(notebook: Any) -> str:
    """What its cells show as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(str(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, notebooks: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To its end, without an error, in a minute; it shows what the kept outputs show."""
    for name, value in clean_environment(home).items():
        monkeypatch.setenv(name, value)
    ran = outputs_of(notebooks.cleaned(notebooks.execute(path, home), home))
    kept = outputs_of(nbformat.read(path, as_version=4))
    assert len(re.findall("✔ run", ran)) == len(re.findall("✔ run", kept))
    results = re.compile(r"the weights are.*|\{'worker.*\}")
    assert results.findall(ran) == results.findall(kept) != []


def test_paths_of_a_machine_are_left_out(notebooks: Any) -> None:
    """Of the state directory, the program's, the libraries' and the notebook's, also in HTML."""
    paths = "in /x/home/runs/1 /tmp/clusterkit-a_1/cell-2.py &quot;/x/lib/site-packages/tf.py&quot; /tmp/tmpa_1/w.py"
    cell = nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("stream", text=paths)])
    shown = outputs_of(notebooks.cleaned(nbformat.v4.new_notebook(cells=[cell]), Path("/x/home")))
    homes = "in ~/.local/state/clusterkit/runs/1 /tmp/clusterkit/cell-2.py"
    assert shown == f"{homes} &quot;…/site-packages/tf.py&quot; w.py"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_kept_is_small_and_of_no_machine(path: Path, notebooks: Any) -> None:
    """Every code cell has been run; no path of a home, no token, no script."""
    text = path.read_text()
    notebook = nbformat.read(path, as_version=4)
    assert [cell for cell in notebook.cells if cell.cell_type == "code" and not cell.execution_count] == []
    assert len(text) < 100_000
    assert not re.search(r"/(?:root|home|work|Users)/|/tmp/(?!clusterkit/)|<script|token=", text)
