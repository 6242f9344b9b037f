"""Jobs on several hosts, which are stand-ins here, with real TensorFlow: one is lost, and training continues."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from clusterkit.system import procfs
from tests.e2e.test_recovery import check_resumptions
from tests.support import CHILDREN, WORKLOADS, Up, processes_of, wait_until

pytestmark = [pytest.mark.tensorflow, pytest.mark.own_servers, pytest.mark.long, pytest.mark.timeout(240)]

Start = Callable[..., Up]
STEPS = 300
PACE = ("--steps", STEPS, "--checkpoint-every", "100", "--step-time", "0.02")
WAITS = ("--start", "warm", CHILDREN / "waits.py")
JOBS: dict[str, tuple[Any, ...]] = {  # the leader waits at step 160 until it is started again
    "ps": ("--workers", "2", "--ps", "1", "--hosts", "2", *WAITS, "chief:0", "160:end", WORKLOADS / "ps_train.py"),
    "gang": ("--workers", "3", "--hosts", "3", *WAITS, "worker:0", "160:end", WORKLOADS / "mwms_train.py"),
}


def agent_on(run: Up, host: str) -> int:
    """The process that does an agent's work, below its guardian."""
    agents = {pid for pid, command in processes_of(run.home).items() if f"--host {host} " in command}
    return next(pid for pid in agents if not agents.intersection(procfs.children(pid)))


@pytest.mark.parametrize("shape", JOBS)
def test_a_job_whose_host_is_lost_continues_on_the_others(up: Start, shape: str) -> None:
    """All tasks start again, where there is room, from the newest checkpoint; the host is the cause."""
    run = up("--agent-timeout", "10s", *JOBS[shape], *PACE)
    run.wait_for("Checkpointed", deadline=90)
    placed = run.events("Placed")[0]["hosts"]
    os.kill(agent_on(run, "host1"), signal.SIGKILL)
    assert run.wait(120) == 0, run.output[-4000:]
    [planned] = run.events("RestartPlanned")
    assert planned["cause"]["exit"]["host"] == "host1"
    assert placed[planned["cause"]["task"]] == "host1"
    assert set(planned["tasks"]) == placed.keys()
    assert "host1" not in run.events("Placed")[-1]["hosts"].values()
    check_resumptions(run)
    assert run.result["last_step"] == STEPS
    wait_until(lambda: not processes_of(run.home), 10, "the end of all agents")


@pytest.mark.parametrize("shape", ["ps", "gang"])
def test_a_job_trains_over_ipv6(up: Start, shape: str) -> None:
    """TensorFlow takes endpoints with brackets, and its servers listen for both protocols."""
    program = {"ps": ("--ps", "1", WORKLOADS / "ps_train.py"), "gang": (WORKLOADS / "mwms_train.py",)}[shape]
    run = up("--workers", "2", "--hosts", "2", "--listen", "[::1]:0", *program, "--steps", "60")
    assert run.wait(120) == 0, run.output[-4000:]
    assert all(end.startswith("[::1]:") for end in run.events("Placed")[0]["endpoints"].values())
    assert run.result["last_step"] == 60


def test_a_preemption_handler_on_a_drained_host_saves(up: Start) -> None:
    """TensorFlow's own: all workers agree on a step, save and exit; they continue there, and no restart is charged."""
    run = up("--workers", "2", "--hosts", "2", "--spare-hosts", "1", "--restart-budget", "0", CHILDREN / "preempted.py")
    run.wait_for_step(10, deadline=90)
    os.kill(agent_on(run, "host1"), signal.SIGTERM)
    assert run.wait(90) == 0, run.output[-4000:]
    ended = [event for event in run.events("AttemptEnded", attempt=1) if event["exit"]]
    assert {event["exit"]["code"] for event in ended} == {42}
    resumed = {event["step"] for event in run.events("Resumed", attempt=2)}
    assert len(resumed) == 1
    assert resumed.pop() >= 10
    assert set(run.events("Placed")[-1]["hosts"].values()) == {"host0", "host2"}
