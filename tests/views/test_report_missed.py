"""The final report: faults that were never injected, and how to resume the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.views.recoveries import recovery_lines, unrecovered_lines
from clusterkit.words.account import Death, RecoveryReport
from clusterkit.words.distribution import Undistributed, WhyAlone
from clusterkit.words.explanation import Explanation
from clusterkit.words.outcome import Exit, Failure, NotInjected, RunResult, RunState
from tests.histories import task
from tests.views.test_report import KILLED, SUCCESS, injected, lines


def test_a_fault_that_was_never_injected_has_a_line() -> None:
    """Before the tasks; the first line is no check mark."""
    missed = (NotInjected("kill any @ 1h", "the run ended before 3600 s were over"), NotInjected("kill ps", "x"))
    text = lines(replace(SUCCESS, exit_code=3, reason="but", not_injected=missed))
    assert text[0].startswith("! run r-1 succeeded after")
    assert text[1:3] == [
        "  Never injected: kill any @ 1h: the run ended before 3600 s were over.",
        "  Never injected: kill ps: x.",
    ]


def test_training_that_was_not_distributed_has_no_check_mark() -> None:
    """What was wrong, and the code that mends it."""
    found = Undistributed((task("worker:0"), task("worker:1")), WhyAlone.NEVER_CONNECTED)
    text = lines(replace(SUCCESS, exit_code=3, undistributed=found))
    assert text[0].startswith("! run r-1 succeeded after")
    assert text[1:5] == [
        "  worker:0 and worker:1 never connected: each trained alone. The program creates no tf.distribute strategy. "
        "The program needs:",
        "      strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else",
        "      with strategy.scope():",
        "          model = …  # create and compile it here",
    ]


def test_training_that_was_not_distributed_with_a_better_explanation() -> None:
    """The vaguer sentence and its lines of code are left out; after a failure, also that tasks trained alone."""
    found = Undistributed((task("worker:0"), task("worker:1")), WhyAlone.NO_SCOPE)
    why = Explanation("only-compiled-in-the-scope", task("worker:0"), "The model was made outside.", "Make it inside.")
    good = replace(SUCCESS, undistributed=found, explanations=(why,))
    text = lines(good)
    assert text[1:5] == ["", "    Why: The model was made outside.", "    Fix: Make it inside.", ""]
    assert text[5] == "  worker:0 and worker:1 each trained alone."
    assert "program needs" not in "".join(text)
    cause = Failure(task("worker:0"), 1, Exit(code=1), 5.0, ("RuntimeError: x",))
    assert "alone" not in "".join(lines(replace(good, state=RunState.FAILED, exit_code=1, cause=cause)))


def test_a_worker_that_had_not_finished_takes_the_check_mark() -> None:
    """It is named, and what explains it is not called overcome."""
    late = Failure(task("worker:1"), 1, Exit(code=1), 5.0, ("UnavailableError: Socket closed",))
    why = Explanation("leaves-early", task("worker:0"), "worker:0 ended first.", "Train alike.")
    text = lines(replace(SUCCESS, unfinished=(late,), explanations=(why,)))
    assert text[0].startswith("! run r-1 succeeded after")
    assert text[1:5] == [
        "  Unfinished: worker:1 exited with code 1 (attempt 1)",
        "",
        "    Why: worker:0 ended first.",
        "    Fix: Train alike.",
    ]


def test_a_task_that_left_its_peers_is_the_cause_with_the_reason() -> None:
    """Its exit code alone says nothing."""
    cause = Failure(task("worker:1"), 2, Exit(code=0), 5.0, step=64)
    why = "worker:1 exited with code 0 at step 64, 8.0 s earlier; the workers did not stop together"
    text = lines(RunResult(RunState.FAILED, 1, why, cause=cause, repeated=True))
    assert text[1:3] == ["  Cause: worker:1 exited with code 0 (attempt 2)", f"    {why}."]
    assert "    It fails the same way each time, at step 64, as attempt 1 did." in text


def test_a_fault_that_was_not_done_says_why() -> None:
    """And nothing else, since nothing came of it."""
    fault = replace(injected(1, "memory worker:1", 3.0), done=False, detail="no such limit here")
    rows = recovery_lines(RecoveryReport((), (fault,)))
    assert rows[1].split("  ")[-1] == "not done: no"
    assert [row.strip() for row in rows[2:]] == ["such limit", "here"]


def test_a_fault_whose_injection_is_missing_is_known_by_its_number() -> None:
    """The line of the journal that had it is damaged; what is left of the run is told."""
    report = RecoveryReport((KILLED,))
    (row,) = [line for line in recovery_lines(report, 200) if "worker:1" in line]
    assert "worker:1 was killed by SIGKILL, still of fault 1" in row
    assert unrecovered_lines(report, 0)[0] == "  The job did not recover from fault 1: nothing was restarted."
    assert unrecovered_lines(RecoveryReport(), 0)[0] == "  Nothing was restarted."


def test_a_run_that_was_stopped_says_how_to_resume_it() -> None:
    """If it reported a checkpoint; a job that is done has nothing to resume."""
    stopped = RunResult(RunState.STOPPED, 130, "clusterkit got SIGINT", checkpoint="/runs/r-1/checkpoints/ckpt-40")
    hint = "  Resume with: clusterkit up --resume r-1 …"
    assert hint in lines(stopped)
    assert hint not in lines(replace(stopped, checkpoint=None))
    assert hint not in lines(replace(stopped, state=RunState.SUCCEEDED, exit_code=0))


def test_a_run_that_failed_alike_each_time_has_a_sentence_and_no_table() -> None:
    """Of faults, or of different deaths, there is the table."""
    again = replace(KILLED, faults=(), cause=Death(task("worker:1"), 1, 12.35, Exit(code=1)))
    failed = RunResult(RunState.FAILED, 1, "its restart budget is used up")
    told = lines(failed, recovered=RecoveryReport((again,) * 4))
    assert "  The job did not recover: worker:1 exited with code 1 in each of 4 attempts." in told
    for others in ((KILLED,) * 2, (again, replace(again, cause=Death(task("worker:0"), 1, 12.4, Exit(code=1))))):
        assert any(line.startswith("  recoveries ") for line in lines(failed, recovered=RecoveryReport(others)))


@pytest.mark.parametrize(("lost", "last", "told"), [(62, 61, True), (12, 61, False), (0, 0, False)])
def test_steps_that_no_checkpoint_kept_are_counted(lost: int, last: int, told: bool) -> None:
    """With what keeps them; not where the task has resumed from some checkpoint of its own."""
    report = RecoveryReport((replace(KILLED, lost=lost, last_step=last),))
    text = " ".join(" ".join(lines(SUCCESS, recovered=report)).split())
    said = "62 steps were trained again, since training began at step 0: "
    said += "add clusterkit.training.Backup() to fit's callbacks"
    assert (said in text) is told
    text = " ".join(" ".join(lines(replace(SUCCESS, loop=True), recovered=report)).split())
    assert ("since training began at step 0: save checkpoints with clusterkit.training.Checkpointer." in text) is told


def test_a_loss_that_is_not_a_number_is_a_warning() -> None:
    """The run succeeded, and its model is worth nothing."""
    text = lines(replace(SUCCESS, exit_code=3, diverged_at=40))
    assert text[0].startswith("! run ")
    assert "  ! The loss is not a number, first at step 40." in text
    assert "  ! The loss is not a number, first at step 40." in lines(replace(SUCCESS, diverged_at=40))  # --allow nan


def test_of_a_task_that_was_killed_only_the_last_lines_are_shown() -> None:
    """They say where it was, and nothing about the cause; a failed run has no line about what cost most."""
    cause = Failure(task("worker:1"), 1, Exit(signal=9), 5.0, tuple(f"step {n}" for n in range(9)))
    text = lines(RunResult(RunState.FAILED, 1, "x", cause=cause))
    assert [line.strip(" │") for line in text if "step" in line and "│" in line] == ["step 6", "step 7", "step 8"]


ASKED = replace(KILLED, asked=True, cause=None, faults=(), ended=None, went_on=False)


def test_a_program_that_never_reports_a_step_may_have_recovered() -> None:
    """Nobody knows, so nothing else is said."""
    died = replace(KILLED, faults=(), ended=None, went_on=False)
    stopped = RunResult(RunState.STOPPED, 143, "`clusterkit down` asked for it", restarts=2)
    for recoveries in ((died,), (died, died)):
        told = "\n".join(lines(stopped, recovered=RecoveryReport(recoveries)))
        assert "did not recover" not in told
        assert "  Whether the job recovered is not known: no task reported a step, before or after 2 restarts." in told
    with_steps = "\n".join(lines(replace(stopped, last_step=7), recovered=RecoveryReport((died,))))
    assert "  The job did not recover: no new step after 2 restarts." in with_steps


def test_a_restart_that_was_asked_for_is_nothing_to_recover_from() -> None:
    """Also if the run was stopped before its next step."""
    stopped = RunResult(RunState.STOPPED, 143, "`clusterkit down` asked for it", restarts=1, last_step=7)
    told = "\n".join(lines(stopped, recovered=RecoveryReport((ASKED,))))
    assert "recover:" not in told
    assert "recovered is not known" not in told
