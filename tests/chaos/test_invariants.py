"""Invariants: small journals, each with one thing that must not be, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from clusterkit.chaos.invariants import Measure, baseline_of, began_anew, violations
from clusterkit.chaos.model import Baseline
from clusterkit.words.events import (
    Checkpointed,
    CheckpointFound,
    Event,
    Failed,
    FaultInjected,
    FaultTook,
    Progressed,
    RestartPlanned,
    Resumed,
    Spawned,
)
from clusterkit.words.faults import FaultAction
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, Task, TaskType
from clusterkit.words.outcome import AttemptEnded, Exit, Failure, NotInjected, RunResult, RunState

PROGRAM = Program(ProgramKind.SCRIPT, "train.py")
JOB = JobSpec(PROGRAM, {TaskType.CHIEF: 1, TaskType.WORKER: 2, TaskType.PS: 1})
GANG = JobSpec(PROGRAM, {TaskType.WORKER: 2})
CHIEF, PS = Task(TaskType.CHIEF, 0), Task(TaskType.PS, 0)
W0, W1 = Task(TaskType.WORKER, 0), Task(TaskType.WORKER, 1)
BASELINE = Baseline(10.0, 100, (50, 100), {"loss": 0.2, "accuracy": 0.9})
KILLED, UNAVAILABLE = Exit(signal=9), Exit(code=1)


def result(state: RunState = RunState.SUCCEEDED, last_step: int | None = 100, reason: str = "it was done") -> RunResult:
    """How the run ended."""
    return RunResult(state, 0, reason, None, (), (), 1, last_step, 9.0)


def failed(task: Task, attempt: int = 1, how: Exit = KILLED, exception: str | None = None) -> Failure:
    """A failure."""
    return Failure(task, attempt, how, 0.0, (), exception)


def killed(*tasks: Task, number: int = 1, action: FaultAction = FaultAction.KILL) -> FaultInjected:
    """A fault."""
    return FaultInjected(number, f"{action} {','.join(map(str, tasks))}", action, tasks)


def restart(cause: Failure, *collateral: Failure, fault: int | None = 1) -> list[Event]:
    """Failures and the restart that follows; `fault` explains the cause's."""
    events: list[Event] = []
    for failure in (cause, *collateral):
        explained = fault if failure is cause else None
        known = (failure.task, failure.attempt, 0.0, 1.0, failure.exit, None, None, None, None)
        events += [AttemptEnded(*known, fault=explained), Failed(failure)]
    tasks = tuple(failure.task for failure in (cause, *collateral))
    return [*events, RestartPlanned(tasks, cause, collateral, 0.1, 1, 3)]


def done(task: Task = CHIEF, attempt: int = 2, accuracy: float = 0.9) -> Progressed:
    """The last report."""
    return Progressed(task, attempt, 100, {"accuracy": accuracy, "loss": 0.21})


def saved(step: int, attempt: int = 1, task: Task = CHIEF) -> Checkpointed:
    """A complete checkpoint."""
    return Checkpointed(task, attempt, step, f"/run/checkpoints/ckpt-{step}")


def said(events: Sequence[Event], job: JobSpec = JOB, ended: RunResult | None = None, **more: object) -> list[str]:
    """The violations of a run with these events, a second apart."""
    timed = [(float(second), event) for second, event in enumerate(events)]
    found = violations(job, BASELINE, ended or result(), timed, **more)  # type: ignore[arg-type]
    assert began_anew(job, timed) == any(re.search(r"(began at|continued from) step 0 ", one) for one in found)
    return found


DIED = [killed(CHIEF), *restart(failed(CHIEF)), Spawned(CHIEF, 2, "pid 7")]
GOOD: list[Event] = [saved(50), *DIED, Resumed(CHIEF, 2, 50, "/run/checkpoints/ckpt-50"), done()]


def test_a_run_that_recovered_violates_nothing() -> None:
    """Killed after a checkpoint, resumed there, and the same in the end."""
    assert said(GOOD) == []


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        (result(RunState.FAILED, 60, "ps:0 was killed"), "The job failed: ps:0 was killed."),
        (result(RunState.TIMED_OUT, 60, "it took too long"), "The job timed out: it took too long."),
        (result(last_step=90), "The job ended at step 90; without faults it ends at step 100."),
    ],
)
def test_a_job_has_to_come_to_its_end(ended: RunResult, sentence: str) -> None:
    """Success, at the step of the baseline."""
    assert said(GOOD, ended=ended) == [sentence]


def test_a_run_may_miss_a_fault_that_was_drawn_for_it() -> None:
    """A step that a run does not get to is no violation, although the run alone has exit code 3."""
    missed = replace(result(), exit_code=3, not_injected=(NotInjected("kill ps:0 @ step=99", "why"),))
    assert violations(JOB, BASELINE, missed, [(1.0, done(attempt=1))]) == []


