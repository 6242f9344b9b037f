"""Likeness: whether two attempts failed in the same way, judged by their last error without its numbers."""

from __future__ import annotations

import re

from clusterkit.words.noise import NoiseFilter
from clusterkit.words.outcome import Failure

# What differs between two reports of the same error: addresses, ids, names of temporary files, counts, times, steps.
_VARYING = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}\b"
    r"|(?<=/)tmp\w{8}\b"
    r"|\d+(?:\.\d+)*(?:e[+-]?\d+)?"
)

_CRASHES = frozenset({4, 5, 6, 7, 8, 11, 31})  # signals that a program causes itself; others are sent to it
_SHELL = 128  # a shell exits with this plus the number of the signal that killed its command
_LAST_SIGNAL = 64


def last_error(failure: Failure) -> str | None:
    """The exception that ended the attempt; without one, the last line of its log that is not TensorFlow's noise."""
    noise = NoiseFilter()
    own = [line for line in failure.tail if not noise.is_noise(line)]
    return failure.exception or next(reversed(own), None)


def error_signature(failure: Failure) -> str | None:
    """How the attempt failed, to compare with others. None if it was ended from outside, or its log says nothing."""
    exit_, said = failure.exit, last_error(failure)
    if said is None or exit_.asked is not None or exit_.error is not None or exit_.host is not None:
        return None
    if exit_.preempted:
        return None
    signal = exit_.signal if exit_.code is None else exit_.code - _SHELL
    was_sent = signal is not None and 0 < signal <= _LAST_SIGNAL and signal not in _CRASHES
    return None if was_sent else f"{exit_}: {_VARYING.sub('#', said)}"
