"""The dashboard of one run: a process that the supervisor starts and observes."""

from __future__ import annotations

import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

from clusterkit.companions import Script, ServerProcess, tell
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.system.files import write_whole
from clusterkit.words.events import Crashed, DashboardLost, DashboardReady

NICENESS = 5  # with this niceness, training has priority, and the page is still fast enough
FAREWELL = 1.5  # seconds; how long open pages are served after the run, so that the pages show how the run ended
LOOK_EVERY = 0.05  # seconds between checks for open pages
END_WITHIN = 4.0  # seconds; the time limit for the process to exit, FAREWELL included
Post = Callable[[DashboardReady | DashboardLost | Crashed], None]
Say = Callable[[str], None]


class DashboardProcess(ServerProcess):
    """The process of a run's dashboard. Posts DashboardReady, or DashboardLost if the process fails or exits early.

    The address with its token is written to a private file of the run. The address is also passed to `say`, but
    without the token unless the output is a terminal.
    """

    def __init__(self, run: RunDirectory, post: Post, say: Say | None, control: bool, env: Mapping[str, str]) -> None:
        self._run = run
        script = Script("dashboard", __name__, run, ["control"] if control else [], env, NICENESS)
        super().__init__(
            script, partial(_opened, run, post, say), lambda why: post(DashboardLost(why)), post, END_WITHIN
        )

    def stop(self) -> None:
        """End the process, once open pages have had time to show the end of the run."""
        super().stop()
        with suppress(OSError):
            self._run.dashboard.unlink(missing_ok=True)


def _opened(run: RunDirectory, post: Post, say: Say | None, address: str) -> None:
    with suppress(OSError):
        write_whole(run.dashboard, f"{address}\n".encode(), 0o600)
    if say is not None:
        say(_said(address, run.run_id, sys.stdout is not None and sys.stdout.isatty()))
    parts = urlsplit(address)
    post(DashboardReady(f"{parts.scheme}://{parts.netloc}/"))


def _said(address: str, run_id: str, terminal: bool) -> str:
    """Return the message with the address. Omit the token unless the output is a terminal, since logs may be shared."""
    if terminal:
        return f"The dashboard is open at {address}"
    place = urlsplit(address)._replace(fragment="").geturl()
    return f"The dashboard is open at {place}. On a terminal, `clusterkit ps {run_id}` prints it with its token."


def serve(run: RunDirectory, channel: socket.socket, *control: str) -> None:
    """Serve until the run ends, and up to FAREWELL seconds longer, so that open pages can show how the run ended."""
    from clusterkit.page.serve import PageServer

    server = PageServer(RunStore(run.path.parent.parent), bool(control))
    tell(channel, {"address": server.address(f"/run/{run.run_id}")})

    def attend() -> None:
        select.select([channel], [], [])
        until = time.monotonic() + FAREWELL
        while server.streams and time.monotonic() < until:
            time.sleep(LOOK_EVERY)
        server.end()

    threading.Thread(target=attend, daemon=True).start()
    server.run()
