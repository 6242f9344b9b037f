"""The recovery table with real TensorFlow: what is killed, what restarts, where training goes on.

One job of each shape loses its tasks one after the other, and the tests look at what came of each death.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.recoveries import check_split
from tests.support import CHILDREN, WORKLOADS, Up, checkpoint_number

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(400)]
both_starts = pytest.mark.both_starts
matrix = pytest.mark.matrix

PS_JOB = ("--workers", "2", "--ps", "1", WORKLOADS / "ps_train.py", "--checkpoint-every", "40", "--step-time", "0.02")
GANG = ("--workers", "2", WORKLOADS / "mwms_train.py")
OFTEN = ("--restart-budget", "20", "--restart-backoff", "0.1")
PATIENCE = 200.0
PS_STEPS, GANG_STEPS = 500, 160
IN_A_RECOVERY = "in a recovery"
Start = Callable[..., Up]


@dataclass
class Struck:
    """A job that loses tasks, and what its journal says from one death to the next."""

    run: Up
    trainers: set[str]  # who resumes at a checkpoint
    begun: dict[str, int] = field(default_factory=dict)  # by death, how many events there were

    def strike(self, victim: str, starts: dict[str, int], name: str = "", during: str | None = None) -> None:
        """Kill a task, and `during` as soon as it starts again; return once tasks have started and training goes on."""
        self.begun[name or victim] = len(self.run.events())
        attempts = {task: len(pids) for task, pids in self.run.pids().items()}
        self.run.kill(victim)
        if during is not None:
            self.run.wait_for("Spawned", PATIENCE, task=during, attempt=attempts[during] + 1)
            self.run.kill(during)
        events = [
            self.run.wait_for(kind, PATIENCE, task=task, attempt=attempts[task] + count)
            for task, count in starts.items()
            for kind in ("Spawned", *["Resumed"] * (task in self.trainers))
        ]
        self.run.wait_for_step(1, PATIENCE, after=max(event["m"] for event in events))

    def events(self, name: str) -> list[dict[str, Any]]:
        """The journal from a death to the next one."""
        begins = [*sorted(self.begun.values()), None]
        return self.run.events()[self.begun[name] : begins[begins.index(self.begun[name]) + 1]]

    def started(self, name: str) -> Counter[str]:
        """How often each task was started after a death."""
        return Counter(event["task"] for event in self.events(name) if event["event"] == "Spawned")


def check_recovered(run: Up, restarted: dict[str, int], steps: int) -> None:
    """Exactly these tasks were started that often, every resumption was at the newest checkpoint, nothing is lost."""
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    started = {task: len(pids) for task, pids in run.pids().items()}
    expected = dict.fromkeys(started, 1) | restarted
    assert started == expected, run.output[-6000:]
    assert run.result["last_step"] == steps
    check_split(run.result)
    check_resumptions(run)
    accuracy = re.findall(r"held-out accuracy (\d\.\d+)", run.output)
    assert accuracy
    assert float(accuracy[-1]) > 0.5  # a short training; what it reaches at length is the demo's to show


def check_resumptions(run: Up) -> None:
    """A restarted training task resumed at the checkpoint that was the newest when it was started.

    That is the one that was found then; a task that is killed after it has saved one can't report it.
    """
    newest = 0
    at_start: dict[tuple[str, int], int] = {}
    for event in run.events():
        attempt = event.get("task", ""), event.get("attempt", 0)
        if event["event"] == "Checkpointed":
            newest = event["step"]
        elif event["event"] == "Changed" and event["state"] == "starting":  # others may save while it is spawned
            at_start[attempt] = newest
        elif event["event"] == "CheckpointFound":
            found = checkpoint_number(event["path"])
            assert found >= at_start[attempt]
            at_start[attempt] = found
        elif event["event"] == "Resumed" and event["attempt"] > 1:
            assert event["step"] == at_start[attempt]


@pytest.fixture(scope="module")
def ps_job(shared_up: Start) -> Struck:
    """A worker dies, the chief, the ps, the other worker, and a ps whose chief dies when it comes back."""
    pace = ("--steps", PS_STEPS, "--checkpoint-every", "20", "--step-time", "0.05")
    job = Struck(shared_up("--run-id", "ps-job", *OFTEN, *PS_JOB, *pace), {"chief:0"})
    job.run.wait_for("Checkpointed", deadline=90)
    job.strike("worker:0", {"worker:0": 1})
    job.strike("chief:0", {"chief:0": 1})
    job.strike("ps:0", {"ps:0": 1, "chief:0": 1})
    job.strike("worker:1", {"worker:1": 1})
    job.strike("ps:0", {"ps:0": 1, "chief:0": 2}, IN_A_RECOVERY, during="chief:0")
    assert job.run.wait(PATIENCE) == 0, job.run.output[-6000:]
    return job


@pytest.fixture(scope="module")
def gang(shared_up: Start) -> Struck:
    """Each worker dies, and then both, the second one before the new gang has trained a step."""
    pace = ("--steps", GANG_STEPS, "--checkpoint-every", "10", "--step-time", "0.05")
    job = Struck(shared_up("--run-id", "gang", *OFTEN, *GANG, *pace), {"worker:0", "worker:1"})
    job.run.wait_for("Checkpointed", deadline=90)
    job.strike("worker:0", {"worker:0": 1, "worker:1": 1})
    job.strike("worker:1", {"worker:0": 1, "worker:1": 1})
    job.strike("worker:1", {"worker:0": 2, "worker:1": 2}, IN_A_RECOVERY, during="worker:0")
    assert job.run.wait(PATIENCE) == 0, job.run.output[-6000:]
    return job


@both_starts
@pytest.mark.parametrize(
    ("victim", "restarted"),
    [
        ("worker:0", {"worker:0": 1}),
        pytest.param("worker:1", {"worker:1": 1}, marks=matrix),
        pytest.param("chief:0", {"chief:0": 1}, marks=matrix),
        pytest.param("ps:0", {"ps:0": 1, "chief:0": 1}, marks=matrix),
    ],
)
def test_a_parameter_server_job_survives_sigkill_of(ps_job: Struck, victim: str, restarted: dict[str, int]) -> None:
    """The victim's row restarts, the pids of the others stay, and training resumes."""
    assert ps_job.started(victim) == restarted
    events = ps_job.events(victim)
    assert next(event for event in events if event["event"] == "Failed")["failure"]["task"] == victim
    resumed = [event for event in events if event["event"] == "Resumed"]
    assert [event["task"] for event in resumed] == ["chief:0"] * restarted.get("chief:0", 0)
    assert all(event["step"] > 0 for event in resumed)


