"""`clusterkit up --engine slurm` on the test cluster: runs end well, whatever is killed, and leave nothing."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engines.slurm.runs import BRISK, GANG, LONG, MIMIC, PS, QUICK, Start
from tests.engines.slurm_cluster import NAMES, SlurmCluster
from tests.support import ROOT, WORKLOADS, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(240)]
PATIENT = ("--heartbeat", "20")  # its host is counted as lost before a peer is given up


def agents_of(slurm: SlurmCluster, host: str) -> list[int]:
    """The processes of the agent on a host: its guardian, and the one that does the work."""
    found = slurm.hosts[host].processes()
    return sorted(pid for pid, line in found.items() if "clusterkit agent --connect" in line and "--host" in line)


@pytest.mark.parametrize("shape", [PS, GANG], ids=["ps", "gang"])
def test_a_run_ends_well_and_its_output_comes_to_the_login_node(up: Start, slurm: SlurmCluster, shape: Any) -> None:
    """With the exit code of the run; each host has had its tasks."""
    run = up(*shape, MIMIC, "--steps", "60")
    assert run.wait(60) == 0, run.output
    assert "is job" in run.output, run.output
    assert "✔ run r-1 succeeded" in run.output, run.output
    hosts = set(run.events("Placed")[0]["hosts"].values())
    assert hosts == set(NAMES[:2] if shape is PS else NAMES)
    wait_until(lambda: not slurm.processes(), 20, lambda: str(slurm.processes()))


@pytest.mark.parametrize("victim", ["worker:1", "ps:0", "chief:0"])
def test_a_task_that_is_killed_restarts_as_on_one_machine(up: Start, victim: str) -> None:
    """The same tasks with it, where they were."""
    run = up(*PS, *BRISK, "--fault", f"kill {victim} @ step=150", MIMIC, *LONG)
    assert run.wait(90) == 0, run.output
    [planned] = run.events("RestartPlanned")
    together = {"worker:1": ["worker:1"], "ps:0": ["chief:0", "ps:0"], "chief:0": ["chief:0"]}
    assert planned["tasks"] == together[victim]
    assert len(run.events("Placed")) == 1


def test_a_host_that_is_killed_is_done_without(up: Start, slurm: SlurmCluster) -> None:
    """With all its processes; the job continues on the others from its checkpoint, under the same run id."""
    run = up(*GANG, *QUICK, MIMIC, *LONG, *PATIENT)
    run.wait_for("Checkpointed", count=2)
    slurm.hosts["n3"].kill()
    assert run.wait(120) == 0, run.output
    [planned] = run.events("RestartPlanned")
    assert planned["cause"]["exit"]["host"] == "n3"
    assert set(run.events("Placed")[-1]["hosts"].values()) == {"n1", "n2"}
    assert run.events("Resumed")[-1]["step"] > 0


def test_a_host_that_is_cut_off_for_a_moment_loses_nothing(up: Start, slurm: SlurmCluster) -> None:
    """Shorter than the time-out: its tasks wait for their peers, or not, and go on."""
    run = up(*PS, "--agent-timeout", "20s", MIMIC, *LONG)
    run.wait_for("Checkpointed")
    n2 = slurm.hosts["n2"]
    n2.cut(slurm.hosts["n1"])
    run.wait_for("HostCut", 30)
    n2.heal()
    run.wait_for("HostBack", 30)
    assert run.wait(120) == 0, run.output
    assert run.events("HostLost") == []


def test_a_host_that_is_cut_off_for_longer_is_done_without(up: Start, slurm: SlurmCluster) -> None:
    """Its agent ends its tasks before it is counted as lost; when it is back, nothing of it takes part any more."""
    run = up(*GANG, *QUICK, MIMIC, *LONG, *PATIENT)
    run.wait_for("Checkpointed", count=2)
    n3 = slurm.hosts["n3"]
    n3.cut(slurm.hosts["n1"])
    run.wait_for("HostLost", 40)
    assert not any("mimic" in line for line in slurm.processes().get("n3", {}).values())
    n3.heal()
    assert run.wait(120) == 0, run.output
    assert [event["host"] for event in run.events("HostLost")] == ["n3"]
    [planned] = run.events("RestartPlanned")
    assert planned["cause"]["exit"]["host"] == "n3"
    assert set(run.events("Placed")[-1]["hosts"].values()) == {"n1", "n2"}
    assert run.events("Resumed")[-1]["step"] > 0
    result = run.run.result()
    assert result is not None
    assert (result.last_step, result.restarts) == (600, 1)


@pytest.mark.parametrize("who", ["guardian", "agent"])
def test_an_agent_that_is_killed_leaves_nothing_on_its_host(up: Start, slurm: SlurmCluster, who: str) -> None:
    """Its tasks end with it, and the job continues on the other hosts."""
    run = up(*GANG, *QUICK, MIMIC, *LONG)
    run.wait_for("Checkpointed")
    pids = agents_of(slurm, "n2")
    os.kill(pids[0] if who == "guardian" else pids[-1], signal.SIGKILL)
    run.wait_for("HostLost", 30)
    wait_until(
        lambda: not any("mimic" in line for line in slurm.processes().get("n2", {}).values()), 10, slurm.describe
    )
    assert run.wait(120) == 0, run.output


def test_a_run_whose_supervisor_is_killed_leaves_nothing(up: Start, slurm: SlurmCluster) -> None:
    """The job ends, and with it whatever is on its hosts."""
    run = up(*GANG, *QUICK, MIMIC, "--steps", "100000")
    run.wait_for("Checkpointed")
    first = slurm.hosts["n1"].processes()
    supervisors = [pid for pid, line in first.items() if "clusterkit up --run-id r-1" in line]
    os.kill(max(supervisors), signal.SIGKILL)
    assert run.wait(60) != 0
    wait_until(lambda: not slurm.processes(), 30, lambda: str(slurm.processes()))


def test_ctrl_c_ends_the_run_and_its_job(up: Start, slurm: SlurmCluster) -> None:
    """As on one machine, with its exit code."""
    run = up(*GANG, *BRISK, MIMIC, "--steps", "100000")
    run.wait_for("Checkpointed")
    run.wait_followed()
    os.kill(run.process.pid, signal.SIGINT)
    assert run.wait(60) == 130, run.output
    assert "clusterkit got SIGINT" in run.output, run.output
    wait_until(lambda: not slurm.processes(), 20, lambda: str(slurm.processes()))


def test_scancel_ends_everything(up: Start, slurm: SlurmCluster) -> None:
    """And the command says what became of it."""
    run = up(*GANG, *BRISK, MIMIC, "--steps", "100000")
    run.wait_for("Checkpointed")
    slurm.run("scancel", "--name=r-1")
    assert run.wait(60) != 0
    wait_until(lambda: not slurm.processes(), 60, lambda: str(slurm.processes()))


def test_while_the_job_waits_the_reason_is_said(up: Start, slurm: SlurmCluster) -> None:
    """And it starts when there are hosts."""
    other = slurm.submit("exec sleep 1000", "--nodes=3", "--exclusive")
    slurm.wait_state(other, "RUNNING", deadline=20)
    run = up(*GANG, MIMIC, "--steps", "20")
    wait_until(lambda: "no hosts are free for it yet" in run.output, 30, lambda: run.output)
    slurm.run("scancel", str(other))
    assert run.wait(90) == 0, run.output


def test_two_runs_share_the_hosts(up: Start) -> None:
    """Each with its agents, ports and key."""
    both = [up(*shape, "--sbatch-arg=--oversubscribe", MIMIC, "--steps", "200") for shape in (PS, GANG)]
    assert [run.wait(90) for run in both] == [0, 0], [run.output for run in both]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("shape", "program", "victim", "together"),
    [
        (PS, "ps_train.py", "worker:1", ["worker:1"]),
        (PS, "ps_train.py", "ps:0", ["chief:0", "ps:0"]),
        (PS, "ps_train.py", "chief:0", ["chief:0"]),
        (GANG, "mwms_train.py", "worker:1", ["worker:0", "worker:1", "worker:2"]),
    ],
    ids=["a worker", "a ps", "the chief", "one of a gang"],
)
def test_tensorflow_trains_on_three_hosts(
    up: Start, shape: Any, program: str, victim: str, together: list[str]
) -> None:
    """A task of each type is killed: the same tasks restart as on one machine, and all end with the same weights."""
    pace = ("--steps", "200", "--checkpoint-every", "50")
    run = up(*shape, *BRISK, "--fault", f"kill {victim} @ step=80", WORKLOADS / program, *pace)
    assert run.wait(200) == 0, run.output[-4000:]
    [planned] = run.events("RestartPlanned")
    assert planned["tasks"] == together
    result = run.run.result()
    assert result is not None
    assert result.last_step == 200
    digests = re.findall(r"weights digest (sha256:\w+)", run.output)
    assert len(set(digests)) == 1 if shape is GANG else True


def campaign(slurm: SlurmCluster, home: Path, deadline: float, *words: str | Path) -> str:
    """What `clusterkit chaos --engine slurm` prints in an allocation of three hosts; it leaves nothing."""
    line = shlex.join([sys.executable, "-m", "clusterkit", "chaos", "--engine", "slurm", *map(str, words)])
    job = slurm.submit(f"cd {shlex.quote(str(ROOT))}; CLUSTERKIT_HOME={home} exec {line}", "--nodes=3")
    slurm.wait_state(job, "COMPLETED", "FAILED", deadline=deadline)
    wait_until(lambda: not slurm.processes(), 20, lambda: str(slurm.processes()))
    return slurm.output(job)


def test_a_campaign_runs_in_an_allocation(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Each of its runs starts agents on the hosts that are there."""
    plan = ("--runs", "3", "--seed", "5", "--actions", "kill,term,stop")
    job = (*GANG, *BRISK, MIMIC, "--steps", "100", "--every", "20")
    output = campaign(slurm, slurm.jobs / f"home-{tmp_path.name}", 120, *plan, *job)
    assert "3 of 3 runs passed" in output, output


