"""A run's directory: created, locked and written by its supervisor, read by clients."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from clusterkit.store.paths import Paths
from clusterkit.system.files import cut_to_lines, take_room
from clusterkit.system.files import make_private as make_private
from clusterkit.system.procfs import OUT_OF_RESOURCES
from clusterkit.words import wire
from clusterkit.words.errors import CannotLook, RunDirectoryError
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunResult, RunState

if TYPE_CHECKING:  # few commands need it, and the others are to be instant
    from clusterkit.words.account import Account


import json

from clusterkit.system.files import write_whole

CLIENTS_LOOK = 0.5  # seconds: `is_live` of a client may hold the lock for a moment
TRY_AGAIN = 0.05  # seconds between two attempts to lock a run
STARTING = 60.0  # seconds for which a directory without a lock may be that of a run that is just starting
T = TypeVar("T")
RESERVED = 1 << 19  # bytes of the reserve
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


def write_json(path: Path, value: Any) -> None:
    """Write a file atomically. Raises OSError."""
    write_whole(path, (_lines(value, 2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one if it cannot be read."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _lines(value: Any, depth: int, indent: str = "") -> str:
    """JSON with a line for each entry down to that depth; `json.dumps` with an indent is slow."""
    below = indent + "  "
    if depth and value and isinstance(value, dict):
        entries = [f"{json.dumps(str(name))}: {_lines(one, depth - 1, below)}" for name, one in value.items()]
        opening, closing = "{}"
    elif depth and value and isinstance(value, list | tuple):
        entries = [_lines(one, depth - 1, below) for one in value]
        opening, closing = "[]"
    else:
        return json.dumps(value)
    return f"{opening}\n{below}" + f",\n{below}".join(entries) + f"\n{indent}{closing}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The content of job.json."""

    run_id: str = ""
    created: float  # wall time
    clusterkit: str = ""  # the version
    pid: int = 0  # the supervisor's
    host: str = ""  # the supervisor's
    allocation: str = ""  # the engine's name for the hosts; empty if the run is found without
    cwd: str = ""
    seed: int = 0
    endpoints: Mapping[Task, str]
    checkpoints: str = ""
    platform: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    job: JobSpec


