"""Starts and stops the process that serves a run's metrics, which runs `clusterkit.dashboard.metrics_main`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clusterkit.client.directory import RunDirectory
from clusterkit.system.companion import Companion, Script
from clusterkit.system.process import code_of
from clusterkit.words.events import Crashed, Impaired, Noted

END_WITHIN = 2.0  # seconds
Post = Callable[[Noted | Impaired | Crashed], None]


class MetricsProcess:
    """The metrics of a run. Posts Noted with their address, or Impaired if there are none; the run continues.

    Create it in a thread that lives as long as this process: the parent-death signal is tied to that thread.
    """

    def __init__(self, run: RunDirectory, port: int, post: Post, env: Mapping[str, str]) -> None:
        self._post = post
        self._log = run.path / "metrics.log"
        self._lost = False
        self._companion: Companion | None = None
        script = Script("metrics", lambda channel: _argv(run, channel, port), self._log, env)
        try:
            self._companion = Companion(script, self._heard, self._ended, post)
        except OSError as error:
            post(Impaired(f"There are no metrics: their process can't be started ({error.strerror})."))

    @property
    def pid(self) -> int | None:
        """The process id; None if the process could not be started."""
        return None if self._companion is None else self._companion.pid

    def stop(self) -> None:
        """End the process."""
        if self._companion is not None:
            self._companion.stop(END_WITHIN)

    def _heard(self, message: Any) -> None:
        match message:
            case {"address": str(address)}:
                self._post(Noted(f"Metrics are served to every user of this machine at {address}"))
            case {"lost": str(lost)}:
                self._lost = True
                self._post(Impaired(f"There are no metrics: {lost} (the log: {self._log})."))

    def _ended(self) -> None:
        if not self._lost:
            self._post(Impaired(f"There are no metrics any more: their process has ended (its log: {self._log})."))


def _argv(run: RunDirectory, channel: int, port: int) -> Sequence[str]:
    # -P: modules in the working directory must not shadow the server's.
    arguments = [str(run.path), str(channel), str(port), str(os.getpid())]
    return [sys.executable, "-P", "-c", code_of("clusterkit.dashboard.metrics_main"), *arguments]
