"""Runs clusterkit commands as children of the kernel. Prints the command's output or, for `up`, shows the run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from clusterkit.api.supervisor import Supervisor, environment
from clusterkit.cli.snapshot import RunSnapshot
from clusterkit.job.options import GivenOptions
from clusterkit.notebook.output import CellOutput
from clusterkit.store.store import RunStore, state_dir
from clusterkit.system.process import code_of, first_readable, own_python
from clusterkit.text.printable import printable_lines
from clusterkit.words.errors import ClusterkitError

EVERY = 0.1  # seconds; the minimum time between updates
PIECE = 1 << 16  # bytes; the maximum amount of output to read at once
SILENT = 1.0  # seconds; when the supervisor has ended, reading stops after this time without output
STOP = 60.0  # seconds; the time for a clean shutdown before the run is killed
MOST = 200_000  # bytes; the maximum amount of output to print, since output is stored in the notebook's file
LAST = 10.0  # seconds; the time limit for a command to end after an interrupt
# Shows a run; takes the output, the run's state (None before the run exists), and True once the run has ended.
RunDisplay = Callable[[CellOutput, RunSnapshot | None, bool], None]


class CellFailed(ClusterkitError):
    """The command of a cell failed. The notebook shows the message without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"clusterkit: {self}"]


class CellRun:
    """A run that ends with the kernel. All work is done in the thread that calls `wait`.

    `detached` is True if the command is `up -d`, whose run continues after the command has ended.
    """

    def __init__(self, words: Sequence[str], run_id: str, home: Path, detached: bool = False) -> None:
        self._detached = detached
        self.run = RunStore(home).run(run_id)
        self.output = CellOutput()
        self._look: RunSnapshot | None = None
        self._pipe, other = os.pipe2(os.O_CLOEXEC)
        self._open = True
        try:
            console = Path(f"/proc/self/fd/{other}")  # a path of the pipe, since the supervisor's output needs a path
            self._supervisor = Supervisor(GivenOptions({}), run_id, home, console, words)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(other)

    def wait(self, show: RunDisplay) -> None:
        """Show the run until it has ended. An interrupt ends the run; a second one kills it. Raises CellFailed."""
        interrupts = 0
        try:
            while True:
                try:
                    self._watch(show)
                    break
                except KeyboardInterrupt:
                    interrupts += 1
                    if interrupts > 2:
                        raise
                    self._supervisor.interrupt()
        finally:
            if not self._supervisor.wait(0.0):
                self._supervisor.end(STOP if interrupts < 2 else 0.0)
            if interrupts and self._detached:
                self._supervisor.release()  # ends the run
            self._close()
        if self._supervisor.exit_code:
            raise CellFailed(self._failure())

    def _failure(self) -> str:
        result = self.run.result()
        if result is not None:
            return f"The run {self.run.run_id} {result.state}: {result.reason}."
        return f"The run {self.run.run_id} was lost." if self.run.path.exists() else "Nothing was started."

    def _watch(self, show: RunDisplay) -> None:
        due, read_at = 0.0, time.monotonic()
        while self._open:
            if first_readable((self._pipe,), EVERY) is not None:
                self._read()
                read_at = time.monotonic()
            elif self._supervisor.exit_code is not None and time.monotonic() - read_at > SILENT:
                break
            if (now := time.monotonic()) >= due:
                self._refresh()
                show(self.output, self._look, False)
                due = now + EVERY
        self.output.end()
        self._supervisor.wait(STOP)
        self._refresh()
        show(self.output, self._look, True)

    def _read(self) -> None:
        chunk = os.read(self._pipe, PIECE)
        self._open = bool(chunk)
        self.output.feed(chunk)

    def _refresh(self) -> None:
        if self._look is None and self.run.job_file.exists():
            look = RunSnapshot(self.run)
            self._look = look if look.info is not None else None
            self.output.tasks = [*map(str, look.info.job.tasks)] if look.info is not None else ()
        elif self._look is not None:
            self._look.refresh()

    def _close(self) -> None:
        os.close(self._pipe)
        if not (self._detached and self.run.is_live()):
            self._supervisor.release()


def run_command(words: Sequence[str]) -> None:
    """Run a clusterkit command and print its output. Raises CellFailed if the command fails."""
    # The command stays in the kernel's process group, so that an interrupt reaches it, as Ctrl-C does in a terminal.
    process = subprocess.Popen(
        own_python("-c", code_of("clusterkit.cli"), *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(state_dir()),
    )
    assert process.stdout is not None
    with process:
        try:
            copy(process.stdout, lambda text: print(text, end=""))
        finally:
            _end(process)
    if process.returncode:
        raise CellFailed(f"`{' '.join(['clusterkit', *words[:1]])}` ended with exit code {process.returncode}.")


def copy(source: IO[bytes], write: Callable[[str], object]) -> None:
    """Write lines as text, up to MOST bytes. If bytes were omitted, finally write their number."""
    left, omitted = MOST, 0
    for line in iter(lambda: source.readline(MOST), b""):
        left -= len(line)
        if left >= 0:
            write(printable_lines(line.decode("utf-8", "replace")))
        else:
            omitted += len(line)
    if omitted:
        write(f"\n… and {omitted:,} bytes more. In a terminal, the command shows everything.\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the command to end, which may take some time after an interrupt. Kill it after LAST seconds."""
    try:
        process.wait(LAST)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
