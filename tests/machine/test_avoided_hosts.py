"""A host on which attempts fail twice for reasons of its own is avoided; all tasks move, if there are others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Avoid, Spawn
from clusterkit.words.job import HostRequest, RestartPolicy, RestartRules
from clusterkit.words.model import Task
from clusterkit.words.outcome import Exit, RunState
from tests.histories import SIGKILL, History, faults, job, task

FULL = "on n2, only 3 MB are free in /tmp"
PATIENCE = 30.0


class OnHosts(History):
    """A history whose job has hosts; what starts on an unfit one fails."""

    def __post_init__(self) -> None:
        self.unfit: dict[str, str] = {}  # hosts, and why
        self.unreached: dict[str, tuple[Task, ...]] = {}
        self.where: dict[str, str] = {}
        self.hosts = ["n1", "n2"]
        self.job = replace(self.job, hosts=HostRequest(count=2, timeout=PATIENCE))
        super().__post_init__()

    def place(self, *hosts: str, readmitted: tuple[str, ...] = ()) -> None:
        """Place the tasks, spread over these hosts; the others have none."""
        placed = {one: hosts[nth % len(hosts)] for nth, one in enumerate(self.job.tasks)}
        self.where = {str(one): host for one, host in placed.items()}
        self.send(ev.Placed(placed, {}, tuple(host for host in self.hosts if host not in hosts), readmitted))

    def on(self, host: str) -> list[str]:
        """The tasks that are placed on a host."""
        return [name for name, at in self.where.items() if at == host]

    def _spawn(self, who: Task, attempt: int) -> None:
        host = self.where.get(str(who), "")
        if host in self.unfit:
            self.attempts[str(who)] = attempt
            self.send(
                ev.SpawnFailed(who, attempt, self.unfit[host], unfit=True, unreached=self.unreached.get(host, ()))
            )
            return
        super()._spawn(who, attempt)


def started(workers: int = 2, ps: int = 0, evaluator: int = 0, rules: RestartRules | None = None) -> OnHosts:
    """A job on n1 and n2 that runs."""
    run = OnHosts(job(workers, ps, evaluator=evaluator, restart=rules or RestartRules()))
    run.place("n1", "n2")
    run.begin()
    return run


def avoided(run: History) -> list[tuple[str, bool]]:
    """Which hosts it was decided about, and whether the tasks move."""
    return [(one.host, one.moves) for one in run.decided(ev.HostAvoided)]


def test_a_host_that_can_start_nothing_twice_is_avoided() -> None:
    """Once is no reason; after the second time all move, since endpoints do."""
    run = started(workers=2, ps=1)
    run.unfit["n2"] = FULL
    lost = run.on("n2")[0]
    run.exits(lost, signal=SIGKILL)
    run.after(1.5)
    assert avoided(run) == []
    assert run.attempts[lost] == 2
    run.after(2.5)
    assert avoided(run) == [("n2", True)]
    assert run.asked(Avoid) == [Avoid(("n2",))]
    assert run.decided(ev.RestartPlanned)[-1].tasks == run.job.tasks
    run.unfit.clear()
    run.place("n1")
    run.after(10)
    assert run.attempts == {str(one): (4 if str(one) == lost else 2) for one in run.job.tasks}
    assert not run.over
    [said] = run.decided(ev.HostAvoided)
    assert said.why == f"{lost} could not be started: {FULL}"


def test_without_another_host_the_tasks_stay_until_their_budget_is_used_up() -> None:
    """It is said once."""
    run = started()
    run.hosts = ["n2"]
    run.place("n2")
    run.unfit["n2"] = FULL
    run.exits("worker:1", signal=SIGKILL)
    run.after(60)
    assert avoided(run) == [("n2", False)]
    assert run.asked(Avoid) == []
    assert run.result.state is RunState.FAILED
    assert "its restart budget is used up (3 of 3)" in run.result.reason


def test_an_attempt_that_the_system_kills_for_memory_is_such_a_failure() -> None:
    """Twice, with a restart that was fine for a while in between."""
    run = started(workers=3)
    for _ in range(2):
        run.live.discard("worker:1")
        killed = Exit(signal=SIGKILL, out_of_memory=True)
        run.send(ev.Exited(task("worker:1"), run.attempts["worker:1"], killed))
        run.after(5)
    assert avoided(run) == [("n2", True)]


@pytest.mark.parametrize("how", ["exception", "signal", "program"])
def test_what_may_happen_anywhere_is_not_the_hosts_failure(how: str) -> None:
    """An exception of the program, a signal, a program that does not exist."""
    run = started(rules=RestartRules(policy=RestartPolicy.ALWAYS))
    for nth in range(2):
        if how == "program":
            run.unspawnable["worker:1"] = "No such file or directory (train)"
        said = f"ValueError: {nth}" if how == "exception" else None
        if "worker:1" in run.live:
            run.exits("worker:1", signal=None if said else SIGKILL, exception=said)
        run.after(5)
    assert avoided(run) == []


def test_a_fault_that_was_injected_is_not_the_hosts_failure() -> None:
    """The fault explains that the kernel killed the task."""
    run = OnHosts(replace(job(2), faults=faults("memory worker:1 limit=1GB @ 1s")))
    run.place("n1", "n2")
    run.begin()
    for _ in range(2):
        run.after(2)
        if "worker:1" in run.live:
            run.live.discard("worker:1")
            killed = Exit(signal=SIGKILL, out_of_memory=True)
            run.send(ev.Exited(task("worker:1"), run.attempts["worker:1"], killed))
        run.after(5)
    ended = [one for one in run.decided(ev.AttemptEnded) if one.fault is not None]
    assert ended
    assert run.machine.hosts.avoided == set()


def test_a_gang_that_fails_to_start_on_a_host_together_counts_once() -> None:
    """Its tasks are one failure of the host's."""
    run = started(workers=4)
    run.unfit["n2"] = FULL
    run.exits("worker:0", signal=SIGKILL)
    run.after(1.5)
    assert avoided(run) == []
    run.after(3)
    assert avoided(run) == [("n2", True)]


