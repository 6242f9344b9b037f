"""Acting on a run whose supervisor is on another host: the same command is run there."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

from clusterkit.cli.addressing import choose

if TYPE_CHECKING:
    from clusterkit.client.directory import RunDirectory
    from clusterkit.client.follow import Life

WITHIN = 600.0  # seconds for a command; the longest waits for a profile


def to_act_on(run: str | None) -> RunDirectory:
    """The live run to act on. If it is a job of Slurm's on another host, run this command there, and exit as it does.

    No port is opened for it: Slurm lets only the job's user in. Raises ClusterkitError.
    """
    chosen = choose(run, finished=False)
    info = chosen.info()
    if info is None or not info.slurm_job or info.host == socket.gethostname():
        return chosen
    from clusterkit.engines.slurm.client import Slurm

    command = [sys.executable, "-m", "clusterkit", *sys.argv[1:]]
    done = Slurm(within=WITHIN).inside(info.slurm_job, info.host, command)
    sys.stdout.buffer.write(done.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(done.stderr)
    sys.stderr.flush()
    sys.exit(done.returncode)


def life_of(run: RunDirectory) -> Life:
    """The life of a run, over all allocations of its job, if it is one of Slurm's."""
    from clusterkit.client.follow import Life
    from clusterkit.engines.slurm.sequel import continues

    return Life(run, lambda: continues(run))
