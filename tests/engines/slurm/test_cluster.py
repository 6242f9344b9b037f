"""The test cluster itself: Slurm as the engine's code will find it, and hosts that can be cut, killed and restarted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from clusterkit.network.switch.links import Layer
from clusterkit.system import procfs
from tests.engines.slurm_cluster import NAMES, SlurmCluster, why_no_slurm
from tests.engines.slurm_config import HOST_DOWN_AFTER, SOON
from tests.support import ROOT, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(180)]
DOWN_WITHIN = 8.0 * HOST_DOWN_AFTER  # seconds; measured: 16
STUBBORN = "trap : TERM; while :; do sleep 1; done"
SPREAD = "srun --no-kill sleep 100 & wait"


def wait_for_processes(slurm: SlurmCluster, line: str) -> None:
    """Wait until a step's process runs on each host: its command line ends so."""

    def is_there() -> bool:
        return all(any(seen.endswith(line) for seen in slurm.processes().get(n, {}).values()) for n in NAMES)

    slurm.wait(is_there, 20, line)


def test_a_command_runs_on_three_hosts(slurm: SlurmCluster) -> None:
    """Each has a name and an address of its own."""
    show = 'echo "$(uname -n) $(hostname -i)"'
    lines = slurm.run("srun", "--nodes=3", "sh", "-c", show).splitlines()
    assert sorted(lines) == [f"{name} {slurm.hosts[name].address}" for name in NAMES]


def test_processes_of_one_host_are_hidden_from_another(slurm: SlurmCluster) -> None:
    """Pids mean something on their own host only, as on real ones."""
    job = slurm.submit("exec sleep 100", "--nodelist=n1")
    slurm.wait_state(job, "RUNNING", deadline=20)
    slurm.wait(lambda: "sleep 100" in slurm.processes().get("n1", {}).values(), 10, "sleep on n1")
    assert slurm.hosts["n1"].run("pgrep", "-x", "sleep").returncode == 0
    assert slurm.hosts["n2"].run("pgrep", "-x", "sleep").returncode == 1


def test_a_cancelled_job_leaves_nothing(slurm: SlurmCluster) -> None:
    """Not even what ignores SIGTERM.

    But Slurm's proctrack/linuxproc does not find a process that has lost its parent and has a session of its own.
    """
    slurm.configure(SOON)
    job = slurm.submit(f"srun sh -c '{STUBBORN}'", "--nodes=3")
    wait_for_processes(slurm, "sleep 1")
    slurm.run("scancel", str(job))
    slurm.wait_state(job, "CANCELLED", deadline=30)
    slurm.wait(lambda: not slurm.processes(), 10, "no processes")


def test_a_host_that_is_cut_off_is_down_until_it_is_back(slurm: SlurmCluster) -> None:
    """What runs there knows nothing of it."""
    job = slurm.submit(SPREAD, "--nodes=3", "--no-kill")
    wait_for_processes(slurm, "sleep 100")
    slurm.hosts["n3"].cut()
    slurm.wait_host("n3", "down", DOWN_WITHIN)
    assert any(line.endswith("sleep 100") for line in slurm.processes()["n3"].values())
    assert slurm.job(job)["JobState"] == "RUNNING"
    slurm.hosts["n3"].heal()
    slurm.wait_host("n3", "idle", 20)


def test_a_host_that_is_killed_leaves_its_job_to_those_that_are_left(slurm: SlurmCluster) -> None:
    """With --no-kill for the job and for the step: the processes on the others run on."""
    job = slurm.submit(SPREAD, "--nodes=3", "--no-kill")
    wait_for_processes(slurm, "sleep 100")
    slurm.hosts["n2"].kill()
    assert set(slurm.processes()) == {"n1", "n3"}
    slurm.wait_output(job, "Node failure on n2", DOWN_WITHIN)
    assert slurm.job(job)["JobState"] == "RUNNING"
    assert slurm.job(job)["NodeList"] == "n[1,3]"
    slurm.hosts["n2"].start()
    slurm.wait_host("n2", "idle", 20)
    assert set(slurm.processes()) == {"n1", "n3"}


