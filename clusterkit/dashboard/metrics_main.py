"""The process of a run's metrics: serves them until the other end of SOCKET is closed, which is when the run has ended.

    python -c ... RUN SOCKET PORT PARENT

It sends one line of JSON through the socket: the `address` of the metrics, or `lost`, the reason why there are none.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

from clusterkit.client.directory import RunDirectory
from clusterkit.task.entry import die_with_parent

NICENESS = 5  # training comes first


def main() -> None:
    """Run the process."""
    run, channel = RunDirectory(Path(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))
    channel.set_inheritable(False)
    die_with_parent(int(sys.argv[4]))
    os.nice(NICENESS)
    try:
        from clusterkit.dashboard.metrics_server import MetricsServer

        server = MetricsServer(run, int(sys.argv[3]))
        _send(channel, {"address": server.address})

        def attend() -> None:
            select.select([channel], [], [])
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
