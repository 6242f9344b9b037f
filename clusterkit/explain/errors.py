"""Extracts a task's error text from its log. The patterns of the table's rows are matched against this text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterkit.text.lines import chained_traceback
from clusterkit.text.noise import NoiseFilter

LONGEST_LINE = 2000  # characters; the maximum length of a line, whose rest is ignored
MOST = 400  # lines; longer errors are cut in the middle, since they begin with the raise and end with the operations
LAST = 40  # lines; if a log has no traceback, this many of its last lines count as the error
BEFORE = 40  # the maximum number of lines to return from before the error
WAITS = "CreateSession still waiting for response"  # TensorFlow logs only at level INFO why a session hangs

_WINDOWS = re.compile(r' *File "[A-Za-z]:\\')  # a frame on Windows; other patterns expect slashes in its path
_CANCELLED = re.compile(r"(?:\w{1,100}\.){0,9}CancelledError: ")
_CLOSURE_FAILED = re.compile(
    r"ERROR:tensorflow: ?/job:\w+/task:\d{1,6} encountered the following error when processing closure: "
    r"(?!CancelledError|UnavailableError|AbortedError)\w{1,100}\("
)


def error_text(lines: Sequence[str]) -> tuple[str, str]:
    """Return the error at the end of a task's log, and the lines before the error.

    The error begins with the last traceback or, if that ends a chain of exceptions, with the chain's first traceback.
    If a coordinator's exception only says that closures were cancelled, the error begins at the earlier line in which
    the coordinator logged the reason.
    """
    noise = NoiseFilter()
    said = [line[:LONGEST_LINE] for line in lines if not noise.is_noise(line) or WAITS in line]
    said = [line.replace("\\", "/") if _WINDOWS.match(line) else line for line in said]
    start = chained_traceback(said)
    if start is None:
        start = max(0, len(said) - LAST)
    elif any(map(_CANCELLED.match, said[start:])):
        start = next((at for at in range(start - 1, -1, -1) if _CLOSURE_FAILED.match(said[at])), start)
    error = said[start:]
    error = error if len(error) <= MOST else [*error[: MOST // 2], *error[-MOST // 2 :]]
    return "\n".join(error), "\n".join(said[max(0, start - BEFORE) : start])
