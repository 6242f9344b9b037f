"""TensorBoard's process: serves TensorBoard and writes the run's scalars until the other end of SOCKET is closed.

    python -c ... RUN SOCKET PORT PARENT

It sends one line of JSON through the socket: the `address` of the server, or `lost`, the reason why there is none.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from clusterkit.client.directory import RunDirectory
from clusterkit.task.entry import die_with_parent
from clusterkit.tensorboard.library import serve
from clusterkit.tensorboard.scalars import Scalars
from clusterkit.tensorboard.series import EVERY

NICENESS = 10  # training comes first
ANSWER_WITHIN = 60.0  # seconds


def main() -> None:
    """Run the process."""
    run, channel, port = RunDirectory(Path(sys.argv[1])), socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3])
    channel.set_inheritable(False)
    die_with_parent(int(sys.argv[4]))
    os.nice(NICENESS)
    threading.Thread(target=_serve, args=(run, channel, port), daemon=True).start()
    _follow(run, channel)
    os._exit(0)  # a normal exit takes longer


def _serve(run: RunDirectory, channel: socket.socket, port: int) -> None:
    try:
        address = serve(run.tensorboard, port, f"clusterkit {run.run_id}")
        _wait_for_answer(address)
        message = {"address": address}
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        message = {"lost": (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")}
    with suppress(OSError):  # the supervisor has closed its end
        channel.sendall(json.dumps(message).encode() + b"\n")


def _wait_for_answer(address: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=ANSWER_WITHIN)
    connection.request("GET", urlsplit(address).path)
    connection.getresponse().read()
    connection.close()


def _follow(run: RunDirectory, channel: socket.socket) -> None:
    """Write scalars until the channel is closed; after an error write no more, and keep serving those written."""
    scalars: Scalars | None = Scalars(run)
    closed = False
    while not closed:
        live = run.is_live()  # checked first, so that everything written before the end of the run is read below
        scalars = _updated(scalars, live)
        closed = bool(select.select([channel], [], [], EVERY if live and scalars else None)[0])
    _updated(scalars, live=False)


def _updated(scalars: Scalars | None, live: bool) -> Scalars | None:
    try:
        if scalars is not None:
            scalars.update(live)
    except Exception:
        traceback.print_exc()
        return None
    return scalars
