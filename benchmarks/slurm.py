"""The scenario of a job of Slurm's, on the three virtual hosts of the tests: our agents beside plain steps of srun."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import notes, ours
from benchmarks.jobs import ROOT, TrainingJob, ps_job
from benchmarks.recovery import SOON
from benchmarks.scenario import Competitor, Figures, Scenario
from benchmarks.training import LONG
from tests.engines.slurm_cluster import SlurmCluster, why_no_slurm
from tests.support import wait_until

STEPS = 50  # before the worker is killed
PORT = 21000
HOST_OF = {("chief", 0): "n1", ("worker", 0): "n1", ("ps", 0): "n1", ("worker", 1): "n2"}  # as ours places them
Script = Callable[[TrainingJob, Path], str]


def slurm_scenario() -> Scenario:
    """The parameter-server job: from the beginning of its batch script to its first step; then a worker is killed."""
    job = ps_job("--steps", "1000000", "--step-time", "0.01", "--checkpoint-every", "1000000")
    competitors: dict[str, Competitor] = {
        "clusterkit": lambda place: _measured(job, place, _ours),
        "srun": lambda place: _measured(job, place, _plain),
    }
    return Scenario("slurm", competitors, why_no_slurm())


def _ours(job: TrainingJob, place: Path) -> str:
    words = ours.up("--engine", "slurm", "--hosts", "2", *SOON, "--workers", "2", "--ps", "1", *job.words(place))
    return f"exec env CLUSTERKIT_HOME={place / ours.HOME} {shlex.join(words)}"


def _plain(job: TrainingJob, place: Path) -> str:
    """A step for each task. One that ends while the job goes on is started again, as a step."""
    address = {name: f"$(getent hosts {name} | cut -d' ' -f1)" for name in ("n1", "n2")}
    cluster: dict[str, list[str]] = {}
    for port, (kind, index) in enumerate(job.tasks, PORT):
        cluster.setdefault(kind, []).append(f"{address[HOST_OF[kind, index]]}:{port}")
    lines = []
    for kind, index in job.tasks:
        config = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}).replace('"', r"\"")
        step = f"srun --overlap --nodes=1 --ntasks=1 --mem=0 --nodelist={HOST_OF[kind, index]}"
        program = shlex.join([sys.executable, *job.words(place)])
        lines.append(f'(while :; do TF_CONFIG="{config}" {step} {program}; done) &')
    return "\n".join([*lines, "wait"])


def _measured(job: TrainingJob, place: Path, script: Script) -> Figures:
    cluster = SlurmCluster()
    try:
        begin = f"cut -d' ' -f1 /proc/uptime > {place / 'began'}; cd {ROOT}"
        number = cluster.submit(f"#!/bin/bash\n{begin}\n{script(job, place)}\n", "--nodes=2", "--output=out")
        _wait(cluster, number, lambda: any(note.step >= STEPS for note in notes.notes(place)))
        step = notes.first(place, "step")
        assert step is not None
        killed = time.monotonic()
        os.kill(_worker_on(cluster, "n2"), signal.SIGKILL)
        _wait(cluster, number, lambda: notes.first(place, "ready", killed) is not None)
        ready = notes.first(place, "ready", killed)
        assert ready is not None
        cluster.run("scancel", str(number))
        return {"first": step.at - float((place / "began").read_text()), "back": ready.at - killed}
    finally:
        cluster.end()


def _wait(cluster: SlurmCluster, job: int, done: Callable[[], bool]) -> None:
    wait_until(done, LONG, lambda: (cluster.jobs / "out").read_text()[-3000:], pause=0.02)


def _worker_on(cluster: SlurmCluster, host: str) -> int:
    """The only task there; what has started it has the program among its arguments, too, but not as the first."""
    lines = cluster.hosts[host].processes().items()
    return next(pid for pid, line in lines if "python" in line.split()[0] and line.split()[1].endswith("stamped.py"))
