"""Starts a cluster of a function; a fork waits for it in vain, and exits; then the task has to be started once more."""

import os
import sys

from clusterkit import Cluster, ClusterkitError


def seventh() -> int:
    """Return on the second attempt."""
    import signal

    while os.environ["CLUSTERKIT_ATTEMPT"] == "1":
        signal.pause()
    return 7


run = Cluster(seventh, restart_backoff=0.1, patience=40)
if (pid := os.fork()) == 0:
    try:
        run.wait()
    except ClusterkitError as error:
        print(error, flush=True)
    sys.exit()
os.waitpid(pid, 0)
run.tasks["worker:0"].kill()
print(run.wait().returns, flush=True)
