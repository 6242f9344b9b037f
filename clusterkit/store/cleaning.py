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

from clusterkit.store.checkpoint_lock import is_directory_locked
from clusterkit.store.directory import InUse, RunDirectory, RunGone
from clusterkit.store.journal import JournalReader
from clusterkit.store.removals import Removal, Removals
from clusterkit.store.store import RunStore
from clusterkit.system import procfs
from clusterkit.system.ports import port_here
from clusterkit.system.sweep import kill_until_gone, lingers
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Continued, Finished

SETTLING = 2.0  # seconds; the time that killed processes may take to disappear
LOOK_EVERY = 0.05  # seconds between searches for leaks
MARK = "CLUSTERKIT_RUN_DIR"  # a variable in the environment of a run's processes and their descendants


class StillLive(ClusterkitError):
    """A live run can't be removed."""


class StillWanted(ClusterkitError):
    """A run that can be continued, or whose checkpoints are being copied, is removed only on explicit request."""


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
        if run is None or not (everywhere or store.has(run)) or (run.run_id != own and lingers(pid)):
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


def remove(run: RunDirectory, by: str | None = None, force: bool = False) -> None:
    """Kill the strays of a run that is over, and remove its files, while holding the run's lock.

    `by` is the command that removes the run, to be recorded; None to record nothing. A run that can be continued is
    removed only with `force`. Raises StillLive, StillWanted and ClusterkitError.
    """
    live = StillLive(f"The run {run.run_id} is live. Stop it first: clusterkit down {run.run_id}")
    if not run.is_over():
        raise live
    if run.path.is_symlink():
        raise _not_removed(run, OSError(errno.ELOOP, "it is a symbolic link", str(run.path)))
    try:
        lock = run.lock(0.0)
    except RunGone:
        return
    except InUse as error:
        if error.is_live:
            raise live from None
        raise StillWanted(f"The run {run.run_id} was not removed: another run copies its checkpoints.") from None
    try:
        if is_directory_locked(run.checkpoints):
            raise StillWanted(f"The run {run.run_id} was not removed: a live run saves to {run.checkpoints}.")
        if not force and can_continue(run):
            raise StillWanted(
                f"The run {run.run_id} has not ended for good, and was not removed: "
                f"`up --run-id {run.run_id} --continue` continues it. "
                f"To remove it with its checkpoints: clusterkit rm --force {run.run_id}"
            )
        _remove_locked(run, by)
    finally:
        os.close(lock)


def can_continue(run: RunDirectory) -> bool:
    """Return whether a run without a supervisor has no final result, and has anything to continue from."""
    result = run.result()
    if result is not None and result.final:
        return False
    if _decided_result(run):
        return False  # the supervisor was lost before it wrote the result
    return not _is_empty(run.journal) or _has_entries(run.checkpoints)


def _decided_result(run: RunDirectory) -> bool:
    """Return whether the run's journal ends with a final result."""
    decided = False
    for _, event in JournalReader(run).events():
        if isinstance(event, Finished):
            decided = event.result.final
        elif isinstance(event, Continued):
            decided = False
    return decided


def _is_empty(file: Path) -> bool:
    with suppress(OSError):
        return file.stat().st_size == 0
    return True


def _has_entries(directory: Path) -> bool:
    with suppress(OSError):
        return any(directory.iterdir())
    return False


def _remove_locked(run: RunDirectory, by: str | None) -> None:
    if run.run_id in find_strays(own=run.run_id):  # strays can't be recognized once the directory is gone
        reap_strays(own=run.run_id)
    removals = Removals(run.path.parent.parent)
    if by is not None:
        removals.add(run.run_id, Removal(by, time.time()))
    try:
        if run.submitted.exists():
            shutil.rmtree(run.submitted)
        _remove_directory(run)
    except OSError as error:
        removals.discard(run.run_id)
        raise _not_removed(run, error) from None


def _not_removed(run: RunDirectory, error: OSError) -> ClusterkitError:
    return ClusterkitError(f"Cannot remove the run {run.run_id}: {error.strerror} ({error.filename}).")


def _remove_directory(run: RunDirectory) -> None:
    """Remove a run's files. The job and result files go late: they remain if another file can't be removed.

    The lock file goes last, so that no other process continues what is left of the run.
    """
    last = run.job_file, run.result_file, run.lock_file
    for path in [path for path in run.path.iterdir() if path not in last]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for path in last:
        path.unlink(missing_ok=True)
    run.path.rmdir()


def _processes(spared: Collection[int] = ()) -> Iterator[Process]:
    """Yield this user's processes, except this process, its ancestors, and the processes in `spared`.

    An exempt process may have inherited a run's mark, for example in a terminal that a task opened. Its descendants
    then have the mark without belonging to the run, so they are exempt, too.
    """
    own = {*spared, *procfs.lineage(os.getpid())}
    for pid in [pid for pid in own if MARK in procfs.environ(pid)]:
        own.update(procfs.descendants(pid))
    for pid in procfs.all_pids():
        if pid in own or procfs.owner_of(pid) != os.geteuid():  # root does not end what others have marked, either
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
        if lingers(pid) or (run is not None and not (store.has(run) and run_id in ("", run.run_id))):
            continue  # the page of a run, or a process of another run, which may have one of the ports
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
