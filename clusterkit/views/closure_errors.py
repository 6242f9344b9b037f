"""Folds the errors that TensorFlow's coordinator logs for a closure, with all frames that made the failed operation.

The coordinator logs the error of the closure, the cancellation of all others, and each cancelled closure: in all, some
hundred lines for one cause. Shown are the first line about each kind of error and the error's message.
"""

from __future__ import annotations

import re

from clusterkit.text.lines import PEER_GONE

MOST = 64  # texts that are remembered

_HEAD = re.compile(
    r"ERROR:tensorflow: ?(?:/job:\w+/task:\d{1,6} encountered the following error when processing closure"
    r"|(?P<derived>Start cancelling closures due to error|Remote function on worker \S{1,100} failed with))"
    r":? (?P<type>\w{1,100})\("
)
_FRAMES = re.compile(r"Detected at node |  File \"|\t \[\[|Additional GRPC error information |\s*$")
_ENDS = (":UNKNOWN:", "This derived error is ignored")  # begin the last line of a closure's error
_LONGEST = 120  # lines; the longest error of a closure


class ClosureErrors:
    """Hides lines of one attempt's output that belong to the errors of closures."""

    def __init__(self) -> None:
        self.failed = ""  # the type of the first error that was not only a peer's end or a cancellation
        self._shown = set[str]()  # types and texts of earlier errors
        self._new: list[str] = []  # those of the present error
        self._left = 0  # lines that may still belong to an error; 0 outside of an error
        self._ended = False  # True if only further last lines can follow

    @property
    def is_open(self) -> bool:
        """Whether the next line may belong to an error."""
        return self._left > 0

    def hides(self, line: str) -> bool:
        """Return whether to hide a line."""
        if head := _HEAD.match(line):
            self._begin()
            if head["derived"] is None and not self.failed and not PEER_GONE.search(head["type"]):
                self.failed = head["type"]
            return head["derived"] is not None or self._was_shown(head["type"])
        if not self._left:
            return False
        self._left -= 1
        if line.startswith(_ENDS):
            self._ended = True
            return True
        if self._ended:
            self._left = 0
            return False
        return _FRAMES.match(line) is not None or self._was_shown(line)

    def _begin(self) -> None:
        self._left, self._ended = _LONGEST, False
        self._shown.update(self._new[: max(0, MOST - len(self._shown))])
        self._new.clear()

    def _was_shown(self, text: str) -> bool:
        """Return whether an earlier error showed this text. A text that is repeated within an error is shown again."""
        self._new.append(text)
        return text in self._shown
