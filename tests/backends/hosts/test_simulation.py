"""Many hosts, simulated: a whole run of a real supervisor, and what it does for each task however many hosts there are.

`python -m benchmarks.hosts` measures the same with up to 1,000 hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.backends.hosts import incoming
from clusterkit.backends.link import messages as ms
from clusterkit.store.journal import JournalReader
from clusterkit.words import events as ev
from clusterkit.words.job import HostRequest, JobSpec, RestartRules
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import RunState
from tests.backends.hosts.simulated import LINE
from tests.backends.hosts.simulated_run import Milestone, SimulatedRun, gang, life, losing_the_first, servers
from tests.efforts import calls

pytestmark = [pytest.mark.timeout(60), pytest.mark.slow]
HOSTS, STEPS = 20, 3


@pytest.mark.parametrize("shape", [gang, servers])
def test_all_tasks_of_twenty_hosts_start_again_when_one_is_lost(
    shape: Callable[[int], JobSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the hosts that are left and the spare one; every log is whole, with few of them open at a time."""
    monkeypatch.setattr(incoming, "MOST_OPEN", 16)
    run = SimulatedRun(tmp_path, shape(HOSTS))
    result = run.play(life(STEPS))
    assert (result.state, result.exit_code, result.restarts) == (RunState.SUCCEEDED, 0, 1)
    assert {attempt.attempt for attempt in result.attempts} == {1, 2}
    assert len(result.attempts) == 2 * len(run.job.tasks)
    assert run.report is not None
    [recovery] = run.report.recoveries
    assert recovery.cause is not None
    assert (str(recovery.cause.exit), len(recovery.returns)) == ("was lost with its host n1", len(run.job.tasks))
    for task in run.job.tasks:
        assert [run.directory.log(task, number).read_bytes() for number in (1, 2)] == [LINE, LINE]
    arrived = run.directory.arrivals.read_text().splitlines()
    assert Counter(line.split()[1] for line in arrived) == dict.fromkeys(map(str, run.job.tasks), 2)


def test_the_journal_of_a_lost_host_is_complete(tmp_path: Path) -> None:
    """Each attempt's story from its start to its end, and who was where."""
    run = SimulatedRun(tmp_path, gang(HOSTS))
    run.play(life(STEPS))
    events = [event for _, event in JournalReader(run.directory).events()]
    kinds, tasks = Counter(type(event) for event in events), len(run.job.tasks)
    assert (kinds[ev.Spawned], kinds[ev.Exited], kinds[ev.AttemptEnded]) == (2 * tasks, 2 * tasks, 2 * tasks + 8)
    assert (kinds[ev.Progressed], kinds[ev.HostLost], kinds[ev.RestartPlanned]) == ((STEPS + 1) * tasks, 1, 1)
    stories: dict[tuple[str, int], list[TaskState]] = {}
    for event in events:
        if isinstance(event, ev.Changed):
            stories.setdefault((str(event.task), event.attempt), []).append(event.state)
    up, down = [TaskState.STARTING, TaskState.RUNNING], [TaskState.DRAINING, TaskState.DOWN]
    again = TaskState.WAITING
    for task in run.job.tasks:
        assert stories[str(task), 1] in ([*up, *down, again], [*up, TaskState.STOPPING, *down, again])
        assert stories[str(task), 2] == [*up, *down]
    before, after = (event for event in events if isinstance(event, ev.Placed))
    assert before.hosts.keys() == after.hosts.keys() == set(run.job.tasks)
    assert Counter(before.hosts.values()) == {f"n{n}": 8 for n in range(HOSTS)}
    assert Counter(after.hosts.values()) == {f"n{n}": 8 for n in range(HOSTS + 1) if n != 1}
    assert isinstance(events[-1], ev.Finished)


@pytest.mark.parametrize("dies_of", [ms.Claim, ms.Endpoints])
def test_a_host_that_is_lost_while_tasks_are_placed_on_it_is_done_without(
    dies_of: type[ms.ToAgent], tmp_path: Path
) -> None:
    """They are placed once more; nothing waits for its answer."""
    job = gang(4)
    run = SimulatedRun(tmp_path, replace(job, restart=replace(job.restart, backoff=0.01)))
    run.hosts.hosts[4].dies_of = dies_of  # the spare one, which gets tasks when another one is lost
    result = run.play(life(STEPS))
    assert result.state is RunState.SUCCEEDED
    *_, placed = (event for _, event in JournalReader(run.directory).events() if isinstance(event, ev.Placed))
    assert set(placed.hosts.values()) == {"n0", "n2", "n3"}


