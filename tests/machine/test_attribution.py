"""Attribution: which injected fault explains a failure, as a table of what was injected and what failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.machine.injections import Suspect, fault_explaining
from clusterkit.words import events as ev
from clusterkit.words.events import FaultInjected
from clusterkit.words.grammar import parse_fault
from clusterkit.words.outcome import Asked, AttemptEnded, Exit, Failure, FailureRole, RoleKind
from tests.histories import SIGKILL, SIGTERM, task
from tests.machine.faulty import with_faults

KILLED, RAISED = Exit(signal=SIGKILL), Exit(code=1)
FIRST, SECOND = (task("worker:1"), 1), (task("worker:1"), 2)


def of(text: str, at: float = 1.0, over: float | None = None, done: bool | None = None) -> Suspect:
    """A fault, injected at that time into worker:1, whose first attempt it hit where it acts on processes."""
    fault = parse_fault(text)
    event = FaultInjected(0, text, fault.action, (task("worker:1"),), (task("worker:0"),) if fault.others else ())
    suspect = Suspect(event, at, "", was_injected=done, hit_attempts={FIRST})
    suspect.ended_at = over if over is not None else suspect.ended_at
    return suspect


def fails(how: Exit = RAISED, name: str = "worker:1", attempt: int = 1, says: str = "ValueError: x") -> Failure:
    """An attempt that ends 10 s after the run began."""
    return Failure(task(name), attempt, how, 10.0, (), says)


GONE = "UnavailableError: Socket closed"
EXHAUSTED = (
    "ResourceExhaustedError: Graph execution error: OOM when allocating tensor with shape[64,64] and type float on "
    "/job:worker/replica:0/task:1/device:CPU:0 by allocator mklcpu"
)
OOM = Exit(signal=SIGKILL, out_of_memory=True)


@pytest.mark.parametrize(
    ("faults", "failure", "spawned", "expected"),
    [
        # Where the report and the campaign disagreed. The report was right about the time: what counts is when the
        # attempt ended, and not when that was dealt with.
        ([of("kill worker:1", at=10.5)], fails(KILLED), 0.0, None),
        ([of("disk-full", over=2.0)], fails(attempt=2), 8.0, 1),
        ([replace(of("disk-full"), injected_at=-30.0), of("kill worker:0")], fails(), 0.0, 1),
        ([of("disk-full", at=-30.0, over=-20.0)], fails(), 0.0, None),
        # It was right that what could not be injected explains nothing, and that a late start is over with the start.
        ([of("memory worker:1 limit=1GB", done=False)], fails(), 0.0, None),
        ([of("hang-start worker:1", over=5.0)], fails(), 5.0, None),
        ([of("hang-start worker:1", over=5.0)], fails(name="worker:0", says=GONE), 0.0, 1),
        # It was right that a signal is not what ends a task that the kernel or a stall timeout kills.
        ([of("kill worker:1")], fails(OOM), 0.0, None),
        ([of("kill worker:1"), of("stop worker:1")], fails(Exit(signal=SIGKILL, asked=Asked.STALL)), 0.0, 2),
        # It was right that what is done to an attempt ends with it, and that of several the newest did it.
        ([of("memory worker:1 limit=1GB", over=2.0)], fails(attempt=2), 3.0, None),
        ([of("memory worker:1 limit=1GB"), of("slow worker:1")], fails(), 0.0, 2),
        # The campaign was right that a running task may read a damaged checkpoint: the evaluator does; others do not.
        ([of("corrupt-checkpoint")], fails(name="evaluator:0"), 0.0, 1),
        ([of("corrupt-checkpoint")], fails(), 0.0, None),
        ([of("corrupt-checkpoint")], fails(attempt=2), 2.0, 1),
        # Both were wrong: they took the second of two signals that hit one attempt for one that was still to come,
        ([of("kill worker:1"), of("kill worker:1")], fails(KILLED), 0.0, 1),
        ([of("kill worker:1"), of("kill worker:1")], fails(KILLED, attempt=2), 2.0, None),
        # and SIGTERM for what SIGKILL did,
        ([of("term worker:1"), of("kill worker:1")], fails(KILLED), 0.0, 2),
        ([of("kill worker:1"), of("term worker:1")], fails(Exit(signal=SIGTERM)), 0.0, 2),
        # and what an attempt before had survived, or a program that is missing, for the fault's.
        ([of("stop worker:1", over=2.0)], fails(attempt=2), 3.0, None),
        ([of("slow worker:1", over=2.0)], fails(attempt=2), 3.0, None),
        ([of("partition worker:1")], fails(Exit(error="no such file")), None, None),
        # A worker that has too little memory lives on; its error is raised in the coordinator, which ends.
        ([of("memory worker:1 limit=1GB")], fails(name="chief:0", says=EXHAUSTED), 0.0, 1),
        ([of("memory worker:1 limit=1GB", over=9.0)], fails(name="chief:0", says=EXHAUSTED), 0.0, 1),
        ([of("memory worker:1 limit=1GB", at=-30.0, over=-20.0)], fails(name="chief:0", says=EXHAUSTED), 0.0, None),
        ([of("memory worker:1 limit=1GB")], fails(name="chief:0", says=EXHAUSTED.replace("k:1", "k:11")), 0.0, None),
        ([of("memory worker:1 limit=1GB")], fails(name="chief:0"), 0.0, None),
        ([of("stop worker:1")], fails(name="chief:0", says=EXHAUSTED), 0.0, None),
    ],
)  # fmt: skip
def test_which_fault_explains_a_failure(
    faults: list[Suspect], failure: Failure, spawned: float | None, expected: int | None
) -> None:
    """One rule for the recovery report and for campaigns, where there were two."""
    for number, suspect in enumerate(faults, 1):
        suspect.fault = replace(suspect.fault, number=number)
    assert fault_explaining(faults, failure, spawned) == expected


def test_a_signal_that_finds_no_process_hits_the_next_attempt() -> None:
    """Each attempt's end names the fault that hit it."""
    run = with_faults("kill worker:1 @ 1s", "kill worker:1 @ 1.2s").begin()
    run.after(5)
    ended = {(str(one.task), one.attempt): one.fault for one in run.decided(AttemptEnded)}
    assert ended == {("worker:1", 1): 1, ("worker:1", 2): 2}


