"""A small terminal: what is to be seen after everything that was written; and commands that run on a real one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.environment import ROOT, clean_environment

_PARTS = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|\x1b|[^\x1b]", re.DOTALL)
_HALF = re.compile(r"\x1b(\[[\d;]*)?\Z")  # a sequence of which only the beginning has been read


class Terminal:
    """So many columns, and as many rows as are needed. It knows the few sequences that clusterkit sends."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[list[str]] = [[]]
        self.row = self.column = 0

    def write(self, text: str) -> None:
        """Take text, of whole sequences."""
        for match in _PARTS.finditer(text):
            if match[2]:
                self._sequence(match[2], int(match[1].partition(";")[0] or 0))
            elif match[0] == "\n":
                self._down()
                self.column = 0
            elif match[0] == "\r":
                self.column = 0
            else:
                self._put(match[0])

    def resize(self, columns: int) -> None:
        """Have another width: rows that are too long go on in the next one, as on most terminals."""
        rows: list[list[str]] = []
        row = column = 0
        for number, old in enumerate(self.rows):
            rows += [old[at : at + columns] for at in range(0, len(old), columns)] or [[]]
            if number == self.row:  # the cursor is behind the last character, as it always is here
                row, column = len(rows) - 1, len(rows[-1])
        self.rows, self.columns, self.row, self.column = rows, columns, row, column

    def lines(self) -> list[str]:
        """What is to be seen, without the empty rows at the end."""
        lines = ["".join(row).rstrip() for row in self.rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _put(self, character: str) -> None:
        assert character >= " ", f"{character!r} is not for a terminal"
        if self.column == self.columns:
            self._down()
            self.column = 0
        row = self.rows[self.row]
        row += [" "] * (self.column + 1 - len(row))
        row[self.column] = character
        self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append([])

    def _sequence(self, kind: str, number: int) -> None:
        if kind == "A":
            self.row = max(0, self.row - number)
        elif kind == "H":
            self.row = self.column = 0
        elif kind in "KJ":
            assert number == 0 or (kind == "J" and number == 2)
            if number == 2:
                self.rows = [[] for _ in self.rows]
            del self.rows[self.row][self.column :]
            if kind == "J":
                del self.rows[self.row + 1 :]
        else:
            assert kind == "m", f"the terminal does not know {kind}"


def frames(text: str, columns: int = 80) -> Iterator[list[str]]:
    """What was to be seen each time before the lowest line was drawn anew, and in the end."""
    terminal = Terminal(columns)
    for part in re.split(r"(?=\r)", _HALF.sub("", text)):
        terminal.write(part)
        yield terminal.lines()


def resize(descriptor: int, columns: int, rows: int = 24) -> None:
    """Set the size of a terminal."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class OnTerminal:
    """A command on a terminal of its own, which is its controlling one."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.master = master
        self.raw = b""

    def press(self, key: bytes) -> None:
        """Type something."""
        os.write(self.master, key)

    def read_until(self, is_there: Callable[[str], object], deadline: float = 20.0) -> str:
        """Read what is written until that is there, and return everything so far."""
        end = time.monotonic() + deadline
        while not is_there(self.text):
            left = end - time.monotonic()
            assert left > 0, f"it did not come within {deadline:g} s: {self.text[-2000:]}"
            if not self._read(left):
                break
        assert is_there(self.text), self.text[-2000:]
        return self.text

    def finish(self, deadline: float = 30.0) -> str:
        """Read to the end."""
        end = time.monotonic() + deadline
        while self._read(max(0.0, end - time.monotonic())):
            assert time.monotonic() < end, self.text[-2000:]
        self.process.wait(5)
        return self.text

    @property
    def text(self) -> str:
        """Everything that was written, with the line ends that the program wrote."""
        return self.raw.decode("utf-8", "replace").replace("\r\n", "\n")

    def _read(self, within: float) -> bool:
        if not select.select([self.master], [], [], within)[0]:
            return True
        try:
            chunk = os.read(self.master, 1 << 16)
        except OSError:  # how Linux tells that nobody has the other end any more
            return False
        self.raw += chunk
        return bool(chunk)


@contextmanager
def on_terminal(
    home: Path, *args: str | Path, columns: int = 80, cwd: Path = ROOT, **variables: str
) -> Iterator[OnTerminal]:
    """Run clusterkit on a terminal of that width."""
    command = [sys.executable, "-m", "clusterkit", *map(str, args)]
    with program_on_terminal(home, command, columns, cwd, **variables) as started:
        yield started


@contextmanager
def program_on_terminal(
    home: Path, command: list[str], columns: int = 80, cwd: Path = ROOT, **variables: str
) -> Iterator[OnTerminal]:
    """Run a program, such as a shell, on a terminal of that width."""
    master, slave = pty.openpty()
    resize(slave, columns)
    process = subprocess.Popen(
        command,
        stdin=slave, stdout=slave, stderr=slave, cwd=cwd, start_new_session=True,
        env={**clean_environment(home), "TERM": "xterm", "NO_COLOR": "", "FORCE_COLOR": "", **variables},
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    try:
        yield OnTerminal(process, master)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)
