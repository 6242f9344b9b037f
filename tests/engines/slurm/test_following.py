"""After an allocation: whether the run continues, as those who follow it see it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.engines.base import may_continue
from clusterkit.engines.slurm.answers import ControllerUnreachable, QueuedJob, SlurmError
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.submission import continues
from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.store.journal import RunEndWaiter
from clusterkit.words.account import Account
from clusterkit.words.outcome import RunResult, RunState
from tests.engines.slurm.test_notices import RUNNING
from tests.histories import job

pytestmark = pytest.mark.process
WAITS = replace(RUNNING, state="PENDING", restarts=1, reason="BeginTime")
OVER = replace(RUNNING, state="COMPLETED")
Answer = QueuedJob | SlurmError | None


class Answering(Slurm):
    """A Slurm that gives these answers one after the other, the last one again and again."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        super().__init__({})
        self.answers, self.hastened = list(answers), 0

    def job(self, job: int) -> QueuedJob | None:
        """The next answer."""
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        answer = answer() if callable(answer) else answer
        if isinstance(answer, SlurmError):
            raise answer
        return answer

    def start_soon(self, job: int) -> None:
        """Count it; refuse it, as Slurm may."""
        self.hastened += 1
        raise SlurmError("no")


class Supervisor:
    """Takes a run while Slurm is asked for its job."""

    def __init__(self, run: RunDirectory) -> None:
        self._run, self._held = run, list[int]()

    def begins(self) -> QueuedJob:
        """Be there."""
        self._held.append(self._run.lock())
        return RUNNING

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._held:
            os.close(descriptor)


def run_of(place: Path, state: RunState | None, allocation: str = "7") -> RunDirectory:
    """A run that has no supervisor."""
    run = RunDirectory(place / "runs" / "r-1")
    run.make()
    run.lock_file.touch()
    one = job(workers=1)
    run.write_info(RunInfo(run_id="r-1", created=1.0, allocation=allocation, endpoints={}, job=one))
    ended(run, state)
    return run


def ended(run: RunDirectory, state: RunState | None) -> None:
    """The run has such a result."""
    if state is not None:
        run.write_result(RunResult(state, 0, "it was"), Account())


def test_a_run_that_ended_for_good_or_elsewhere_has_no_sequel(tmp_path: Path) -> None:
    """Slurm is not asked."""
    nobody = Answering(AssertionError)  # type: ignore[arg-type]
    for name, state, number in (
        ("a", RunState.SUCCEEDED, "7"),
        ("b", RunState.FAILED, "7"),
        ("c", RunState.SUSPENDED, ""),
    ):
        run = run_of(tmp_path / name, state, number)
        assert not may_continue(run)
        assert continues(run, nobody, 0.0) is False


@pytest.mark.parametrize("answer", [None, OVER, SlurmError("there is no squeue")])
def test_a_run_whose_job_is_over_does_not_continue(tmp_path: Path, answer: Answer) -> None:
    """Nor does one of which no Slurm is known here."""
    assert continues(run_of(tmp_path, RunState.SUSPENDED), Answering(answer), 0.0) is False


def test_a_requeued_job_is_waited_for_and_hurried_once(tmp_path: Path) -> None:
    """Also while the controller is away, and if Slurm refuses to hurry it."""
    run = run_of(tmp_path, RunState.SUSPENDED)
    ending = replace(WAITS, state="COMPLETING", reason="")
    with Supervisor(run) as supervisor:
        slurm = Answering(ending, WAITS, ControllerUnreachable("no"), WAITS, OVER, supervisor.begins)
        assert continues(run, slurm, 0.01) is True
    assert slurm.hastened == 1


def test_a_run_that_lost_its_supervisor_without_a_result_is_waited_for(tmp_path: Path) -> None:
    """Its host is gone, and the job is requeued some time later."""
    run = run_of(tmp_path, None)
    with Supervisor(run) as supervisor:
        assert continues(run, Answering(RUNNING, RUNNING, WAITS, supervisor.begins), 0.0) is True


def test_a_life_is_over_when_no_sequel_comes(tmp_path: Path) -> None:
    """Not when the lock is released in between."""
    run, asked, go = run_of(tmp_path, RunState.SUSPENDED), list[int](), threading.Event()

    def once() -> bool:
        asked.append(1)
        assert go.wait(10)
        return len(asked) < 3

    life = RunEndWaiter(run, once)
    assert not life.is_over(0.05)
    go.set()
    assert life.is_over(10)
    assert len(asked) == 3
