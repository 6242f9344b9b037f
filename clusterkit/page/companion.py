"""The dashboard of one run: a process that the supervisor starts and observes, and that open pages keep for a while."""

from __future__ import annotations

import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit

from clusterkit.companions import STAYS, Script, ServerProcess, tell
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.system.files import write_whole
from clusterkit.system.sweep import LINGERS
from clusterkit.words.events import Crashed, DashboardLost, DashboardReady

NICENESS = 5  # with this niceness, training has priority, and the page is still fast enough
LINGER = 600.0  # seconds; how long open pages are served after the run, at most
RELOAD = 5.0  # seconds; a page that is gone for longer has been closed
END_WITHIN = 4.0  # seconds; the time limit for the process to exit, or to say that pages are open
LOOK_EVERY = 0.05  # seconds between checks for open pages
Post = Callable[[DashboardReady | DashboardLost | Crashed], None]
Say = Callable[[str], None]


class Seen(Protocol):
    """A server that knows for how many seconds no page has been open."""

    @property
    def unseen_for(self) -> float: ...


class DashboardProcess(ServerProcess):
    """The process of a run's dashboard. Posts DashboardReady, or DashboardLost if the process fails or exits early.

    The address with its token is written to a private file of the run. The address is also passed to `say`, but
    without the token unless the output is a terminal.
    """

    def __init__(self, run: RunDirectory, post: Post, say: Say | None, control: bool, env: Mapping[str, str]) -> None:
        self._run = run
        arguments = ["control"] if control else []
        script = Script("dashboard", __name__, run, arguments, {**env, LINGERS: "1"}, NICENESS, tied=False)
        super().__init__(
            script, partial(_opened, run, post, say), lambda why: post(DashboardLost(why)), post, END_WITHIN
        )

    def stop(self) -> None:
        """End the process or, if pages are open, let it end when they are closed."""
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
    """Serve until the run ends, however it does, and until the last page that is open then is closed.

    Pages are served for LINGER seconds more at most, so that they show how the run ended, search its logs, and can be
    reloaded.
    """
    from clusterkit.page.serve import PageServer

    server = PageServer(RunStore(run.path.parent.parent), bool(control))
    tell(channel, {"address": server.address(f"/run/{run.run_id}")})

    def attend() -> None:
        select.select([channel], [], [])  # readable once the supervisor closes it or is killed
        signal.setitimer(signal.ITIMER_REAL, LINGER + END_WITHIN)  # the signal ends this process, even if it hangs
        if server.unseen_for < RELOAD:
            tell(channel, STAYS)
            channel.close()
            server.linger()
            wait_for_pages(server)
        server.end()

    threading.Thread(target=attend, daemon=True).start()
    server.run()


def wait_for_pages(server: Seen, linger: float = LINGER, reload: float = RELOAD) -> None:
    """Wait until no page has been open for `reload` seconds, and for `linger` seconds at most."""
    until = time.monotonic() + linger
    while time.monotonic() < until and server.unseen_for < reload:
        time.sleep(LOOK_EVERY)
