"""Repeated tracebacks: those of tasks that fail as another one did are shown in two lines, and not once more."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from clusterkit.text.lines import TRACEBACK
from clusterkit.words.model import number_of

LONGEST = 200  # lines of a traceback; a longer one is shown
MOST = 64  # tracebacks that are remembered
AFTER = 40  # lines after one that may belong to it

_TITLE = TRACEBACK.encode()
_VARYING = re.compile(r"__autograph_generated_file\w+")


@dataclass(slots=True)
class Told:
    """A traceback that was shown: by whom, and the lines that came after it."""

    by: str
    stream: object
    after: list[str] = field(default_factory=list)


class Repeats:
    """Hides the tracebacks in one attempt's output that another attempt's has shown; `known` is common to all."""

    def __init__(self, known: dict[tuple[str, ...], Told], task: str) -> None:
        self._known = known
        self._task = task
        self._held: list[str] = []  # a traceback whose end has not come
        self._own: Told | None = None  # the last one that was shown here
        self._same: list[str] | None = None  # what may still come of one that was not

    def may_hide(self, whole: bytes) -> bool:
        """Whether lines have to go through `feed`."""
        return bool(self._held) or self._own is not None or self._same is not None or _TITLE in whole

    def feed(self, line: str) -> list[str]:
        """What to show now that this line came."""
        if line.startswith(TRACEBACK):
            held, self._held, self._own, self._same = self._held, [line], None, None
            return held
        if self._held:
            self._held.append(line)
            if line.startswith(" ") and len(self._held) < LONGEST:
                return []
            return self._ended()
        if self._same:
            if self._same[0] == _VARYING.sub("", line):
                del self._same[0]
                return []
        elif self._own is not None and len(self._own.after) < AFTER:
            self._own.after.append(_VARYING.sub("", line))
            return [line]
        self._own = self._same = None
        return [line]

    def flush(self) -> list[str]:
        """What to show at the end of the output."""
        held, self._held = self._held, []
        return held

    def _ended(self) -> list[str]:
        held, self._held = self._held, []
        key = tuple(_VARYING.sub("", line) for line in held[1:])
        told = self._known.get(key)
        if told is None:
            if len(self._known) < MOST:
                self._own = self._known[key] = Told(self._task, self)
            return held
        if told.stream is self:
            return held
        self._same = [*told.after]
        whose = "before" if told.by == self._task else f"{told.by}'s"
        return [f"{TRACEBACK} … {number_of('line', len(held) - 2)} as {whose}", held[-1]]
