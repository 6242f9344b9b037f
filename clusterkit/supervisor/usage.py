"""Samples the CPU, memory and GPU use of a run's tasks on this machine, during the whole run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping

from clusterkit.store.usage import EVERY, SLOWDOWN, UsageLog, UsageSample
from clusterkit.system.barrier import join, start_thread
from clusterkit.system.gpus import Gpus
from clusterkit.system.procfs import Meter
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import Crashed
from clusterkit.words.model import Task

Pids = Callable[[], Mapping[Task, int]]


class UsageSampler:
    """A thread that samples until `stop`: every two seconds in the first hour, and then at growing intervals."""

    def __init__(self, log: UsageLog, pids: Pids, post: Callable[[Crashed], None]) -> None:
        self._log, self._pids = log, pids
        self._stopped = threading.Event()
        self._thread = start_thread("usage", self._run, post)

    def stop(self) -> None:
        """Stop sampling. Raises ThreadStuck."""
        self._stopped.set()
        join(self._thread)

    def _run(self) -> None:
        meter, gpus, began, cores = Meter(), Gpus(), time.monotonic(), len(os.sched_getaffinity(0))
        while not self._stopped.wait(max(EVERY, (time.monotonic() - began) / SLOWDOWN)):
            try:
                used = meter.sample(dict(self._pids()))
            except CannotLook:
                continue
            if used:
                self._log.add(UsageSample(time.time(), used, gpus.sample(), cores))
