"""Hosts that leave, with real agents: one that is drained, all of them with the supervisor, one whose disk is full."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import portpicker
import pytest

from clusterkit.backends.link.certificate import write_certificate
from clusterkit.system import procfs
from tests.e2e.test_hosts import agent_on
from tests.support import CHILDREN, Command, Up, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]
Start = Callable[..., Up]
Other = Callable[..., Command]
KEY = "kept.pem"  # in the home, for one run after the other
PROGRAM = CHILDREN / "saves_late.py"


@pytest.fixture
def port() -> int:
    """Where a supervisor can listen."""
    return int(portpicker.pick_unused_port())


def agents_of(clusterkit: Other, home: Path, port: int, *names: str) -> list[Command]:
    """Agents with these names, for a run that waits for them."""
    words = ("agent", "--connect", f"127.0.0.1:{port}", "--key", home / KEY, "--host")
    return [clusterkit(*words, name) for name in names]


def waiting(up: Start, home: Path, port: int, *options: object) -> Up:
    """A run of two workers on two hosts, each of which is an agent that the test starts."""
    key = home / KEY
    if not key.exists():
        home.mkdir(parents=True, exist_ok=True)
        write_certificate(key, "r-1")
    hosts = ("--engine", "agents", "--hosts", "2", "--listen", f"127.0.0.1:{port}", "--agent-key", key)
    return up(*hosts, "--run-id", "r-1", "--workers", "2", *options)


def guardian_of(agent: int) -> int:
    """The process above an agent."""
    return int(procfs.status_of(agent, "PPid") or 0)


def saved_steps(run: Up) -> list[int]:
    """What each worker has saved."""
    return [int((run.run / "checkpoints" / f"saved-worker:{n}").read_text()) for n in (0, 1)]


@pytest.mark.parametrize("whole", [False, True])
def test_the_tasks_of_a_drained_host_save_and_move_to_the_spare_one(up: Start, whole: bool) -> None:
    """At once, whatever the budget and the time-out; whether the signal reaches the agent, or its guardian as well."""
    run = up("--workers", "2", "--hosts", "2", "--spare-hosts", "1", "--restart-budget", "0", PROGRAM)
    run.wait_for("Progressed", task="worker:1")
    agent = agent_on(run, "host1")
    for pid in [agent, guardian_of(agent)] if whole else [agent]:
        os.kill(pid, signal.SIGTERM)
    assert run.wait(30) == 0, run.output
    [draining], [lost] = run.events("HostDraining"), run.events("HostLost")
    assert (draining["host"], draining["why"]) == ("host1", "its agent got SIGTERM")
    assert (lost["left"], lost["why"]) == (True, "Its agent ended: it got SIGTERM.")
    assert lost["m"] - draining["m"] < 8
    assert set(run.events("Placed")[-1]["hosts"].values()) == {"host0", "host2"}
    assert [event["step"] for event in run.events("Resumed", attempt=2)] != [0, 0]
    said = (run.run / "agents.log").read_text()
    assert said == "clusterkit agent: it got SIGTERM. The supervisor has all that its tasks wrote.\n"
    assert "host1 is about to leave: its agent got SIGTERM" in run.output
    assert not [*Path(tempfile.gettempdir()).glob(f"clusterkit-agent-*/{run.run.name}")]


@pytest.mark.parametrize("order", ["supervisor first", "agents first", "agents long before"])
def test_a_run_whose_supervisor_and_agents_are_told_to_end_is_suspended(
    up: Start, clusterkit: Other, home: Path, port: int, order: str
) -> None:
    """As when a pool of nodes is drained: every task saves, and the same command continues the run."""
    run = waiting(up, home, port, "--continue", PROGRAM)
    agents = agents_of(clusterkit, home, port, "n1", "n2")
    run.wait_for("Progressed", task="worker:0")
    run.wait_for("Progressed", task="worker:1")
    everyone: list[Command] = [run, *agents] if order == "supervisor first" else [*agents, run]
    for one in everyone:
        if one is run and order == "agents long before":
            assert [agent.wait(20) for agent in agents] == [1, 1]
            run.wait_for("Noted")
        one.signal(signal.SIGTERM)
    assert run.wait(30) == 75, run.output
    assert all(agent.wait(20) in (1, 75) for agent in agents)
    assert (run.result["state"], run.events("Failed")) == ("suspended", [])
    assert "debugger" not in run.output
    steps = saved_steps(run)
    assert min(steps) > 0
    again = waiting(up, home, port, "--continue", PROGRAM)
    ended = agents_of(clusterkit, home, port, "n1", "n2")
    assert again.wait(30) == 0, again.output
    assert [event["step"] for event in sorted(again.events("Resumed"), key=lambda event: event["m"])[-2:]] != [0, 0]
    assert [agent.wait(20) for agent in ended] == [0, 0]


def test_a_host_whose_disk_is_full_ends_the_run_with_that_reason(
    up: Start, clusterkit: Other, home: Path, port: int
) -> None:
    """Its agent lives, and so do the connection and what was written before."""
    run = waiting(up, home, port, PROGRAM, "2000000")
    [second] = agents_of(clusterkit, home, port, "n2")
    wait_until(lambda: procfs.children(second.process.pid), 10, "the agent below its guardian")
    for pid in (second.process.pid, *procfs.children(second.process.pid)):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1_048_576, 1_048_576))
    [first] = agents_of(clusterkit, home, port, "n1")
    began = time.monotonic()
    assert run.wait(40) == 1, run.output
    assert time.monotonic() - began < 25
    assert run.result["reason"] == "on n2, the log of worker:1 could not be written: File too large"
    assert "debugger" not in run.output
    assert run.events("HostCut") == []
    assert [first.wait(10), second.wait(10)] == [0, 0]


def test_an_agent_without_its_guardian_says_why_it_ends(up: Start) -> None:
    """Its supervisor need not wait for it to come back."""
    run = up("--workers", "2", "--hosts", "2", "--agent-timeout", "60s", PROGRAM)
    run.wait_for("Progressed", task="worker:1")
    agent = agent_on(run, "host1")
    os.kill(guardian_of(agent), signal.SIGKILL)
    lost = run.wait_for("HostLost", deadline=20)
    assert lost["why"] == "Its agent ended: clusterkit's guardian process is gone."
    assert run.wait(30) == 0, run.output
    wait_until(lambda: not processes_of(run.home), 10, lambda: str(processes_of(run.home)))
