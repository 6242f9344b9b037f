"""Workers that wait for one that does something else, by what the supervisor has seen of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.check.findings import Finding, Location
from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, StuckTask, TaskEvidence
from clusterkit.explain.table import TABLE
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Exit, RunState
from tests.explain.test_ordinary_bugs import job_of

GANG = job_of(workers=2)
ZERO, ONE = Task.parse("worker:0"), Task.parse("worker:1")
WAITS = StuckTask(
    ZERO, "waits in MultiWorkerMirroredStrategy() for the others (coordination service)", "train.py:9", "a:1", True,
    ("worker:0",),
)  # fmt: skip
SLEEPS = StuckTask(ONE, "sleeps (time.sleep) at train.py:5", "train.py:5", "a:2")
STEP = StuckTask(ZERO, "waits in TensorFlow's runtime (a step or a collective)", "train.py:20")
ENDED = TaskEvidence(ONE, exit=Exit(code=0), connected=False)
LEFT = TaskEvidence(ZERO, exit=Exit(signal=9, asked=Asked.TEARDOWN))
STOPPED = TaskEvidence(ONE, exit=Exit(signal=9, asked=Asked.STALL))


def rows(evidence: Evidence) -> list[str]:
    """The ids of the rows of the whole table that fit."""
    return [explanation.row for explanation in explain(evidence, TABLE)]


def test_a_worker_that_has_not_come_to_its_strategy() -> None:
    """It is named, with what it does, and who waits for it."""
    hung = Evidence((), GANG, RunState.FAILED, stuck=(WAITS, SLEEPS))
    (explanation,) = explain(hung, TABLE)
    assert explanation.row == "late-to-the-strategy"
    assert explanation.means.startswith(
        "worker:1 sleeps (time.sleep) at train.py:5 and has not created its strategy yet"
    )
    assert explanation.means.endswith("does not return in worker:0.")


IN_A_SESSION = StuckTask(ZERO, "waits in Session.run", "train.py:40")


def test_a_worker_that_ended_while_another_waits_in_a_session() -> None:
    """Both are named. A worker that was ended with the run, and one that waits for something else, do not count."""
    hung = Evidence((ENDED, TaskEvidence(ZERO)), job_of(workers=2, ps=1), RunState.TIMED_OUT, stuck=(IN_A_SESSION,))
    (explanation,) = explain(hung, TABLE)
    assert explanation.row == "fewer-steps-in-a-session"
    assert explanation.means.startswith("worker:1 ended without an error, and worker:0 still waits in Session.run.")
    assert rows(replace(hung, tasks=(STOPPED,))) == rows(replace(hung, stuck=(SLEEPS,))) == []


def test_a_worker_that_waits_for_variables_which_the_chief_lacks() -> None:
    """The leader is busy, and does not wait for variables itself."""
    job = job_of(workers=1, ps=1)
    chief = StuckTask(Task.parse("chief:0"), "sleeps (time.sleep) at train.py:41", "train.py:41")
    waits = StuckTask(ZERO, "waits for the chief to initialize variables (wait_for_session)", "train.py:38")
    hung = Evidence((), job, RunState.TIMED_OUT, stuck=(chief, waits))
    (explanation,) = explain(hung, TABLE)
    assert explanation.row == "variables-that-the-chief-lacks"
    assert "while chief:0 sleeps (time.sleep) at train.py:41." in explanation.means
    for stuck in ((replace(chief, doing=waits.doing), waits), (chief,), (waits,)):
        assert rows(replace(hung, stuck=stuck)) == []


def test_an_optimizer_without_its_hook() -> None:
    """All tasks that train wait in a session, and `check` has found the optimizer."""
    no_hook = Finding("sync-replicas-without-the-hook", Location("train.py", 3), "No tokens.", "Pass the hook.")
    waits = (IN_A_SESSION, replace(IN_A_SESSION, task=ONE), StuckTask(Task.parse("ps:0"), "waits in Server.join"))
    hung = Evidence((), job_of(workers=2, ps=1), RunState.TIMED_OUT, findings=(no_hook,), stuck=waits)
    late = replace(IN_A_SESSION, task=ONE, doing="waits for the chief to initialize variables (wait_for_session)")
    assert rows(hung) == rows(replace(hung, stuck=(IN_A_SESSION, late))) == ["sync-replicas-without-the-hook"]
    gang = replace(hung, job=GANG, findings=(replace(no_hook, id="collectives-without-a-leader"),))
    assert rows(gang) == ["collectives-without-a-leader"]
    assert rows(replace(hung, findings=())) == rows(replace(hung, stuck=(IN_A_SESSION, SLEEPS))) == []


@pytest.mark.parametrize("stuck", [(SLEEPS, replace(SLEEPS, task=ZERO)), (WAITS, replace(WAITS, task=ONE)), ()])
def test_nobody_is_late_where_all_do_the_same(stuck: tuple[StuckTask, ...]) -> None:
    """Also if none has come to its strategy."""
    assert "late-to-the-strategy" not in rows(Evidence((), GANG, RunState.FAILED, stuck=stuck))


def test_a_worker_that_ended_before_its_strategy() -> None:
    """It was never connected, and the other one was ended for it."""
    (explanation,) = explain(Evidence((ENDED, LEFT), GANG, RunState.FAILED), TABLE)
    assert explanation.row == "ends-before-the-strategy"
    assert "worker:1 ended its program without an error" in explanation.means
    assert "worker:0 waited for it" in explanation.means


@pytest.mark.parametrize(
    ("first", "job"),
    [
        (replace(ENDED, connected=True), GANG),
        (replace(ENDED, connected=None), GANG),
        (replace(ENDED, step=4), GANG),
        (replace(ENDED, exit=Exit(code=1)), GANG),
        (ENDED, job_of(workers=2, ps=1)),
    ],
)
def test_another_end(first: TaskEvidence, job: object) -> None:
    """After it had connected or trained, with an error, or in a job whose workers need no other."""
    assert rows(Evidence((first, LEFT), job, RunState.FAILED)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("does", ["sleeps (time.sleep) at train.py:5", "waits for a lock or an event at t.py:5 in f"])
@pytest.mark.parametrize("waits", [STEP, replace(STEP, doing="waits in fit (a step or a collective)")])
def test_a_worker_in_its_own_code_that_the_other_waits_for(waits: StuckTask, does: str) -> None:
    """A lock of the program is no collective operation."""
    alone = replace(SLEEPS, doing=does)
    (explanation,) = explain(Evidence((STOPPED,), GANG, RunState.FAILED, stuck=(waits, alone)), TABLE)
    assert explanation.row == "waits-alone"
    assert explanation.means == f"worker:1 {does}, while worker:0 waited for it in a collective operation."


def test_an_evaluation_in_one_worker_alone() -> None:
    """The others have to evaluate, too."""
    waits = replace(STEP, doing="waits in evaluate (a step or a collective)")
    (explanation,) = explain(Evidence((), GANG, RunState.TIMED_OUT, stuck=(waits, SLEEPS)), TABLE)
    assert (explanation.row, explanation.advice[:28]) == ("waits-alone", "Call evaluate in all workers")


def test_data_that_does_not_come() -> None:
    """The program's code runs in a thread of one task alone, while all wait in a step."""
    starved = replace(STEP, task=ONE, threads=("data.py:8 in rows",))
    (explanation,) = explain(Evidence((STOPPED,), GANG, RunState.FAILED, stuck=(STEP, starved)), TABLE)
    assert explanation.row == "data-of-one-worker"
    assert explanation.means.startswith(
        "worker:1 waits for data, because the code that produces the data is stuck at data.py:8 in rows."
    )
    both = replace(STEP, threads=("data.py:8 in rows",))
    for stuck in ((both, starved), (STEP, replace(STEP, task=ONE)), (starved,)):
        assert rows(Evidence((STOPPED,), GANG, RunState.FAILED, stuck=stuck)) == []


