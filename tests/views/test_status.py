"""Status: what events add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.status import RunPhase, RunStatus, TaskStatus
from clusterkit.views.listing import run_state, task_row, tasks_table
from clusterkit.words import events as ev
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import Task, TaskState
from clusterkit.words.outcome import Asked, AttemptEnded, Exit, Failure, RunResult, RunState
from tests.histories import job, task

CHIEF, WORKER = task("chief:0"), task("worker:1")
KILLED = Exit(signal=9)
FAILURE = Failure(WORKER, 1, KILLED, 5.0)


def starts(of: Task, attempt: int, pid: int, at: float = 0.0) -> list[tuple[float, ev.Event]]:
    """The events of a start."""
    return [
        (at, ev.Changed(of, attempt, TaskState.STARTING)),
        (at, ev.Spawned(of, attempt, f"pid {pid}")),
        (at, ev.Changed(of, attempt, TaskState.RUNNING)),
    ]


def ends(of: Task, attempt: int, how: Exit, asked: Asked | None = None) -> list[tuple[float, ev.Event]]:
    """The events of an end."""
    told = [(9.0, ev.Changed(of, attempt, TaskState.STOPPING, asked))] if asked else []
    return [*told, (9.0, ev.Exited(of, attempt, how)), (9.0, ev.Changed(of, attempt, TaskState.DRAINING))]


def status_of(*events: tuple[float, ev.Event]) -> RunStatus:
    """The status of a run with a chief and a worker."""
    ledger = Ledger(replace(job(chief=1, workers=2), given_up=(task("worker:0"),)), {WORKER: "127.0.0.1:5"})
    for at, event in events:
        ledger.add(at, event)
    return ledger.run


def test_nothing_has_happened() -> None:
    """Every task waits for its first attempt."""
    status = status_of()
    assert (status.phase, status.attempts, status.step) == (RunPhase.STARTING, 0, None)
    assert [of.state for of in status.tasks.values()] == [TaskState.WAITING] * 2


def test_a_task_runs() -> None:
    """Its process, its endpoint, since when; ready once it has reported something."""
    status = status_of((5.0, ev.Began()), *starts(WORKER, 1, 77, at=6.0)).tasks[WORKER]
    assert (status.state, status.attempt, status.pid, status.started) == (TaskState.RUNNING, 1, 77, 6.0)
    assert (status.endpoint, status.alive, status.ready) == ("127.0.0.1:5", True, False)
    assert status_of(*starts(WORKER, 1, 77), (1.0, ev.Ready(WORKER, 1))).tasks[WORKER].ready


def test_a_new_attempt_keeps_the_exit_and_the_step_of_the_one_before() -> None:
    """And nothing else of it; an event of the old attempt that comes late changes nothing."""
    events = [
        *starts(WORKER, 1, 77),
        (1.0, ev.Progressed(WORKER, 1, 10)),
        (2.0, ev.Paused(WORKER, 1, True)),
        *ends(WORKER, 1, KILLED),
        *starts(WORKER, 2, 78, at=20.0),
        (21.0, ev.Exited(WORKER, 1, Exit(code=3))),
    ]
    status = status_of(*events).tasks[WORKER]
    assert (status.attempt, status.pid, status.step, status.last_exit) == (2, 78, 10, KILLED)
    assert (status.ready, status.paused, list(status.reports)) == (False, False, [])


def test_a_run_that_continues_has_no_task_that_lives() -> None:
    """What was known of the run stays known, and it is not over any more."""
    suspended = RunResult(RunState.SUSPENDED, 75, "its time limit is reached")
    events = [*starts(WORKER, 1, 77), (1.0, ev.Progressed(WORKER, 1, 10)), (2.0, ev.Finished(suspended))]
    status = status_of(*events, (50.0, ev.Continued(2)))
    assert (status.phase, status.result, status.reason) == (RunPhase.RUNNING, None, "")
    task = status.tasks[WORKER]
    assert (task.state, task.pid, task.attempt, task.step) == (TaskState.DOWN, None, 1, 10)
    assert status_of(*events, (50.0, ev.Continued(2)), *starts(WORKER, 2, 78, at=51.0)).tasks[WORKER].pid == 78


@pytest.mark.parametrize(
    ("why", "asked"),
    [
        (ev.RestartPlanned((WORKER,), None, (), 0.0, 0, 3), Asked.REQUEST),
        (ev.RestartPlanned((WORKER, CHIEF), FAILURE, (), 1.0, 1, 3), Asked.GANG),
        (ev.Succeeded(CHIEF), Asked.SUCCESS),
        (ev.Stopping("because"), Asked.TEARDOWN),
    ],
    ids=["request", "gang", "success", "teardown"],
)
def test_an_exit_that_was_asked_for_says_so(why: ev.Event, asked: Asked) -> None:
    """The process tells the bare exit; why it was asked for was recorded before, and is with the attempt's end."""
    how = Exit(signal=15, asked=asked)
    status = status_of(*starts(WORKER, 1, 7), (8.0, why), *ends(WORKER, 1, Exit(signal=15), asked))
    assert status.tasks[WORKER].last_exit == how
    ended = ev.AttemptEnded(WORKER, 1, 6.0, 9.0, how, None, None, None, None)
    assert status_of(*starts(WORKER, 1, 7), (9.0, ended)).tasks[WORKER].last_exit == how
    assert status.tasks[WORKER].pid is None


