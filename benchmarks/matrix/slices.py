"""The slice of the tests that every combination runs: a pytest process for each part of it, with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import ROOT

# Of each file, the tests with the marker `matrix`.
SLICES = {
    "jobs": ("e2e/test_workloads.py",),
    "recovery": ("e2e/test_recovery.py",),
    "parity": ("warm/test_parity.py",),
    "fit": ("task/test_keras_tensorflow.py", "task/test_counters_tensorflow.py", "task/test_keras_equivalence.py"),
    "resume": ("training/test_resume_table.py",),
    "facts": ("e2e/test_tensorflow_facts.py",),
}
WITH_OLDEST_KERAS = ("jobs", "parity", "fit", "resume")
FAREWELL = 60.0  # seconds for pytest to end what it has started


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many tests passed, were skipped, and which failed, with the first line of why."""

    passed: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def run_slice(name: str, python: Path, deadline: float, before: Sequence[str]) -> Outcome:
    """Run a part of the slice in an environment. `before`: words that come before the command."""
    files = [f"tests/{file}" for file in SLICES[name]]
    with tempfile.TemporaryDirectory(prefix="ck-matrix-") as scratch:
        report = Path(scratch, "report.xml")
        # Cold starts are the parity's subject.
        select = ["-m", "matrix and not soak", "-k", "not [cold", f"--junitxml={report}", f"--basetemp={scratch}/tmp"]
        pytest = ["env", "TABLES_SHARE=1", str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        words = [*before, *pytest, *select, *files]
        said = _run(words, deadline)
        if not report.exists():
            return Outcome(failed={name: f"pytest made no report: {said.strip()[-500:]}"})
        return read_report(report.read_text())


def read_report(text: str) -> Outcome:
    """What pytest's JUnit file says."""
    passed = skipped = 0
    failed = {}
    root = ET.fromstring(text)
    for case in root.iter("testcase"):
        wrong = [child for child in case if child.tag in ("failure", "error")]
        if wrong:
            failed[case.get("name", "")] = wrong[0].get("message", "").partition("\n")[0][:300]
        elif any(child.tag == "skipped" for child in case):
            skipped += 1
        else:
            passed += 1
    return Outcome(passed, skipped, failed, sum(float(suite.get("time", 0)) for suite in root.iter("testsuite")))


def _run(words: Sequence[str], deadline: float) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CLUSTERKIT", "TF_", "PYTEST"))}
    pipe, stdout = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(
        words, stdout=pipe, stderr=stdout, text=True, cwd=ROOT, env=clean, start_new_session=True
    ) as process:
        try:
            for patience, number in (deadline, signal.SIGINT), (FAREWELL, signal.SIGKILL):
                try:
                    return process.communicate(timeout=patience)[0]
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, number)
            return process.communicate()[0]
        except BaseException:  # Ctrl-C, or the end of the matrix: the janitor of the session ends what its tests left
            process.kill()
            raise
