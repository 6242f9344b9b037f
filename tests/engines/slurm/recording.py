"""Records what Slurm says of jobs that end in each way, on the test cluster; samples.jsonl beside it is its output.

    python -m tests.engines.slurm.recording > tests/engines/slurm/samples.jsonl      (as root, three minutes)

The lines of a job say what it got (`at`), how often it had been requeued when it began, the time, what squeue said, and
its log.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable

from clusterkit.engines.slurm.answers import FORMAT
from tests.engines.slurm_cluster import SlurmCluster

SQUEUE = ("env", "SLURM_TIME_FORMAT=%s", "squeue", "--noheader", "--states=all", f"--Format={FORMAT}")
WATCHER = f"""
looks() {{ {shlex.join(SQUEUE)} --jobs=$SLURM_JOB_ID; }}
show() {{ echo "@ $1 ${{SLURM_RESTART_COUNT:-0}} $(date +%s) $(looks)"; }}
for name in USR1 TERM; do trap "show $name" $name; done
show begins
while :; do sleep 0.2; done
"""
URGENT = ("--partition=urgent", "--nodes=1", "--ntasks=8", "--nodelist=n1")


class Recorder:
    """Runs jobs to their ends."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster

    def begin(self, *args: str) -> int:
        """Start a job that prints what squeue says of it, whenever it is signalled."""
        job = self.cluster.submit(WATCHER, "--open-mode=append", *args)
        self.cluster.wait_output(job, "begins", 20)
        return job

    def end(self, what: str, job: int, *states: str, deadline: float = 40) -> None:
        """Wait until it is in one of these states, and print what it said, and squeue says now."""
        self.cluster.wait_state(job, *states, deadline=deadline)
        log = self.cluster.output(job)
        for line in log.splitlines():
            if line.startswith("@ "):
                _, at, restarts, now, said = line.split(" ", 4)
                self.show(what, at, int(restarts), int(now), said, log)
        self.show(what, "end", 0, int(time.time()), self.cluster.run(*SQUEUE, "-j", str(job)).strip(), log)

    def show(self, what: str, at: str, restarts: int, now: int, said: str, log: str) -> None:
        """Print one line."""
        steps = "\n".join(line for line in log.splitlines() if line.startswith("slurmstepd"))
        end = {"what": what, "at": at, "restarts": restarts, "now": now, "squeue": said}
        print(json.dumps({**end, "log": "" if at in ("begins", "USR1") else steps}), flush=True)

    def cancelled(self, *args: str) -> None:
        """A job that a user cancels."""
        job = self.begin(*args)
        self.cluster.run("scancel", str(job))
        self.end("cancelled", job, "CANCELLED")

    def requeued(self) -> None:
        """One that is requeued by hand."""
        job = self.begin("--requeue")
        self.cluster.run("scontrol", "requeue", str(job))
        self.end("requeued", job, "PENDING")

    def preempted(self, what: str, *args: str) -> None:
        """One whose host a job of a higher partition takes. It gets SIGTERM at the end of its grace time only."""
        job = self.begin("--ntasks=8", "--nodelist=n1", *args)
        self.cluster.submit("sleep 60", *URGENT)
        self.cluster.wait(lambda: self.cluster.job(job)["PreemptTime"] != "None", 20, "grace")
        said = self.cluster.run(*SQUEUE, "-j", str(job)).strip()
        self.show(what, "grace", 0, int(time.time()), said, "")
        self.end(what, job, "PENDING", "PREEMPTED")

    def host_lost(self, what: str, *args: str) -> None:
        """One that loses a host."""
        job = self.begin("--nodes=2", "--nodelist=n1,n2", *args)
        self.cluster.hosts["n2"].kill()
        self.end(what, job, "PENDING", "NODE_FAIL")

    def out_of_time(self) -> None:
        """One that reaches its time limit."""
        job = self.begin("--time=1", "--signal=B:USR1@50", "--requeue")
        self.end("time limit", job, "TIMEOUT", deadline=150)

    def exited(self) -> None:
        """Those that end by themselves."""
        for script, state in (("true", "COMPLETED"), ("exit 7", "FAILED")):
            self.end("exited", self.cluster.submit(script), state)


def main() -> None:
    """Print all of them."""
    cluster = SlurmCluster()
    recorder = Recorder(cluster)
    whats: tuple[Callable[[], None], ...] = (
        recorder.exited,
        recorder.cancelled,
        recorder.requeued,
        lambda: recorder.preempted("preempted, requeued", "--requeue"),
        lambda: recorder.preempted("preempted", "--no-requeue"),
        lambda: recorder.host_lost("host lost, requeued", "--requeue"),
        lambda: recorder.host_lost("host lost", "--no-requeue"),
        recorder.out_of_time,
    )
    try:
        for what in whats:
            what()
            cluster.clear()
    finally:
        cluster.end()


if __name__ == "__main__":
    main()
