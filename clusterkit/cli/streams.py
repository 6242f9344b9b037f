"""The standard streams: opened if the caller has closed them; what can't be written is one sentence, or ignored."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Unwritten(OSError):
    """Standard output can't be written, for example since a disk is full."""


class _Output(io.FileIO):
    """Standard output, whose errors can be told from those of other files. click handles a pipe that nobody reads."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Unwritten(*error.args) from None


class _Messages(io.FileIO):
    """Standard error, which drops what can't be written: a full disk must not change what a command does."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def open_streams() -> None:
    """Open /dev/null for streams that are closed, so that no file of a run gets their descriptors."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free: this one
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = _writing(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _writing(_Messages(2, "w", closefd=False), sys.stderr)


@contextmanager
def exit_if_unwritten() -> Iterator[None]:
    """Turn the error of an output that can't be written into a message."""
    try:
        yield
    except Unwritten as error:
        from clusterkit.cli.terminal import say

        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), 1)  # or Python would fail again when it exits
        say(f"The output can't be written: {error.strerror}.")
        sys.exit(1)


def _writing(raw: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    """A text stream with the encoding and the buffering of the one before."""
    buffer = io.BufferedWriter(raw)
    if not isinstance(before, io.TextIOWrapper):
        return io.TextIOWrapper(buffer, errors="backslashreplace")
    return io.TextIOWrapper(
        buffer, before.encoding, before.errors, line_buffering=before.line_buffering, write_through=before.write_through
    )
