"""Runs the experiments of an exam in threads, several at a time, and yields each when its runs have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from clusterkit.exam.plan import Experiment
from clusterkit.exam.runs import ExaminedRun

Runs = Sequence[ExaminedRun]
# Seconds; the maximum duration of a wait, since a signal that arrives just before a wait is handled after it.
POLL_EVERY = 0.5
MOST_SLOTS = 1000  # the maximum number of experiments at a time; each uses a thread


@dataclass(frozen=True, slots=True)
class Done:
    """An experiment whose runs have ended. `was_alone` is False if others ran meanwhile.

    `runs` is None if the time was up before the experiment began.
    """

    experiment: Experiment
    runs: Runs | None
    was_alone: bool = True


@dataclass(slots=True)
class Scheduler:
    """Starts experiments in order, `slots` at a time, and none after the monotonic time `until`."""

    execute: Callable[[Experiment], Runs]
    slots: int
    until: float
    stop: Callable[[], None]  # ends all live runs
    has_overlapped: bool = False  # True once two experiments have run at the same time
    _live: dict[Future[Runs], Experiment] = field(default_factory=dict)
    _met: set[Future[Runs]] = field(default_factory=set)  # the futures during which others ran

    def run(self, experiments: Sequence[Experiment]) -> Generator[Done, None, None]:
        """Yield each experiment after its end. If the caller closes the generator early, live runs are ended."""
        pool = ThreadPoolExecutor(min(MOST_SLOTS, max(1, len(experiments))), thread_name_prefix="experiment")
        pending = list(experiments)
        try:
            while pending or self._live:
                yield from self._start(pending, pool)
                for future in self._ended():
                    was_alone = future not in self._met
                    self._met.discard(future)
                    yield Done(self._live.pop(future), future.result(), was_alone)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if self._live:
                self.stop()
            pool.shutdown()

    def alone(self, call: Callable[[], Runs]) -> Runs:
        """Make runs in this thread, without other runs at the same time."""
        while not all(future.done() for future in self._live):
            wait(self._live, POLL_EVERY)
        return call()

    def _start(self, pending: list[Experiment], pool: ThreadPoolExecutor) -> Iterator[Done]:
        """Start pending experiments while there is room; yield those that the time does not allow any more."""
        while pending and len(self._live) < self.slots:
            one = self._next(pending)
            if one is None:
                return
            pending.remove(one)
            if time.monotonic() >= self.until:
                yield Done(one, None)
                continue
            self._live[pool.submit(self.execute, one)] = one
            if len(self._live) > 1:
                self._met.update(self._live)
                self.has_overlapped = True

    def _next(self, pending: Sequence[Experiment]) -> Experiment | None:
        """Return the first experiment that does not need a run which another experiment is making."""
        making = {one.first_run for one in self._live.values() if one.first_run}
        return next((one for one in pending if one.first_run not in making), None)

    def _ended(self) -> set[Future[Runs]]:
        """Wait until an experiment has ended; return those that have."""
        if not self._live:
            return set()
        ended = set[Future[Runs]]()
        while not ended:
            ended = wait(self._live, POLL_EVERY, FIRST_COMPLETED).done
        return ended
