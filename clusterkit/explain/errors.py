"""Extracts a task's error text from its log. This is the text that the patterns of the table's rows have to match."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterkit.text.lines import chained_traceback
from clusterkit.text.noise import NoiseFilter

LONGEST_LINE = 2000  # characters; the rest of a longer line is ignored
MOST = 400  # lines; longer errors are cut in the middle: the raise is at the start, TensorFlow's operations at the end
LAST = 40  # lines; if a log has no traceback, this much of its end counts as the error
BEFORE = 40  # lines; the maximum number of lines before the error to return
WAITS = "CreateSession still waiting for response"  # TensorFlow logs the reason why a session hangs at level INFO

_WINDOWS = re.compile(r' *File "[A-Za-z]:\\')  # a frame of a traceback, whose path other patterns expect with slashes
_CANCELLED = re.compile(r"(?:\w{1,100}\.){0,9}CancelledError: ")
_CLOSURE_FAILED = re.compile(
    r"ERROR:tensorflow: ?/job:\w+/task:\d{1,6} encountered the following error when processing closure: "
    r"(?!CancelledError|UnavailableError|AbortedError)\w{1,100}\("
)


def error_text(lines: Sequence[str]) -> tuple[str, str]:
    """Return the error at the end of a task's log, and the lines before the error.

    The error begins with the last traceback or, if that ends a chain of exceptions, with the chain's first traceback.
    If a coordinator only raised that its closures were cancelled, the error begins where the coordinator logged why.
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
