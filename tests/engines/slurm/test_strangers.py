"""A run on Slurm, a stranger on its hosts' network and another user on a host: no one gets in or reads a secret."""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
from pathlib import Path

import pytest

from clusterkit.backends.link.certificate import write_certificate
from clusterkit.system import procfs
from tests.backends.link import leaks
from tests.engines.slurm.runs import GANG, MIMIC, Start
from tests.engines.slurm_cluster import SlurmCluster
from tests.support import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(120)]

TOKEN = "hunter2-a-password-of-the-user"
KNOCK = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.backends.link.knocking")
SPOOL = re.compile(r"(/.*/clusterkit-agent-[^/]+)/")


@pytest.mark.parametrize("mask", [0o000, 0o077], ids=["umask 000", "umask 077"])
def test_a_run_on_slurm_keeps_its_secrets(
    up: Start, slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: int
) -> None:
    """Its one port refuses who has no key or an old one; and no file, argument or environment shows key or password."""
    monkeypatch.setenv("API_TOKEN", TOKEN)
    with leaks.umask(mask):
        run = up(*GANG, "--env", "API_TOKEN", MIMIC, "--steps", "100000")
    run.wait_for("Checkpointed")
    run.wait_followed()
    processes = [pid for on_host in slurm.processes().values() for pid in on_host]
    pem, job_file = run.run.agents_key, run.home / "submitted/r-1/job.secret.toml"
    opened = (SPOOL.match(link) for pid in processes for link in procfs.links(pid))
    spools = sorted({Path(found[1]) for found in opened if found})
    assert len(spools) == 3  # one on each host
    places = [run.home, *spools]

    write_certificate(old := slurm.jobs / f"old-{tmp_path.name}.pem", "r-0")
    ours = [pid for pid in leaks.own_processes(processes) if "python" in Path(procfs.argv_of(pid)[0]).name]  # not srun
    [port] = leaks.ports(ours)
    knocked = slurm.hosts["n2"].run(*KNOCK, slurm.hosts["n1"].address, str(port), old, deadline=60)
    assert (knocked.returncode, knocked.stdout.strip()) == (0, ""), knocked.stderr

    key = leaks.key_in(pem)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (pem, job_file)] == [0o600, 0o600]
    assert leaks.holding(leaks.arguments(processes), [*key, TOKEN.encode()]) == []
    assert leaks.holding(leaks.environments(processes), key) == []
    assert leaks.holding(leaks.files(*places, but=[pem]), key) == []
    assert leaks.holding(leaks.files(*places, but=[job_file]), [TOKEN.encode()]) == []
    assert leaks.open_to_others(run.run.path, job_file.parent, *spools) == []

    os.kill(run.process.pid, signal.SIGINT)
    assert run.wait(60) == 130, run.output
    assert [*run.events("HostCut"), *run.events("HostLost"), *run.events("Crashed")] == []
