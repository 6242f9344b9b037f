"""Watching: programs that do not resume where they should."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from tests.histories import History, job, task


def restarted(resume: str | None = None, written: int | None = 50) -> History:
    """A job in its second attempt, whose first one wrote a checkpoint."""
    run = History(job(workers=1, resume=resume)).begin()
    run.progresses("worker:0", 1)
    if written is not None:
        run.checkpoints("worker:0", written)
    run.exits("worker:0", code=1)
    run.after(2)
    return run


def test_a_program_that_resumes_at_the_newest_checkpoint_is_not_warned_of() -> None:
    """All is well, whether it says so or only reports the next step."""
    run = restarted()
    run.resumes("worker:0", 50, "ckpt-50")
    run.progresses("worker:0", 51)
    silent = restarted()
    silent.progresses("worker:0", 51)
    assert run.warnings == silent.warnings == []


@pytest.mark.parametrize(("says", "step"), [(True, 0), (False, 0), (False, 1)])
def test_a_program_that_starts_again_at_step_0_is_warned_of_once(says: bool, step: int) -> None:
    """A checkpoint was there, and the program did not restore it."""
    run = restarted()
    if says:
        run.resumes("worker:0", 0, None)
    run.progresses("worker:0", step)
    run.progresses("worker:0", step + 1)
    assert run.warnings == [
        "worker:0 started again at step 0 although the checkpoint ckpt-50 (step 50) was there. "
        "The program does not restore it, or could not read it; steps are lost."
    ]


def test_a_program_that_resumes_lower_than_the_newest_checkpoint_is_warned_of() -> None:
    """It read an older one."""
    run = restarted()
    run.resumes("worker:0", 30, "ckpt-30")
    (warning,) = run.warnings
    assert warning.startswith("worker:0 continued from step 30 although the checkpoint ckpt-50 (step 50) was there.")


def test_what_another_task_saves_after_the_start_can_not_have_been_restored() -> None:
    """A worker that comes up late read what there was; its chief has saved since."""
    run = History(job(workers=2)).begin()
    run.checkpoints("worker:0", 50)
    run.exits("worker:1", code=1)
    run.after(2)
    run.resumes("worker:0", 50, "ckpt-50")
    run.checkpoints("worker:0", 60)
    run.resumes("worker:1", 50, "ckpt-50")
    assert run.warnings == []


def test_a_program_without_checkpoints_may_start_again_at_step_0() -> None:
    """There is nothing that it could have restored."""
    run = restarted(written=None)
    run.progresses("worker:0", 0)
    assert run.warnings == []


def test_the_first_attempt_of_a_fresh_run_starts_at_step_0() -> None:
    """A checkpoint directory that the user gave may hold anything."""
    run = History(job(workers=1), checkpoint="old").begin()
    run.resumes("worker:0", 0, None)
    run.progresses("worker:0", 0)
    assert run.warnings == []


FOUND = ev.CheckpointFound(task("worker:0"), 2, "ckpt-9")


@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize(("step", "warnings"), [(1, 1), (6, 0)])
def test_a_checkpoint_that_nobody_reported_is_known_from_the_directory(
    says: bool, late: bool, step: int, warnings: int
) -> None:
    """A program that does not report its checkpoints is caught at step 0, also where the scan takes long."""
    run = History(job(workers=1), late_scan=late).begin()
    run.checkpoint = "ckpt-9"
    run.exits("worker:0", code=1)
    run.after(2)
    if says:
        run.resumes("worker:0", step - 1, None)
    run.progresses("worker:0", step)
    if late:
        run.checkpoints("worker:0", step)  # its own first one is no reason not to warn, and none to warn twice
        run.send(FOUND)
    run.progresses("worker:0", step + 1)
    warning = (
        "worker:0 started again at step 0 although the checkpoint ckpt-9 was there. Unless the program restores it "
        "later, such as in a second fit, it does not restore it, or could not read it, and steps are lost."
    )
    assert run.warnings == [warning] * warnings


def saved(*checkpoints: tuple[int, str]) -> History:
    """A job in its second attempt, whose first one saved in several directories."""
    run = History(job(workers=1)).begin()
    for step, path in checkpoints:
        run.progresses("worker:0", step)
        run.send(ev.Checkpointed(task("worker:0"), 1, step, path))
    run.exits("worker:0", code=1)
    run.after(2)
    return run


def test_checkpoints_of_different_directories_are_not_compared() -> None:
    """Each `fit`, and each program of a script, has its own; within one directory, an older one is told."""
    run = saved((12, "/c/ckpt-12"), (16, "/c/fit-2/ckpt-16"))
    run.resumes("worker:0", 12, "/c/ckpt-12")
    run.resumes("worker:0", 16, "/c/fit-2/ckpt-16")
    run.progresses("worker:0", 17)
    assert run.warnings == []
    older = saved((12, "/c/ckpt-12"), (14, "/c/fit-2/ckpt-14"), (16, "/c/fit-2/ckpt-16"))
    older.resumes("worker:0", 12, "/c/ckpt-12")
    older.resumes("worker:0", 14, "/c/fit-2/ckpt-14")
    (warning,) = older.warnings
    assert "continued from step 14 although the checkpoint /c/fit-2/ckpt-16 (step 16) was there" in warning


def test_a_second_fit_that_has_saved_nothing_yet_begins_without_a_warning() -> None:
    """The first one has restored its checkpoint; which step the attempt continued from is known."""
    run = saved((12, "/c/ckpt-12"))
    run.resumes("worker:0", 12, "/c/ckpt-12")
    run.resumes("worker:0", 0, None)
    run.progresses("worker:0", 13)
    run.exits("worker:0", code=0)
    run.after(5)
    assert run.warnings == []
    assert run.result.attempts[-1].resumed_step == 12


def test_what_a_scan_finds_for_an_attempt_that_is_over_says_nothing() -> None:
    """The next attempt has a scan of its own."""
    run = History(job(workers=1), late_scan=True).begin()
    for _ in range(2):
        run.exits("worker:0", code=1)
        run.after(5)
    run.progresses("worker:0", 1)
    run.send(FOUND)
    assert run.warnings == []


def test_a_checkpoint_that_was_reported_counts_and_not_what_a_scan_finds_later() -> None:
    """The step of the reported one is known, and that it resumed there."""
    run = restarted()
    run.resumes("worker:0", 50, "ckpt-50")
    run.send(ev.CheckpointFound(task("worker:0"), 2, "ckpt-50"))
    assert run.warnings == []


def test_a_resumed_run_that_starts_at_step_0_is_warned_of_in_its_first_attempt() -> None:
    """--resume promised to go on from the earlier run's checkpoint."""
    run = History(job(workers=1, resume="r-1"), checkpoint="ckpt-7").begin()
    run.progresses("worker:0", 0)
    assert "although the checkpoint ckpt-7 was there" in run.warnings[0]


def test_after_a_resumption_the_restored_checkpoint_is_the_newest_known() -> None:
    """A run that resumed at 70 and failed before the next checkpoint has to go on from 70 again."""
    run = History(job(workers=1, resume="r-1"), checkpoint="ckpt-70").begin()
    run.resumes("worker:0", 70, "ckpt-70")
    run.exits("worker:0", code=1)
    run.after(2)
    run.resumes("worker:0", 40, "ckpt-40")
    assert len(run.warnings) == 1


def test_a_worker_that_begins_after_the_first_checkpoint_is_not_warned_of() -> None:
    """In its first attempt a slow worker may report step 0 when another one has already saved."""
    run = History(job(workers=2)).begin()
    run.checkpoints("worker:0", 1)
    run.progresses("worker:1", 0)
    assert run.warnings == []
