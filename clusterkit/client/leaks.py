"""Leaks: what is left of the runs below one home when all of them should be over."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clusterkit.client.rundir import is_live
from clusterkit.client.store import JOB, read_json
from clusterkit.system import procfs
from clusterkit.system.ports import ports_here
from clusterkit.system.sweep import kill_until_gone


@dataclass(frozen=True, slots=True)
class Leaks:
    """Sentences about what was left behind; none where nothing was."""

    runs: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of them, the causes first: a live run has its processes, a process its ports."""
        return (*self.runs, *self.processes, *self.ports)


def find_leaks(home: Path) -> Leaks:
    """What is there now: live runs, processes of runs, and ports of runs on which something listens."""
    runs = [run for run in (home / "runs").glob("*") if is_live(run)]
    return Leaks(
        runs=tuple(f"The run {run.name} is still live." for run in runs),
        processes=tuple(f"{_name(pid)} of {_owner(pid)} still runs." for pid in processes_below(home)),
        ports=tuple(sorted(_ports(home))),
    )


def end_leaks(home: Path) -> None:
    """Kill what was left: live runs by their supervisors, whose guardians end the rest. Raises WillNotDie."""
    for run in (home / "runs").glob("*"):
        if is_live(run):
            with suppress(OSError, KeyError):
                os.kill(read_json(run / JOB)["pid"], signal.SIGKILL)
    kill_until_gone(lambda: processes_below(home))


def processes_below(home: Path) -> list[int]:
    """Live processes of tasks of any run below a home."""
    below = os.fspath(home / "runs") + os.sep
    return [
        pid
        for pid in procfs.all_pids()
        if pid != os.getpid()
        and procfs.environ(pid).get("CLUSTERKIT_RUN_DIR", "").startswith(below)
        and not procfs.is_zombie(pid)
    ]


def _ports(home: Path) -> Iterator[str]:
    ours = {port: (run.name, task) for run in (home / "runs").glob("*") for port, task in _endpoints(run).items()}
    taken = ours.keys() & procfs.listening_ports()
    if not taken:
        return
    for pid in procfs.all_pids():
        # The system may have given the port to another run meanwhile, which is no leak of this one.
        directory = procfs.environ(pid).get("CLUSTERKIT_RUN_DIR")
        if directory is not None and not Path(directory).is_relative_to(home):
            continue
        for port in taken & procfs.listening_ports_of(pid):
            run, task = ours[port]
            yield f"{_name(pid)} still listens on port {port}, which was {task}'s in the run {run}."


def _endpoints(run: Path) -> dict[int, str]:
    return ports_here(read_json(run / JOB).get("endpoints", {}))


def _owner(pid: int) -> str:
    env = procfs.environ(pid)
    return f"{env.get('CLUSTERKIT_TASK', 'a task')} (run {Path(env.get('CLUSTERKIT_RUN_DIR', '?')).name})"


def _name(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        words = ""
    line = " ".join(words.split())
    return f"The process {pid}" + (f" ({line[:80]})" if line else "")
