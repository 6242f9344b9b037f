"""Runs a small job for `doctor --deep`, as a user would, in a temporary state directory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from clusterkit.doctor.diagnosis import Grade
from clusterkit.store.store import RunStore
from clusterkit.system.process import code_of
from clusterkit.text.durations import shown
from clusterkit.views.narrate import failed
from clusterkit.words.job import Network
from clusterkit.words.outcome import RunResult

# By path: the tasks' interpreter may not have clusterkit.
PROGRAM = Path(__file__).resolve().parents[1] / "training" / "two_workers.py"
WITHIN = 120.0  # seconds; it takes ten to thirty
OURS = "CLUSTERKIT_"  # prefix of variables that would change the job


def run_job(python: str, env: Mapping[str, str], network: Network, program: Path = PROGRAM) -> tuple[Grade, str]:
    """Run two workers with this interpreter and environment. Returns a grade, and a sentence about the job."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clusterkit-doctor-") as home:
        own = {name: value for name, value in env.items() if not name.startswith(OURS)}
        ran = subprocess.run(
            [
                *(sys.executable, "-c", code_of("clusterkit.cli"), "up", "--workers", "2", "--quiet", "--no-color"),
                *("--run-id", "deep", "--restart", "never", "--grace-period", "2", "--timeout", str(WITHIN)),
                *("--network", network.value, "--python", python, str(program)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**own, "CLUSTERKIT_HOME": home},
        )
        result = RunStore(Path(home)).run("deep").result()
    seconds = shown(time.monotonic() - began)
    if ran.returncode == 0:
        return Grade.FINE, f"A job of two workers succeeded after {seconds}."
    why = _why(result) if result is not None else ran.stderr.decode(errors="replace").strip()
    return Grade.WRONG, f"A job of two workers failed after {seconds}: {why.rstrip('.')}. Fix that first."


def _why(result: RunResult) -> str:
    if result.cause is None:
        return result.reason
    last = result.cause.exception or next((line for line in reversed(result.cause.tail) if line.strip()), "")
    return failed(result.cause) + (f" ({last.strip()})" if last else "")
