"""A run's directory, which the supervisor creates, locks and writes, and which clients read."""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from clusterkit.store.paths import Paths
from clusterkit.store.trust import refuse_untrusted_parent
from clusterkit.system.files import allocate, end_of, read_regular, regular_fd, truncate_to_lines, write_whole
from clusterkit.system.files import make_private as make_private
from clusterkit.system.procfs import OUT_OF_RESOURCES
from clusterkit.words import wire
from clusterkit.words.errors import CannotLook, RunDirectoryError
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunResult, RunState

if TYPE_CHECKING:  # imported only for type checks, since most commands do not need it and should start fast
    from clusterkit.words.account import Account

CLIENTS_CHECK = 0.5  # seconds; extra time to retry a lock, since a client's `is_live` may hold the lock for a moment
RETRY_EVERY = 0.05  # seconds between attempts to lock a run
STARTING_WITHIN = 60.0  # seconds; a younger directory without a lock file may belong to a run that is just starting
T = TypeVar("T")
LARGEST_JSON = 1 << 28  # bytes; larger files are not read as JSON
LONGEST_ADDRESS = 1 << 12  # bytes; the rest of the file with a dashboard's address is not read
RESERVE_SIZE = 1 << 19  # bytes; the size of the reserve file
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


def write_json(path: Path, value: Any) -> None:
    """Write a file atomically. Raises OSError."""
    write_whole(path, (json_lines(value, 2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty object if the file can't be read."""
    try:
        value = json.loads(read_regular(path, LARGEST_JSON))
    except (OSError, ValueError, RecursionError, MemoryError):
        return {}
    return value if isinstance(value, dict) else {}


def json_lines(value: Any, depth: int, indent: str = "") -> str:
    """Return JSON with one line per entry down to `depth`. (`json.dumps` with an indent would be slow.)"""
    below = indent + "  "
    if depth and value and isinstance(value, dict):
        entries = [f"{json.dumps(str(name))}: {json_lines(one, depth - 1, below)}" for name, one in value.items()]
        opening, closing = "{}"
    elif depth and value and isinstance(value, list | tuple):
        entries = [json_lines(one, depth - 1, below) for one in value]
        opening, closing = "[]"
    else:
        return json.dumps(value)
    return f"{opening}\n{below}" + f",\n{below}".join(entries) + f"\n{indent}{closing}"


class InUse(RunDirectoryError):
    """Raised if another process holds the lock of a run: its supervisor, or a run that copies its checkpoints."""

    def __init__(self, run_id: str, is_live: bool) -> None:
        what = "is still running" if is_live else "is being read by another run, which resumes from its checkpoints"
        super().__init__(f"The run {run_id} {what}, so it can't be continued.")
        self.is_live = is_live


class RunGone(RunDirectoryError):
    """Raised if a run was removed while this process waited for its lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The content of job.json."""

    run_id: str = ""
    created: float  # wall time, in seconds
    clusterkit: str = ""  # the version of clusterkit
    pid: int = 0  # the supervisor's pid
    host: str = ""  # the supervisor's host name
    allocation: str = ""  # the engine's id of the allocation; "" if the engine finds the run without an id
    cwd: str = ""
    seed: int = 0
    endpoints: Mapping[Task, str]
    checkpoints: str = ""
    platform: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    job: JobSpec


class RunDirectory(Paths[Path]):
    """The directory of one run, which need not exist yet. Nothing is cached: each method reads or writes files."""

    def make(self) -> None:
        """Create the directory, which must not exist yet. Raises RunDirectoryError."""
        refuse_untrusted_parent(self)
        try:
            make_private(self.path.parent)
            self.path.mkdir(mode=0o700)
            for directory in (self.all_tasks, self.all_stacks, self.tensorboard):
                directory.mkdir(mode=0o700)
            self.journal.touch(mode=0o600)
            allocate(self.reserve, RESERVE_SIZE)
            self.checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise RunDirectoryError(
                f"A run {self.run_id} already exists, or {self.path} is taken. Choose another --run-id, or omit it."
            ) from None
        except OSError as error:
            self.discard()
            raise self._unusable(error) from None

    def reopen(self) -> None:
        """Create missing files and remove stale files, so that the run can continue. Raises RunDirectoryError."""
        try:
            for directory in (self.all_tasks, self.all_stacks, self.tensorboard, self.checkpoints):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            allocate(self.reserve, RESERVE_SIZE)
            for file in (self.result_file, self.agents_key):
                file.unlink(missing_ok=True)
            for file in (self.journal, self.arrivals):
                truncate_to_lines(file)
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> RunDirectoryError:
        """Return the error to raise for a file of the run, or for the user's checkpoint directory."""
        at, named = Path(str(error.filename or self.path)), self.checkpoints
        if named.is_relative_to(self.path) or not named.is_relative_to(at):
            return unusable(self.path, error)
        return RunDirectoryError(
            f"Cannot use the checkpoint directory {named}: {error.strerror} ({at}). Choose another --checkpoint-dir."
        )

    def add_task(self, task: Task) -> None:
        """Create a task's directory if necessary, and replace its named pipes. Raises RunDirectoryError."""
        try:
            self.of_task(task).mkdir(mode=0o700, exist_ok=True)
            for pipe in (self.progress(task), self.requests(task)):
                pipe.unlink(missing_ok=True)
                os.mkfifo(pipe, 0o600)
        except OSError as error:
            raise unusable(self.of_task(task), error) from None

    def lock(self, within: float = math.inf) -> int:
        """Lock the run, so that it counts as live until the returned descriptor is closed. Raises RunDirectoryError.

        Wait up to `within` seconds for another supervisor. A client's `is_live` may hold the lock for a moment.
        Raises InUse if another process still holds the lock, and RunGone if that process removes the run.
        """
        until = time.monotonic() + within + CLIENTS_CHECK
        try:
            while True:
                descriptor = self._try_lock()
                if descriptor is not None:
                    return descriptor
                if time.monotonic() >= until:
                    raise InUse(self.run_id, is_locked(self.lock_file))
                time.sleep(RETRY_EVERY)
        except FileNotFoundError:
            raise RunGone(f"The run {self.run_id} was removed.") from None
        except OSError as error:
            raise unusable(self.lock_file, error) from None

    def _try_lock(self) -> int | None:
        """Return a descriptor that holds the run's lock; None if another process holds it. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.lock_file, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever removes a run holds its lock until the file is gone. Then this is the lock of no run.
            if os.path.samestat(os.fstat(descriptor), os.lstat(self.lock_file)):
                return descriptor
        except BlockingIOError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    @contextmanager
    def shared_lock(self) -> Iterator[None]:
        """Keep other processes from continuing or removing the run, if its lock file can be opened."""
        with ExitStack() as stack:
            with suppress(OSError):
                descriptor = stack.enter_context(regular_fd(self.lock_file, os.O_RDONLY))
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield

    def discard(self) -> None:
        import shutil  # imported here, since most commands don't remove directories

        shutil.rmtree(self.path, ignore_errors=True)

    def write_info(self, info: RunInfo) -> None:
        try:
            write_json(self.job_file, wire.encode(info))
        except OSError as error:
            raise RunDirectoryError(f"Cannot write {self.job_file}: {error.strerror}.") from None

    def write_result(self, result: RunResult, account: Account) -> None:
        self._write_last({**wire.encode(result), **wire.encode(account)})

    def write_failure(self, exit_code: int, reason: str, lost: bool = False) -> None:
        """Add to result.json that the run failed, and why. Ignores errors, since the supervisor is about to exit."""
        with suppress(OSError, ValueError):
            failed = {"state": RunState.FAILED.value, "exit_code": exit_code, "reason": reason, "lost": lost}
            self._write_last({**self.read_result(), **failed})

    def _write_last(self, result: Mapping[str, Any]) -> None:
        """Write result.json. If that fails, delete the reserve file to make room, and try again. Raises OSError."""
        try:
            write_json(self.result_file, result)
        except OSError:
            self.reserve.unlink(missing_ok=True)
            write_json(self.result_file, result)
        self.reserve.unlink(missing_ok=True)

    def is_live(self) -> bool:
        """Return whether the run's supervisor holds its lock. Raises CannotLook."""
        try:
            return is_locked(self.lock_file)
        except OSError as error:
            if error.errno in OUT_OF_RESOURCES:  # if a live run were reported as dead, its tasks could be killed
                raise CannotLook(os.strerror(error.errno)) from None
            return False

    def wait_until_over(self) -> None:
        with suppress(OSError), regular_fd(self.lock_file, os.O_RDONLY) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)

    def is_over(self) -> bool:
        """Return whether the run has ended. A run that is just starting has not ended."""
        starting = not self.lock_file.exists() and time.time() - self.changed() < STARTING_WITHIN
        return not starting and not self.is_live()

    def created(self) -> float:
        """Return the wall time at which the run was created or, without job.json, at which it last changed."""
        with suppress(*_DAMAGED):
            return float(read_json(self.job_file)["created"])
        return self.changed()

    def changed(self) -> float:
        """Return the wall time at which the run's files were last written."""
        for file in (self.result_file, self.journal, self.path):
            with suppress(OSError):
                return file.stat().st_mtime
        return 0.0

    def info(self) -> RunInfo | None:
        """Return the content of job.json, or None if it is missing or damaged."""
        return _decoded(RunInfo, read_json(self.job_file))

    def replace_endpoints(self, endpoints: Mapping[Task, str]) -> None:
        """Replace the endpoints in job.json. Raises OSError."""
        write_json(self.job_file, {**read_json(self.job_file), "endpoints": wire.encode(endpoints)})

    def endpoints(self) -> dict[Task, str]:
        with suppress(*_DAMAGED):
            return {Task.parse(name): str(end) for name, end in read_json(self.job_file)["endpoints"].items()}
        return {}

    def used_checkpoints(self) -> Path:
        return Path(str(read_json(self.job_file).get("checkpoints", self.checkpoints)))

    def dashboard_address(self) -> str | None:
        """Return the address of a live run's dashboard, or None if the run is over or has no dashboard."""
        with suppress(OSError, ValueError):
            return end_of(self.dashboard, LONGEST_ADDRESS).decode().strip() if self.is_live() else None
        return None

    def result(self) -> RunResult | None:
        """Return the run's result, or None if the run has not ended or was lost."""
        return _decoded(RunResult, self.read_result())

    def account(self) -> Account | None:
        """Read the account of the run's time and recoveries from result.json; None if there is no account."""
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
    """Decode a message as `kind`, or return None if fields are missing or wrong. Unknown fields are ignored."""
    with suppress(*_DAMAGED):
        found: T = wire.decode(kind, message)
        return found
    return None


def is_locked(path: Path) -> bool:
    """Return whether a process holds the exclusive lock on a file. Raises OSError if the file can't be opened."""
    with regular_fd(path, os.O_RDONLY) as descriptor:  # opened for reading, so that a read-only file works, too
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def unusable(path: PurePath, error: OSError) -> RunDirectoryError:
    return RunDirectoryError(
        f"Cannot use the run directory: {error.strerror} ({error.filename or path}). "
        f"Set CLUSTERKIT_HOME to a writable directory with free space."
    )
