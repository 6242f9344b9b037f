"""Runs a clusterkit command in a cell, and prints its output up to a limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import IO

from clusterkit.api.supervisor import environment
from clusterkit.notebook.running import CellFailed
from clusterkit.store.store import state_dir
from clusterkit.system.process import code_of
from clusterkit.text.printable import printable_lines

MOST = 200_000  # bytes; the maximum amount of output to print, since the notebook's file stores the output
LAST = 10.0  # seconds; the time that a command has to end after an interrupt


def run_command(words: Sequence[str]) -> None:
    """Run a clusterkit command and print its output. Raises CellFailed if the command fails."""
    # The command is in the kernel's process group, so that an interrupt reaches it, like Ctrl-C in a terminal.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code_of("clusterkit.cli"), *words],
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
    """Write the lines of a source as text, up to MOST bytes, and then the number of omitted bytes."""
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
    """Wait for the command to end, which may take some time after an interrupt, and then kill it."""
    try:
        process.wait(LAST)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
