"""Measures how live tasks spend their time: stopped, working, asleep, or waiting for a CPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from clusterkit.system import procfs
from clusterkit.system.barrier import join, start_thread
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import Crashed, Inspected, Look, Pace, Vitals
from clusterkit.words.model import Task

SAMPLES = 16  # the number of samples that each inspection takes
SHORTEST, SPREAD = 0.04, 0.1  # seconds between samples: from SHORTEST to SHORTEST + SPREAD
SEARCH_EVERY = 60.0  # seconds between searches for a task's descendants
GOLDEN_RATIO = 0.6180339887  # its multiples modulo 1 are spread evenly, so samples never follow a task's period
THREADS = 8  # the maximum number of threads sampled per task: those that used the CPU most
READ_WITHIN = 0.02  # seconds; the limit for reading a task's times
TRIES = 3  # the maximum number of readings of a task's times, if a reading takes longer
# How much CPU time may be missing before all threads are read: seconds (/proc rounds to ticks), and a share of the use.
MISSING, MISSING_SHARE = 0.03, 0.02
RARE = 0.01  # threads that used less than this share of what the busiest thread used are not sampled
STOPPED, AWAKE = ("T", "t"), ("R", "D")
Times = dict[tuple[int, int], tuple[int, int]]  # maps (pid, thread id) to nanoseconds: running, waiting for a CPU


@dataclass(slots=True)
class PacedAttempt:
    """An attempt whose pace is measured. `pid` is its first process."""

    attempt: int
    pid: int
    times: Times = field(default_factory=dict)
    total: float = 0.0  # the CPU seconds of all threads at the last reading
    active: frozenset[tuple[int, int]] = frozenset()  # the threads that used the CPU lately
    measured_at: float | None = None
    descendants: tuple[int, ...] = ()  # pids of the descendants of `pid` at the last search
    searched_at: float = -SEARCH_EVERY
    busiest_threads: tuple[tuple[int, int], ...] = ()
    samples: int = 0
    stopped: int = 0
    busy: int = 0


class PaceInspector:
    """Runs each inspection of the tasks in a thread. An attempt's CPU time is known from the second inspection on.

    A TensorFlow task has a hundred threads, most of which sleep. So only those that used the CPU lately are sampled,
    and the times of the others are read only if the time of the whole process shows that some of them have run.
    """

    def __init__(self, post: Callable[[Inspected | Crashed], None]) -> None:
        self._post = post
        self._ended = threading.Event()
        self._subjects: dict[Task, PacedAttempt] = {}
        self._is_running = False
        self._thread: threading.Thread | None = None

    def begin(self, live: Mapping[Task, tuple[int, int]]) -> None:
        """Start an inspection, which posts Inspected. `live` has each task's attempt and first pid. Raises OSError."""
        if self._is_running:
            self._post(Inspected({}, Look.PACE))
            return
        known = {(task, one.attempt, one.pid): one for task, one in self._subjects.items()}
        self._subjects = {task: known.get((task, *of)) or PacedAttempt(*of) for task, of in live.items()}
        self._is_running = True
        try:
            self._thread = start_thread("pace", partial(self._inspect, dict(self._subjects)), self._post)
        except OSError:
            self._is_running = False
            raise

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            join(self._thread)

    def _inspect(self, subjects: Mapping[Task, PacedAttempt]) -> None:
        vitals: dict[Task, Vitals] = {}
        try:
            with suppress(CannotLook):  # skip this inspection; the next one follows soon
                self._sample(subjects)
                vitals = {task: found for task, of in subjects.items() if (found := _measured(of)) is not None}
        finally:  # even after an exception: the state machine waits for Inspected to request the next inspection
            self._is_running = False
            self._post(Inspected(vitals, Look.PACE))

    def _sample(self, subjects: Mapping[Task, PacedAttempt]) -> None:
        for subject in subjects.values():
            subject.samples = subject.stopped = subject.busy = 0
        for number in range(SAMPLES):
            if self._ended.wait(SHORTEST + SPREAD * (number * GOLDEN_RATIO % 1)):
                return
            for subject in subjects.values():
                _sample(subject)


def _sample(subject: PacedAttempt) -> None:
    seen = procfs.stat(subject.pid)
    if seen is None or seen[2] != subject.pid:  # the pid was reused by a process that leads no session
        return
    subject.samples += 1
    if seen[0] in STOPPED:
        subject.stopped += 1
    elif any(procfs.thread_state(*thread) in AWAKE for thread in subject.busiest_threads):
        subject.busy += 1


def _measured(subject: PacedAttempt) -> Vitals | None:
    """Return the attempt's samples, and its CPU time since the last inspection; None if its process is gone."""
    seen = procfs.stat(subject.pid)
    if seen is None or seen[2] != subject.pid:
        return None
    previous, since = subject.times, subject.measured_at
    searches = time.monotonic() - subject.searched_at >= SEARCH_EVERY
    if searches:
        subject.descendants, subject.searched_at = tuple(procfs.descendants(subject.pid)), time.monotonic()
    subject.times, now = _times(subject, reads_all=searches)
    subject.measured_at = now
    # Newly found processes are not counted, since part of their usage may be older than the last inspection.
    known = {process for process, _ in previous} or {subject.pid}
    used = {
        thread: [max(0, now - then) for now, then in zip(times, previous.get(thread, (0, 0)), strict=True)]
        for thread, times in subject.times.items()
        if thread[0] in known
    }
    ran = {thread: sum(times) for thread, times in used.items() if any(times)}
    if searches:
        subject.active = frozenset(ran)
    subject.active |= ran.keys()
    least = RARE * max(ran.values(), default=0)
    busiest = sorted((thread for thread in ran if ran[thread] >= least), key=lambda thread: -ran[thread])
    subject.busiest_threads = tuple(busiest[:THREADS])
    if since is None:
        return Vitals(subject.attempt, False, seen[0])
    cpu, delayed = (sum(times[kind] for times in used.values()) / 1e9 for kind in (0, 1))
    counts = subject.samples, subject.stopped, subject.busy
    pace = Pace(*counts, round(now - since, 3), round(cpu, 4), round(delayed, 4))
    return Vitals(subject.attempt, False, seen[0], pace=pace)


def _times(subject: PacedAttempt, reads_all: bool) -> tuple[Times, float]:
    """Return how long the attempt's threads ran and waited, and when this was read. A slow reading is repeated."""
    before, times = subject.total, Times()
    for _ in range(TRIES):
        now = time.monotonic()
        processes = (subject.pid, *subject.descendants)
        subject.total = sum(used.cpu for used in map(procfs.usage, processes) if used is not None)
        times = {} if reads_all else _active_times(subject, subject.total - before)
        if not times:
            times = {(pid, thread): used for pid in processes for thread, used in procfs.thread_times(pid).items()}
        if time.monotonic() - now < READ_WITHIN:
            break
    return times, now


def _active_times(subject: PacedAttempt, spent: float) -> Times:
    """Return the times after reading only the active threads; empty if these do not account for the `spent` seconds."""
    read = {thread: procfs.thread_time(*thread) for thread in subject.active}
    new = {thread: times for thread, times in read.items() if times is not None}
    ran = sum(times[0] - subject.times.get(thread, (0, 0))[0] for thread, times in new.items()) / 1e9
    if spent - ran > MISSING + MISSING_SHARE * spent:
        return {}
    return {**{thread: times for thread, times in subject.times.items() if thread not in read}, **new}
