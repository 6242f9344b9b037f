"""One run of a hook's command: bounded in time and in output, and nothing of it is left afterwards."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from clusterkit.system.sweep import WillNotDie, end_descendants
from clusterkit.task.entry import die_with_parent
from clusterkit.words.outcome import signal_name

SHELL = "/bin/sh"
CHUNK = 1 << 16
TERM_FOR = 2.0  # seconds from SIGTERM to SIGKILL
REST = 32  # chunks; a pipe holds no more
CANCELLED = "was ended with the run"


@dataclass(frozen=True, slots=True)
class HookCommand:
    """What is run, with what on its standard input. `bound` is in seconds, `kept` in bytes of its output."""

    text: str
    given: bytes
    cwd: str
    env: Mapping[str, str]
    bound: float
    kept: int

    def run(self, log: BinaryIO, stops: int) -> str | None:
        """Run it, its output appended to `log`; return what went wrong, as a clause with the command as its subject.

        It is ended early if `stops` becomes readable, and at once if that is at its end. When it is over, every
        descendant of this process is ended, so only one command can run at a time. This process has to be a subreaper.
        """
        parent = os.getpid()
        try:
            process = subprocess.Popen(
                [SHELL, "-c", self.text],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.cwd,
                env=self.env,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent),
            )
        except OSError as error:
            return f"can't be started ({error.strerror}: {error.filename})"
        with _Served(process, self.given, log, self.kept) as served:
            problem = served.wait(self.bound, stops)
            if problem is not None and not served.abandoned:
                _signal(process.pid, signal.SIGTERM)
                served.wait(TERM_FOR)
            _signal(process.pid, signal.SIGKILL)  # the whole group; its leader is not reaped yet, so it is the same one
            code = process.wait()
            unkillable = _end_rest()
            served.drain()
        return problem or unkillable or _told(code)


class _Served:
    """A command that runs: its input is given to it, and its output taken from it, as it is ready for that."""

    def __init__(self, process: subprocess.Popen[bytes], given: bytes, log: BinaryIO, kept: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._pidfd = os.pidfd_open(process.pid)
        self._given, self._log, self._kept, self._left_out = memoryview(given), log, kept, 0
        self.abandoned = False  # nobody waits for it any more
        self._acts: dict[int, Callable[[], bool]] = {
            self._stdin.fileno(): self._feed,
            self._stdout.fileno(): self._take,
        }
        self._poll = select.poll()
        self._poll.register(self._pidfd, select.POLLIN)
        self._poll.register(self._stdin, select.POLLOUT)
        self._poll.register(self._stdout, select.POLLIN)
        for descriptor in self._acts:
            os.set_blocking(descriptor, False)

    def __enter__(self) -> _Served:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pidfd)
        for stream in (self._stdin, self._stdout):
            with suppress(OSError):
                stream.close()

    def wait(self, seconds: float, stops: int | None = None) -> str | None:
        """Wait for the end of the command; return why that did not come."""
        until = time.monotonic() + seconds
        if stops is not None:
            self._poll.register(stops, select.POLLIN | select.POLLRDHUP)
        while True:
            left = until - time.monotonic()
            ready = dict(self._poll.poll(max(0.0, left) * 1000))
            for descriptor in ready.keys() & self._acts.keys():
                if not self._acts[descriptor]():
                    self._poll.unregister(descriptor)
                    del self._acts[descriptor]
            if self._pidfd in ready:
                return None
            if stops is not None and stops in ready:
                self._poll.unregister(stops)
                self.abandoned = bool(ready[stops] & (select.POLLRDHUP | select.POLLHUP))
                return CANCELLED
            if left <= 0:
                return f"took longer than {seconds:g} s and was ended"

    def drain(self) -> None:
        """Take the rest of the output. Nothing writes to it any more."""
        for _ in range(REST):
            if not self._take():
                break
        if self._left_out:
            self._write(b"\n[%d more bytes are left out]\n" % self._left_out)

    def _feed(self) -> bool:
        """Give it what it takes of its input; return whether there is more."""
        try:
            self._given = self._given[os.write(self._stdin.fileno(), self._given) :]
        except BlockingIOError:
            return True
        except OSError:  # it does not read its input, which is its own affair
            self._given = self._given[:0]
        if not self._given:
            with suppress(OSError):
                self._stdin.close()
        return bool(self._given)

    def _take(self) -> bool:
        """Take what it has written; return whether there may be more."""
        try:
            chunk = os.read(self._stdout.fileno(), CHUNK)
        except BlockingIOError:
            return True
        part = chunk[: self._kept]
        self._kept -= len(part)
        self._left_out += len(chunk) - len(part)
        self._write(part)
        return bool(chunk)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # a full disk is the run's affair
            self._log.write(data)


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _end_rest() -> str | None:
    """Kill what has left the command's process group: it has come to this process."""
    try:
        end_descendants(os.getpid())
    except WillNotDie as error:
        return f"left processes behind: {error}"
    return None


def _told(code: int) -> str | None:
    if code == 0:
        return None
    return f"exited with code {code}" if code > 0 else f"was killed by {signal_name(-code)}"
