"""What importing clusterkit costs, and what it offers."""

from __future__ import annotations

import ast
import inspect
import os
import pickle
import pydoc
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import clusterkit
from clusterkit.job.options import OPTIONS
from clusterkit.words.events import Event

HEAVY = {"IPython", "tensorflow", "rich", "pydantic", "click", "cloudpickle", "pytest", "asyncio", "psutil"}


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after a statement."""
    code = f"{statement}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    return set(done.stdout.split())


def test_importing_clusterkit_loads_nothing_else() -> None:
    """Each of its modules imports the package first, those in the tasks too."""
    assert "subprocess" not in loaded_by("import clusterkit")


@pytest.mark.parametrize("statement", ["from clusterkit import Cluster", "import clusterkit; clusterkit.ClusterFailed"])
def test_the_api_loads_nothing_heavy(statement: str) -> None:
    """No TensorFlow above all, and none of what only the supervisor and the reports need."""
    loaded = loaded_by(statement)
    assert loaded & HEAVY == set()
    assert "clusterkit" in loaded


def test_what_the_package_offers_is_there() -> None:
    """Every name of __all__, and no other one."""
    assert {name for name in clusterkit.__all__ if not hasattr(clusterkit, name)} == set()
    assert set(clusterkit.__all__) <= set(dir(clusterkit))
    with pytest.raises(AttributeError, match="has no attribute 'Clusters'"):
        clusterkit.Clusters  # noqa: B018


def test_what_type_checkers_see_is_what_the_package_offers() -> None:
    """They do not run `__getattr__`; the imports for them name the same objects."""
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(clusterkit))) if isinstance(node, ast.ImportFrom)]
    seen = {f"{alias.asname}": node.module for node in imports for alias in node.names if alias.asname}
    assert {*seen, "__version__"} == set(clusterkit.__all__)
    for name, module in seen.items():
        assert getattr(import_module(f"{module}"), name) is getattr(clusterkit, name)


@pytest.mark.parametrize("name", sorted(set(clusterkit.__all__) - {"__version__"}))
def test_a_name_is_short_wherever_it_is_seen(name: str) -> None:
    """`clusterkit.ClusterFailed` in a traceback; what is pickled is found under that name. Events show no module."""
    named = getattr(clusterkit, name)
    assert pickle.loads(pickle.dumps(named)) is named
    assert named.__module__ == "clusterkit" or named in get_args(Event)


def test_a_traceback_has_the_short_name_of_what_was_never_imported(tmp_path: Path) -> None:
    """Whoever imports `Cluster` alone sees the same name."""
    (tmp_path / "runs/mine").mkdir(parents=True)
    code = f"from clusterkit import Cluster; Cluster('train.py', home={str(tmp_path)!r}, run_id='mine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert "\nclusterkit.RunDirectoryError: There is already a run mine" in done.stderr


def test_help_lists_every_option_with_its_type_and_default() -> None:
    """From the table of options; the program and what Python alone can say come first."""
    parameters = inspect.signature(clusterkit.Cluster).parameters
    assert list(parameters) == ["program", "args", "kwargs", "home", "patience", "returns", *OPTIONS]
    assert parameters["workers"].annotation is int
    assert parameters["cwd"].annotation == str | os.PathLike[str]
    text = pydoc.plain(pydoc.render_doc(clusterkit.Cluster))
    for entry in OPTIONS.values():
        assert re.search(rf"{entry.name}: .+\n.*{re.escape(entry.about.help)}.*{re.escape(entry.default)}", text)
    assert re.search(r"grace_period: float \| str\n.* The time from SIGTERM to SIGKILL. \[default: 10s\]", text)
    assert re.search(r"preload: Sequence\[str\]\n", text)
