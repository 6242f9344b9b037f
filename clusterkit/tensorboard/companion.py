"""The TensorBoard companion: a process that serves TensorBoard and writes the run's scalars."""

from __future__ import annotations

import http.client
import select
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from clusterkit.companions import Script, ServerProcess, tell, tell_lost
from clusterkit.store.directory import RunDirectory
from clusterkit.words.events import Crashed, TensorBoardLost, TensorBoardReady

if TYPE_CHECKING:
    from clusterkit.tensorboard.scalars import ScalarWriter

NICENESS = 10  # the process's niceness, since training has priority
ANSWER_WITHIN = 60.0  # seconds; the timeout for TensorBoard's first answer
END_WITHIN = 3.0  # seconds; the time limit for the process to write the last scalars
NO_ENV: Mapping[str, str] = MappingProxyType({})
Post = Callable[[TensorBoardReady | TensorBoardLost | Crashed], None]


def start_tensorboard(run: RunDirectory, post: Post, port: int = 0, env: Mapping[str, str] = NO_ENV) -> ServerProcess:
    """Start TensorBoard for a run. Posts TensorBoardReady, or TensorBoardLost if TensorBoard fails or ends by itself.

    If TensorBoard fails, the process continues to write scalars, which can be viewed later.
    """
    script = Script("tensorboard", __name__, run, [str(port)], env, NICENESS)
    return ServerProcess(
        script,
        lambda address: post(TensorBoardReady(address)),
        lambda why: post(TensorBoardLost(why)),
        post,
        END_WITHIN,
    )


def serve(run: RunDirectory, channel: socket.socket, port: str) -> None:
    threading.Thread(target=_serve, args=(run, channel, int(port)), daemon=True).start()
    _follow(run, channel)


def _serve(run: RunDirectory, channel: socket.socket, port: int) -> None:
    from clusterkit.tensorboard.scalars import serve_board

    try:
        address = serve_board(run.tensorboard, port, f"clusterkit {run.run_id}")
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=ANSWER_WITHIN)
        connection.request("GET", urlsplit(address).path)
        connection.getresponse().read()
        connection.close()
        tell(channel, {"address": address})
    except (Exception, SystemExit) as error:
        tell_lost(channel, error)


def _follow(run: RunDirectory, channel: socket.socket) -> None:
    """Write scalars until the channel is closed. After an error, stop writing, but keep the process alive to serve."""
    from clusterkit.tensorboard.scalars import EVERY, ScalarWriter

    scalars: ScalarWriter | None = ScalarWriter(run)
    closed = False
    while not closed:
        live = run.is_live()  # checked first, so that the update includes everything written before the run's end
        scalars = _updated(scalars, live)
        closed = bool(select.select([channel], [], [], EVERY if live and scalars else None)[0])
    _updated(scalars, live=False)


def _updated(scalars: ScalarWriter | None, live: bool) -> ScalarWriter | None:
    try:
        if scalars is not None:
            scalars.update(live)
    except Exception:
        traceback.print_exc()
        return None
    return scalars
