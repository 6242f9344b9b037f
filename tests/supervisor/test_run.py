"""The beginning of a run: the fork server starts before what only the supervisor needs is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory
from clusterkit.supervisor.prepare import make_and_lock
from clusterkit.supervisor.up import _start_fork_server
from clusterkit.warm.fork_client import Launch
from clusterkit.warm.servable import Preload
from clusterkit.words.errors import RunDirectoryError
from tests.support import ROOT

LATE = ("supervisor.launch", "backends.local.backend", "backends.hosts.backend", "machine", "page", "explain")


@pytest.mark.process
def test_what_precedes_the_fork_server_imports_little() -> None:
    """Neither the state machine nor what acts for it: the time for that is the fork server's, too."""
    code = "import clusterkit.cli.commands.up, clusterkit.supervisor.up, sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = [name for name in found.stdout.split() if name.startswith(tuple(f"clusterkit.{late}" for late in LATE))]
    assert loaded == []


def test_a_fork_server_that_does_not_start_early_is_left_for_later(tmp_path: Path) -> None:
    """There is no journal yet that could tell of it."""
    launch = Launch(sys.executable, dict(os.environ), Preload(False), str(tmp_path / "no" / "log"))
    open_before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    assert _start_fork_server(launch) is None
    assert _start_fork_server(None) is None
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == open_before


def test_a_run_is_live_from_the_moment_it_has_a_directory_to_itself(tmp_path: Path) -> None:
    """Whoever looks for runs that lost their supervisor leaves its fork server alone; a second one is refused."""
    run = RunDirectory(tmp_path / "runs" / "x")
    held = make_and_lock(run)
    try:
        assert RunDirectory(run.path).is_live()
        with pytest.raises(RunDirectoryError, match="already exists"):
            make_and_lock(RunDirectory(run.path))
        assert run.path.is_dir()
    finally:
        for descriptor in held:
            os.close(descriptor)
    assert not RunDirectory(run.path).is_live()
