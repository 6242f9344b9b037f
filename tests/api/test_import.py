"""What importing clusterkit costs, and what it offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import clusterkit

HEAVY = {"tensorflow", "rich", "pydantic", "click", "cloudpickle", "pytest", "asyncio", "psutil"}


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
