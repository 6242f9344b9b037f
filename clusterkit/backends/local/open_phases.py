"""Bounds the phases that a task has begun and not ended, since each of them is kept until its end."""

from __future__ import annotations

from clusterkit.words.events import PhaseChanged

MOST = 64  # the maximum number of open phases of an attempt; programs have two or three at a time


class OpenPhases:
    """The open phases of a task's newest attempt."""

    def __init__(self) -> None:
        self._attempt = 0
        self._names: set[str] = set()

    def admits(self, event: PhaseChanged) -> bool:
        """Note the event, and return whether to pass it on: not the begin of a phase beyond MOST, nor its end."""
        if event.attempt != self._attempt:
            self._attempt = event.attempt
            self._names.clear()
        if not event.begun:
            is_open = event.phase in self._names
            self._names.discard(event.phase)
            return is_open
        if event.phase not in self._names and len(self._names) >= MOST:
            return False
        self._names.add(event.phase)
        return True
