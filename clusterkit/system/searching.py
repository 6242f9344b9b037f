"""Searches lines for regular expressions in a separate process, since a search can't be interrupted.

In a thread, an endless search would block all other threads, since it holds the GIL. In a process, a kernel timer can
end the search.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from clusterkit.system.process import HELPER_PIDS, KILLED_WITHIN, code_of
from clusterkit.words.errors import ClusterkitError

READ_AT_ONCE = 1 << 16  # bytes
Groups = tuple[str | None, ...]  # the groups of one match


class TooSlow(ClusterkitError):
    """A search took too long."""


class Searcher:
    """Searches lines of text, in any thread. The first search starts a process, and `close` ends the process.

    A search may take `limit` seconds of CPU time. A search that takes longer ends the process; the next search starts
    another one.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process before the first search. Raises ClusterkitError."""
        with self._lock:
            self._started()

    def finds(self, pattern: str, text: str) -> bool:
        """Return whether a valid pattern matches anywhere in the text. Raises TooSlow and ClusterkitError."""
        return bool(self.matches(pattern, [text]))

    def matches(self, pattern: str, lines: Sequence[str]) -> list[Groups]:
        """Return the groups of the first match in each line that matches. Raises TooSlow and ClusterkitError."""
        with self._lock:
            process = self._started()
            answer = _ask(process, json.dumps([pattern, *lines]).encode() + b"\n")
            if not answer.endswith(b"\n"):
                self._end()
                if process.returncode == -signal.SIGVTALRM:
                    raise TooSlow("Searching a line for this regular expression takes too long. Try a simpler one.")
                raise ClusterkitError(
                    "The process that searches for regular expressions was killed or ran out of memory."
                )
        return [tuple(groups) for groups in json.loads(answer)]

    def close(self) -> None:
        """End the process, also in the middle of a search."""
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()  # without the lock, which a search holds
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = _start(self._limit)
            HELPER_PIDS.add(self._process.pid)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdout is not None and process.stdin is not None:
            process.stdin.close()
            process.stdout.close()
        with suppress(subprocess.TimeoutExpired):  # a process that used up its time ends by itself: see `returncode`
            process.wait(KILLED_WITHIN / 2)
        process.kill()
        process.wait(KILLED_WITHIN)
        HELPER_PIDS.discard(process.pid)


def _start(limit: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", code_of("clusterkit.system.searching"), str(limit)]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    try:
        # The process gets its own session, since Ctrl-C in the terminal must not reach it.
        return subprocess.Popen(
            command, bufsize=0, stdin=pipe, stdout=pipe, stderr=nothing, cwd="/", start_new_session=True
        )
    except OSError as error:
        raise ClusterkitError(f"The search can't be started: {error.strerror}.") from None


def _ask(process: subprocess.Popen[bytes], question: bytes) -> bytes:
    """Send a question and return the answer, a line, which is incomplete if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    rest = memoryview(question)
    answer = bytearray()
    try:
        while rest:
            rest = rest[os.write(process.stdin.fileno(), rest) :]
        while not answer.endswith(b"\n"):
            piece = os.read(process.stdout.fileno(), READ_AT_ONCE)
            if not piece:
                break
            answer += piece
    except BrokenPipeError:
        return b""
    return bytes(answer)


def main() -> None:
    """Answer queries from standard input until it is closed."""
    limit = float(sys.argv[1])
    for question in sys.stdin.buffer:
        pattern, *lines = json.loads(question)
        signal.setitimer(signal.ITIMER_VIRTUAL, limit)  # when the timer expires, its signal ends the process
        search = re.compile(pattern).search
        found = [match.groups() for match in map(search, lines) if match is not None]
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.buffer.write(json.dumps(found).encode() + b"\n")
        sys.stdout.buffer.flush()