@pytest.mark.tensorflow
@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_a_campaign_with_every_fault_of_hosts_in_an_allocation(slurm: SlurmCluster, tmp_path: Path) -> None:
    """20 runs with TensorFlow recover from whatever is drawn."""
    job = (*PS, WORKLOADS / "ps_train.py", "--steps", "400", "--step-time", "0.02")
    output = campaign(slurm, slurm.jobs / f"home-{tmp_path.name}", 2300, "--runs", "20", "--seed", "20", *job)
    print(output)
    assert "20 of 20 runs passed" in output, output


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_ten_random_kills_leave_nothing_on_any_host(up: Start, slurm: SlurmCluster, seed: int) -> None:
    """Of any process of a run: tasks, agents, their guardians, the supervisor, its guardian, srun, the command."""
    rng = random.Random(seed)
    print(f"seed {seed}")
    run = up(*GANG, *QUICK, "--restart-budget", "20", MIMIC, "--steps", "100000", "--step-time", "0.01")
    run.wait_for("Checkpointed")
    for _ in range(10):
        found = [
            (pid, line) for host in sorted(slurm.processes().values(), key=str) for pid, line in sorted(host.items())
        ]
        ours = [(pid, line) for pid, line in found if "slurmstepd" not in line]
        if not ours:
            break
        pid, line = rng.choice(ours)
        print(f"killing {line[:100]}")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        threading.Event().wait(rng.uniform(0.0, 1.0))
    slurm.run("scancel", "--quiet", "--name=r-1")
    wait_until(lambda: not slurm.processes(), 60, lambda: str(slurm.processes()))


