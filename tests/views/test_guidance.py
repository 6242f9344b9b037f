"""Why a run ended as it did, and what to do now, by hand-made results; hosts, faults and hostile text of live ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from clusterkit.ledger.situation import RunActivity, situation_of
from clusterkit.views.guidance import Guidance, end_guidance, guidance, guidance_lines
from clusterkit.views.situations import ending
from clusterkit.words import events as ev
from clusterkit.words.account import RecoveryReport
from clusterkit.words.explanation import Explanation
from clusterkit.words.faults import FaultAction
from clusterkit.words.outcome import Exit, Failure, NotInjected, RunResult, RunState
from tests.histories import SIGKILL, task
from tests.ledger.recovering import Told, gang

RESUME = "clusterkit up --resume r train.py"
FAILURE = Failure(task("worker:1"), 2, Exit(code=1), 9.0)
TRACE = (
    "Traceback (most recent call last):",
    '  File "/job/train.py", line 9, in main',
    "    fit()",
    "ValueError: bad",
)
FAILED = RunResult(RunState.FAILED, 1, "worker:1 exited with code 1", FAILURE)
SUCCESS = RunResult(RunState.SUCCEEDED, 0, "worker:0 exited with code 0")
FIX = Explanation("row", task("worker:1"), "The rate is negative.", "Use a positive one.")


@pytest.mark.parametrize(
    ("result", "resume", "why", "todo", "commands"),
    [
        (SUCCESS, None, "Nothing failed.", "Nothing. For details:", ("clusterkit show r",)),
        (replace(SUCCESS, not_injected=(NotInjected("kill worker:1 @ step=9", "it has no step 9"),)), None,
         "Never injected: kill worker:1 @ step=9: it has no step 9.", "Give the fault a trigger that this run reaches.",
         ()),
        (replace(SUCCESS, unfinished=(FAILURE,)), None, "worker:1 exited with code 1 (attempt 2)",
         "Let every task make the same number of steps.", ()),
        (replace(SUCCESS, unfinished=(FAILURE,), explanations=(FIX,)), None, FIX.means, FIX.advice, ()),
        (FAILED, None, "worker:1 exited with code 1.",
         "The reason may be at the end of worker:1's log. Read the log:", ("clusterkit logs r worker:1",)),
        (replace(FAILED, cause=replace(FAILURE, exception="ValueError: bad", tail=TRACE)), RESUME, "ValueError: bad",
         "Fix the program, at train.py:9 or before it. Read the log, then resume the run:",
         ("clusterkit logs r worker:1", RESUME)),
        (replace(FAILED, cause=replace(FAILURE, exception="ValueError: bad"), repeated=True), None,
         "worker:1 failed: ValueError: bad (attempt 2).",
         "Fix the program: a restart fails the same way. Read the log:", ("clusterkit logs r worker:1",)),
        (replace(FAILED, explanations=(FIX,)), RESUME, FIX.means, f"{FIX.advice} Read the log, then resume the run:",
         ("clusterkit logs r worker:1", RESUME)),
        (replace(FAILED, cause=None), None, "worker:1 exited with code 1.", "Fix that.", ()),
        (replace(FAILED, state=RunState.STOPPED), RESUME, "worker:1 exited with code 1.", "Continue it:", (RESUME,)),
        (replace(FAILED, state=RunState.TIMED_OUT), None, "worker:1 exited with code 1.", "Start it again.", ()),
        (replace(FAILED, lost=True), RESUME,
         "Its supervisor was killed, or the machine went down: no task failed by itself.", "Continue it:", (RESUME,)),
    ],
)  # fmt: skip
def test_each_end_has_a_reason_and_a_next_step(
    result: RunResult, resume: str | None, why: str, todo: str, commands: tuple[str, ...]
) -> None:
    """The explanation's words where there is one."""
    heading = "What happened" if result.state is RunState.SUCCEEDED else "Why"
    exception = None if result.cause is None else result.cause.exception
    repeats = bool(exception) and result.state is RunState.FAILED and not (result.lost or result.explanations)
    assert end_guidance(result, RecoveryReport(), "r", resume) == Guidance(why, todo, commands, heading, repeats)


NEVER = (NotInjected("kill worker:1 @ phase=exporting", "it never exports"),)


@pytest.mark.parametrize(
    ("result", "why", "todo", "commands"),
    [
        (SUCCESS, "Nothing failed.", "Nothing. For details:", ("clusterkit show r",)),
        (replace(SUCCESS, not_injected=NEVER),
         "The exam's fault kill worker:1 @ phase=exporting was not injected: it never exports.",
         "Nothing: the exam does not count this cell as passed.", ()),
        (replace(FAILED, explanations=(FIX,)), FIX.means, f"{FIX.advice} Read the log:",
         ("clusterkit logs r worker:1",)),
        (replace(FAILED, state=RunState.STOPPED), "worker:1 exited with code 1.",
         "Nothing: a run of an exam ends when the exam has seen enough, or is stopped.", ()),
    ],
)  # fmt: skip
def test_a_run_of_an_exam_is_not_started_by_hand(
    result: RunResult, why: str, todo: str, commands: tuple[str, ...]
) -> None:
    """Nor are the exam's own faults the user's."""
    found = end_guidance(result, RecoveryReport(), "r", RESUME, "clusterkit up train.py", "exam/exam-1")
    assert (found.why, found.todo, found.commands) == (why, todo, commands)
    own = end_guidance(FAILED, RecoveryReport(), "r", RESUME, None, "campaign/chaos")
    assert own.commands[-1] == RESUME


