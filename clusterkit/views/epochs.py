"""Keras' epochs on a terminal: joins the title of an epoch and the last state of its progress bar to one line."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TITLE = re.compile(r"Epoch \d+/\d+$")
_COLORS = r"(?:\x1b\[[0-9;]*m)*"
# The bars of Keras 3 and Keras 2, after the number of the step.
_BAR = re.compile(rf"^( *{_COLORS} *\d+/(?:\d+|Unknown){_COLORS} ){_COLORS}(?:━[━\x1b0-9;\[m]*|\[[=>.]+\](?: -)?) ")


@dataclass(slots=True)
class Epochs:
    """Joins lines of one attempt. The title of an epoch is held until the next line."""

    _title: str = ""

    def feed(self, line: str) -> list[str]:
        """Take a line; return the lines to show now."""
        title = self.drain()
        if _TITLE.match(line):
            self._title = line
            return title
        if (bar := _BAR.match(line)) is None:
            return [*title, line]
        state = f"{bar[1]}{line[bar.end() :]}"
        return [" ".join([*title, state.lstrip() if title else state])]

    def drain(self) -> list[str]:
        """Return the held title, if any."""
        title, self._title = self._title, ""
        return [title] if title else []
