"""The trial: a small job that `doctor --deep` runs as anybody would, in a state directory of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from clusterkit.client.runs import result_of
from clusterkit.system.process import code_of
from clusterkit.views.narrate import failed
from clusterkit.words.doctor import Trial
from clusterkit.words.durations import shown
from clusterkit.words.model import Network
from clusterkit.words.outcome import RunResult

# By path: the tasks' interpreter may know nothing of clusterkit.
PROGRAM = Path(__file__).resolve().parents[1] / "training" / "trial.py"
WITHIN = 120.0  # seconds; it takes ten to thirty
OURS = "CLUSTERKIT_"  # variables that would make it another job


def try_job(python: str, env: Mapping[str, str], network: Network, program: Path = PROGRAM) -> Trial:
    """Run two workers with this interpreter and environment; how that went."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clusterkit-doctor-") as home:
        own = {name: value for name, value in env.items() if not name.startswith(OURS)}
        ran = subprocess.run(
            [
                *(sys.executable, "-c", code_of("clusterkit.cli"), "up", "--workers", "2", "--quiet", "--no-color"),
                *("--run-id", "trial", "--restart", "never", "--grace-period", "2", "--timeout", str(WITHIN)),
                *("--network", network.value, "--python", python, str(program)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**own, "CLUSTERKIT_HOME": home},
        )
        result = result_of(Path(home, "runs", "trial"))
    seconds = shown(time.monotonic() - began)
    if ran.returncode == 0:
        return Trial(True, f"A job of two workers ran and was done after {seconds}.")
    why = _why(result) if result is not None else ran.stderr.decode(errors="replace").strip()
    return Trial(False, f"A job of two workers failed after {seconds}: {why.rstrip('.')}. Mend that first.")


def _why(result: RunResult) -> str:
    if result.cause is None:
        return result.reason
    last = result.cause.exception or next((line for line in reversed(result.cause.tail) if line.strip()), "")
    return failed(result.cause) + (f" ({last.strip()})" if last else "")