def test_peers_that_do_not_answer_are_waited_for_until_their_host_is_known_to_be_cut_off() -> None:
    """The host that is lost is the cause, and the one that noticed is not avoided."""
    run = started(workers=2, ps=1)
    n2 = tuple(map(task, run.on("n2")))
    run.unfit["n1"], run.unreached["n1"] = "on n1, it does not reach the host of worker:0", n2[:1]
    run.exits(run.on("n1")[1], signal=SIGKILL)
    run.after(PATIENCE / 2 - 2)
    assert len(run.decided(ev.RestartPlanned)) == 1
    run.send(ev.HostCut("n2", "it is silent", PATIENCE))
    run.after(20)
    run.unfit.clear()
    run.loses("n2", *run.on("n2"))
    run.after(10)
    assert avoided(run) == []
    cause = run.decided(ev.RestartPlanned)[-1].cause
    assert cause is not None
    assert cause.exit.host == "n2"


def test_a_host_that_does_not_reach_a_peer_which_others_reach_is_avoided() -> None:
    """The supervisor has no reason to doubt the peer."""
    run = started(workers=2, ps=1)
    run.unfit["n2"] = "on n2, it does not reach the host of chief:0"
    run.unreached["n2"] = (task("chief:0"),)
    run.exits(run.on("n2")[0], signal=SIGKILL)
    run.after(60)
    assert avoided(run) == [("n2", True)]


def test_of_two_hosts_that_do_not_reach_each_other_one_is_avoided() -> None:
    """The job needs only one of them to be elsewhere."""
    run = OnHosts(job(3))
    run.hosts = ["n1", "n2", "n3"]
    run.place("n1", "n2", "n3")
    run.begin()
    run.unfit |= {"n1": "on n1, it does not reach worker:1", "n2": "on n2, it does not reach worker:0"}
    run.unreached |= {"n1": (task("worker:1"),), "n2": (task("worker:0"),)}
    run.exits("worker:2", signal=SIGKILL)
    run.after(60)
    assert avoided(run)[0] == ("n1", True)
    assert ("n2", True) not in avoided(run)[:1]
    assert run.machine.hosts.avoided == {"n1"}


def test_a_host_that_comes_again_begins_anew() -> None:
    """Its agent is another one, maybe on a machine that was mended."""
    run = started()
    run.unfit["n2"] = FULL
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    assert avoided(run) == [("n2", True)]
    run.send(ev.HostLost("n2", "its agent was started anew"))
    run.send(ev.HostJoined("n2"))
    assert run.machine.hosts.avoided == set()
    assert run.asked(Avoid) == [Avoid(("n2",)), Avoid(())]
    assert run.machine.hosts.present == {"n1", "n2"}


def test_an_avoided_host_that_gets_tasks_again_is_judged_anew() -> None:
    """The other hosts could not take its tasks. It is not avoided any more, and two more failures count."""
    run = started(rules=RestartRules(budget=9))
    run.unfit["n2"] = FULL
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    assert avoided(run) == [("n2", True)]
    run.unfit.clear()
    run.place("n1", "n2", readmitted=("n2",))
    assert run.machine.hosts.avoided == set()
    assert run.asked(Avoid) == [Avoid(("n2",)), Avoid(())]
    run.after(20)
    run.unfit["n2"] = FULL
    run.exits("worker:1", signal=SIGKILL)
    run.after(60)
    assert avoided(run) == [("n2", True)] * 2


def test_a_placement_that_is_older_than_the_decision_readmits_no_host() -> None:
    """The backend placed the tasks before the machine's order reached it."""
    run = started()
    run.unfit["n2"] = FULL
    run.exits("worker:1", signal=SIGKILL)
    run.after(5)
    run.place("n1", "n2")
    assert run.machine.hosts.avoided == {"n2"}


def test_another_recovery_becomes_part_of_the_move() -> None:
    """A task that was about to restart alone must not start where it was."""
    run = started(workers=4, ps=1)
    run.unfit["n2"] = FULL
    first, second = (name for name in run.on("n2") if name.startswith("worker"))
    run.exits(first, signal=SIGKILL)
    run.after(2.5)
    run.exits(second, signal=SIGKILL)
    run.after(0.9)
    run.after(3)
    assert avoided(run) == [("n2", True)]
    run.unfit.clear()
    run.place("n1")
    run.after(10)
    assert set(map(str, run.job.tasks)) == run.live
    spawned = [(str(spawn.task), spawn.attempt) for spawn in run.asked(Spawn)]
    assert len(spawned) == len(set(spawned))
