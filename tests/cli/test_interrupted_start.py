"""Ctrl-C while a command still imports what it needs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import clean_environment
from tests.support import ROOT

INTERRUPTED = """\
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(20)
"""


@pytest.mark.process
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "words",
    [
        ("-m", "clusterkit", "ls"),
        ("-c", "import sys; from clusterkit.__main__ import main; sys.argv[0] = 'clusterkit'; main()", "ls"),
    ],
)
def test_it_ends_the_command_without_a_traceback(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As it does later: a shell sees the exit code 130."""
    (tmp_path / "click.py").write_text(INTERRUPTED)
    environment = {**clean_environment(tmp_path / "home"), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