def test_a_leader_that_serves() -> None:
    """No task trains; a leader that trains is no reason, whoever serves."""
    serves = replace(STEP, doing="waits in Server.join")
    (explanation,) = explain(Evidence((), GANG, RunState.TIMED_OUT, stuck=(serves, replace(serves, task=ONE))), TABLE)
    assert explanation.row == "only-serves"
    assert explanation.means.startswith("worker:0 waits in Server.join(), so no task trains")
    assert "(2 workers)" in explanation.means
    assert "only-serves" not in rows(Evidence((), GANG, RunState.TIMED_OUT, stuck=(STEP, replace(serves, task=ONE))))


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        ("waits for another process at train.py:5", ["forks"]),
        ("waits for its next batch (tf.data)", ["forks"]),
        ("sleeps (time.sleep) at train.py:5", []),
    ],
)
def test_a_task_that_waits_for_a_process_that_the_program_forked(does: str, expected: list[str]) -> None:
    """Only if `check` has found where it forks."""
    alone = Evidence((), job_of(workers=1), RunState.TIMED_OUT, stuck=(replace(SLEEPS, task=ZERO, doing=does),))
    assert rows(replace(alone, findings=(Finding("forks", Location("a.py", 1), "It forks.", "Spawn."),))) == expected
    assert rows(alone) == []


def test_a_cluster_in_which_a_task_does_not_answer() -> None:
    """Nothing else explains that the strategies of all tasks wait."""
    elsewhere = replace(WAITS, task=ONE, endpoint="a:2", listens=("worker:1",))
    (explanation,) = explain(Evidence((), GANG, RunState.TIMED_OUT, stuck=(WAITS, elsewhere)), TABLE)
    assert explanation.row == "no-answer"
    assert explanation.means.startswith("worker:0 and worker:1 wait in the strategy")
    assert rows(Evidence((), GANG, RunState.TIMED_OUT, stuck=(WAITS, SLEEPS))) == ["late-to-the-strategy"]
