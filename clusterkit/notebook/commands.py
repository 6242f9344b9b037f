"""Runs a command of clusterkit in a cell, and prints what it prints, up to a limit."""

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

MOST = 200_000  # bytes that are printed; the notebook's file keeps them
LAST = 10.0  # seconds for a command to end after an interrupt


def run_command(words: Sequence[str]) -> None:
    """Run it, and print its output. Raises CellFailed if it fails."""
    # In the kernel's process group, so that an interrupt is for the command too, as Ctrl-C is in a terminal.
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
    """Write the lines of a source as text, at most MOST bytes of them; at the end, how much was left out."""
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
    """After an interrupt, which the command has got too, it may take some time."""
    try:
        process.wait(LAST)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
