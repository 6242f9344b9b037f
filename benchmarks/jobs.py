"""Training jobs as each launcher is told of them: flags, a Procfile, a shell script, a cluster spec."""

from __future__ import annotations

import json
import shlex
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ours

ROOT = Path(__file__).parent.parent
PROGRAMS = Path(__file__).parent / "programs"
WORKLOADS = ROOT / "workloads"
SERVERS = ("worker", "ps")  # of a parameter-server job; they never end by themselves


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A program of workloads/ and how many tasks of each type."""

    program: str
    counts: tuple[tuple[str, int], ...]
    args: tuple[str, ...]

    @property
    def tasks(self) -> list[tuple[str, int]]:
        """Type and index of each."""
        return [(kind, index) for kind, count in self.counts for index in range(count)]

    def words(self, place: Path) -> list[str]:
        """The program's file and its arguments, with the notes that it leaves in `place`."""
        return [str(PROGRAMS / "stamped.py"), str(place / "notes"), str(WORKLOADS / self.program), *self.args]

    def cluster(self) -> dict[str, list[str]]:
        """A cluster spec with free ports, found as one does by hand: they can be lost again before they are used."""
        ports = iter(free_ports(len(self.tasks)))
        return {kind: [f"localhost:{next(ports)}" for _ in range(count)] for kind, count in self.counts}


def ps_job(*args: str) -> TrainingJob:
    """The parameter-server job: a chief, two workers, one ps."""
    return TrainingJob("ps_train.py", (("chief", 1), ("worker", 2), ("ps", 1)), args)


def mwms_job(workers: int, *args: str) -> TrainingJob:
    """The MultiWorkerMirroredStrategy job."""
    return TrainingJob("mwms_train.py", (("worker", workers),), args)


def as_up(job: TrainingJob, place: Path, *flags: str, start: str | None = None) -> list[str]:
    """Under clusterkit, which adds the chief by itself."""
    counts = [
        word for kind, n in job.counts if kind != "chief" for word in (f"--{kind}{'s' * (kind == 'worker')}", str(n))
    ]
    return ours.up(*counts, *flags, *job.words(place), start=start)


def as_honcho(job: TrainingJob, place: Path) -> list[str]:
    """Under honcho, with a Procfile."""
    lines = [f"{kind}{index}: {command}\n" for (kind, index), command in commands(job, place).items()]
    (place / "Procfile").write_text("".join(lines))
    return honcho()


def as_script(job: TrainingJob, place: Path) -> list[str]:
    """As a shell script: servers in the background, ended when the chief is done; else it waits for all."""
    # A session for each task, as the others make: the kernel shares out the processors among sessions (autogroup), and
    # one for all would be a disadvantage on a machine that is busy otherwise.
    own_session = ["setsid"]
    lines = ["#!/bin/sh", "trap 'kill $pids; wait; exit 130' INT TERM", "pids="]
    with_ps = any(kind == "ps" for kind, _ in job.counts)
    for (kind, _), command in sorted(commands(job, place, own_session).items(), key=lambda item: item[0][0] == "chief"):
        background = kind in SERVERS
        lines += [f"{command} &", 'pids="$pids $!"'] if background else [command, "code=$?"]
    lines += ["kill $pids", "wait", "exit $code"] if with_ps else ["wait"]
    (place / "job.sh").write_text("\n".join(lines) + "\n")
    return ["/bin/sh", "job.sh"]


def as_mpr(job: TrainingJob, place: Path, restart: bool = False) -> list[str]:
    """Under TensorFlow's multi_process_runner."""
    told = {"cluster": job.cluster(), "argv": job.words(place), "restart": restart}
    return [sys.executable, str(PROGRAMS / "mpr_job.py"), json.dumps(told)]


def honcho(*args: str) -> list[str]:
    """honcho with the Procfile of its directory."""
    return [sys.executable, "-m", "honcho", "start", *args]


def torchrun(start: list[str], count: int, words: Sequence[str], *flags: str) -> list[str]:
    """torchrun's launcher with a program that is no Python."""
    return [*start, "--nproc-per-node", str(count), *flags, "--no-python", *words]


def commands(job: TrainingJob, place: Path, prefix: Sequence[str] = ()) -> dict[tuple[str, int], str]:
    """A line of shell for each task."""
    cluster = job.cluster()
    lines = {}
    for kind, index in job.tasks:
        config = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})
        lines[kind, index] = (
            f"TF_CONFIG={shlex.quote(config)} {shlex.join([*prefix, sys.executable, *job.words(place)])}"
        )
    return lines


def free_ports(count: int) -> list[int]:
    """Ports that nobody has just now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("", 0))
        return [int(each.getsockname()[1]) for each in sockets]
