"""Children: launchers in sessions of their own, watched against a deadline, ended with everything below them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from clusterkit.system import procfs
from clusterkit.system.process import become_subreaper, reap_ended
from clusterkit.system.sweep import end_descendants

FOREIGN = ("CLUSTERKIT", "TF_CONFIG", "TF_GRPC", "PYTHONUNBUFFERED")  # what would change one peer and not another


class Overdue(Exception):
    """Something did not come in its time, or came to an end without it."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """A started launcher. `began` is the monotonic time just before its start."""

    process: subprocess.Popen[bytes]
    output: Path
    began: float
    until: float

    @property
    def pid(self) -> int:
        """Of its first process."""
        return self.process.pid

    def wait_for(self, condition: Callable[[], float | bool | None], what: str, pause: float = 0.01) -> float:
        """Look again and again until the condition is true; return the monotonic time at which it was."""
        while not condition():
            if time.monotonic() > self.until:
                raise Overdue(f"not in time: {what}; {self.end_of_output()}")
            if self.process.poll() is not None:
                raise Overdue(f"exit code {self.process.returncode} before {what}; {self.end_of_output()}")
            time.sleep(pause)
        return time.monotonic()

    def wait_for_exit(self, code: int | None = 0) -> float:
        """Wait for the launcher's exit; return the monotonic time. An exit code of None is any."""
        try:
            found = self.process.wait(max(0.0, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Overdue(f"no exit in time; {self.end_of_output()}") from None
        ended = time.monotonic()
        if code is not None and found != code:
            raise Overdue(f"exit code {found}; {self.end_of_output()}")
        return ended

    def interrupt(self) -> float:
        """Ctrl-C for the first process alone; return the monotonic time just before."""
        now = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        return now

    def wait_until_gone(self) -> float:
        """Wait for the launcher's exit and the end of all it started; return the monotonic time."""
        self.wait_for_exit(code=None)
        while living():
            if time.monotonic() > self.until:
                raise Overdue("processes are left after the launcher's end")
            time.sleep(0.002)
        return time.monotonic()

    def end_of_output(self) -> str:
        """The last lines that it wrote, for a message."""
        size = self.output.stat().st_size
        with self.output.open("rb") as file:
            file.seek(max(0, size - 1500))
            return f"it wrote: {file.read().decode(errors='replace')}"


@contextmanager
def launched(
    argv: Sequence[str], place: Path, seconds: float, env: Mapping[str, str] | None = None
) -> Iterator[Launcher]:
    """Start a launcher in the directory `place`; when the block is left, nothing of it is left."""
    output = place / "output.txt"
    with output.open("wb") as file:
        began = time.monotonic()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=place,
            env=environment(env), start_new_session=True,
        )  # fmt: skip
    try:
        yield Launcher(process, output, began, began + seconds)
    finally:
        end_everything()
        with suppress(OSError):
            process.wait(1)


def call(argv: Sequence[str], place: Path, seconds: float, env: Mapping[str, str] | None = None) -> None:
    """Run a command to its end; what it leaves running goes on. Raises Overdue."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place,
            env=environment(env), start_new_session=True, timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Overdue(f"not in time: {' '.join(argv)}") from None
    if done.returncode != 0:
        raise Overdue(f"{' '.join(argv)}: exit code {done.returncode}: {done.stdout.decode(errors='replace')[-1500:]}")


def environment(more: Mapping[str, str] | None) -> dict[str, str]:
    """This environment without what belongs to one launcher, and with `more`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)} | dict(more or {})


def adopt() -> None:
    """Inherit whatever a launcher leaves behind, so that it can be seen and ended."""
    become_subreaper()


def living() -> list[int]:
    """Every live process below this one; what has ended is reaped."""
    for pid in filter(procfs.is_zombie, procfs.children(os.getpid())):
        reap_ended(pid)
    return [pid for pid in procfs.descendants(os.getpid()) if not procfs.is_zombie(pid)]


def end_everything() -> None:
    """Kill everything below this process."""
    end_descendants()