@both_starts
def test_a_fault_during_a_recovery(ps_job: Struck) -> None:
    """The chief dies again while it is coming back from the death of the ps."""
    assert ps_job.started(IN_A_RECOVERY) == {"ps:0": 1, "chief:0": 2}


@both_starts
@matrix
def test_a_parameter_server_job_survives_deaths_in_a_row(ps_job: Struck) -> None:
    """All tasks are up at the end, each resumption was at the newest checkpoint, and nothing is lost."""
    check_recovered(ps_job.run, {"worker:0": 2, "chief:0": 5, "ps:0": 3, "worker:1": 2}, PS_STEPS)
    for task, pids in ps_job.run.pids().items():
        kind = "Resumed" if task == "chief:0" else "Ready"
        assert ps_job.run.events(kind, task=task, attempt=len(pids))


@both_starts
@pytest.mark.parametrize("victim", [pytest.param("worker:0", marks=matrix), "worker:1"])
def test_a_multi_worker_job_survives_sigkill_of(gang: Struck, victim: str) -> None:
    """The whole gang restarts, and resumes at one checkpoint."""
    assert gang.started(victim) == {"worker:0": 1, "worker:1": 1}
    events = gang.events(victim)
    planned = [event for event in events if event["event"] == "RestartPlanned"]
    assert [event["cause"]["task"] for event in planned] == [victim]
    resumed = [event["step"] for event in events if event["event"] == "Resumed"]
    assert len(resumed) == 2
    assert len(set(resumed)) == 1
    assert resumed[0] > 0


@both_starts
def test_a_fault_of_the_gang_during_its_recovery(gang: Struck) -> None:
    """A worker of the second gang dies before it has trained a step; the third one goes on."""
    assert gang.started(IN_A_RECOVERY) == {"worker:0": 2, "worker:1": 2}


@both_starts
@matrix
def test_a_multi_worker_job_survives_deaths_in_a_row(gang: Struck) -> None:
    """Every worker ends with the same weights, and each resumption was at the newest checkpoint."""
    check_recovered(gang.run, {"worker:0": 5, "worker:1": 5}, GANG_STEPS)
    digests = re.findall(r"weights digest (sha256:\w+)", gang.run.output)
    assert len(digests) == 2
    assert len(set(digests)) == 1


@pytest.mark.long
def test_a_job_that_starts_cold_survives_sigkill_of_its_ps(up: Start) -> None:
    """It and the chief restart, the workers stay, and training resumes."""
    held = (*PS_JOB[:4], CHILDREN / "waits.py", "chief:0", "60:end", *PS_JOB[4:])  # until it is ended with its ps
    run = up("--start", "cold", *held, "--steps", "200")
    run.wait_for("Checkpointed", deadline=90)
    run.kill("ps:0")
    check_recovered(run, {"ps:0": 2, "chief:0": 2}, 200)
    assert run.events("Resumed", task="chief:0", attempt=2)[0]["step"] > 0
    assert run.events("Failed")[0]["failure"]["task"] == "ps:0"
    assert run.events("Noted", server="ready") == []


@both_starts
@matrix
def test_preemption_of_the_gang_costs_no_restart(up: Start) -> None:
    """TensorFlow's preemption handler checkpoints and exits with 42: the gang starts again, uncharged."""
    run = up("--workers", "2", "--restart-budget", "0", CHILDREN / "preempted.py")
    run.wait_for_step(10, deadline=90)
    run.kill("worker:1", signal.SIGTERM)
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    assert {task: len(pids) for task, pids in run.pids().items()} == {"worker:0": 2, "worker:1": 2}
    assert run.events("RestartPlanned")[0]["cause"]["exit"]["code"] == 42
    resumed = [event["step"] for event in run.events("Resumed", attempt=2)]
    assert len(resumed) == 2
    assert min(resumed) >= 10
    assert run.result["last_step"] == resumed[0] + 30
