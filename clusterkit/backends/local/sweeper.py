"""The sweeper: kills and reaps the processes of ended attempts in threads, so that the loop does not wait."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

from clusterkit.backends.local.family import AttemptProcess, ProcessFamily
from clusterkit.system.barrier import start_thread
from clusterkit.system.poller import Bell, Poller
from clusterkit.system.sweep import ProcessesSurvived
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import Crashed, Swept

SEARCHES_APART = 0.02  # seconds; the minimum time between searches for ended orphans
Post = Callable[[Swept | Crashed], None]


class Sweeper:
    """Reaps ended attempts and orphans in one thread. Each attempt that left processes behind gets a separate thread.

    Call `child_ended.ring` when a child of this process has ended. A signal handler may call it.
    """

    def __init__(self, family: ProcessFamily, post: Post) -> None:
        self._family = family
        self._post = post
        self._to_sweep: list[AttemptProcess] = []  # attempts to be swept in the thread's next turn
        # The planned time of the next search for orphans to reap, and the earliest allowed time.
        self._reap_at, self._may_reap_at = math.inf, 0.0
        self.child_ended = Bell()
        self._poller = Poller("sweeper", post, self._turn)
        self._poller.watch(self.child_ended.fileno(), lambda _: self._expect_orphan())
        self._poller.start()

    def sweep(self, ended: AttemptProcess) -> None:
        """Kill the processes that the attempt left behind, reap its first process, and post Swept, in a thread."""
        self._poller.do(lambda: self._to_sweep.append(ended))

    def stop(self) -> None:
        """End the thread. The backend kills and reaps the remaining processes in its `shut`."""
        self._poller.stop()
        self.child_ended.close()

    def _expect_orphan(self) -> None:
        self.child_ended.clear()
        self._reap_at = self._may_reap_at

    def _turn(self) -> float | None:
        self._sweep()
        now = time.monotonic()
        if self._reap_at <= now:
            self._reap_at, self._may_reap_at = math.inf, now + SEARCHES_APART
            with suppress(CannotLook):  # the next search finds the orphans
                if not self._family.reap_orphans():
                    self._reap_at = self._may_reap_at
        return None if self._reap_at == math.inf else max(0.0, self._reap_at - now)

    def _sweep(self) -> None:
        batch, self._to_sweep = self._to_sweep, []
        left: Collection[AttemptProcess] = batch
        if batch:
            with suppress(CannotLook):  # `_end` repeats the search for each attempt for a while
                left = self._family.reap_clean(batch)
        for ended in batch:
            if ended not in left:
                self._post(Swept(ended.task, ended.attempt))
                continue
            try:  # in a thread, since the processes may die slowly, and other attempts must not wait
                start_thread(f"sweep {ended.task}", partial(self._end, ended), self._post)
            except OSError:
                self._end(ended)

    def _end(self, ended: AttemptProcess) -> None:
        try:
            self._post(Swept(ended.task, ended.attempt, self._family.sweep(ended)))
        except ProcessesSurvived as error:
            self._post(Swept(ended.task, ended.attempt, len(error.pids), error.pids, error.unseen))
