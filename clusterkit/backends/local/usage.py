"""Samples the CPU, memory and GPU use of the tasks on this machine, during the whole run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping

from clusterkit.store.usage import UsageSample, Use, interval
from clusterkit.system.barrier import join, start_thread
from clusterkit.system.gpus import Gpus
from clusterkit.system.meter import Meter
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import Crashed
from clusterkit.words.model import Task

Pids = Callable[[], Mapping[Task, int]]


class UsageSampler:
    """A thread that samples until `stop` is called: every two seconds in the first hour, and then at growing intervals.

    The thread passes each sample to `take`.
    """

    def __init__(self, take: Callable[[UsageSample], None], pids: Pids, post: Callable[[Crashed], None]) -> None:
        self._take, self._pids = take, pids
        self._stopped = threading.Event()
        self._thread = start_thread("usage", self._run, post)

    def stop(self) -> None:
        """Stop sampling. Raises ThreadStuck."""
        self._stopped.set()
        join(self._thread)

    def _run(self) -> None:
        meter, gpus, began, cores = Meter(), Gpus(), time.monotonic(), len(os.sched_getaffinity(0))
        used: Mapping[Task, Use] = {}
        while not self._stopped.wait(interval(time.monotonic() - began)):
            before = used
            try:
                used = meter.sample(self._pids())
            except CannotLook:
                continue
            if used or before:  # after the last task has ended, take one sample without tasks
                self._take(UsageSample(time.time(), used, gpus.sample(), cores))
