"""Five failures that people meet first: what `up` leaves on a terminal, and what pytest shows, fits one screen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.environment import ROOT
from tests.pytest_plugin.sessions import run
from tests.terminal import frames, on_terminal

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]

SCREEN = 40  # lines of 80 columns

FIT = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
history = model.fit(x, y, epochs=2, batch_size=32)
"""
MISSING = """
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with open("data/train.csv") as file:
    rows = file.readlines()
"""
STALLS = """
import threading

import tensorflow as tf
from clusterkit import training

training.serve()
strategy = training.strategy()


def fetch_labels():
    threading.Event().wait()


for number in range(60):
    training.report(step=number + 1)
    if number == 20:
        fetch_labels()
"""


class Case(NamedTuple):
    """A program, the options of its run, and what a reader has to find on the screen."""

    program: str
    told: tuple[str, ...]
    options: Mapping[str, object] = {"workers": 2}
    exit_code: int = 1


CASES = {
    "missing file": Case(MISSING, ("No such file or directory: 'data/train.csv'", "in <module>: with open(")),
    "typo after fit": Case(
        f'{FIT}print(histroy.history["loss"])\n',
        ("name 'histroy' is not defined", "A restart would fail in the same way"),
    ),
    "killed worker": Case(
        FIT, ("worker:1 was killed by SIGKILL", "trained again, since training began at step 0"),
        {"workers": 2, "fault": "kill worker:1 @ step=20"}, 0,
    ),
    "out of memory": Case(
        # One epoch without Keras's own line: on a busy machine the workers' lines come apart, and each of them takes a
        # line of the screen.
        f"{FIT.replace('epochs=2', 'epochs=1, verbose=0')}x = np.repeat(x, 1_000_000_000, axis=0)\n",
        ("Unable to allocate", "the same way each time, at step 16"),
    ),
    "stalled chief": Case(
        STALLS, ("in fetch_labels", "chief:0 stopped: it had stalled", "the same way each time, at step 21"),
        {"workers": 2, "ps": 1, "stall_warning": "3s", "stall_timeout": "6s"},
    ),
}  # fmt: skip
LONG = ("out of memory", "stalled chief")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in CASES])
def test_a_failure_fits_one_screen(home: Path, name: str) -> None:
    """With all that a reader needs, and nothing of it twice."""
    case = CASES[name]
    (home.parent / "fit.py").write_text(case.program)
    options = [f"--{key.replace('_', '-')}={value}" for key, value in case.options.items()]
    with on_terminal(home, "up", "--no-color", "--no-check", *options, "fit.py", cwd=home.parent) as up:
        text = up.finish(200)
        assert up.process.returncode == case.exit_code
    *_, lines = frames(text)
    shown = "\n".join(lines)
    assert len(lines) <= SCREEN, shown
    joined = shown.replace("\n", "")
    assert [said for said in case.told if said not in joined] == [], shown


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_failing_test_fits_one_screen(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The summary has one line about it, the sections above what is known."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    case = CASES[name]
    (pytester.path / "fit.py").write_text(case.program)
    options = {**case.options, "check": False, **({} if case.exit_code else {"restart": "never"})}
    body = f"    cluster({str(pytester.path / 'fit.py')!r}, **{options!r}).wait()\n"
    outcome = run(pytester, f"def test_it(cluster):\n{body}", "-q")
    outcome.assert_outcomes(failed=1)
    assert len(outcome.outlines) <= SCREEN, outcome.stdout.str()
    (summary,) = [line for line in outcome.outlines if line.startswith("FAILED ")]
    assert " - clusterkit.Cluster" in summary
    outcome.stdout.fnmatch_lines(["E *Cause: *", "*ClusterFailed"])


@pytest.mark.long
def test_a_recovered_job_in_a_failing_test_fits_one_screen(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job succeeds after its restart, and an assertion of the test's own fails."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    case = CASES["killed worker"]
    (pytester.path / "fit.py").write_text(case.program)
    source = f"""
        def test_it(cluster):
            run = cluster({str(pytester.path / "fit.py")!r}, **{case.options!r})
            result = run.wait()
            assert result.metrics["loss"] < -1
    """
    outcome = run(pytester, source, "-q")
    outcome.assert_outcomes(failed=1)
    assert len(outcome.outlines) <= SCREEN, outcome.stdout.str()
    outcome.stdout.fnmatch_lines([
        "E * < -1*",
        "*recoveries *",
        "*steps were trained again, since training began at step 0*",
        "*- clusterkit: worker:0 attempt 2, worker:1 attempt 2 log -*",
        "FAILED *",
    ])  # fmt: skip
