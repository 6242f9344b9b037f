"""A profile of this task that was asked for while it trains: TensorFlow's own, for TensorBoard."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from pathlib import Path

from clusterkit.training import progress, roles


class Profile:
    """The profile of `steps` steps from the next report on; without `steps`, of what is done from now on.

    It is asked for, and ended, by the thread that listens to requests; it begins and ends in the thread that reports,
    between two steps. `seconds` is how long it may take: then it ends with the steps that there are.
    """

    def __init__(self, request: int, steps: int | None, seconds: float) -> None:
        self.request = request
        self.seconds = seconds
        self.until = time.monotonic() + seconds
        self._steps = steps
        self._first: int | None = None  # the step at which it began
        self._newest = 0
        self._open = self._over = False
        self._process = os.getpid()
        self._lock = threading.RLock()  # a signal's handler may report as well

    def begin(self) -> None:
        """Begin at once, or with the next report."""
        atexit.register(self.end)  # a program that ends meanwhile leaves what there is
        with self._lock:
            if self._steps is None:
                self._start()
            else:
                progress.on_report(self._reported)

    def end(self, why: str = "the program ended before its next report") -> None:
        """Write what there is; `why` tells of a profile that has not begun. Once it is over, do nothing."""
        with self._lock:
            if self._open:
                self._stop()
            elif not self._over:
                self._answer(why=why)

    def _reported(self, step: int) -> None:
        if os.getpid() != self._process:  # what was forked meanwhile is not profiled
            return
        with self._lock:
            if self._over:
                return
            self._newest = step
            if self._first is None:
                self._first = step
                self._start()
            elif self._open and self._steps is not None and step >= self._first + self._steps:
                with progress.phase("profile"):  # thousands of operations take seconds to be written
                    self._stop()

    def _start(self) -> None:
        if "tensorflow" not in sys.modules:
            self._answer(why="it has not imported TensorFlow")
            return
        import tensorflow as tf

        try:
            tf.profiler.experimental.start(roles.tensorboard_dir())
            self._open = True
        except Exception as error:  # such as that the program takes one of its own: it is not to notice anything
            self._answer(why=_first_line(error))

    def _stop(self) -> None:
        import tensorflow as tf

        self._open = False
        steps = None if self._first is None else self._newest - self._first
        try:
            tf.profiler.experimental.stop()
            self._answer(str(_newest_profile()), steps)
        except Exception as error:
            self._answer(why=_first_line(error))

    def _answer(self, path: str | None = None, steps: int | None = None, why: str = "") -> None:
        self._over = True
        atexit.unregister(self.end)
        progress.on_report(None)
        progress.channel().send("profiled", request=self.request, path=path, steps=steps, why=why)


def _newest_profile() -> Path:
    found = Path(roles.tensorboard_dir()).glob("plugins/profile/*/*.xplane.pb")
    return max(found, key=lambda path: path.stat().st_mtime_ns)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
