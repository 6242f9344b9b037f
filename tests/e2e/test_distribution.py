"""Jobs whose tasks do not train together: they are told, and those that do are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterkit.words.distribution import WhyAlone
from tests.support import CHILDREN

ALONE = CHILDREN / "alone.py"
NEVER = "worker:0 and worker:1 never connected: each trained alone. The program creates no tf.distribute strategy."
FITS = """
import sys
import tensorflow as tf
import contextlib

strategy = None if "none" in sys.argv else tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope() if "scope" in sys.argv else contextlib.nullcontext():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
x = tf.random.stateless_normal((512, 8), seed=[1, 2])
model.fit(x, tf.reduce_sum(x, axis=1), batch_size=64, epochs=2, verbose=0)
if "second" in sys.argv:
    other = tf.keras.models.clone_model(model)
    other.compile("sgd", "mse")
    other.fit(x, tf.reduce_sum(x, axis=1), batch_size=64, epochs=2, verbose=0)
"""


@pytest.mark.process
def test_a_run_that_was_not_distributed_has_no_check_mark(up: Any) -> None:
    """The warning is on the console and in the report, with its code, and the finding in result.json."""
    run = up("--workers", "2", ALONE)
    assert run.wait(30) == 3
    assert run.output.count(f"{NEVER} The program needs:") == 2
    assert "    with strategy.scope():\n" in run.output
    assert run.result["undistributed"] == {
        "tasks": ["worker:0", "worker:1"],
        "why": "never connected",
        "strategies": [],
        "has_ps": False,
        "place": "",
    }
    assert run.result["state"] == "succeeded"
    assert run.result["reservations"] == ["alone"]
    assert "\n! run " in run.output


@pytest.mark.process
@pytest.mark.parametrize(
    "options",
    [("--workers", "1"), ("--workers", "2", "--restart-scope", "task"), ("--workers", "2", "--allow", "alone")],
)
def test_tasks_without_peers_may_train_alone(up: Any, options: tuple[str, ...]) -> None:
    """One task, or several that are independent of each other."""
    run = up(*options, ALONE)
    assert run.wait(30) == 0
    assert run.result["undistributed"] is None
    assert "\n✔ run " in run.output


@pytest.mark.tensorflow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("how", "why"),
    [
        pytest.param("none", WhyAlone.NEVER_CONNECTED, marks=pytest.mark.long),
        ("forgotten", WhyAlone.NO_SCOPE),
        ("scope", None),
        pytest.param("scope second", WhyAlone.ONE_FIT, marks=pytest.mark.long),
    ],
)
def test_how_keras_fits_is_seen(up: Any, tmp_path: Path, how: str, why: WhyAlone | None) -> None:
    """Without a strategy, with one whose scope is forgotten, as it should be, and with a second fit outside."""
    (tmp_path / "fits.py").write_text(FITS)
    run = up("--workers", "2", tmp_path / "fits.py", *how.split())
    assert run.wait(120) == (0 if why is None else 3)
    found = run.result["undistributed"]
    assert (found and found["why"]) == why
    assert ("in the fit at fits.py, line 15" in run.output) is (why is WhyAlone.ONE_FIT)


@pytest.mark.tensorflow
@pytest.mark.timeout(240)
def test_a_chief_that_trains_less_than_its_worker_is_told(up: Any, ck: Any, tmp_path: Path) -> None:
    """The job counts as done, but not without a word: in the report, in show, and in result.json (tensorflow#45839)."""
    text = (CHILDREN / "mistakes/different_epochs.py").read_text()
    assert "4 - 2 * index" in text
    (tmp_path / "train.py").write_text(text.replace("4 - 2 * index", "2 + 2 * index"))
    run = up("--workers", "2", tmp_path / "train.py")
    assert run.wait(120) == 3
    assert "\n! run " in run.output
    for told in (run.output, ck("show").out):
        assert "  Unfinished: worker:1 " in told
        assert "worker:0 ended its program" in told
    assert [failure["task"] for failure in run.result["unfinished"]] == ["worker:1"]
    assert run.result["reason"] == "worker:0 exited with code 0, but worker:1 had not finished"
