"""The process beside a run: serves TensorBoard and writes the run's scalars until the other end of SOCKET is closed.

python -c ... RUN SOCKET PORT PARENT    tells through the socket, in lines of JSON, its `address`, or why it is `lost`
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

NICENESS = 10  # whoever looks at the training can wait for it
ANSWER_WITHIN = 60.0  # seconds


def main() -> None:
    """See the module's docstring."""
    run, channel, port = RunDirectory(Path(sys.argv[1])), socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3])
    channel.set_inheritable(False)
    die_with_parent(int(sys.argv[4]))
    os.nice(NICENESS)
    threading.Thread(target=_serve, args=(run, channel, port), daemon=True).start()
    _follow(run, channel)
    os._exit(0)  # without the interpreter's own ending, which takes longer


def _serve(run: RunDirectory, channel: socket.socket, port: int) -> None:
    try:
        address = serve(run.tensorboard, port, f"clusterkit {run.run_id}")
        _wait_until_it_answers(address)
        told = {"address": address}
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        told = {"lost": (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")}
    with suppress(OSError):  # nobody wants to know any more
        channel.sendall(json.dumps(told).encode() + b"\n")


def _wait_until_it_answers(address: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=ANSWER_WITHIN)
    connection.request("GET", urlsplit(address).path)
    connection.getresponse().read()
    connection.close()


def _follow(run: RunDirectory, channel: socket.socket) -> None:
    """Write scalars until the channel is closed; where that fails, TensorBoard shows those that there are."""
    scalars: Scalars | None = Scalars(run)
    closed = False
    while not closed:
        live = run.is_live()  # first: what a run wrote before its end is then read below
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
