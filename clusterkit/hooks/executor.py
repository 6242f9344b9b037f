"""The companion process that runs the commands of hooks, one at a time, until the supervisor closes the channel.

The process receives lines of JSON with a `number`, the `hook` to run and the command's `input`. When the command has
ended, the process answers with the number and the `problem` (None on success). A line that arrives while a command runs
cancels the command.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from clusterkit.companions import tell
from clusterkit.store.directory import RunDirectory
from clusterkit.system.exchange import parse_line
from clusterkit.system.process import become_subreaper
from clusterkit.system.sweep import ProcessesSurvived, end_descendants
from clusterkit.task.entry import die_with_parent
from clusterkit.words.outcome import signal_name

SHELL = "/bin/sh"
CHUNK = 1 << 16
TERM_GRACE = 2.0  # seconds from SIGTERM to SIGKILL
LAST_READS = 32  # the number of chunks to read after the command's end, which together exceed a pipe's capacity
CANCELLED = "was ended with the run"
KEPT_OUTPUT = 1 << 20  # bytes; the maximum output of one command that is logged
LONGEST_LOG = 16 << 20  # bytes; a log that has reached this size receives no more output


@dataclass(frozen=True, slots=True)
class HookCommand:
    """A command and its standard input. `time_limit` is in seconds; `most_output` is the maximum to log, in bytes."""

    text: str
    stdin: bytes
    cwd: str
    env: Mapping[str, str]
    time_limit: float
    most_output: int

    def run(self, log: BinaryIO, stops: int) -> str | None:
        """Run the command and append its output to `log`; return None, or the problem as a clause about the command.

        The command gets SIGTERM if the socket `stops` becomes readable, and SIGKILL if the supervisor closes it. Every
        remaining descendant of this process is then killed, so only one command can run at a time. This process must be
        a subreaper.
        """
        parent = os.getpid()
        try:
            with os.fdopen(os.memfd_create("clusterkit-hook", os.MFD_CLOEXEC), "w+b") as given:
                given.write(self.stdin)
                given.seek(0)
                process = subprocess.Popen(
                    [SHELL, "-c", self.text],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=self.cwd,
                    env=self.env,
                    start_new_session=True,
                    preexec_fn=lambda: die_with_parent(parent),
                )
        except OSError as error:
            return f"can't be started ({error.strerror}: {error.filename})"
        with _Running(process, log, self.most_output) as running:
            problem = running.wait(self.time_limit, stops)
            if problem is not None and not running.is_abandoned:
                _signal(process.pid, signal.SIGTERM)
                running.wait(TERM_GRACE)
            _signal(process.pid, signal.SIGKILL)  # the group id can't have been reused: its leader is not reaped yet
            code = process.wait()
            unkillable = _kill_remaining()
            running.drain()
        if problem is None and unkillable is None and code != 0:
            problem = f"exited with code {code}" if code > 0 else f"was killed by {signal_name(-code)}"
        return problem or unkillable


class _Running:
    """A running command. `wait` reads the command's output as it arrives."""

    def __init__(self, process: subprocess.Popen[bytes], log: BinaryIO, kept: int) -> None:
        assert process.stdout is not None
        self._stdout, self._output = process.stdout, process.stdout.fileno()
        self._pidfd = os.pidfd_open(process.pid)
        self._log, self._kept, self._omitted = log, kept, 0
        self.is_abandoned = False  # True once the supervisor has closed the channel
        self._poll = select.poll()
        self._poll.register(self._pidfd, select.POLLIN)
        self._poll.register(self._output, select.POLLIN)
        os.set_blocking(self._output, False)

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pidfd)
        self._stdout.close()

    def wait(self, seconds: float, stops: int | None = None) -> str | None:
        """Wait for the end of the command; return None, or why the wait ended early (cancellation or time limit)."""
        until = time.monotonic() + seconds
        if stops is not None:
            self._poll.register(stops, select.POLLIN | select.POLLRDHUP)
        while True:
            left = until - time.monotonic()
            ready = dict(self._poll.poll(max(0.0, left) * 1000))
            if self._output in ready and not self._read_output():
                self._poll.unregister(self._output)
            if self._pidfd in ready:
                return None
            if stops is not None and stops in ready:
                self._poll.unregister(stops)
                self.is_abandoned = bool(ready[stops] & (select.POLLRDHUP | select.POLLHUP))
                return CANCELLED
            if left <= 0:
                return f"took longer than {seconds:g} s and was ended"

    def drain(self) -> None:
        """Read the rest of the output after every process that could write to the pipe has ended."""
        for _ in range(LAST_READS):
            if not self._read_output():
                break
        if self._omitted:
            self._write(b"\n[%d more bytes are left out]\n" % self._omitted)

    def _read_output(self) -> bool:
        """Read some output; return whether more may follow."""
        try:
            chunk = os.read(self._output, CHUNK)
        except BlockingIOError:
            return True
        part = chunk[: self._kept]
        self._kept -= len(part)
        self._omitted += len(chunk) - len(part)
        self._write(part)
        return bool(chunk)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # the run itself reports a full disk
            self._log.write(data)


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_remaining() -> str | None:
    """Kill the command's descendants outside its group, which this process has adopted; return a problem, or None."""
    try:
        end_descendants()
    except ProcessesSurvived as error:
        return f"left processes behind: {error}"
    return None


def serve(run: RunDirectory, channel: socket.socket, cwd: str, bound: str, *words: str) -> None:
    """Run commands as the supervisor requests; `words` are HOOK=COMMAND, `bound` is a time limit in seconds.

    This process has no parent-death signal, since it has to end the running command before it exits.
    """
    become_subreaper()
    commands, received = dict(word.split("=", 1) for word in words), b""
    while data := channel.recv(CHUNK):
        *lines, received = (received + data).split(b"\n")
        for line in lines:
            match parse_line(line):
                case {"number": int(number), "hook": str(hook), "input": str(given)} if hook in commands:
                    env = {**os.environ, "CLUSTERKIT_EVENT": hook}
                    command = HookCommand(commands[hook], given.encode(), cwd, env, float(bound), _room_in_log(run))
                    problem = _logged(run, f"on-{hook} {number}", command, channel)
                    tell(channel, {"number": number, "problem": problem})


def _room_in_log(run: RunDirectory) -> int:
    try:
        return max(0, min(KEPT_OUTPUT, LONGEST_LOG - run.hooks_log.stat().st_size))
    except OSError:
        return KEPT_OUTPUT


def _logged(run: RunDirectory, name: str, command: HookCommand, channel: socket.socket) -> str | None:
    try:
        log: BinaryIO = run.hooks_log.open("ab", buffering=0)
    except OSError as error:
        return f"was not run: {error.strerror} ({error.filename})"
    with log:
        began = time.monotonic()
        _line(log, f"--- {name}, {time.strftime('%Y-%m-%d %H:%M:%S')}")
        problem = command.run(log, channel.fileno())
        _line(log, f"--- {name} {problem or 'exited with code 0'} ({time.monotonic() - began:.1f} s)")
    return problem


def _line(log: Any, text: str) -> None:
    with suppress(OSError):
        log.write(f"{text}\n".encode(errors="replace"))