def test_a_signal_that_came_too_late_explains_nothing() -> None:
    """It is no injection either."""
    run = with_faults("term worker:1 @ 1s").begin()
    run.unreachable.add("worker:1")
    run.after(2)
    run.exits("worker:1", code=1)
    assert run.decided(AttemptEnded)[0].fault is None


def test_the_end_of_an_attempt_is_recorded_again_when_more_is_decided() -> None:
    """Who was to blame; and a fault that could not be injected after all does not explain it any more."""
    run = with_faults("kill worker:9 @ 99s").begin()
    run.exits("chief:0", exception=GONE)
    run.after(0.1)
    run.exits("ps:0", signal=SIGKILL)
    run.after(2)
    cause = (task("ps:0"), 1)
    first, second, *decided = run.decided(AttemptEnded)
    assert (first.role, second.role) == (None, None)
    assert [one.role for one in decided] == [
        FailureRole(RoleKind.CAUSE, *cause),
        FailureRole(RoleKind.COLLATERAL, *cause),
    ]
    assert [replace(one, role=None) for one in decided] == [second, first]


def test_a_fault_that_could_not_be_injected_after_all() -> None:
    """What it seemed to explain is recorded again without it."""
    run = with_faults("slow worker:1 @ 1s")
    run.unanswered.add(1)
    run.begin().after(2)
    run.exits("worker:1", code=1)
    run.send(ev.FaultTook(1, "there are no such rights", done=False))
    assert [one.fault for one in run.decided(AttemptEnded)] == [1, 1, None]
    run.send(ev.Interrupted(SIGTERM))
    run.after(20)
    assert {one.fault for one in run.result.attempts} == {None}


def test_the_result_has_the_recorded_attempts() -> None:
    """Each attempt as it was recorded last."""
    run = with_faults("kill worker:1 @ 1s").begin()
    run.after(5)
    run.exits("chief:0", code=0)
    run.after(20)
    last = {(one.task, one.attempt): one for one in run.decided(AttemptEnded)}
    assert run.result.attempts == tuple(last[key] for key in sorted(last))
