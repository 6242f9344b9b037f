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


class ManyThreads:
    """A process with a hundred threads, as /proc shows it, and how often the times of each thread were read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pid, self.moment = 1000, 50.0
        self.ran = dict.fromkeys(range(1000, 1100), 0)  # nanoseconds, by thread
        self.read = list[int]()
        monkeypatch.setattr(pace_inspector, "time", SimpleNamespace(monotonic=lambda: self.moment))
        monkeypatch.setattr(procfs, "descendants", lambda pid: [])
        monkeypatch.setattr(procfs, "stat", lambda pid: ("S", pid, pid))
        monkeypatch.setattr(procfs, "usage", self._usage)
        monkeypatch.setattr(procfs, "thread_time", self._thread_time)
        monkeypatch.setattr(procfs, "thread_times", lambda pid: {one: self._thread_time(pid, one) for one in self.ran})

    def _usage(self, pid: int) -> procfs.Usage:
        return procfs.Usage(sum(self.ran.values()) // 10_000_000 / 100, 0, 1.0, 1, pid)  # rounded to ticks

    def _thread_time(self, pid: int, thread: int) -> tuple[int, int]:
        self.read.append(thread)
        return self.ran[thread], 0

    def run(self, **seconds: float) -> None:
        """Let 15 seconds pass, in which these threads run for so long."""
        for thread, of in seconds.items():
            self.ran[int(thread.removeprefix("t"))] += int(of * 1e9)
        self.moment += 15.0


def test_only_threads_that_ran_are_read_and_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that wakes is found by the time of the whole process, and no time is lost or counted twice."""
    process, me = ManyThreads(monkeypatch), PacedAttempt(1, 1000)
    process.run(t1000=5.0, t1007=3.0, t1009=0.001)
    assert _measured(me) is not None
    spent, read = [], []
    for step in ({"t1000": 4.0, "t1007": 4.0}, {"t1000": 4.0, "t1050": 6.0}, {"t1000": 2.0, "t1050": 1.0}):
        process.read.clear()
        process.run(**step)
        seen = _measured(me)
        assert seen is not None
        assert seen.pace is not None
        spent.append(seen.pace.cpu)
        read.append(len(process.read))
    assert spent == [8.0, 10.0, 3.0]
    assert read == [3, 103, 4]
    assert me.busiest_threads == ((1000, 1000), (1000, 1050))


def test_all_threads_are_read_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that those that no longer run are not read for ever."""
    process, me = ManyThreads(monkeypatch), PacedAttempt(1, 1000)
    process.run(t1000=5.0, t1007=3.0)
    for _ in range(5):
        _measured(me)
        process.run(t1000=5.0)
    assert me.active == {(1000, 1000)}
