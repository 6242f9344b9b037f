"""A run that watches its program: what a change restarts, what is waited for, and what a failed job waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.machine.cluster_state import EDIT_GRACE
from clusterkit.machine.open_recovery import LONGEST_SAVES, SAVE_PAUSE
from clusterkit.views.narrate import sentence
from clusterkit.words import events as ev
from clusterkit.words.actions import Refresh, Spawn
from clusterkit.words.events import Verb
from clusterkit.words.job import JobSpec, RestartPolicy, RestartRules
from clusterkit.words.outcome import Asked, RunState
from tests.histories import SIGINT, SIGKILL, SIGTERM, E, History, job
from tests.machine.test_requests import ask


def watched(workers: int = 2, ps: int = 0, fresh: bool = False, evaluator: int = 0, budget: int = 3) -> JobSpec:
    """A job with `--watch`, or with `--watch-fresh`."""
    plain = job(workers, ps, evaluator=evaluator, restart=RestartRules(budget=budget))
    return replace(plain, watch=not fresh, watch_fresh=fresh)


def save(run: History, *files: str, **fields: object) -> None:
    """Files of the program were saved."""
    run.send(ev.ProgramChanged(files or ("train.py",), **fields))  # type: ignore[arg-type]


def told(run: History, kind: type[E]) -> list[str]:
    """The sentences about decisions of a kind."""
    sentences = [sentence(event) for event in run.decided(kind)]
    return [told[1] for told in sentences if told is not None]


@pytest.mark.parametrize(("workers", "ps", "evaluator"), [(1, 0, 0), (3, 0, 1), (2, 1, 1)])
def test_a_change_restarts_every_task_at_once(workers: int, ps: int, evaluator: int) -> None:
    """Whatever the strategy would restart together, and without a charge to any budget."""
    run = History(watched(workers, ps, evaluator=evaluator)).begin()
    leader = str(run.job.leader)
    run.checkpoints(leader, 300)
    save(run, "model.py", "train.py")
    run.after(SAVE_PAUSE + 0.01)
    assert set(run.attempts.values()) == {2}
    assert {spawn.reason for spawn in run.asked(Spawn) if spawn.attempt == 2} == {"edited"}
    (planned,) = run.decided(ev.RestartPlanned)
    assert (planned.cause, planned.charged, planned.step) == (None, 0, 300)
    what = "all tasks" if len(run.job.tasks) > 1 else "worker:0"
    assert told(run, ev.RestartPlanned) == [
        f"model.py and train.py changed: restarting {what} from the checkpoint of step 300."
    ]
    assert run.asked(Refresh) == [Refresh(("model.py", "train.py"))]
    ended = [attempt for attempt in run.decided(ev.AttemptEnded) if attempt.exit is not None]
    assert {attempt.exit.asked for attempt in ended if attempt.exit} == {Asked.EDIT}


def test_the_bytecode_is_dropped_when_no_old_task_lives() -> None:
    """An old task could write it once more. The order comes between its end and the first start."""
    run = History(watched(2))
    run.stubborn.add("worker:1")
    run.begin()
    save(run)
    run.after(EDIT_GRACE - 0.01)
    assert run.asked(Refresh) == []
    run.after(0.02)
    kinds = [type(action) for _, action in run.actions if isinstance(action, Refresh | Spawn)]
    assert kinds == [Spawn, Spawn, Refresh, Spawn, Spawn]


@pytest.mark.parametrize(("handled", "signals"), [(True, [SIGTERM, SIGKILL]), (False, [SIGKILL])])
def test_who_can_save_something_gets_a_moment_for_it(handled: bool, signals: list[int]) -> None:
    """Where nothing handles SIGTERM, but for TensorFlow, which then ignores it, there is nothing to wait for."""
    run = History(watched(1)).begin()
    run.stubborn.add("worker:0")
    run.send(ev.SigtermHandled(run.job.leader, 1, handled))
    run.after(5)
    save(run)
    run.after(EDIT_GRACE + 0.01)
    assert [number for _, _, number in run.signals()] == signals
    assert run.attempts["worker:0"] == 2


def test_several_saves_are_one() -> None:
    """Saves that follow each other soon are one edit, up to a second after the first."""
    run = History(watched(2)).begin()
    for number in range(3):
        save(run, f"file{number}.py")
        run.after(SAVE_PAUSE - 0.05)
    run.after(1)
    assert len(run.decided(ev.RestartPlanned)) == 1
    assert set(run.attempts.values()) == {2}
    assert run.asked(Refresh) == [Refresh(("file0.py", "file1.py", "file2.py"))]


def test_a_file_that_is_saved_all_the_time_does_not_keep_the_tasks_from_starting() -> None:
    """What is written again and again may not be the program, after all."""
    run = History(watched(1)).begin()
    for _ in range(80):
        save(run, "generated.py")
        run.after(SAVE_PAUSE / 2)
    starts = run.spawn_times("worker:0")
    assert starts[1] == pytest.approx(LONGEST_SAVES)
    assert len(starts) >= 4


def test_a_program_that_cannot_run_is_waited_out() -> None:
    """The run goes on as it is, and the saving of the same file again changes nothing."""
    run = History(watched(2)).begin()
    save(run, problem="train.py:3 is not valid Python: invalid syntax")
    run.after(60)
    save(run, same=True)
    run.after(60)
    assert run.attempts == {"worker:0": 1, "worker:1": 1}
    assert run.live == {"worker:0", "worker:1"}


def test_a_problem_right_after_a_good_save_keeps_the_tasks_down() -> None:
    """They were ended for the first save, and the second one can't run. The third can."""
    run = History(watched(2)).begin()
    save(run)
    run.after(SAVE_PAUSE / 2)
    save(run, problem="train.py is gone")
    run.after(30)
    assert run.live == set()
    assert not run.over
    assert told(run, ev.WaitsForChange) == [
        "The job failed: train.py is gone. Waiting for a change to train.py; Ctrl-C ends the run."
    ]
    save(run, same=True)
    run.after(1)
    assert run.live == {"worker:0", "worker:1"}


