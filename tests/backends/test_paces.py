"""Paces: what a task has used belongs to the moment at which it was read."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from clusterkit.backends.local import pace_inspector
from clusterkit.backends.local.pace_inspector import PacedAttempt, _measured
from clusterkit.system import procfs


def test_times_during_whose_reading_this_thread_was_held_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be those of a later moment than the one that is kept with them."""
    moment, read = 100.0, []

    def thread_times(pid: int) -> dict[int, tuple[int, int]]:
        nonlocal moment
        read.append(pid)
        moment += 1.0 if len(read) == 1 else 0.001
        return {pid: (int(moment * 1e9), 0)}

    monkeypatch.setattr(pace_inspector, "time", SimpleNamespace(monotonic=lambda: moment))
    monkeypatch.setattr(procfs, "thread_times", thread_times)
    me = PacedAttempt(1, os.getpid(), searched_at=moment)
    monkeypatch.setattr(procfs, "stat", lambda pid: ("R", 1, pid))  # it leads its session
    for _ in range(2):
        seen = _measured(me)
    assert seen is not None
    assert seen.pace is not None
    assert (seen.pace.seconds, seen.pace.cpu) == (0.001, 0.001)
    assert len(read) == 3