def test_a_run_is_seen_and_acted_on_from_the_login_node(up: Start, slurm: SlurmCluster) -> None:
    """Looking reads the shared directory; acting runs the command in the job, so that no port is opened for it."""
    run = up(*GANG, *BRISK, MIMIC, "--steps", "100000", "--step-time", "0.01")
    run.wait_for("Checkpointed")

    def ck(*words: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
        line = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join([sys.executable, '-m', 'clusterkit', *words])}"
        return slurm.head.run("/usr/bin/env", f"CLUSTERKIT_HOME={run.home}", f"PATH={path}", "/bin/sh", "-c", line)

    assert "worker:2" in ck("ps").stdout
    assert "mimic" in ck("ls").stdout
    assert "Slurm's command srun can't be found" in ck("kill", "worker:1", path="/nowhere").stderr
    assert run.events("RestartPlanned") == []
    assert ck("kill", "worker:1").stdout == "worker:1 got SIGKILL.\n"
    run.wait_for("RestartPlanned")
    wait_until(lambda: run.events("Checkpointed")[-1]["attempt"] == 2, 60, lambda: run.output)
    assert "File" in ck("stacks", "--timeout", "20s", "worker:0").stdout
    assert ck("kill", "worker:9").returncode == 2
    assert ck("down").returncode == 0
    assert run.wait(30) == 143
