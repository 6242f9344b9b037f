"""Profiles this task during training at the supervisor's request, with TensorFlow's profiler for TensorBoard."""

from __future__ import annotations

import atexit
import json
import os
import select
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusterkit.training import progress, this_task

_READ_SIZE = 1 << 12  # bytes


class Profile:
    """A profile of `steps` steps after the next progress report; without `steps`, of the time until `end` is called.

    The thread that reads requests calls `begin` and `end`. With `steps`, the profiler starts and stops in the thread
    that reports progress, between two steps.

    Args:
        request: the number of the request, which the answer repeats.
        steps: the number of steps to profile; None to profile until `end`.
        seconds: the time limit, after which the profile ends with the steps recorded so far.
    """

    def __init__(self, request: int, steps: int | None, seconds: float) -> None:
        self.request = request
        self.seconds = seconds
        self.until = time.monotonic() + seconds
        self._steps = steps
        self._first_step: int | None = None  # the step at which the profile started
        self._newest_step = 0
        self._is_running = self._is_over = False
        self._process = os.getpid()
        self._lock = threading.RLock()  # reentrant, since a signal handler may report progress too

    def begin(self) -> None:
        """Start profiling now or, with `steps`, at the next report."""
        atexit.register(self.end)  # writes the profile even if the program ends before the profile does
        with self._lock:
            if self._steps is None:
                self._start()
            else:
                progress.on_report(self._on_report)

    def end(self, why: str = "the program ended before its next report") -> None:
        """Stop and write the profile; if it has not started, report `why`. Does nothing if it has already ended."""
        with self._lock:
            if self._is_running:
                self._stop()
            elif not self._is_over:
                self._answer(why=why)

    def _on_report(self, step: int) -> None:
        if os.getpid() != self._process:  # a forked child is not profiled
            return
        with self._lock:
            if self._is_over:
                return
            self._newest_step = step
            if self._first_step is None:
                self._first_step = step
                self._start()
            elif self._is_running and self._steps is not None and step >= self._first_step + self._steps:
                with progress.phase("profile"):  # writing a profile of thousands of operations takes seconds
                    self._stop()

    def _start(self) -> None:
        if "tensorflow" not in sys.modules:
            self._answer(why="it has not imported TensorFlow")
            return
        import tensorflow as tf

        try:
            tf.profiler.experimental.start(this_task.tensorboard_dir())
            self._is_running = True
        except Exception as error:  # the program itself may be running the profiler, and must not be disturbed
            self._answer(why=_first_line(error))

    def _stop(self) -> None:
        import tensorflow as tf

        self._is_running = False
        steps = None if self._first_step is None else self._newest_step - self._first_step
        try:
            tf.profiler.experimental.stop()
            found = Path(this_task.tensorboard_dir()).glob("plugins/profile/*/*.xplane.pb")
            self._answer(str(max(found, key=lambda path: path.stat().st_mtime_ns)), steps)
        except Exception as error:
            self._answer(why=_first_line(error))

    def _answer(self, path: str | None = None, steps: int | None = None, why: str = "") -> None:
        self._is_over = True
        atexit.unregister(self.end)
        progress.on_report(None)
        progress.channel().send("profiled", request=self.request, path=path, steps=steps, why=why)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]


def listen(progress: str) -> None:
    """Start a thread that reads requests from the FIFO `requests` (if it exists) next to the FIFO `progress`."""
    try:
        # Opened for writing too, so that reads never return end of file.
        pipe = os.open(Path(progress).with_name("requests"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # without this FIFO, the supervisor sends no requests
        return
    threading.Thread(target=_serve, args=(pipe,), name="clusterkit requests", daemon=True).start()


def _serve(pipe: int) -> None:
    profile: Profile | None = None
    while True:
        timeout = None if profile is None else max(0.0, profile.until - time.monotonic())
        ready, _, _ = select.select([pipe], [], [], timeout)
        if not ready and profile is not None:
            profile.end(f"it reported no step within {profile.seconds:g} s")
            profile = None
        # Reads return complete lines, since each line is written in one call and is shorter than PIPE_BUF.
        for line in os.read(pipe, _READ_SIZE).splitlines() if ready else ():
            with suppress(ValueError, KeyError, TypeError):  # ignores requests that this version does not support
                profile = _handle(json.loads(line), profile)


def _handle(request: dict[str, Any], profile: Profile | None) -> Profile | None:
    """Carry out a request; return the profile that is then in progress, or None."""
    number = int(request["request"])
    if request["do"] == "profile":
        if profile is not None:
            profile.end("another profile was requested")
        steps = request["steps"]
        new = Profile(number, None if steps is None else int(steps), float(request["seconds"]))
        new.begin()
        return new
    if request["do"] == "end-profile" and profile is not None and profile.request == number:
        profile.end()
        return None
    return profile
