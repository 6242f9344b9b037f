"""Keras' epochs on a terminal: the title of an epoch and the last state of its progress bar are one line."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TITLE = re.compile(r"Epoch \d+/\d+$")
_COLORS = r"(?:\x1b\[[0-9;]*m)*"
# The bars of Keras 3 and of Keras 2, behind the number of the step.
_BAR = re.compile(rf"^( *{_COLORS} *\d+/(?:\d+|Unknown){_COLORS} ){_COLORS}(?:━[━\x1b0-9;\[m]*|\[[=>.]+\](?: -)?) ")


@dataclass(slots=True)
class Epochs:
    """Takes the lines of one attempt. A title waits for the next line."""

    _title: str = ""

    def feed(self, line: str) -> list[str]:
        """What to show now that this line came."""
        title = self.drain()
        if _TITLE.match(line):
            self._title = line
            return title
        if (bar := _BAR.match(line)) is None:
            return [*title, line]
        state = f"{bar[1]}{line[bar.end() :]}"
        return [" ".join([*title, state.lstrip() if title else state])]

    def drain(self) -> list[str]:
        """The title that waits."""
        title, self._title = self._title, ""
        return [title] if title else []
