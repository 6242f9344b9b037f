"""Runs on three hosts with real sshds: what the job does, and what is left where."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from clusterkit.system import procfs
from tests.engines.ssh.hosts import SshHosts
from tests.support import CHILDREN, ROOT, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]
MIMIC = CHILDREN / "mimic.py"
GANG = ("--workers", "3")
PS = ("--workers", "3", "--ps", "1")
BRISK = ("--agent-timeout", "3s", "--restart-backoff", "0.1")
ENDLESS = (MIMIC, "--steps", "100000", "--step-time", "0.02")
NOISE = "head -c 3000 /dev/urandom; head -c 3000 /dev/urandom >&2;"  # as a careless .bashrc prints


@pytest.mark.parametrize("shape", [GANG, PS], ids=["gang", "ps"])
def test_a_job_runs_and_a_killed_worker_restarts(ssh: SshHosts, shape: tuple[str, ...]) -> None:
    """A gang, and a job with a parameter server; the run has no key on any disk but the supervisor's."""
    run = ssh.up(*shape, *BRISK, "--fault", "kill worker:1 @ step=20", MIMIC, "--steps", "40")
    assert run.wait(60) == 0, run.output
    assert set(run.events("Placed")[0]["hosts"].values()) == {"n1", "n2", "n3"}
    planned = run.events("RestartPlanned")
    assert ["worker:1" in one["tasks"] for one in planned] == [True], run.output


@pytest.mark.parametrize("loss", ["kill", "cut"])
def test_a_job_outlives_a_lost_host(ssh: SshHosts, loss: str) -> None:
    """Its sshd and agent die with it, or nothing reaches it any more: the tasks continue on the hosts that are left."""
    gate = ssh.home / "gate"
    run = ssh.up(*GANG, *BRISK, MIMIC, "--steps", "60", "--gate", f"40:{gate}")
    run.wait_for("Checkpointed")
    getattr(ssh, loss)("n3")
    assert run.wait_for("HostLost")["host"] == "n3"
    gate.touch()
    assert run.wait(60) == 0, run.output
    assert set(run.events("Placed")[-1]["hosts"].values()) == {"n1", "n2"}


@pytest.mark.parametrize("both", [False, True], ids=["the supervisor", "its guardian too"])
def test_a_killed_supervisor_leaves_nothing_anywhere(ssh: SshHosts, both: bool) -> None:
    """No ssh here, and no agent or task there once the agents' leases are over."""
    run = ssh.up(*GANG, *BRISK, *ENDLESS)
    run.wait_for("Checkpointed")
    guardian = run.process.pid
    supervisor = next(pid for pid in procfs.children(guardian) if "clusterkit" in " ".join(procfs.argv_of(pid)))
    assert any("ssh" in line for line in ssh.hosts["here"].processes().values())
    for pid in (guardian, supervisor) if both else (supervisor,):
        os.kill(pid, signal.SIGKILL)
    run.wait(20)
    wait_until(lambda: not ssh.hosts["here"].processes(), 10, lambda: str(ssh.hosts["here"].processes()))
    wait_until(lambda: not ssh.processes(), 20, lambda: str(ssh.processes()))


def test_an_agent_outlives_its_ssh(ssh: SshHosts) -> None:
    """The run and its tasks need the connection to the supervisor only."""
    gate = ssh.home / "gate"
    run = ssh.up(*GANG, *BRISK, MIMIC, "--steps", "60", "--gate", f"40:{gate}")
    run.wait_for("Checkpointed")
    here = ssh.hosts["here"].processes().items()
    connections = [pid for pid, line in here if "ClearAllForwardings" in line and "n2" in line]
    assert connections
    for pid in connections:
        os.kill(pid, signal.SIGKILL)
    gate.touch()
    assert run.wait(60) == 0, run.output
    assert not run.events("HostLost")


def test_a_noisy_login_does_not_matter(ssh: SshHosts) -> None:
    """Random bytes before anything else, on both outputs."""
    ssh.configure("n1", f'ForceCommand {NOISE} exec sh -c "$SSH_ORIGINAL_COMMAND"')
    run = ssh.up(*BRISK, "--workers", "2", MIMIC, "--steps", "5", hosts=("n1", "n2"))
    assert run.wait(60) == 0, run.output


def test_a_host_behind_a_jump_host_is_told_where_the_supervisor_is(ssh: SshHosts) -> None:
    """Its login comes from the jump host, so the user names the address."""
    ssh.edit("config", "Host n2\n", "Host n2\n    ProxyJump n1\n")
    listen = ("--listen", ssh.hosts["here"].address)
    run = ssh.up(*listen, *BRISK, "--workers", "2", MIMIC, "--steps", "5", hosts=("n2", "n3"))
    assert run.wait(60) == 0, run.output