def fails_for_good(run: History) -> None:
    """The program raises the same exception, until nothing is tried any more."""
    for _ in range(8):
        if "worker:1" in run.live:
            run.exits("worker:1", exception="ValueError: my bug")
            run.after(31)


@pytest.mark.parametrize("ps", [0, 1])
def test_a_failed_job_waits_for_a_change(ps: int) -> None:
    """Its tasks are ended, Ctrl-C ends the run, and a save of the same file is enough to try again."""
    run = History(watched(2, ps)).begin()
    fails_for_good(run)
    assert run.live == set()
    assert not run.over
    (text,) = told(run, ev.WaitsForChange)
    assert text.startswith("The job failed: worker:1 exited with code 1, as the attempt before it did, with the same")
    assert "(ValueError: my bug). Waiting for a change to train.py" in text
    before = dict(run.attempts)
    save(run, same=True)
    run.after(1)
    assert run.live == {str(member) for member in run.job.tasks}
    assert all(run.attempts[name] == before[name] + 1 for name in before)


def test_without_watch_a_failed_job_ends() -> None:
    """And whatever says that its program changed changes nothing in what it is blamed for."""
    run = History(job(2)).begin()
    fails_for_good(run)
    assert run.result.state is RunState.FAILED


def test_a_job_that_is_never_restarted_waits_at_once() -> None:
    """--restart never: the first failure is the last one."""
    plain = replace(watched(2), restart=RestartRules(policy=RestartPolicy.NEVER))
    run = History(plain).begin()
    run.exits("worker:0", exception="ValueError: x")
    run.after(2)
    assert run.live == set()
    assert len(run.decided(ev.WaitsForChange)) == 1


def test_a_changed_program_has_its_whole_budget() -> None:
    """And may fail as the one before it did: it is another program."""
    run = History(watched(2)).begin()
    fails_for_good(run)
    save(run)
    run.after(1)
    run.exits("worker:1", exception="ValueError: my bug")
    run.after(5)
    assert run.live == {"worker:0", "worker:1"}
    assert run.decided(ev.RestartPlanned)[-1].charged == 1