class RunDirectory(Paths[Path]):
    """The directory of one run, which need not exist yet; each method reads or writes when it is called."""

    def make(self) -> None:
        """Create the directory, which must not exist yet. Raises RunDirectoryError."""
        try:
            make_private(self.path.parent)
            self.path.mkdir(mode=0o700)
            for directory in (self.all_tasks, self.all_stacks, self.tensorboard):
                directory.mkdir(mode=0o700)
            self.journal.touch(mode=0o600)
            take_room(self.reserve, RESERVED)
            self.checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise RunDirectoryError(
                f"A run {self.run_id} already exists, or {self.path} is taken. Choose another --run-id, or omit it."
            ) from None
        except OSError as error:
            self.discard()
            raise self._unusable(error) from None

    def reopen(self) -> None:
        """Create missing files and remove stale ones, to continue the run under its lock. Raises RunDirectoryError."""
        try:
            for directory in (self.all_tasks, self.all_stacks, self.tensorboard, self.checkpoints):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            take_room(self.reserve, RESERVED)
            for file in (self.result_file, self.agents_key):
                file.unlink(missing_ok=True)
            for file in (self.journal, self.arrivals):
                cut_to_lines(file)
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> RunDirectoryError:
        """The error for a file of the run, or for the checkpoint directory that was asked for."""
        at, named = Path(str(error.filename or self.path)), self.checkpoints
        if named.is_relative_to(self.path) or not named.is_relative_to(at):
            return unusable(self.path, error)
        return RunDirectoryError(
            f"Cannot use the checkpoint directory {named}: {error.strerror} ({at}). Choose another --checkpoint-dir."
        )

    def add_task(self, task: Task) -> None:
        """Create a task's directory and its named pipes anew. Raises RunDirectoryError."""
        try:
            self.of_task(task).mkdir(mode=0o700, exist_ok=True)
            for pipe in (self.progress(task), self.requests(task)):
                pipe.unlink(missing_ok=True)
                os.mkfifo(pipe, 0o600)
        except OSError as error:
            raise unusable(self.of_task(task), error) from None

    def lock(self) -> int:
        """Mark the run as live while this process lives and keeps the descriptor. Raises RunDirectoryError."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Not LOCK_NB: no other supervisor wants the lock, but `is_live` of a client may hold it for a moment.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise unusable(self.lock_file, error) from None
        return descriptor

    def take(self, within: float) -> int:
        """Lock a run that exists, as `lock` does. Raises RunDirectoryError if it is live for longer than that."""
        until = time.monotonic() + within + CLIENTS_LOOK
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(self.lock_file, error) from None
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except OSError:
                if time.monotonic() < until:
                    time.sleep(TRY_AGAIN)
                    continue
                os.close(descriptor)
                raise RunDirectoryError(f"The run {self.run_id} is still running, so it can't be continued.") from None

    def discard(self) -> None:
        import shutil  # here, since `ps` reads directories and removes none

        shutil.rmtree(self.path, ignore_errors=True)

    def write_info(self, info: RunInfo) -> None:
        """Write job.json. Raises RunDirectoryError."""
        try:
            write_json(self.job_file, wire.encode(info))
        except OSError as error:
            raise RunDirectoryError(f"Cannot write {self.job_file}: {error.strerror}.") from None

    def write_result(self, result: RunResult, account: Account) -> None:
        """Write result.json. Raises OSError."""
        self._write_last({**wire.encode(result), **wire.encode(account)})

    def write_failure(self, exit_code: int, reason: str, lost: bool = False) -> None:
        """Add to result.json that the run failed, and why. Raises nothing, for a supervisor's last moment."""
        with suppress(OSError, ValueError):
            failed = {"state": RunState.FAILED.value, "exit_code": exit_code, "reason": reason, "lost": lost}
            self._write_last({**self.read_result(), **failed})

    def _write_last(self, result: Mapping[str, Any]) -> None:
        """Write result.json; if the disk is full, in the room of the reserve. Raises OSError."""
        try:
            write_json(self.result_file, result)
        except OSError:
            self.reserve.unlink(missing_ok=True)
            write_json(self.result_file, result)
        self.reserve.unlink(missing_ok=True)

    def is_live(self) -> bool:
        """Whether the run's supervisor holds its lock. Raises CannotLook."""
        try:
            return is_locked(self.lock_file)
        except OSError as error:
            if error.errno in OUT_OF_RESOURCES:  # to report a live run as dead could get its tasks killed
                raise CannotLook(os.strerror(error.errno)) from None
            return False

    def wait_until_over(self) -> None:
        with suppress(OSError), self.lock_file.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)

    def is_over(self) -> bool:
        """Whether the run has ended; a run that is just starting has not."""
        starting = not self.lock_file.exists() and time.time() - self.changed() < STARTING
        return not starting and not self.is_live()

    def created(self) -> float:
        """When the run was created, in wall time; without a job.json, when its directory last changed."""
        with suppress(*_DAMAGED):
            return float(read_json(self.job_file)["created"])
        return self.changed()

    def changed(self) -> float:
        """When something last happened in the run, in wall time."""
        for file in (self.result_file, self.journal, self.path):
            with suppress(OSError):
                return file.stat().st_mtime
        return 0.0

    def info(self) -> RunInfo | None:
        """What job.json holds; None if the run ended before it was written."""
        info = _decoded(RunInfo, read_json(self.job_file))
        return None if info is None else replace(info, endpoints=self.endpoints())

    def move(self, endpoints: Mapping[Task, str]) -> None:
        """Replace the endpoints in job.json. Raises OSError."""
        write_json(self.job_file, {**read_json(self.job_file), "endpoints": wire.encode(endpoints)})

    def endpoints(self) -> dict[Task, str]:
        with suppress(*_DAMAGED):
            return {Task.parse(name): str(end) for name, end in read_json(self.job_file)["endpoints"].items()}
        return {}

    def used_checkpoints(self) -> Path:
        return Path(str(read_json(self.job_file).get("checkpoints", self.checkpoints)))

    def dashboard_address(self) -> str | None:
        """The address of the dashboard beside a live run; None if it has none."""
        with suppress(OSError, ValueError):
            return self.dashboard.read_text().strip() if self.is_live() else None
        return None

    def result(self) -> RunResult | None:
        """How the run ended; None if it has not, or was lost."""
        return _decoded(RunResult, self.read_result())

    def recovered(self) -> Account | None:
        """The recovery report with the rest of the account, if the run wrote them at its end."""
        from clusterkit.words.account import Account

        message = self.read_result()
        return _decoded(Account, message) if "recoveries" in message else None

    def logs(self) -> Iterator[tuple[Task, int, Path]]:
        for path in sorted(self.all_tasks.glob("*/attempt-*.log")):
            with suppress(ValueError):  # tasks may create other files there
                yield Task.parse(path.parent.name), int(path.stem.removeprefix("attempt-")), path

    def read_result(self) -> dict[str, Any]:
        return read_json(self.result_file)


def _decoded(kind: type[T], message: Mapping[str, Any]) -> T | None:
    """Decode the fields of `kind`; None if fields are missing or wrong. Those of a newer clusterkit are ignored."""
    with suppress(*_DAMAGED):
        found: T = wire.decode(kind, message)
        return found
    return None


def is_locked(path: Path) -> bool:
    """Whether a process holds the exclusive lock on a file. Raises OSError if the file can't be opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # also where nothing can be written
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def unusable(path: PurePath, error: OSError) -> RunDirectoryError:
    return RunDirectoryError(
        f"Cannot use the run directory: {error.strerror} ({error.filename or path}). "
        f"Set CLUSTERKIT_HOME to a writable directory with free space."
    )