def test_what_has_no_checkpoint_is_started_again() -> None:
    """With the command that started it; what can be resumed is resumed."""
    start = "clusterkit up train.py"
    failed = end_guidance(FAILED, RecoveryReport(), "r", None, start)
    then = " Read the log, then start the run again:"
    assert (failed.todo[-len(then) :], failed.commands[-1]) == (then, start)
    assert end_guidance(FAILED, RecoveryReport(), "r", RESUME, start).commands[-1] == RESUME
    stopped = replace(FAILED, state=RunState.TIMED_OUT)
    assert end_guidance(stopped, RecoveryReport(), "r", None, start).commands == (start,)


def test_a_success_names_its_last_checkpoint() -> None:
    """Where the model is."""
    found = end_guidance(replace(SUCCESS, checkpoint="/models/ckpt-20"), RecoveryReport(), "r", None)
    assert found.todo == "Nothing. The last checkpoint is /models/ckpt-20. For details:"


def test_the_useful_half_of_a_keras_error_is_the_reason() -> None:
    """Not the sentence that a call has failed; the headline has the class alone."""
    wrapper = "ValueError: Exception encountered when calling Sequential.call()."
    tail = (*TRACE[:-1], wrapper, "", "\x1b[1mInvalid input shape (None, 28).")
    result = replace(FAILED, cause=replace(FAILURE, exception=wrapper, tail=tail))
    assert end_guidance(result, RecoveryReport(), "r", None).why == "ValueError: Invalid input shape (None, 28)"
    assert ending(result) == "The run failed: worker:1 failed: ValueError (attempt 2)."
    both = replace(result, same=(replace(result.cause or FAILURE, task=task("worker:0")),))
    assert ending(both) == "The run failed: worker:0 and worker:1 failed with the same ValueError."


def recovered(*faults: str, saved: bool, times: int = 1) -> RecoveryReport:
    """Of a gang whose worker was killed."""
    told = gang(*faults)
    for _ in range(times):
        told.run.exits("worker:1", signal=SIGKILL)
        told.run.after(20)
        for worker in ("worker:0", "worker:1"):
            if saved:
                told.run.resumes(worker, 20, "ckpt-20")
            told.run.progresses(worker, 21 if saved else 1)
    return told.ledger.incidents.report()


@pytest.mark.parametrize(
    ("report", "why", "todo"),
    [
        (recovered(saved=True), "worker:1 was killed by SIGKILL. Recovered: 10 steps trained again.",
         "Nothing. To train fewer than 10 steps again, save checkpoints more often. For details:"),
        (recovered(saved=False), "worker:1 was killed by SIGKILL. Recovered: 30 steps trained again.",
         "To lose less next time, add clusterkit.training.Backup() to fit's callbacks, or use training.Checkpointer. "
         "For details:"),
        (recovered(saved=True, times=2), "worker:1 was killed by SIGKILL. Recovered 2 times: 11 steps trained again.",
         "Nothing. To train fewer than 10 steps again, save checkpoints more often. For details:"),
    ],
)  # fmt: skip
def test_a_success_with_recoveries_says_what_was_lost(report: RecoveryReport, why: str, todo: str) -> None:
    """And how to lose less."""
    found = end_guidance(SUCCESS, report, "r", None)
    assert (found.why, found.todo) == (why, todo)


def faulted(told: Told) -> None:
    """A partition that lasts was injected."""
    told._observe(ev.FaultInjected(1, "partition worker:1", FaultAction.PARTITION, (task("worker:1"),)), told.run.now)


def pausing(told: Told) -> None:
    """A worker stands still."""
    told._observe(ev.Paused(task("worker:1"), 1, True), told.run.now + 1)


def stalling(told: Told) -> None:
    """Nothing happens for a minute."""
    told.run.now += 60
    told._observe(ev.Stalled("told", task("worker:1"), 60.0, {}, None, "worker:1 \x1b[31mhangs"), told.run.now)


@pytest.mark.parametrize(
    ("happen", "doing", "first"),
    [
        ((faulted,), RunActivity.TRAINING, "clusterkit fault r --heal"),
        ((faulted, pausing), RunActivity.PAUSED, "clusterkit fault r --heal"),
        ((faulted, stalling), RunActivity.STALLED, "clusterkit fault r --heal"),
        ((stalling,), RunActivity.STALLED, "clusterkit stacks r worker:1"),
        ((pausing,), RunActivity.PAUSED, "clusterkit unpause r worker:1"),
    ],
)  # fmt: skip
def test_a_fault_is_ended_first(happen: tuple[Callable[[Told], None], ...], doing: RunActivity, first: str) -> None:
    """Since it holds the run up; without one, the task is looked at or continued. What a task wrote can't act."""
    told = gang()
    for one in happen:
        one(told)
    assert situation_of(told.ledger).activity is doing
    found = guidance(told.ledger, "r")
    assert found.commands[0] == first
    assert "partition worker:1" in found.why or faulted not in happen
    lines = guidance_lines(found, 60)
    assert not [char for line in lines for char in line if ord(char) < 32 and char != "\n"]
    assert max(len(line) for text in lines for line in text.split("\n")) <= 60
    assert lines[-len(found.commands) :] == [f"     {command}" for command in found.commands]


def test_steps_that_were_on_their_way_do_not_end_a_pause() -> None:
    """All tasks that make steps are paused; reports from before the pause come later. One that runs on does end it."""
    for paused, doing in ((("worker:0", "worker:1"), RunActivity.PAUSED), (("worker:1",), RunActivity.TRAINING)):
        told = gang()
        for name in paused:
            told._observe(ev.Paused(task(name), 1, True), told.run.now)
        for step in (31, 32, 33):
            told.run.progresses("worker:0", step)
        assert situation_of(told.ledger).activity is doing
