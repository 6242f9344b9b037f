"""Failures with training data whose explanation depends on how the program was started."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.explain.matching import explain
from clusterkit.words.job import JobSpec
from tests.explain.test_ordinary_bugs import job_of
from tests.explain.test_own_clusters import failed

NOT_PATCHED = """Traceback (most recent call last):
  File "/home/me/train.py", line 10, in <module>
    model.fit(data)
  File "/v/site-packages/keras/src/utils/traceback_utils.py", line 122, in error_handler
ValueError: Attempt to convert a value (PerReplica:{
  0: <tf.Tensor: shape=(4, 3), dtype=float32>
}) with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>) to a Tensor."""
PARENT = """
Traceback (most recent call last):
  File "/home/me/start.py", line 3, in <module>
    subprocess.check_call(["python", "train.py"])
subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1."""


@pytest.mark.parametrize(
    ("job", "advice"),
    [
        (replace(job_of(workers=2), patches=False), "Run the job without --no-patches"),
        (job_of(workers=2), "If another program of the job has started this one, call clusterkit.patches.apply()"),
        (None, "Run the program with `clusterkit up`, which patches Keras. Or call clusterkit.patches.apply()"),
    ],
)
@pytest.mark.parametrize("parent", ["", PARENT])
def test_why_keras_is_not_patched(job: JobSpec | None, advice: str, parent: str) -> None:
    """By the user's option, since a program of the user started the one that trains, or outside clusterkit."""
    (one,) = explain(replace(failed(NOT_PATCHED + parent), job=job))
    assert one.row == "per-replica-conversion"
    assert one.advice.startswith(advice)
