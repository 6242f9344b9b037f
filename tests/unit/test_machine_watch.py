"""Watching: stalls, and programs that do not resume where they should."""

from __future__ import annotations

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import DumpStacks, Inspect
from clusterkit.words.model import Limits, RestartRules
from clusterkit.words.outcome import Asked
from tests.unit.histories import SIGKILL, History, job

STALL_30 = Limits(stall=30, startup=0)


def test_sixty_seconds_without_progress_are_warned_of_once_with_every_tasks_stacks() -> None:
    """The run goes on; there is one warning for one stall."""
    run = History(job(workers=2, ps=1)).begin()
    run.after(100)
    run.progresses("chief:0", 1)
    run.after(59.9)
    assert run.asked(DumpStacks) == []
    run.after(500)
    assert run.asked(DumpStacks) == [DumpStacks("no progress for 60 s")]
    (warning,) = run.warnings
    assert warning.startswith("No task has reported progress for 60 s.")
    assert "--stall-timeout" in warning
    assert run.signals() == []


def test_progress_after_a_stall_lets_the_next_one_be_warned_of() -> None:
    """Each stall has its warning."""
    run = History(job(workers=1)).begin()
    for step in range(3):
        run.progresses("worker:0", step)
        run.after(61)
    assert len(run.warnings) == 3


@pytest.mark.parametrize("limits", [Limits(stall_warning=0), Limits(stall_warning=0, stall=0, startup=0)])
def test_there_is_no_stall_where_it_is_switched_off(limits: Limits) -> None:
    """0 means never."""
    run = History(job(workers=1, limits=limits)).begin()
    run.progresses("worker:0", 1)
    run.after(10_000)
    assert run.warnings == []


def test_a_program_that_reports_nothing_never_stalls() -> None:
    """Without a first report there is nothing to go by."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.after(10_000)
    assert run.warnings == []
    assert run.live == {"worker:0"}


@pytest.mark.parametrize(
    ("vitals", "steps", "stuck", "wrong"),
    [
        ({"ps:0": "T"}, {"chief:0": 5}, "ps:0", "is stopped (T)"),
        ({"worker:1": "D"}, {"chief:0": 5, "worker:1": 4}, "worker:1", "hangs in the kernel (D)"),
        ({}, {"worker:0": 9, "worker:1": 7, "chief:0": 8}, "worker:1", "is the furthest behind (step 7)"),
        ({}, {"chief:0": 5}, "chief:0", "is the furthest behind (step 5)"),
    ],
)
def test_the_stall_timeout_kills_the_stuck_task(
    vitals: dict[str, str], steps: dict[str, int], stuck: str, wrong: str
) -> None:
    """The task to blame is killed, named with what is wrong with it, and its failure is dealt with as any other."""
    run = History(job(workers=2, ps=1, limits=STALL_30)).begin()
    run.vitals = {name: ev.Vitals(True, letter) for name, letter in vitals.items()}
    for name, step in steps.items():
        run.progresses(name, step)
    run.after(29.9)
    assert run.asked(Inspect) == []
    run.after(0.2)
    assert run.signals()[0] == (30.0, stuck, SIGKILL)
    assert run.warnings == [f"No task has reported progress for 30 s; {stuck} {wrong}. It is killed."]
    run.after(3)
    (failure,) = run.failures
    assert (str(failure.task), failure.exit.asked) == (stuck, Asked.STALL)
    assert run.attempts[stuck] == 2


def test_an_evaluator_is_never_to_blame_for_a_stall() -> None:
    """It is always behind, and nobody waits for it."""
    run = History(job(workers=2, evaluator=1, limits=STALL_30)).begin()
    run.vitals["evaluator:0"] = ev.Vitals(False, "D")
    run.progresses("evaluator:0", 10)
    run.progresses("worker:1", 20)
    run.progresses("worker:0", 30)
    run.after(35)
    assert run.signals()[0] == (30.0, "worker:1", SIGKILL)
    assert run.attempts["evaluator:0"] == 1


def test_an_evaluators_reports_do_not_hide_a_stall() -> None:
    """Training stands still also while the side car is busy."""
    run = History(job(workers=1, evaluator=1)).begin()
    run.progresses("worker:0", 30)
    for step in range(7):
        run.after(10)
        run.progresses("evaluator:0", step)
    assert len(run.warnings) == 1


def test_a_recovery_is_no_stall() -> None:
    """A task that was just restarted gets the whole time again before it counts as stuck."""
    run = History(job(workers=1, limits=STALL_30)).begin()
    run.progresses("worker:0", 1)
    run.after(27)
    run.exits("worker:0", code=1)
    run.after(25)
    assert run.attempts == {"worker:0": 2}
    assert run.signals() == []
    run.progresses("worker:0", 1)
    run.after(29)
    assert run.signals() == []


def test_a_task_that_hangs_after_its_restart_is_a_stall_again() -> None:
    """A restarted program that never reports is caught too, until the budget is used up."""
    run = History(job(workers=1, limits=STALL_30, restart=RestartRules(budget=2))).begin()
    run.progresses("worker:0", 1)
    run.after(300)
    assert [failure.exit.asked for failure in run.failures] == [Asked.STALL] * 3
    assert run.result.exit_code == 1
    assert run.result.cause is not None


def test_a_long_stall_timeout_does_not_make_the_budget_whole_again() -> None:
    """Ten minutes of standing still are no progress, however the stall ended."""
    limits = Limits(stall=700, stall_warning=0)
    run = History(job(workers=1, limits=limits, restart=RestartRules(budget=2))).begin()
    for _ in range(3):
        run.progresses("worker:0", 1)
        run.after(750)
    assert run.result.exit_code == 1


def test_a_stall_is_seen_also_when_another_worker_has_finished() -> None:
    """A worker that ended well is not in recovery; the leader may hang all the same."""
    run = History(job(workers=2)).begin()
    run.progresses("worker:0", 5)
    run.exits("worker:1", code=0)
    run.after(70)
    assert len(run.warnings) == 1


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
    assert warning.startswith("worker:0 went on from step 30 although the checkpoint ckpt-50 (step 50) was there.")


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


def test_a_checkpoint_that_nobody_reported_is_known_from_the_directory() -> None:
    """A program that does not report its checkpoints is caught at step 0 all the same."""
    run = History(job(workers=1)).begin()
    run.checkpoint = "ckpt-9"
    run.exits("worker:0", code=1)
    run.after(2)
    run.progresses("worker:0", 1)
    assert "although the checkpoint ckpt-9 was there" in run.warnings[0]


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


def test_a_stuck_task_that_does_not_die_is_looked_at_again() -> None:
    """A process that hangs in the kernel outlives SIGKILL; the stall is told again after the same time."""
    limits = Limits(stall=30, stall_warning=0)
    run = History(job(workers=1, limits=limits), unreachable={"worker:0"}).begin()
    run.progresses("worker:0", 1)
    run.after(61)
    assert len(run.asked(Inspect)) == 2
    assert len(run.warnings) == 2