def test_a_run_without_a_result_has_failed() -> None:
    """The supervisor itself may have been lost."""
    assert violations(JOB, BASELINE, None, []) == ["The run left no result."]


def test_what_is_left_behind_is_a_violation() -> None:
    """As sentences."""
    assert said(GOOD, leftovers=["The process 7 of ps:0 still runs."]) == ["The process 7 of ps:0 still runs."]


LOST = "continued from step {} although the checkpoint of step {} was complete: {} lost."


@pytest.mark.parametrize(
    ("events", "sentences"),
    [
        ([saved(50), *DIED, Resumed(CHIEF, 2, 0, None)], [f"chief:0 (attempt 2) {LOST.format(0, 50, '50 steps')}"]),
        ([saved(50), saved(51), *DIED, Resumed(CHIEF, 2, 50, "/x")],
         ["chief:0 (attempt 2) " + LOST.format(50, 51, "1 step")]),
        ([saved(50), *DIED, Progressed(CHIEF, 2, 1)], ["chief:0 (attempt 2) " + LOST.format(0, 50, "50 steps")]),
        ([saved(50), *DIED, Progressed(CHIEF, 2, 51)], []),
        ([saved(50), *DIED, Resumed(CHIEF, 2, 60, "/x")], []),  # it was killed before it could tell of the newest
        ([*DIED, Resumed(CHIEF, 2, 0, None)], []),
        ([saved(50), Spawned(W1, 2, "pid 8"), Progressed(W1, 2, 1)], []),  # a worker of a ps job resumes nothing
        ([saved(50), *DIED, saved(100), Resumed(CHIEF, 2, 50, "/x")], []),
    ],
)  # fmt: skip
def test_no_step_is_lost_beyond_the_last_checkpoint(events: list[Event], sentences: list[str]) -> None:
    """Every resumption is at the newest complete checkpoint that was there when the attempt began, or a newer one."""
    assert said([*events, done()]) == sentences


def test_a_checkpoint_of_which_no_step_is_known_counts_too() -> None:
    """A program that tells of no checkpoint is seen to begin anew by its first step."""
    begun = [killed(CHIEF), *restart(failed(CHIEF)), Spawned(CHIEF, 2, "pid 7")]
    older = [*begun[:-1], Spawned(CHIEF, 2, "pid 7", "/run/checkpoints/model.keras")]  # as journals had it once
    found = CheckpointFound(CHIEF, 2, "/run/checkpoints/model.keras")
    sentence = "chief:0 (attempt 2) began at step 0 although there was a checkpoint: it was not restored."
    for step, sentences in ((1, [sentence]), (41, [])):
        first = Progressed(CHIEF, 2, step)
        assert said([*older, first, done()]) == sentences
        assert said([*begun, found, first, done()]) == sentences
        assert said([*begun, first, saved(step, 2), found, done()]) == sentences


CORRUPTED = killed(number=2, action=FaultAction.CORRUPT)


def flipped(file: str) -> FaultTook:
    """The backend damaged this file."""
    return FaultTook(2, f"flipped 64 bytes in {file}", file=file)


def test_a_checkpoint_that_is_damaged_before_it_is_read_is_none() -> None:
    """An attempt that has begun, and has not looked for one yet, finds the one before it."""
    events = [saved(20), saved(50), CORRUPTED, *DIED, flipped("ckpt-50/state.data")]
    assert said([*events, Resumed(CHIEF, 2, 20, "/x"), done()]) == []
    assert said([*events, Resumed(CHIEF, 2, 0, None), done()]) != []


@pytest.mark.parametrize(
    ("damage", "resumed", "good"),
    [
        ([flipped("ckpt-50/state.data")], 20, True),
        ([flipped("ckpt-50/state.data")], 0, False),
        ([flipped("ckpt-20/state.data")], 20, False),
        ([FaultTook(2, "there is no checkpoint", done=False)], 20, False),
        ([flipped("ckpt-50/state.data"), saved(50)], 20, False),  # written again, whole
        ([flipped("ckpt-60/state.data"), saved(60)], 20, True),  # told of too late
        ([flipped("ckpt-5/state.data")], 20, True),  # nobody knows it: it may be any
    ],
)
def test_a_damaged_checkpoint_is_none(damage: list[Event], resumed: int, good: bool) -> None:
    """Then the newest one that is intact counts, until the damaged one is written again."""
    events = [saved(20), saved(50), CORRUPTED, *damage, *DIED, Resumed(CHIEF, 2, resumed, "/x"), done()]
    assert (said(events) == []) == good


