"""The TensorBoard companion: its process, which also writes the run's scalars, and the events about it."""

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
    from clusterkit.tensorboard.scalars import Scalars

NICENESS = 10  # training comes first
ANSWER_WITHIN = 60.0  # seconds
END_WITHIN = 3.0  # seconds to write the last scalars
NO_ENV: Mapping[str, str] = MappingProxyType({})
Post = Callable[[TensorBoardReady | TensorBoardLost | Crashed], None]


def start_tensorboard(run: RunDirectory, post: Post, port: int = 0, env: Mapping[str, str] = NO_ENV) -> ServerProcess:
    """Start TensorBoard for a run. Posts TensorBoardReady, or TensorBoardLost if it fails or ends by itself.

    After an error the process keeps writing scalars, to be viewed later.
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
    from clusterkit.tensorboard import library

    try:
        address = library.serve(run.tensorboard, port, f"clusterkit {run.run_id}")
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=ANSWER_WITHIN)
        connection.request("GET", urlsplit(address).path)
        connection.getresponse().read()
        connection.close()
        tell(channel, {"address": address})
    except (Exception, SystemExit) as error:
        tell_lost(channel, error)


def _follow(run: RunDirectory, channel: socket.socket) -> None:
    """Write scalars until the channel is closed; after an error write no more, and keep serving those written."""
    from clusterkit.tensorboard.scalars import EVERY, Scalars

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
