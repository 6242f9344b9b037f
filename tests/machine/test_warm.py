"""Warm starts: who waits for the fork server, and for whom."""

from __future__ import annotations

import pytest

from clusterkit.machine.held_starts import LONGEST_WAIT, RECONNECTION
from clusterkit.words import events as ev
from clusterkit.words.job import RestartRules, RestartScope
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Asked
from tests.histories import BEGAN, SIGINT, SIGKILL, History, job, task


def warming(workers: int = 2, ps: int = 0) -> History:
    """A run that has begun, and whose fork server has not come up yet."""
    return History(job(workers=workers, ps=ps), warming=True).begin()


def serves(run: History, *names: str) -> None:
    """Servers say that they are up."""
    for name in names:
        run.send(ev.Ready(task(name), run.attempts[name]))


def test_a_fork_server_that_does_not_come_up_holds_nothing_up() -> None:
    """What waited for it starts cold."""
    run = warming()
    assert run.live == set()
    run.chills()
    assert run.live == {"worker:0", "worker:1"}


def test_tasks_start_when_the_fork_server_is_ready() -> None:
    """Until then they are starting."""
    run = warming()
    assert {run.state(name) for name in ("worker:0", "worker:1")} == {TaskState.STARTING}
    run.warms()
    assert run.live == {"worker:0", "worker:1"}


def test_an_end_while_the_fork_server_comes_up_starts_nothing() -> None:
    """Ctrl-C is answered at once, and no task counts as failed."""
    run = warming(ps=1)
    run.send(ev.Interrupted(SIGINT))
    assert run.result.exit_code == 130
    assert run.attempts == {}
    assert run.failures == []
    assert {attempt.exit.asked for attempt in run.result.attempts if attempt.exit} == {Asked.TEARDOWN}


def test_a_coordinator_that_restarts_with_its_ps_waits_until_the_workers_have_found_it() -> None:
    """Their channels try again a second after the last time; before that, what it asks of them fails at once."""
    run = warming(ps=1)
    run.warms()
    serves(run, "worker:0", "worker:1", "ps:0")
    run.progresses("chief:0", 10)
    run.exits("ps:0", signal=SIGKILL)
    while run.attempts["ps:0"] == 1:
        run.after(0.1)
    assert run.attempts["chief:0"] == 1
    serves(run, "ps:0")
    ready = run.now
    run.after(1)
    serves(run, "worker:1")  # once more
    assert run.attempts["chief:0"] == 1
    run.after(1)
    assert run.spawn_times("chief:0")[1] == pytest.approx(ready + RECONNECTION - BEGAN)


def test_a_ps_that_does_not_say_ready_is_given_as_long() -> None:
    """After the half second in which it would have said it."""
    run = warming(ps=1)
    run.warms()
    serves(run, "worker:0", "worker:1", "ps:0")
    run.exits("ps:0", signal=SIGKILL)
    run.after(10)
    ps, chief = run.spawn_times("ps:0")[1], run.spawn_times("chief:0")[1]
    assert chief - ps == pytest.approx(LONGEST_WAIT + RECONNECTION)


def test_a_coordinator_that_restarts_alone_or_with_every_server_waits_for_nothing_more() -> None:
    """No worker has lost a ps then."""
    run = warming(ps=1)
    run.warms()
    serves(run, "worker:0", "worker:1", "ps:0")
    run.exits("chief:0", signal=SIGKILL)
    while run.attempts["chief:0"] == 1:
        run.after(0.1)
    together = History(job(workers=2, ps=1, restart=RestartRules(scope=RestartScope.JOB)), warming=True).begin()
    together.warms()
    serves(together, "worker:0", "worker:1", "ps:0")
    together.exits("ps:0", signal=SIGKILL)
    while together.attempts["ps:0"] == 1:
        together.after(0.1)
    serves(together, "worker:0", "worker:1", "ps:0")
    assert together.attempts["chief:0"] == 2


def test_an_end_while_the_workers_look_for_the_ps() -> None:
    """It is never started, as while it waits for servers."""
    run = warming(ps=1)
    run.warms()
    serves(run, "worker:0", "worker:1", "ps:0")
    run.exits("ps:0", signal=SIGKILL)
    while run.attempts["ps:0"] == 1:
        run.after(0.1)
    serves(run, "ps:0")
    run.send(ev.Interrupted(SIGINT))
    assert run.result.exit_code == 130
    assert [failure.task for failure in run.failures] == [task("ps:0")]