def test_a_worker_that_is_given_up_is_shown_as_such() -> None:
    """Once nothing is left of it, and until the run continues with all of its tasks in another allocation."""
    shrunk = ev.Shrunk((WORKER,), (CHIEF,), FAILURE, 3, 2, 1, True)
    told = [*starts(WORKER, 1, 7), *ends(WORKER, 1, KILLED), (9.5, shrunk)]
    assert status_of(*told).tasks[WORKER].shown_state == "draining"
    told.append((9.6, ev.Changed(WORKER, 1, TaskState.DOWN)))
    status = status_of(*told)
    assert [of.shown_state for of in status.tasks.values()] == ["waiting", "given up"]
    assert status_of(*told, (20.0, ev.Continued(2))).tasks[WORKER].shown_state == "down"


def test_an_exit_that_nobody_asked_for_is_the_tasks_own() -> None:
    """Also while the run is being ended."""
    status = status_of(*starts(WORKER, 1, 7), (8.0, ev.Succeeded(CHIEF)), *ends(WORKER, 1, Exit(code=1)))
    assert status.tasks[WORKER].last_exit == Exit(code=1)


def test_the_result_has_the_last_word() -> None:
    """How each task ended, why, and that it is over."""
    how = Exit(signal=15, asked=Asked.SUCCESS)
    attempt = AttemptEnded(WORKER, 1, 0.0, 5.0, how, None, None, None, None)
    result = RunResult(RunState.SUCCEEDED, 0, "chief:0 exited with code 0", None, (), (attempt,), 0, None, 5.0)
    status = status_of(*starts(WORKER, 1, 7), *ends(WORKER, 1, Exit(signal=15)), (9.0, ev.Finished(result)))
    assert (status.phase, status.result, status.tasks[WORKER].last_exit) == (RunPhase.OVER, result, how)


@pytest.mark.parametrize(
    ("reports", "step", "total"),
    [
        ([], None, None),
        ([(CHIEF, 5, None)], 5, None),
        ([(CHIEF, 5, 100), (CHIEF, 6, None)], 6, 100),
        ([(CHIEF, 5, 100), (WORKER, 4, 90)], 5, 100),
        ([(CHIEF, 100, 100)], 100, 100),
        ([(CHIEF, 100, 100), (CHIEF, 101, None)], 101, None),
        ([(CHIEF, 100, 100), (CHIEF, 101, 200)], 101, 200),
    ],
)
def test_how_many_steps_there_will_be(
    reports: list[tuple[Task, int, int | None]], step: int | None, total: int | None
) -> None:
    """As the tasks told last; nobody believes a total that is exceeded."""
    status = status_of(*starts(CHIEF, 1, 7), *((1.0, ev.Progressed(of, 1, n, {}, all_)) for of, n, all_ in reports))
    assert (status.step, status.total) == (step, total)


@pytest.mark.parametrize(
    ("reports", "now", "speed"),
    [
        ([], 10.0, None),
        ([(1.0, 5)], 10.0, None),
        ([(1.0, 5), (2.0, 15)], 2.5, 10.0),
        ([(1.0, 5), (2.0, 15)], 11.0, 1.0),  # quiet for long: it goes down
        ([(1.0, 5), (1.0, 15)], 1.0, None),
        ([(0.0, 0), (100.0, 1000), (110.0, 1100)], 110.0, 10.0),  # what is long past does not count
        ([(1.0, 90), (2.0, 100), (3.0, 1)], 3.0, None),  # each epoch counts its own steps
        ([(1.0, 90), (2.0, 100), (3.0, 1), (4.0, 11)], 4.0, 10.0),
    ],
)
def test_speed_is_of_the_last_reports(reports: list[tuple[float, int]], now: float, speed: float | None) -> None:
    """Steps a second, of wall time."""
    status = TaskStatus(WORKER, state=TaskState.RUNNING)
    for at, step in reports:
        status.progressed(at, ev.Progressed(WORKER, 1, step))
    assert status.speed(now) == speed