def test_a_requeued_job_starts_soon_where_its_start_time_is_set(slurm: SlurmCluster) -> None:
    """Under the same id, its log appended to; otherwise it would wait for two minutes. It may requeue itself.

    In the very second of its end it would fail: its credential was revoked then.
    """
    itself = '[ "$SLURM_RESTART_COUNT" ] || scontrol requeue "$SLURM_JOB_ID"; exec sleep 100'
    job = slurm.submit(f'echo "restarts: ${{SLURM_RESTART_COUNT:-0}}"; {itself}', "--requeue", "--open-mode=append")
    slurm.wait_output(job, "restarts: 0", 20)
    slurm.hasten(job)
    slurm.wait_output(job, "restarts: 1", 20)
    assert "restarts: 0" in slurm.output(job)


def test_a_job_that_loses_the_host_of_its_batch_script_runs_on_without_it(slurm: SlurmCluster) -> None:
    """With --no-kill. It is not requeued, unless somebody requeues it, as a process on another of its hosts can."""
    job = slurm.submit(SPREAD, "--nodes=3", "--no-kill", "--requeue")
    wait_for_processes(slurm, "sleep 100")
    slurm.hosts["n1"].kill()
    slurm.wait_host("n1", "down", DOWN_WITHIN)
    assert slurm.job(job)["JobState"] == "RUNNING"
    assert set(slurm.processes()) == {"n2", "n3"}
    assert slurm.hosts["n2"].run("scontrol", "requeue", str(job)).returncode == 0
    slurm.wait_state(job, "PENDING", deadline=30)


def test_packets_of_a_host_can_be_delayed(slurm: SlurmCluster) -> None:
    """By what `clusterkit up --network virtual` has for its tasks."""
    slurm.hosts["n1"].impair(Layer(delay=0.2))
    begun = time.monotonic()
    assert slurm.run("srun", "--nodelist=n1", "uname", "-n") == "n1\n"
    assert time.monotonic() - begun > 0.4


def test_a_controller_that_was_killed_knows_its_jobs_again(slurm: SlurmCluster) -> None:
    """They run on meanwhile."""
    job = slurm.submit("exec sleep 100")
    slurm.wait_state(job, "RUNNING", deadline=20)
    saved, begun = slurm.place / "state" / "job_state", time.time()
    slurm.run("scontrol", "update", f"JobId={job}", "Comment=saved")  # otherwise Slurm need not save it once more
    wait_until(lambda: saved.exists() and saved.stat().st_mtime > begun, 20, "the saved state of the jobs")
    slurm.head.kill()
    slurm.head.start()
    assert slurm.wait_state(job, "RUNNING", deadline=30)["JobId"] == str(job)


def test_the_client_commands_work_off_the_hosts_too(slurm: SlurmCluster) -> None:
    """For a test's own process."""
    ran = subprocess.run(["squeue", "--version"], env={**os.environ, **slurm.env}, capture_output=True, text=True)
    assert ran.stdout.startswith("slurm"), ran.stderr


def test_a_cluster_is_up_soon_and_leaves_nothing_when_its_process_is_killed() -> None:
    """No process, namespace, mount or device; nor does it change this machine's files while it is up."""
    if (why := why_no_slurm()) is not None:
        pytest.skip(f"no Slurm here: {why}")
    place, before = Path(tempfile.mkdtemp()), traces()
    place.chmod(0o711)
    code = "from tests.engines.slurm_cluster import *; c = SlurmCluster(); print(c.place, flush=True); input()"
    begun = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(place)},
    ) as process:
        assert process.stdout is not None
        assert Path(process.stdout.readline().strip()).parent == place
        assert time.monotonic() - begun < 10  # it takes 0.3 s, and Python as long to begin
        assert len(processes_in(place)) >= 10
        assert traces() == before
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not processes_in(place), 10, lambda: str(processes_in(place)))
    assert traces() == before
    shutil.rmtree(place)


def processes_in(place: Path) -> list[list[str]]:
    """What still runs of that which was started with this directory for its temporary files."""
    return [procfs.argv_of(pid) for pid in procfs.all_pids() if procfs.environ(pid).get("TMPDIR") == str(place)]


def traces() -> tuple[bytes, bytes, set[str]]:
    """What a careless cluster leaves on a machine."""
    devices = {path.name for path in Path("/sys/class/net").iterdir()}
    return Path("/etc/hosts").read_bytes(), Path("/proc/self/mountinfo").read_bytes(), devices
