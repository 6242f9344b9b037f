"""Run directories: made, locked, found, read."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import platformdirs

from clusterkit.client.paths import RunPaths
from clusterkit.system.procfs import WANT
from clusterkit.words.errors import BadJob, CannotLook, RunDirectoryError
from clusterkit.words.model import Task

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def state_dir() -> Path:
    """Where runs are kept: CLUSTERKIT_HOME, or the platform's place for state."""
    home = os.environ.get("CLUSTERKIT_HOME")
    return Path(home).absolute() if home else Path(platformdirs.user_state_dir("clusterkit"))


def runs_dir() -> Path:
    """The directory of all run directories."""
    return state_dir() / "runs"


def new_run_id() -> str:
    """Sorts by time, and is new."""
    return time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)


def run_paths(run_id: str, checkpoint_dir: str | None) -> RunPaths:
    """Where a run keeps its things, whether it has begun or not."""
    root = runs_dir() / run_id
    checkpoints = Path(checkpoint_dir).absolute() if checkpoint_dir else root / "checkpoints"
    return RunPaths(PurePosixPath(root), run_id, PurePosixPath(checkpoints))


class RunDirectory:
    """A run's directory, made by its owner and locked while the owner lives. Raises RunDirectoryError."""

    def __init__(self, run_id: str, checkpoint_dir: str | None) -> None:
        self.path = runs_dir() / run_id
        self.run_id = run_id
        self.paths = run_paths(run_id, checkpoint_dir)
        checkpoints = Path(self.paths.checkpoints)
        try:
            runs_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700)
            for name in ("tasks", "stacks", "tensorboard"):
                (self.path / name).mkdir(mode=0o700)
            (self.path / "journal.jsonl").touch(mode=0o600)
            checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise RunDirectoryError(
                f"There is already a run {run_id}, or something in the way of its directory {self.path}. "
                f"Choose another --run-id, or leave it out."
            ) from None
        except OSError as error:
            self.discard()
            raise RunDirectoryError(_cannot(self.path, error)) from None

    def add_task(self, task: Task) -> None:
        """Make a task's directory and its named pipes: for what it reports, and for what it is asked."""
        try:
            self.directory_of(task).mkdir(mode=0o700)
            os.mkfifo(self.paths.progress(task), 0o600)
            os.mkfifo(self.paths.requests(task), 0o600)
        except OSError as error:
            raise RunDirectoryError(_cannot(self.directory_of(task), error)) from None

    def directory_of(self, task: Task) -> Path:
        """Where the task's logs are."""
        return self.path / "tasks" / str(task)

    def lock(self) -> int:
        """Mark the run as live for as long as this process lives and keeps the descriptor."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Not LOCK_NB: the directory is ours alone, but a client may be looking whether the run is live just now.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise RunDirectoryError(_cannot(self.path / "lock", error)) from None
        return descriptor

    def discard(self) -> None:
        """Forget a run in which nothing was started."""
        shutil.rmtree(self.path, ignore_errors=True)


def is_live(run: Path) -> bool:
    """Whether the run's supervisor holds its lock."""
    try:
        descriptor = os.open(run / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in WANT:  # who takes a live run for a dead one may kill its tasks
            raise CannotLook(os.strerror(error.errno)) from None
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def find_run(prefix: str) -> Path:
    """The run whose id begins with `prefix`. Raises BadJob where there is none, or more than one."""
    found = [run for run in all_runs() if run.name.startswith(prefix)]
    exact = [run for run in found if run.name == prefix]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise BadJob([f"There is no run {prefix!r} in {runs_dir()}."])
    raise BadJob([f"{prefix!r} could be any of {', '.join(run.name for run in found)}. Write more of the run id."])


def all_runs() -> Iterator[Path]:
    """Every run's directory, oldest first."""
    if runs_dir().is_dir():
        yield from sorted(path for path in runs_dir().iterdir() if path.is_dir())


def _cannot(path: Path, error: OSError) -> str:
    return (
        f"The run directory can't be used: {error.strerror} ({error.filename or path}). "
        f"Set CLUSTERKIT_HOME to a directory that can be written and has room."
    )
