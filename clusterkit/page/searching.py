"""Searches lines for regular expressions in a separate process, since a search can't be interrupted.

In a thread, an endless search would block all other threads of the server. In a process, a kernel timer can end the
search.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading

from clusterkit.system.process import KILLED_WITHIN, code_of
from clusterkit.words.errors import ClusterkitError

LONGEST = 1.0  # seconds of CPU time; the limit for searching one line
_NO, _YES = b"01"


class TooSlow(ClusterkitError):
    """A search took too long."""


class Searcher:
    """Searches lines of text, in any thread. The first search starts a process, and `close` ends the process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def finds(self, pattern: str, text: str) -> bool:
        """Return whether a valid pattern matches anywhere in the text. Raises TooSlow and ClusterkitError."""
        with self._lock:
            if self._process is None:
                self._process = _started()
            answer = _ask(self._process, json.dumps([pattern, text]).encode() + b"\n")
            if not answer:
                self._end()
                raise TooSlow("Searching a line for this regular expression takes too long. Try a simpler one.")
        return answer[0] == _YES

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.communicate(timeout=KILLED_WITHIN)


def _started() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", code_of("clusterkit.page.searching")]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    try:
        # The process gets its own session, since Ctrl-C in the terminal must reach only the server.
        return subprocess.Popen(
            command, bufsize=0, stdin=pipe, stdout=pipe, stderr=nothing, cwd="/", start_new_session=True
        )
    except OSError as error:
        raise ClusterkitError(f"The search can't be started: {error.strerror}.") from None


def _ask(process: subprocess.Popen[bytes], question: bytes) -> bytes:
    """Send a question and return the answer, which is empty if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    rest = memoryview(question)
    try:
        while rest:
            rest = rest[os.write(process.stdin.fileno(), rest) :]
        return os.read(process.stdout.fileno(), 1)
    except BrokenPipeError:
        return b""


def main() -> None:
    """Answer queries from standard input until it is closed."""
    for line in sys.stdin.buffer:
        pattern, text = json.loads(line)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)  # when the timer expires, its signal ends the process
        found = re.search(pattern, text) is not None
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        os.write(sys.stdout.fileno(), bytes([_YES if found else _NO]))