def test_a_task_that_fails_while_the_program_cannot_run_is_not_restarted_with_it() -> None:
    """What is wrong with the files is told as the reason."""
    run = History(watched(2)).begin()
    save(run, problem="train.py is gone")
    run.exits("worker:1", exception="ValueError: x")
    run.after(5)
    (waits,) = run.decided(ev.WaitsForChange)
    assert waits.reason == "worker:1 exited with code 1, and train.py is gone (ValueError: x)"
    assert run.live == set()


def test_a_change_during_the_backoff_ends_it() -> None:
    """The failure is repaired by the same restart."""
    run = History(replace(watched(2), restart=RestartRules(backoff=10.0))).begin()
    run.exits("worker:1", exception="ValueError: x")
    run.after(1.1)
    assert len(run.decided(ev.RestartPlanned)) == 1
    save(run)
    run.after(SAVE_PAUSE + 0.01)
    assert run.live == {"worker:0", "worker:1"}
    run.after(60)
    assert set(run.attempts.values()) == {2}


def test_the_first_new_step_is_told_once() -> None:
    """With the time since the file was saved, which was before that was seen; old steps are none."""
    run = History(watched(1)).begin()
    run.progresses("worker:0", 40)
    save(run, ago=0.2)
    run.progresses("worker:0", 41)
    run.after(1)
    run.resumes("worker:0", 40, "ckpt-40")
    run.progresses("worker:0", 40)
    assert run.decided(ev.EditTrains) == []
    run.after(0.5)
    run.progresses("worker:0", 41)
    run.progresses("worker:0", 42)
    (trains,) = run.decided(ev.EditTrains)
    assert trains.step == 41
    assert trains.seconds == pytest.approx(1.7)


def test_fresh_begins_from_the_start() -> None:
    """The checkpoints so far count for nothing: that none of them is resumed is no loss of steps."""
    run = History(watched(2, fresh=True)).begin()
    run.checkpoints("worker:0", 300)
    save(run)
    run.checkpoint = None  # the backend has moved them aside
    run.after(1)
    assert run.asked(Refresh) == [Refresh(("train.py",), fresh=True)]
    assert told(run, ev.RestartPlanned) == ["train.py changed: restarting all tasks from the start."]
    run.progresses("worker:0", 1)
    assert run.warnings == []


def test_a_requested_restart_starts_a_job_that_waits() -> None:
    """All of it, whoever was named: nothing of it runs."""
    run = History(watched(2, ps=1)).begin()
    fails_for_good(run)
    ask(run, Verb.RESTART, "worker:1")
    run.after(1)
    assert run.live == {"chief:0", "worker:0", "worker:1", "ps:0"}


@pytest.mark.parametrize("waits", [False, True])
def test_ctrl_c_ends_the_run(waits: bool) -> None:
    """Also one whose job failed and waits; a change after that starts nothing."""
    run = History(watched(2)).begin()
    if waits:
        fails_for_good(run)
    run.send(ev.Interrupted(SIGINT))
    save(run)
    run.after(15)
    assert (run.result.state, run.result.exit_code) == (RunState.STOPPED, 130)
    assert run.live == set()


def test_a_job_that_is_done_ends_the_run() -> None:
    """As without --watch."""
    run = History(watched(2)).begin()
    run.exits("worker:0", code=0)
    run.exits("worker:1", code=0)
    run.after(15)
    assert run.result.state is RunState.SUCCEEDED


@pytest.mark.parametrize("by_hand", [False, True], ids=["saved", "requested"])
def test_a_save_is_not_forgotten_when_one_follows_that_can_not_run(by_hand: bool) -> None:
    """The watcher names a file once: what is imported already is told of all that changed since tasks started."""
    run = History(watched()).begin()
    run.after(5)
    save(run, "model.py")
    run.after(0.05)
    save(run, "train.py", problem="train.py, line 1: invalid syntax")
    run.after(3)
    assert run.asked(Refresh) == []
    if by_hand:
        ask(run, Verb.RESTART)
    else:
        save(run, "train.py")
    run.after(3)
    files = {name for refresh in run.asked(Refresh) for name in refresh.files}
    assert files == ({"model.py"} if by_hand else {"model.py", "train.py"})
    assert set(run.attempts.values()) == {2}
