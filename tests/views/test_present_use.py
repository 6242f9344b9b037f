"""What a task uses at present: by the newest sample, as long as the process that was sampled is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterkit.ledger.ledger import Ledger
from clusterkit.store.usage import OLD, UsageLog, UsageReader, UsageSample
from clusterkit.views.present_use import present_use
from clusterkit.words.model import TaskState
from tests.histories import job, task

ONE, OTHER = task("worker:0"), task("worker:1")
USE = (50.0, 1 << 20)
AT = 100.0  # the wall time of the sample


@pytest.mark.parametrize(
    ("state", "started", "now", "is_shown"),
    [
        (TaskState.RUNNING, 90.0, 101.0, True),
        (TaskState.RUNNING, AT, 101.0, True),
        (TaskState.RUNNING, 100.5, 101.0, False),  # it was restarted since
        (TaskState.RUNNING, None, 101.0, False),  # it is being restarted
        (TaskState.DOWN, 90.0, 101.0, False),
        (TaskState.WAITING, 90.0, 101.0, False),
        (TaskState.RUNNING, 90.0, AT + OLD + 1, False),  # no sample has come for a while
    ],
)
def test_only_the_process_that_was_sampled_has_a_use(
    tmp_path: Path, state: TaskState, started: float | None, now: float, is_shown: bool
) -> None:
    """Not its successor, nor a task that has ended, nor a task that the job does not have."""
    log, reader = UsageLog(tmp_path / "usage"), UsageReader(tmp_path / "usage")
    log.add(UsageSample(AT, {ONE: USE, OTHER: USE, task("ps:7"): USE}, {}))
    reader.new()
    status = Ledger(job(workers=2)).run
    status.began_at = 80.0
    status.tasks[ONE].state, status.tasks[ONE].started = state, started
    status.tasks[OTHER].state, status.tasks[OTHER].started = TaskState.RUNNING, 90.0
    others = {OTHER: USE} if now < AT + OLD else {}
    assert present_use(reader, status, now) == ({ONE: USE} if is_shown else {}) | others