@pytest.mark.parametrize(
    ("live", "phase", "result", "state"),
    [
        (True, RunPhase.STARTING, None, "starting"),
        (True, RunPhase.RUNNING, None, "running"),
        (True, RunPhase.OVER, None, "stopping"),  # the supervisor writes its report
        (False, RunPhase.RUNNING, None, "lost"),
        (False, RunPhase.RUNNING, RunResult(RunState.FAILED, 1, "", lost=True), "lost"),  # the guardian wrote that
        (False, RunPhase.OVER, RunResult(RunState.TIMED_OUT, 124, "", None, (), (), 0, None, 1.0), "timed out"),
    ],
)
def test_the_state_of_a_run_in_a_word(live: bool, phase: RunPhase, result: RunResult | None, state: str) -> None:
    """The lock says whether it is live, the result how it ended; without either it is lost."""
    assert run_state(live, phase, result) == state


def test_what_a_dead_supervisor_left_running_in_the_journal_is_lost() -> None:
    """No task of a run that is over has a process."""
    status = status_of(*starts(WORKER, 1, 7)).tasks[WORKER]
    row = task_row(status, 100.0, live=False, usage=None)
    assert (row["state"], row["pid"], row["uptime"]) == ("lost", None, None)


def test_the_table_has_a_line_for_each_task() -> None:
    """With units, and a dash where nothing is known."""
    status = status_of(*starts(WORKER, 2, 7, at=40.0), (41.0, ev.Paused(WORKER, 2, True))).tasks[WORKER]
    row = task_row(status, 100.0, live=True, usage=(12.34, 300 << 20))
    titles, line = tasks_table([row]).splitlines()
    assert line.split() == [
        "worker:1",
        "paused",
        "2",
        "7",
        "127.0.0.1:5",
        "1",
        "min",
        "0",
        "s",
        "12%",
        "300",
        "MiB",
        *"---",
    ]
    assert titles.index("MEMORY") == line.index("300 MiB")


def test_on_several_hosts_the_host_is_shown_and_where_the_task_listens_now() -> None:
    """In the place of the pid, which is another host's. Tasks move when a host is lost."""
    placed = (ev.Placed({WORKER: host}, {WORKER: f"{host}:5"}) for host in ("n1", "n2"))
    status = status_of(*starts(WORKER, 2, 7, at=40.0), *((41.0, event) for event in placed)).tasks[WORKER]
    titles, line = tasks_table([task_row(status, 100.0, live=True, usage=None)]).splitlines()
    assert titles.split()[3:5] == ["HOST", "ENDPOINT"]
    assert line.split()[3:5] == ["n2", "n2:5"]


def test_faults_that_are_open_are_shown_with_the_state() -> None:
    """Until they are healed, or turn out not to have been done; a kill is over at once."""
    injected = [
        ev.FaultInjected(1, "slow worker:1", FaultAction.SLOW, (WORKER,)),
        ev.FaultInjected(2, "memory worker:1", FaultAction.MEMORY, (WORKER,)),
        ev.FaultInjected(3, "kill worker:1", FaultAction.KILL, (WORKER,)),
    ]
    told = [*starts(WORKER, 1, 77), *((2.0, event) for event in injected)]
    status = status_of(*told)
    assert task_row(status.tasks[WORKER], 3.0, True, None)["faults"] == ["slow", "memory"]
    assert "running (slow) (memory)   1" in tasks_table([task_row(status.tasks[WORKER], 3.0, True, None)])
    healed = ev.FaultHealed(1, "slow worker:1", FaultAction.SLOW, (WORKER,), "its time is over")
    status = status_of(*told, (4.0, ev.FaultTook(2, "it has more", done=False)), (5.0, healed))
    assert task_row(status.tasks[WORKER], 6.0, True, None)["faults"] == []


def test_a_straggler_is_shown_with_the_state_as_long_as_it_is_one() -> None:
    """Until it keeps up again, its attempt ends, or another one begins."""
    slow = ev.Straggling(WORKER, 1, ev.Slowness.STOPPED, 4.5, 12.0, "is stopped 78 % of the time")
    over: list[ev.Event] = [
        ev.KeepsUp(WORKER, 1, 30.0),
        ev.Exited(WORKER, 1, Exit(signal=9)),
        ev.Changed(WORKER, 2, TaskState.STARTING),
        ev.Continued(2),
    ]
    for end in over:
        status = status_of(*starts(WORKER, 1, 77), (2.0, slow))
        row = task_row(status.tasks[WORKER], 3.0, True, None)
        assert row["straggler"] == "about 4.5 times as slow as its peers: it is stopped 78 % of the time"
        assert "running (straggler)   1" in tasks_table([row])
        status = status_of(*starts(WORKER, 1, 77), (2.0, slow), (4.0, end))
        assert task_row(status.tasks[WORKER], 5.0, True, None)["straggler"] is None
