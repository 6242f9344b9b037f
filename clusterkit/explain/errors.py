"""The error text of a task: what of its log the rows of the table are held against."""

from __future__ import annotations

from collections.abc import Sequence

from clusterkit.text.lines import chained_traceback
from clusterkit.text.noise import NoiseFilter

LONGEST_LINE = 2000  # characters; the rest of a longer one is not looked at
MOST = 400  # lines of an error: the first half, where it is raised, and the last, where TensorFlow names its operations
LAST = 40  # lines of a log without a traceback
BEFORE = 40  # lines before the error


def error_text(lines: Sequence[str]) -> tuple[str, str]:
    """Return the error at the end of a task's log, and what stands before it.

    It begins with the last traceback, or with the one to which that is chained.
    """
    noise = NoiseFilter()
    said = [line[:LONGEST_LINE] for line in lines if not noise.is_noise(line)]
    start = chained_traceback(said)
    if start is None:
        start = max(0, len(said) - LAST)
    error = said[start:]
    error = error if len(error) <= MOST else [*error[: MOST // 2], *error[-MOST // 2 :]]
    return "\n".join(error), "\n".join(said[max(0, start - BEFORE) : start])
