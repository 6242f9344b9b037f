"""The sweeper: kills what attempts left behind, in threads, so that the loop does not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from clusterkit.backends.local.family import Ended, Family
from clusterkit.system.barrier import start_thread
from clusterkit.system.poller import Poller
from clusterkit.system.sweep import WillNotDie
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import Crashed, Swept

Post = Callable[[Swept | Crashed], None]


class Sweeper:
    """One thread reaps attempts that have ended; each that left processes behind gets a thread of its own."""

    def __init__(self, family: Family, post: Post) -> None:
        self._family = family
        self._post = post
        self._ended: list[Ended] = []  # since the last look; for the thread
        self._poller = Poller("sweeper", post, self._sweep)
        self._poller.start()

    def sweep(self, ended: Ended) -> None:
        """Kill what the attempt left behind, and reap it: Swept."""
        self._poller.do(lambda: self._ended.append(ended))

    def stop(self) -> None:
        """End the thread; the end of the run sweeps the attempts that it has not."""
        self._poller.stop()

    def _sweep(self) -> None:
        batch, self._ended = self._ended, []
        left = self._left_of(batch) if batch else ()
        for ended in batch:
            if ended in left:  # its processes may die slowly, and the others must not wait for them
                start_thread(f"sweep {ended.task}", partial(self._end, ended), self._post)
            else:
                self._post(Swept(ended.task, ended.attempt))

    def _left_of(self, batch: Collection[Ended]) -> Collection[Ended]:
        try:
            return self._family.reap_clean(batch)
        except CannotLook:  # each is tried again, for a while
            return batch

    def _end(self, ended: Ended) -> None:
        try:
            self._post(Swept(ended.task, ended.attempt, self._family.sweep(ended)))
        except WillNotDie as error:
            self._post(Swept(ended.task, ended.attempt, len(error.pids), error.pids, error.unseen))