def test_what_is_wrong_with_each_host_is_said_at_once(ssh: SshHosts) -> None:
    """A refused key, an unknown host and one that is down: exit code 2, and nothing was started anywhere."""
    ssh.edit("config", f"IdentityFile {ssh.place}/user", f"IdentityFile {ssh.place}/stranger")
    ssh.edit("known", f"[{ssh.hosts['n2'].address}]:2201 ", "nobody ")
    ssh.kill("n3")
    run = ssh.up(*GANG, *ENDLESS)
    assert run.wait(60) == 2
    assert re.search(r"^clusterkit: n1: root@\S+: Permission denied \(publickey\)\.$", run.output, re.M), run.output
    assert "\nn2: Host key verification failed." in run.output
    assert re.search(r"^n3: ssh: connect to host \S+ port 2202: ", run.output, re.M)
    assert "Nothing was started on any host." in run.output
    assert not run.run.path.exists()
    assert not ssh.processes()


def test_hosts_without_this_version_are_named_with_what_to_do(ssh: SshHosts, tmp_path: Path) -> None:
    """One has no clusterkit, one another version, and one answers rubbish without end."""
    for name, text in (("n1", "raise ImportError"), ("n2", "__version__ = '0.0.9'")):
        (tmp_path / name / "clusterkit").mkdir(parents=True)
        (tmp_path / name / "clusterkit/__init__.py").write_text(text)
        ssh.configure(name, f"SetEnv PYTHONPATH={tmp_path / name}")
    ssh.configure("n3", "ForceCommand cat /dev/urandom")
    run = ssh.up(*GANG, *ENDLESS)
    assert run.wait(60) == 2
    assert re.search(r"clusterkit: n1: clusterkit is not installed for \S+\. Install it: ssh n1 ", run.output)
    assert re.search(r"^n2 has clusterkit 0\.0\.9, and this is .*Install it: ssh n2 .*==", run.output, re.M)
    assert re.search(r"^n3: ", run.output, re.M)
    assert not run.run.path.exists()


def test_an_interrupt_ends_all_of_it(ssh: SshHosts) -> None:
    """When `up` returns, nothing of the run is left here or there."""
    run = ssh.up(*GANG, *ENDLESS)
    run.wait_for("Checkpointed")
    run.process.send_signal(signal.SIGINT)
    assert run.wait(30) == 130, run.output
    assert not ssh.hosts["here"].processes()
    assert not {pid: line for pid, line in ssh.processes().items() if "sshd" not in line}


def test_a_login_that_hangs_can_be_interrupted(ssh: SshHosts) -> None:
    """At once, and nothing is left of those that worked."""
    ssh.configure("n1", "ForceCommand cat >/dev/null")
    run = ssh.up(*GANG, *ENDLESS)
    answered = run.run.path / "agents" / "n2.out"
    wait_until(lambda: answered.exists() and answered.read_text(), 20, lambda: run.output)
    run.process.send_signal(signal.SIGINT)
    assert run.wait(10) == 130, run.output
    assert not ssh.hosts["here"].processes()


def test_a_missing_interpreter_is_a_question_of_remote_python(ssh: SshHosts) -> None:
    """With what the shell there said."""
    run = ssh.up("--remote-python", "no such; python", *GANG, *ENDLESS, hosts=("n1", "n2", "n3"))
    assert run.wait(60) == 2
    assert run.output.count("no such; python") == 3, run.output
    assert run.output.count("Does --remote-python name an interpreter there?") == 3


@pytest.mark.tensorflow
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("shape", "program", "together"),
    [
        (("--workers", "2", "--ps", "1"), "ps_train.py", ["worker:1"]),
        (GANG, "mwms_train.py", ["worker:0", "worker:1", "worker:2"]),
    ],
    ids=["ps", "gang"],
)
def test_tensorflow_trains_on_three_hosts(
    ssh: SshHosts, shape: tuple[str, ...], program: str, together: list[str]
) -> None:
    """A worker is killed: the same tasks restart as on one machine."""
    pace = ("--steps", "200", "--checkpoint-every", "50")
    spread = ("--place", "worker=n1,n2,n3", "--restart-backoff", "0.1")
    run = ssh.up(*shape, *spread, "--fault", "kill worker:1 @ step=80", ROOT / "workloads" / program, *pace)
    assert run.wait(250) == 0, run.output[-4000:]
    [planned] = run.events("RestartPlanned")
    assert planned["tasks"] == together
    result = run.run.result()
    assert result is not None
    assert result.last_step == 200