def test_a_run_whose_last_host_is_lost_while_tasks_are_placed_on_it_fails(tmp_path: Path) -> None:
    """Since no host is left, and not by waiting for one."""
    run = SimulatedRun(tmp_path, replace(gang(1), hosts=HostRequest(count=1, spare=1)))
    run.hosts.hosts[1].dies_of = ms.Claim
    result = run.play(losing_the_first)
    assert (result.state, result.exit_code) == (RunState.FAILED, 1)
    assert "no host is left" in result.reason


def test_a_run_fails_where_a_host_that_is_needed_now_has_no_ports(tmp_path: Path) -> None:
    """It says which host, and what is missing there."""
    run = SimulatedRun(tmp_path, gang(2))
    run.hosts.hosts[2].is_full = True
    result = run.play(losing_the_first)
    assert (result.state, result.exit_code) == (RunState.FAILED, 1)
    assert "could not be started: n2: No free TCP port was found." in result.reason


def test_a_gang_for_which_the_hosts_left_have_no_room_continues_with_fewer_workers(tmp_path: Path) -> None:
    """The workers of the lost host are given up; the others are placed on the hosts that are left."""
    job = replace(gang(4), hosts=HostRequest(count=4), restart=RestartRules(backoff=0.01, min_workers=20))
    run = SimulatedRun(tmp_path, job)
    for host in run.hosts.hosts:
        host.room = 8

    def script(run: SimulatedRun) -> Iterator[Milestone]:
        yield ev.Ready, 32
        run.hosts.lose(run.hosts.hosts[1])
        yield ev.Ready, 24
        run.hosts.finish()

    result = run.play(script)
    assert (result.state, result.exit_code, len(result.given_up)) == (RunState.SUCCEEDED, 0, 8)
    events = [event for _, event in JournalReader(run.directory).events()]
    before, after = (event.hosts for event in events if isinstance(event, ev.Placed))
    assert set(result.given_up) == {task for task, host in before.items() if host == "n1"} == before.keys() - after
    assert Counter(after.values()) == {"n0": 8, "n2": 8, "n3": 8}


@pytest.mark.parametrize("has_room", [True, False])
def test_a_host_that_is_unfit_twice_is_avoided_if_the_others_have_room(has_room: bool, tmp_path: Path) -> None:
    """Its tasks move to the spare host; if that can't take them, they stay, and it is said."""
    job = gang(2)
    run = SimulatedRun(tmp_path, replace(job, restart=replace(job.restart, backoff=0.01)))
    n1, spare = run.hosts.hosts[1:]
    n1.unfit_until, spare.is_full = 4, not has_room

    def script(run: SimulatedRun) -> Iterator[Milestone]:
        yield ev.Ready, len(run.job.tasks)
        run.hosts.kill(n1)
        yield ev.HostAvoided, 1
        yield ev.Ready, len(run.job.tasks)
        run.hosts.finish()

    result = run.play(script)
    assert (result.state, result.restarts) == (RunState.SUCCEEDED, 3)
    events = [event for _, event in JournalReader(run.directory).events()]
    placed = [set(event.hosts.values()) for event in events if isinstance(event, ev.Placed)]
    assert placed == [{"n0", "n1"}, {"n0", "n2"} if has_room else {"n0", "n1"}]
    assert [event.readmitted for event in events if isinstance(event, ev.Placed)] == [(), () if has_room else ("n1",)]
    assert next(event.others for event in events if isinstance(event, ev.Placed)) == ("n2",)
    noted = [event.text for event in events if isinstance(event, ev.Noted)]
    readmitted = "n2: No free TCP port was found. So tasks are placed on n1 again."
    assert noted == ([] if has_room else [readmitted])


@pytest.mark.parametrize("shape", [gang, servers])
def test_the_work_for_each_task_does_not_grow_with_the_hosts(shape: Callable[[int], JobSpec], tmp_path: Path) -> None:
    """What the supervisor's loop calls of the backends, with five times as many hosts."""

    def effort(hosts: int) -> float:
        run = SimulatedRun(tmp_path / str(hosts), shape(hosts))
        return calls(lambda: run.play(life(STEPS)), "clusterkit/backends/") / len(run.job.tasks)

    assert effort(20) <= 1.2 * effort(4)