@pytest.mark.parametrize(
    ("value", "measure", "sentences"),
    [
        (0.94, Measure(), []),
        (0.84, Measure(), ["The final accuracy is 0.84; without faults it is 0.9, and 0.05 is allowed."]),
        (0.84, Measure(tolerance=0.1), []),
        (0.84, Measure("loss"), []),
        (0.84, Measure("loss", 0.01), ["The final loss is 0.21; without faults it is 0.2, and 0.002 is allowed."]),
        (0.84, Measure("perplexity"), []),  # which the baseline has not reported
    ],
)
def test_the_metric_is_near_that_of_the_baseline(value: float, measure: Measure, sentences: list[str]) -> None:
    """An accuracy absolutely, a loss relatively."""
    assert said([*GOOD[:-1], done(accuracy=value)], measure=measure) == sentences


def test_a_metric_that_is_missing_is_a_violation() -> None:
    """The baseline has it."""
    sentence = "The job reported no accuracy; without faults it reports 0.9."
    assert said([*GOOD[:-1], Progressed(CHIEF, 2, 100, {"loss": 0.2})]) == [sentence]


def test_a_metric_that_ends_as_no_number_is_a_violation() -> None:
    """NaN, which the journal has as null; also if it was near the baseline's before. A baseline does not have it."""
    events = [*GOOD[:-1], Progressed(CHIEF, 2, 90, {"accuracy": 0.9}), Progressed(CHIEF, 2, 100, {"accuracy": None})]
    assert said(events) == ["The final accuracy is NaN or infinite; without faults it is 0.9."]
    assert baseline_of(result(), [(float(second), event) for second, event in enumerate(events)]).metrics == {}


GONE = failed(W0, how=UNAVAILABLE, exception="UnavailableError: worker:1")
BLAMED = "{} and was named as the cause of a restart, but no fault accounts for that: they were injected into {}."


def test_a_requested_restart_does_not_hide_an_unexplained_cause() -> None:
    """It is planned before the task of the first restart has a process, so that both are one incident."""
    requested = RestartPlanned((CHIEF,), None, (), 0.0, 0, 3)
    events = [killed(W0), *restart(failed(CHIEF), fault=None), requested, Spawned(CHIEF, 2, "pid 7"), done()]
    assert said(events) == [f"chief:0 (attempt 1) {BLAMED.format('was killed by SIGKILL', W0)}"]


@pytest.mark.parametrize(
    ("events", "sentences"),
    [
        ([killed(W1), *restart(failed(W1), GONE)], []),
        ([killed(W1), *restart(GONE, failed(W1), fault=None)],
         ["worker:0 (attempt 1) " + BLAMED.format("exited with code 1", "worker:1")]),
        (restart(failed(W1), fault=None),
         ["worker:1 (attempt 1) " + BLAMED.format("was killed by SIGKILL", "no task")]),
        ([*restart(failed(W1), fault=None), killed(W1)],
         ["worker:1 (attempt 1) " + BLAMED.format("was killed by SIGKILL", "worker:1")]),
        ([killed(W1), *restart(failed(W1)), *restart(failed(W1, 2), fault=None)],
         ["worker:1 (attempt 2) " + BLAMED.format("was killed by SIGKILL", "worker:1")]),
        ([killed(W1), killed(W1, number=2), *restart(failed(W1)), *restart(failed(W1, 2), fault=2)], []),
        ([killed(W1), *restart(failed(W1)), *restart(failed(W0, 2), fault=None), *restart(failed(W0, 3), fault=None)],
         ["worker:0 (attempts 2, 3) " + BLAMED.format("was killed by SIGKILL", "worker:1")]),
        (restart(failed(W1, how=Exit(code=0)), fault=None), []),  # it ended well, and starts again by its policy
    ],
)  # fmt: skip
def test_the_cause_of_a_restart_is_explained_by_a_fault(events: list[Event], sentences: list[str]) -> None:
    """Which fault explains a failure is decided in the run; tests/machine/test_attribution.py has the rule."""
    assert said([*events, done(W0)], GANG) == sentences


def test_a_baseline_is_made_of_a_run() -> None:
    """Its end, its checkpoints, and the last value of each metric that a training task reported."""
    events: list[Event] = [
        Progressed(CHIEF, 1, 10, {"loss": 0.5}), saved(50), saved(50), Progressed(PS, 1, 1, {"loss": 7.0}),
        Progressed(CHIEF, 1, 100), saved(100), Progressed(CHIEF, 1, 100, {"accuracy": 0.9}),
    ]  # fmt: skip
    made = baseline_of(result(), [(float(second), event) for second, event in enumerate(events)])
    assert made == Baseline(9.0, 100, (50, 100), {"loss": 0.5, "accuracy": 0.9}, ((100, 1.0),))
