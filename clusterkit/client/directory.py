"""A run's directory: made, locked and written by its supervisor, and read by whoever looks at the run."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from clusterkit.client.paths import Paths
from clusterkit.system.procfs import OUT_OF_RESOURCES
from clusterkit.words import wire
from clusterkit.words.errors import CannotLook, RunDirectoryError
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunResult, RunState
from clusterkit.words.recovery import RecoveryReport

STARTING = 60.0  # seconds for which a directory without a lock may be that of a run that is about to begin
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What job.json holds. `created` is wall time, `clusterkit` the version, `pid` the supervisor's."""

    run_id: str = ""
    created: float
    clusterkit: str = ""
    pid: int = 0
    cwd: str = ""
    seed: int = 0
    endpoints: Mapping[Task, str]
    checkpoints: str = ""
    job: JobSpec


class RunDirectory(Paths[Path]):
    """The directory of one run, whether it is there or not: nothing is read or made before it is asked for."""

    def make(self) -> None:
        """Make the directory, which must not be there yet. Raises RunDirectoryError."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700)
            for directory in (self.all_tasks, self.all_stacks, self.tensorboard):
                directory.mkdir(mode=0o700)
            self.journal.touch(mode=0o600)
            self.checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise RunDirectoryError(
                f"There is already a run {self.run_id}, or something in the way of its directory {self.path}. "
                f"Choose another --run-id, or leave it out."
            ) from None
        except OSError as error:
            self.discard()
            raise _unusable(self.path, error) from None

    def add_task(self, task: Task) -> None:
        """Make a task's directory and its named pipes. Raises RunDirectoryError."""
        try:
            self.of_task(task).mkdir(mode=0o700)
            os.mkfifo(self.progress(task), 0o600)
            os.mkfifo(self.requests(task), 0o600)
        except OSError as error:
            raise _unusable(self.of_task(task), error) from None

    def lock(self) -> int:
        """Mark the run as live while this process lives and keeps the descriptor. Raises RunDirectoryError."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Not LOCK_NB: the directory is ours alone, but a client may be looking whether the run is live just now.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise _unusable(self.lock_file, error) from None
        return descriptor

    def discard(self) -> None:
        """Remove the directory of a run in which nothing was started."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write_info(self, info: RunInfo) -> None:
        """Write job.json. Raises RunDirectoryError."""
        try:
            _write(self.job_file, wire.encode(info))
        except OSError as error:
            raise RunDirectoryError(f"job.json can't be written in {self.path}: {error.strerror}.") from None

    def write_result(self, result: RunResult, recovered: RecoveryReport) -> None:
        """Write result.json. Raises OSError."""
        _write(self.result_file, {**wire.encode(result), **wire.encode(recovered)})

    def write_failure(self, exit_code: int, reason: str) -> None:
        """Add to result.json that the run failed, and why. For a supervisor's last moment: raises nothing."""
        with suppress(OSError, ValueError):
            failed = {"state": RunState.FAILED.value, "exit_code": exit_code, "reason": reason}
            _write(self.result_file, {**self.read_result(), **failed})

    def is_live(self) -> bool:
        """Whether the run's supervisor holds its lock. Raises CannotLook."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in OUT_OF_RESOURCES:  # who takes a live run for a dead one may kill its tasks
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

    def wait_until_over(self) -> None:
        """Wait until no supervisor holds the lock."""
        with suppress(OSError), self.lock_file.open("rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)

    def is_over(self) -> bool:
        """Whether the run has ended, and is not one that begins just now."""
        starting = not self.lock_file.exists() and time.time() - self.changed() < STARTING
        return not starting and not self.is_live()

    def created(self) -> float:
        """When the run was made, in wall time; of a run that did not get so far, when its directory last changed."""
        try:
            return float(_read(self.job_file)["created"])
        except _DAMAGED:
            return self.changed()

    def changed(self) -> float:
        """When something last happened in the run, in wall time."""
        for file in (self.result_file, self.journal, self.path):
            with suppress(OSError):
                return file.stat().st_mtime
        return 0.0

    def info(self) -> RunInfo | None:
        """What was asked for; None where the run ended before it was written."""
        info: RunInfo | None = _decoded(RunInfo, _read(self.job_file))
        return None if info is None else replace(info, endpoints=self.endpoints())

    def endpoints(self) -> dict[Task, str]:
        """Where each task listens; empty where that was not written."""
        try:
            return {Task.parse(name): str(end) for name, end in _read(self.job_file)["endpoints"].items()}
        except _DAMAGED:
            return {}

    def used_checkpoints(self) -> Path:
        """Where the run's checkpoints are, by what it wrote itself."""
        return Path(str(_read(self.job_file).get("checkpoints", self.checkpoints)))

    def result(self) -> RunResult | None:
        """How the run ended; None where it has not, or nobody was left to write it."""
        result: RunResult | None = _decoded(RunResult, self.read_result())
        return result

    def recovered(self) -> RecoveryReport | None:
        """What the run recovered from, as it wrote at its end; None where it did not."""
        message = self.read_result()
        report: RecoveryReport | None = _decoded(RecoveryReport, message) if "recoveries" in message else None
        return report

    def logs(self) -> Iterator[tuple[Task, int, Path]]:
        """Every log that is there, with its task and attempt."""
        for path in sorted(self.all_tasks.glob("*/attempt-*.log")):
            with suppress(ValueError):  # a task may make any file there
                yield Task.parse(path.parent.name), int(path.stem.removeprefix("attempt-")), path

    def read_result(self) -> dict[str, Any]:
        """result.json as it is; empty where there is none that can be read."""
        return _read(self.result_file)


def _decoded(kind: type[Any], message: Mapping[str, Any]) -> Any:
    """A word of that kind; None where the message lacks something. A newer clusterkit may have written more."""
    names = [field.name for field in fields(kind)]
    try:
        return wire.decode(kind, {name: message[name] for name in names if name in message})
    except _DAMAGED:
        return None


def _write(path: Path, value: Any) -> None:
    """Write a file whole or not at all. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(value, indent=2) + "\n")
    part.replace(path)


def _read(path: Path) -> dict[str, Any]:
    """A file's object; an empty one where there is none that can be read."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _unusable(path: Path, error: OSError) -> RunDirectoryError:
    return RunDirectoryError(
        f"The run directory can't be used: {error.strerror} ({error.filename or path}). "
        f"Set CLUSTERKIT_HOME to a directory that can be written and has room."
    )
