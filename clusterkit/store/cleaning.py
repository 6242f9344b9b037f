"""Finds and kills processes that runs leave behind, and removes the directories of finished runs."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.system import procfs
from clusterkit.system.ports import port_here
from clusterkit.system.sweep import kill_until_gone
from clusterkit.words.errors import ClusterkitError

SETTLING = 2.0  # seconds; the time that killed processes may take to disappear
LOOK_EVERY = 0.05  # seconds between searches for leaks
MARK = "CLUSTERKIT_RUN_DIR"  # a variable in the environment of a run's processes and their descendants


class StillLive(ClusterkitError):
    """A live run can't be removed."""


class Process(NamedTuple):
    """A process on this machine, with the run and task that its environment names, if any."""

    pid: int
    run: RunDirectory | None
    task: str


@dataclass(frozen=True, slots=True)
class Leaks:
    """Live runs, processes and open ports that should be gone, each described by a sentence."""

    runs: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return all sentences, causes first: a live run explains its processes, and a process explains its ports."""
        return (*self.runs, *self.processes, *self.ports)


def find_strays(everywhere: bool = False, spared: Collection[int] = (), own: str = "") -> dict[str, list[int]]:
    """Return the pids of this user's processes whose run has no live supervisor, by run id.

    Runs in other state directories are included only if `everywhere` is set. Runs whose directory was removed are
    skipped, since only the lock file shows whether a run is live. Processes in `spared` and ancestors of this process
    are skipped, too. `own` is a run whose lock this process has taken over, so all processes of the run are strays.
    """
    store, found = RunStore(), defaultdict[str, list[int]](list)
    for pid, run, _ in _processes(spared):
        if run is None or not (everywhere or store.has(run)):
            continue
        if run.lock_file.exists() and (not run.is_live() or (run.run_id == own and store.has(run))):
            found[run.run_id].append(pid)
    return dict(found)


def reap_strays(everywhere: bool = False, spared: Collection[int] = (), own: str = "") -> dict[str, int]:
    """Kill strays until none is left; return their number by run id. Raises ProcessesSurvived."""
    counts = {run_id: len(pids) for run_id, pids in find_strays(everywhere, spared, own).items()}
    if counts:
        kill_until_gone(lambda: [pid for pids in find_strays(everywhere, spared, own).values() for pid in pids])
    return counts


def find_leaks(store: RunStore, run_id: str = "") -> Leaks:
    """Return what is left of a store's runs, or of one run, after up to SETTLING seconds in which it may disappear."""
    until = time.monotonic() + SETTLING
    while (leaks := _leaks(store, run_id)).sentences and time.monotonic() < until:
        time.sleep(LOOK_EVERY)
    return leaks


def end_leaks(store: RunStore) -> None:
    """Kill all supervisors, so that guardians end the tasks, then all other processes. Raises ProcessesSurvived."""
    for run in store.all():
        if run.is_live() and (info := run.info()) is not None and info.pid > 0:
            with suppress(OSError):
                os.kill(info.pid, signal.SIGKILL)
    kill_until_gone(lambda: [pid for pid, run, _ in _processes() if run and store.has(run)])


def remove(run: RunDirectory) -> None:
    """Kill the strays of a run that is over, and remove its files. Raises StillLive and ClusterkitError."""
    if not run.is_over():
        raise StillLive(f"The run {run.run_id} is live. Stop it first: clusterkit down {run.run_id}")
    if run.run_id in find_strays():  # strays can't be recognized once the directory is gone
        reap_strays()
    try:
        if run.submitted.exists():
            shutil.rmtree(run.submitted)
        _remove_directory(run)
    except OSError as error:
        why = f"{error.strerror} ({error.filename})"
        raise ClusterkitError(f"Cannot remove the run {run.run_id}: {why}.") from None


def _remove_directory(run: RunDirectory) -> None:
    """Remove a run's files. The job file and the result file go last: they remain if another file can't be removed."""
    if run.path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link", str(run.path))
    last = run.job_file, run.result_file
    for path in [path for path in run.path.iterdir() if path not in last]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for path in last:
        path.unlink(missing_ok=True)
    run.path.rmdir()


def _processes(spared: Collection[int] = ()) -> Iterator[Process]:
    """Yield this machine's processes, except this process, its ancestors, and the processes in `spared`.

    An exempt process may have inherited a run's mark, for example in a terminal that a task opened. Its descendants
    then have the mark without belonging to the run, so they are exempt, too.
    """
    own = {*spared, *procfs.lineage(os.getpid())}
    for pid in [pid for pid in own if MARK in procfs.environ(pid)]:
        own.update(procfs.descendants(pid))
    for pid in procfs.all_pids():
        if pid in own:
            continue
        env = procfs.environ(pid)
        directory = env.get(MARK)
        if not (directory and procfs.is_zombie(pid)):
            run = RunDirectory(Path(directory)) if directory else None
            yield Process(pid, run, env.get("CLUSTERKIT_TASK", "a task"))


def _leaks(store: RunStore, run_id: str) -> Leaks:
    runs = [run for run in store.all() if run_id in ("", run.run_id)]
    used_ports = {port_here(end): (run, task) for run in runs for task, end in run.endpoints().items()}
    used_ports = {port: used_ports[port] for port in used_ports.keys() & procfs.listening_ports()}
    processes, ports = list[str](), list[str]()
    for pid, run, task in _processes():
        if run is not None and not (store.has(run) and run_id in ("", run.run_id)):
            continue  # a process of another run, which may have been given one of the ports
        if run is not None:
            processes.append(f"{_name(pid)} of {task} (run {run.run_id}) still runs.")
        for port in used_ports.keys() & procfs.listening_ports_of(pid) if used_ports else ():
            owner, whose = used_ports[port]
            ports.append(f"{_name(pid)} still listens on port {port}, which was {whose}'s in the run {owner.run_id}.")
    live = tuple(f"The run {run.run_id} is still live." for run in runs if run.is_live())
    return Leaks(live, tuple(processes), tuple(sorted(ports)))


def _name(pid: int) -> str:
    line = " ".join(" ".join(procfs.argv_of(pid)).split())
    return f"The process {pid}" + (f" ({line[:80]})" if line else "")
