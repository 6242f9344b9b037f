"""The backend of agents keeps the contract that the local one keeps, with a host for each task."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterkit.backends.base import Backend
from clusterkit.backends.hosts.backend import AgentsBackend
from clusterkit.backends.hosts.preflight import preflight
from clusterkit.backends.link.connection import SessionConnection
from clusterkit.engines.local.engine import LocalAgents
from clusterkit.store.cleaning import reap_strays
from clusterkit.system import procfs
from clusterkit.words import actions as ac
from clusterkit.words import events as ev
from clusterkit.words.job import HostRequest
from clusterkit.words.outcome import Exit
from tests.backends.contract import Contract
from tests.backends.stage import OTHER, WITHIN, WORKER, Stage

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]
TIMEOUT = 30.0  # seconds; a host is cut off or lost here when a test says so, not where something is slow


class OnHosts(Stage):
    """Two stand-ins for hosts: worker:0 is on host0, worker:1 on host1."""

    def __init__(self, place: Path, script: str, **job: Any) -> None:
        super().__init__(place, script, **{"hosts": HostRequest(count=2, timeout=TIMEOUT), **job})

    def make(self) -> Backend:
        """The backend, with agents that are not started yet."""
        hosts = self.job.hosts
        self.engine = LocalAgents(hosts.count + hosts.spare, self.directory.path / "agents.log")
        return AgentsBackend(self.job, 1, self.inbox, self.view, self.engine)

    def agent(self, number: int) -> int:
        """The process that does an agent's work, below its guardian."""
        [worker] = procfs.children(self.engine.agents[number].pid)
        return worker

    def cut(self, number: int) -> None:
        """Give up the connection to a host, as the listener does when half of the timeout is over."""
        self._in_listener(number, lambda peer: peer.cut("nothing was received for 15.0 s"))
        while not self.has(ev.HostCut):
            self.take(WITHIN)

    def lose(self, number: int) -> None:
        """Kill an agent, and count its host as lost once the guardian has ended all that was there."""
        os.kill(self.agent(number), signal.SIGKILL)
        self.engine.agents[number].wait(WITHIN)
        self._in_listener(number, lambda peer: peer.end(f"Nothing was received from host{number} for 36.0 s."))

    def _in_listener(self, number: int, act: Callable[[SessionConnection], None]) -> None:
        assert isinstance(self.backend, AgentsBackend)
        listener = self.backend._listener
        [peer] = [agent.peer for agent in listener._agents.values() if agent.peer.host == f"host{number}"]
        listener._poller.do(lambda: act(peer))


class TestAgents(Contract):
    """On hosts."""

    stage_of = OnHosts
    preflight = staticmethod(preflight)

    def test_strays_of_a_run_without_a_supervisor_are_ended(self, stage: Any, monkeypatch: Any, home: Path) -> None:
        """There are none: what an agent has started ends with the agent, and that with its lease."""
        monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
        run: Stage = stage("sleep 60")
        run.begin(WORKER)
        run.wait(ev.Spawned)
        run.directory.lock_file.touch()
        assert reap_strays() == {}

    def test_a_host_whose_agent_is_killed_is_lost_with_its_attempts(self, stage: Any) -> None:
        """What they wrote is there, nothing of them runs, and the other host's tasks are not concerned."""
        run: OnHosts = stage("echo $CLUSTERKIT_TASK; sleep 60")
        run.begin(WORKER, OTHER)
        self.wait_for_output(run, WORKER)
        where = run.wait(ev.Spawned, OTHER).where
        run.wait(ev.Spawned, WORKER)
        run.lose(1)
        assert run.wait(ev.Exited, OTHER).exit == Exit(host="host1")
        assert where.startswith("host1, pid ")
        assert run.wait(ev.Drained, OTHER).tail in ((), ("worker:1",))
        run.backend.do(ac.Sweep(OTHER, 1))
        assert run.wait(ev.Swept, OTHER) == ev.Swept(OTHER, 1)
        assert procfs.stat(int(where.rpartition(" ")[2])) is None
        assert not any(isinstance(event, ev.Exited) and event.task == WORKER for event in run.events)

    def test_tasks_of_a_lost_host_start_on_the_one_that_is_left(self, stage: Any) -> None:
        """All endpoints are told anew."""
        run: OnHosts = stage('echo "$TF_CONFIG"; sleep 60')
        run.begin(WORKER, OTHER)
        run.wait(ev.Spawned, OTHER)
        run.lose(1)
        run.wait(ev.Exited, OTHER)
        for task in (WORKER, OTHER):
            run.backend.do(ac.Spawn(task, 2, "failure"))
        assert [run.wait(ev.Spawned, task, 2).where.partition(",")[0] for task in (WORKER, OTHER)] == ["host0"] * 2
        *_, placed = [event for event in run.events if isinstance(event, ev.Placed)]
        assert set(placed.hosts.values()) == {"host0"}
        assert len(set(placed.endpoints.values())) == 2

    def test_a_spare_host_takes_the_place_of_one_that_is_lost(self, stage: Any) -> None:
        """It had no task before."""
        run: OnHosts = stage("sleep 60", hosts=HostRequest(count=2, spare=1, timeout=TIMEOUT))
        run.begin(WORKER, OTHER)
        run.wait(ev.Spawned, WORKER)
        run.wait(ev.Spawned, OTHER)
        run.lose(0)
        run.wait(ev.Exited, WORKER)
        for task in (WORKER, OTHER):
            run.backend.do(ac.Spawn(task, 2, "failure"))
        hosts = {task: run.wait(ev.Spawned, task, 2).where.partition(",")[0] for task in (WORKER, OTHER)}
        assert set(hosts.values()) == {"host1", "host2"}

    def test_a_host_that_is_silent_for_a_moment_loses_nothing(self, stage: Any) -> None:
        """Its output comes later, byte for byte."""
        run: OnHosts = stage("seq 20000; sleep 0.2; seq 20000")
        run.begin(WORKER)
        run.wait(ev.Spawned)
        agent = run.agent(0)
        os.kill(agent, signal.SIGSTOP)
        run.cut(0)
        os.kill(agent, signal.SIGCONT)
        run.wait(ev.Drained)
        once = "".join(f"{n}\n" for n in range(1, 20001)).encode()
        assert run.directory.log(WORKER, 1).read_bytes() == 2 * once
        assert run.wait(ev.Exited).exit == Exit(code=0)

    def test_a_host_that_is_silent_for_too_long_has_ended_its_tasks_when_it_is_lost(self, stage: Any) -> None:
        """No two attempts of a task ever live: whoever continues later finds that its lease is over."""
        run: OnHosts = stage("sleep 60", hosts=HostRequest(count=2, timeout=5.0))  # the lease has to end in real time
        run.begin(WORKER)
        pid = int(run.wait(ev.Spawned).where.rpartition(" ")[2])
        agent = run.agent(0)
        os.kill(agent, signal.SIGSTOP)
        assert run.wait(ev.Exited).exit == Exit(host="host0")
        os.kill(agent, signal.SIGCONT)
        until = time.monotonic() + 10
        while procfs.stat(pid):
            assert time.monotonic() < until
            run.take(0.05)
