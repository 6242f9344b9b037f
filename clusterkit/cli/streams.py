"""The standard streams: opens those that the caller has closed, and handles errors when writing to them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Unwritten(OSError):
    """Raised if writing to standard output fails, for example because the disk is full."""


class _Output(io.FileIO):
    """A wrapper around standard output that raises Unwritten for write errors, except for a pipe without a reader.

    click itself handles such a pipe.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Unwritten(*error.args) from None


class _Messages(io.FileIO):
    """A wrapper around standard error that ignores write errors, so that a full disk does not change a command."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def open_streams() -> None:
    """Open /dev/null for each closed stream, so that no file of a run gets the stream's descriptor."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # opens the lowest free descriptor: this one
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = _reopened(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _reopened(_Messages(2, "w", closefd=False), sys.stderr)


@contextmanager
def exit_if_unwritten() -> Iterator[None]:
    """Turn a write error on standard output into a message and exit code 1."""
    try:
        yield
    except Unwritten as error:
        from clusterkit.cli.terminal import say

        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), 1)  # otherwise Python's flush at exit would fail again
        say(f"The output can't be written: {error.strerror}.")
        sys.exit(1)


def _reopened(raw: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    """Return a text stream with the encoding and buffering of the stream that it replaces."""
    buffer = io.BufferedWriter(raw)
    if not isinstance(before, io.TextIOWrapper):
        return io.TextIOWrapper(buffer, errors="backslashreplace")
    return io.TextIOWrapper(
        buffer, before.encoding, before.errors, line_buffering=before.line_buffering, write_through=before.write_through
    )
