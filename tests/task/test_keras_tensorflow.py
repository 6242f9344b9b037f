"""Which Keras a job trains with, and the messages if it can't."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from clusterkit.task.patches.refusals import OLDEST_FOR_FIT, OLDEST_FOR_OPTIMIZERS
from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(150)]

Start = Callable[..., Up]
PS_FIT = CHILDREN / "keras_ps.py"
PS_JOB = ("--workers", "1", "--ps", "1", "--restart", "never")
KERAS = tuple(map(int, version("keras").split(".")[:2]))
OLD_KERAS, NO_OPTIMIZERS = KERAS < OLDEST_FOR_FIT, KERAS < OLDEST_FOR_OPTIMIZERS


@pytest.mark.parametrize(
    "start", [pytest.param("warm", marks=pytest.mark.matrix), pytest.param("cold", marks=pytest.mark.long)]
)
def test_keras_2_fits_under_parameter_servers(up: Start, start: str) -> None:
    """The job chooses the version of `tf.keras`, cold and warm."""
    run = up(*PS_JOB, "--start", start, "--keras", "2", PS_FIT)
    assert run.wait(120) == 0, run.output[-4000:]
    assert b"tf_keras.src.engine.sequential tf_keras.src.layers.core.dense" in run.log("chief:0")
    assert b"loss has fallen to True" in run.log("chief:0")
    assert b"clusterkit:" not in run.log("chief:0")


@pytest.mark.matrix
def test_fit_under_parameter_servers_is_refused_with_keras_3(up: Start) -> None:
    """In one sentence, with the line of the program, and no traceback from Keras."""
    run = up(*PS_JOB, PS_FIT)
    assert run.wait(120) == 1
    line = 1 + PS_FIT.read_text().splitlines().index("model.fit(dataset(), epochs=2, steps_per_epoch=5, verbose=0)")
    said = run.log("chief:0").decode()
    assert f"clusterkit: keras_ps.py, line {line}, calls fit under ParameterServerStrategy" in said
    assert "--keras 2" in said
    assert "Traceback" not in said
    assert run.result["cause"]["task"] == "chief:0"


def test_a_worker_in_the_coordinators_code_is_refused(up: Start) -> None:
    """Before it tries to coordinate and waits for itself."""
    run = up(*PS_JOB, PS_FIT, "everyone")
    assert run.wait(120) == 1
    cause = run.result["cause"]["task"]
    assert cause in ("worker:0", "ps:0")
    said = run.log(cause).decode()
    assert f"clusterkit: {cause} has reached the coordinator's code: keras_ps.py, line " in said
    assert "clusterkit.training.serve()" in said
    assert "--servers builtin" in said
    assert "Traceback" not in said


@pytest.mark.matrix
@pytest.mark.skipif(not OLD_KERAS, reason=f"Keras {version('keras')} is not too old for several workers")
def test_fit_on_several_workers_is_refused_with_an_old_keras(up: Start, tmp_path: Path) -> None:
    """In one sentence, with the line of the program, and no traceback."""
    run = up("--workers", "2", "--restart", "never", CHILDREN / "keras_table.py", tmp_path / "out", "rows_of_arrays")
    assert run.wait(120) == 1
    said = run.log("worker:0").decode()
    assert "clusterkit: keras_cases_data.py, line " in said
    what = "creates an optimizer of" if NO_OPTIMIZERS else "calls fit on several workers with"
    assert f"{what} Keras {version('keras')}, which" in said
    assert "Traceback" not in said


@pytest.mark.skipif(OLD_KERAS, reason="an old Keras is not patched")
@pytest.mark.long
def test_without_the_patches_keras_3_fails(up: Start, tmp_path: Path) -> None:
    """If this test fails, Keras has fixed it; then the patches do nothing."""
    run = up(
        "--workers", "2", "--restart", "never", "--no-patches", CHILDREN / "keras_table.py", tmp_path, "rows_of_arrays"
    )
    assert run.wait(120) == 1
    assert "ValueError: Attempt to convert a value (PerReplica:{" in run.output
    assert "patched" not in run.output
