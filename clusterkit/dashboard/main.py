"""The process of a run's dashboard: serves until the other end of SOCKET is closed, which is when the run has ended.

    python -c ... RUN SOCKET CONTROL PARENT

It sends one line of JSON through the socket: the `address` of the server with its token, or `lost`, the reason why
there is none. After the end, those who look at the run are shown how it ended, for a moment.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

from clusterkit.client.directory import RunDirectory
from clusterkit.client.store import RunStore
from clusterkit.task.entry import die_with_parent

NICENESS = 5  # training comes first, and yet the page has to follow
FAREWELL = 1.5  # seconds for which those who look are shown how the run ended
LOOK_EVERY = 0.05  # seconds


def main() -> None:
    """Run the process."""
    run, channel = RunDirectory(Path(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))
    channel.set_inheritable(False)
    die_with_parent(int(sys.argv[4]))
    os.nice(NICENESS)
    try:
        from clusterkit.dashboard.app import Settings
        from clusterkit.dashboard.serve import Server

        server = Server(RunStore(run.path.parent.parent), Settings(control=sys.argv[3] == "1"))
        _send(channel, {"address": server.address(f"/run/{run.run_id}")})

        def attend() -> None:
            select.select([channel], [], [])
            until = time.monotonic() + FAREWELL
            while server.streams and time.monotonic() < until:
                time.sleep(LOOK_EVERY)
            server.end()

        threading.Thread(target=attend, daemon=True).start()
        server.run()
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        _send(channel, {"lost": (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")})
        os._exit(1)
    os._exit(0)


def _send(channel: socket.socket, message: dict[str, str]) -> None:
    with suppress(OSError):  # the supervisor has closed its end
        channel.sendall(json.dumps(message).encode() + b"\n")
