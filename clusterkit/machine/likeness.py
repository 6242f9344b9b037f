"""Likeness: whether two attempts failed in the same way, judged by their last error without its numbers."""

from __future__ import annotations

import re

from clusterkit.text.lines import NoiseFilter
from clusterkit.words.outcome import Exit, Failure

# What differs between two reports of the same error: addresses, ids, names of temporary files, dates and times.
_VARYING = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}\b"
    r"|(?<=/)tmp\w{8}\b"
    r"|\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?\b"
)
_NUMBERS = re.compile(r"\d+(?:\.\d+)*(?:e[+-]?\d+)?")  # counts, seconds, steps

# TensorFlow's errors when the workers of a gang make different calls. Whichever of them notices first raises it.
_MISMATCH = re.compile(
    r"Shape mismatch in the collective instance|Collective (?:instance|group) \S+ expected |but that group has size"
)

_CRASHES = frozenset({4, 5, 6, 7, 8, 11, 31})  # signals that a program causes itself; others are sent to it
_SHELL = 128  # a shell exits with this plus the number of the signal that killed its command
_LAST_SIGNAL = 64


def last_error(failure: Failure) -> str | None:
    """The exception that ended the attempt; without one, the last line of its log that is not TensorFlow's noise."""
    noise = NoiseFilter()
    own = [line for line in failure.tail if not noise.is_noise(line)]
    return failure.exception or next(reversed(own), None)


def was_killed(exit_: Exit) -> bool:
    """Whether a signal ended the attempt, or the command of a shell, that somebody else sent."""
    signal = exit_.signal if exit_.code is None else exit_.code - _SHELL
    return signal is not None and 0 < signal <= _LAST_SIGNAL and signal not in _CRASHES


def is_mismatch(failure: Failure) -> bool:
    """Whether the attempt failed because the workers' collective operations do not match."""
    return any(_MISMATCH.search(line) for line in (failure.exception or "", *failure.tail))


def error_signature(failure: Failure, numbers: bool = False) -> str | None:
    """How the attempt failed, to compare with others. None if it was ended from outside, or its log says nothing.

    Its numbers do not count, unless `numbers`: then they are the only hint how far the attempt came.
    """
    exit_, said = failure.exit, last_error(failure)
    if exit_.ok:
        return str(exit_)  # what it said last is no error
    if said is None or exit_.asked is not None or exit_.error is not None or exit_.host is not None:
        return None
    if exit_.preempted or was_killed(exit_):
        return None
    if is_mismatch(failure):
        return "the workers' collectives do not match"
    said = _VARYING.sub("#", said)
    return f"{exit_}: {said if numbers else _NUMBERS.sub('#', said)}"
