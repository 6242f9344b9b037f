"""Faults that were asked for and never injected: the result names each, and why."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.events import Verb
from clusterkit.words.job import RestartRules
from clusterkit.words.outcome import NotInjected, RunState
from tests.histories import SIGKILL, SIGTERM, History, job, task
from tests.machine.faulty import with_faults


def ends(run: History, code: int = 0) -> History:
    """The coordinator is done, and the rest ends."""
    run.exits("chief:0", code=code)
    run.after(60)
    return run


def missed(run: History) -> list[tuple[str, str]]:
    """What the result names."""
    return [(one.fault, one.why) for one in run.result.not_injected]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("kill worker:1 @ step=1000", "step 1000 was never reached; the last step was 250"),
        ("kill worker:1 @ step=1000 p=0.5", "step 1000 was never reached; the last step was 250"),
        ("kill worker:1 @ every=300steps", "step 300 was never reached; the last step was 250"),
        ("kill worker:1 @ 20s", "the run ended before 20 s were over"),
        ("kill worker:1 @ every=20s", "the run ended before 20 s were over"),
        ("kill worker:1 @ 1s after=20s", "the run ended before its after=20s was over"),
        ("kill worker:1 @ checkpoint=3", "the job wrote only 1 of 3 checkpoints"),
        ("kill worker:1 @ restart", "no task was restarted"),
        ("kill worker:1 @ restart=2", "no task was restarted"),
        ("hang-start worker:1 @ 1s", "worker:1 did not start again"),
    ],
)
def test_a_fault_whose_moment_never_came(fault: str, why: str) -> None:
    """The job succeeded, and proved nothing: exit code 3."""
    run = with_faults(fault).begin()
    run.progresses("chief:0", 250)
    run.checkpoints("chief:0", 250)
    run.after(5)
    ends(run)
    assert (run.result.state, run.result.exit_code) == (RunState.SUCCEEDED, 3)
    assert [reason for _, reason in missed(run)] == [why]
    assert run.result.reason == "chief:0 exited with code 0, but a fault that was asked for was never injected"
    assert run.warnings == []


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("kill worker:1 @ step=10", "no step was reported"),
        ("corrupt-checkpoint @ checkpoint", "no checkpoint was written"),
        ("kill worker:1", "not every task became ready"),
    ],
)
def test_a_job_that_reports_nothing(fault: str, why: str) -> None:
    """What the fault waited for is named."""
    run = with_faults(fault)
    run.listening = False
    ends(run.begin())
    assert (run.result.exit_code, [reason for _, reason in missed(run)]) == (3, [why])


@pytest.mark.parametrize(
    "fault",
    [
        "kill worker:1 @ 1s",
        "stop worker:1 for=1s @ 1s",
        "term worker:1 @ 1s",
        "slow worker:1 @ 1s",
        "loss worker:1 @ 1s",
        "memory worker:1 @ 1s",
        "hang-start worker:1 for=2s",
        "kill worker:1 @ every=2s",
        "disk-full @ 1s",
    ],
)
def test_a_fault_that_was_injected_once_is_not_missed(fault: str) -> None:
    """Nor is one that comes again and again, whatever became of the last time."""
    run = with_faults(fault).begin()
    run.after(5)
    ends(run)
    assert (run.result.exit_code, run.result.not_injected) == (0, ())


def test_a_fault_that_was_not_drawn_is_not_missed() -> None:
    """With p=0.001 it was asked for only if chance wants it, which did not."""
    run = with_faults("kill worker:1 @ 1s p=0.001", "kill worker:0 @ every=1s p=0.001").begin()
    run.after(3)
    ends(run)
    assert (run.result.exit_code, run.result.not_injected) == (0, ())


def test_a_fault_that_could_not_be_injected_is_missed() -> None:
    """For the reason that the backend gave."""
    run = with_faults("loss worker:1 @ 1s", "memory worker:* @ 1s")
    run.futile = {1: "there is no network", 2: "it can't be limited"}
    run.begin().after(2)
    ends(run)
    assert [why for _, why in missed(run)] == ["there is no network", "it can't be limited"]


def test_a_fault_on_a_task_without_a_process_is_missed() -> None:
    """Its moment came while the task was down, and the task did not come back."""
    run = with_faults("kill worker:1 @ 1s", workers=3)
    run.unspawnable["worker:1"] = "no such file"
    run.begin().after(2)
    assert run.result.state is RunState.FAILED
    assert run.result.exit_code == 1
    assert [why for _, why in missed(run)] == ["the run ended before 1 s were over"]


def test_a_fault_that_finds_no_process_says_so() -> None:
    """worker:1 waits for its restart when the fault comes, and the run ends meanwhile."""
    run = with_faults("kill worker:1 @ 3s", "stop worker:1 @ 3s").begin()
    run.after(2.9)
    run.exits("worker:1", code=1)
    run.after(0.2)
    ends(run)
    assert [why for _, why in missed(run)] == ["worker:1 had no process"] * 2


@pytest.mark.parametrize("action", ["kill", "term", "stop"])
def test_a_signal_that_comes_too_late_is_no_injection(action: str) -> None:
    """The task had exited when the signal was sent, which the backend tells with the exit."""
    run = with_faults(f"{action} chief:0 @ step=100").begin()
    run.unreachable.add("chief:0")
    run.progresses("chief:0", 100)
    ends(run)
    assert (run.result.exit_code, missed(run)) == (
        3,
        [(f"{action} chief:0 @ step=100", "chief:0 had already exited")],
    )


def test_a_fault_that_was_asked_of_a_live_run_counts_as_well() -> None:
    """Whoever asked for it."""
    run = with_faults().begin()
    run.send(ev.Requested(1, Verb.FAULT, fault="kill worker:1 @ step=9"))
    run.progresses("chief:0", 5)
    ends(run)
    assert missed(run) == [("kill worker:1 @ step=9", "step 9 was never reached; the last step was 5")]


@pytest.mark.parametrize(("number", "code"), [(SIGTERM, 143), (2, 130)])
def test_the_exit_code_of_a_run_that_was_stopped_stays(number: int, code: int) -> None:
    """The result names the fault all the same."""
    run = with_faults("kill worker:1 @ step=9").begin()
    run.send(ev.Interrupted(number))
    run.after(20)
    assert (run.result.exit_code, run.result.not_injected) == (
        code,
        (NotInjected("kill worker:1 @ step=9", "no step was reported"),),
    )


def test_several_faults_are_counted() -> None:
    """In the reason; each has a line of its own in the report."""
    run = with_faults("kill worker:1 @ step=9", "kill worker:0 @ 1h", "kill ps:0 @ 1s").begin()
    run.after(3)
    ends(run)
    assert run.result.reason == "chief:0 exited with code 0, but 2 faults that were asked for were never injected"
    assert task("ps:0") in {attempt.task for attempt in run.result.attempts if attempt.attempt == 2}
    assert [attempt.exit.signal for attempt in run.result.attempts if attempt.exit][-2] == SIGKILL


def test_a_start_that_is_held_back_at_the_end_was_injected() -> None:
    """The task was to be late, and was."""
    run = with_faults("hang-start worker:1 for=1h").begin()
    run.after(1)
    ends(run)
    assert run.result.not_injected == ()


@pytest.mark.parametrize(
    "fault", ["slow worker:1", "kill worker:1", "partition worker:0 | worker:1", "stop worker:1 for=5s"]
)
@pytest.mark.parametrize("moment", ["step=30", "step=1 after=20s"])
def test_a_fault_in_a_worker_that_was_given_up(fault: str, moment: str) -> None:
    """Whether its moment comes later, or came before: it is not injected into nobody, and the result says so."""
    rules = RestartRules(budget=0, min_workers=1)
    run = with_faults(f"{fault} @ {moment}", spec=job(3, ps=1, restart=rules)).begin()
    run.after(2)
    run.progresses("chief:0", 10)
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    run.progresses("chief:0", 40)
    run.after(30)
    ends(run)
    assert run.decided(ev.FaultInjected) == []
    assert (run.result.state, run.result.exit_code) == (RunState.SUCCEEDED, 3)
    assert [why for _, why in missed(run)] == ["the workers that it targets had been given up"]
