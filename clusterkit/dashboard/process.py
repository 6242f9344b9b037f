"""Starts and stops the dashboard's process beside a run, which runs `clusterkit.dashboard.main`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from clusterkit.client.directory import RunDirectory
from clusterkit.system.companion import Companion, Script
from clusterkit.system.process import code_of
from clusterkit.words.events import Crashed, DashboardLost, DashboardReady

END_WITHIN = 4.0  # seconds to send open pages how the run ended
Post = Callable[[DashboardReady | DashboardLost | Crashed], None]


class DashboardProcess:
    """The dashboard of a run. Posts DashboardReady, or DashboardLost if it fails or ends by itself.

    The address with the token is only told to `say` on a terminal, and written to the run's file for it, which no
    other user reads.

    Create it in a thread that lives as long as this process: the parent-death signal is tied to that thread.
    """

    def __init__(
        self, run: RunDirectory, post: Post, say: Callable[[str], None] | None, control: bool, env: Mapping[str, str]
    ) -> None:
        self._run, self._post, self._say = run, post, say
        self._log = run.path / "dashboard.log"
        self._lost = False
        self._companion: Companion | None = None
        script = Script("dashboard", lambda channel: _argv(run, channel, control), self._log, env)
        try:
            self._companion = Companion(script, self._heard, self._ended, post)
        except OSError as error:
            post(DashboardLost(f"its process can't be started ({error.strerror})"))

    @property
    def pid(self) -> int | None:
        """The process id; None if the process could not be started."""
        return None if self._companion is None else self._companion.pid

    def stop(self) -> None:
        """End the process, after it has shown the end of the run to those who look."""
        if self._companion is not None:
            self._companion.stop(END_WITHIN)
        with suppress(OSError):
            self._run.dashboard.unlink(missing_ok=True)

    def _heard(self, message: Any) -> None:
        match message:
            case {"address": str(address)}:
                self._opened(address)
            case {"lost": str(lost)}:
                self._lost = True
                self._post(DashboardLost(f"{lost} (its log: {self._log})"))

    def _opened(self, address: str) -> None:
        with suppress(OSError):
            file = os.open(self._run.dashboard, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(file, "w") as opened:
                opened.write(f"{address}\n")
        if self._say is not None:
            self._say(_said(address, self._run.run_id, sys.stdout is not None and sys.stdout.isatty()))
        parts = urlsplit(address)
        self._post(DashboardReady(f"{parts.scheme}://{parts.netloc}/"))

    def _ended(self) -> None:
        if not self._lost:
            self._post(DashboardLost(f"its process has ended (its log: {self._log})"))


def _said(address: str, run_id: str, terminal: bool) -> str:
    """Where the page is. The token is for a person who looks: anything but a terminal may be a log."""
    if terminal:
        return f"The dashboard is open at {address}"
    place = urlsplit(address)._replace(fragment="").geturl()
    return f"The dashboard is open at {place}. `clusterkit ps {run_id}` prints the address with its token."


def _argv(run: RunDirectory, channel: int, control: bool) -> Sequence[str]:
    # -P: modules in the working directory must not shadow the server's.
    arguments = [str(run.path), str(channel), str(int(control)), str(os.getpid())]
    return [sys.executable, "-P", "-c", code_of("clusterkit.dashboard.main"), *arguments]
