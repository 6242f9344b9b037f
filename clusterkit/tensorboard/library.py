"""Uses the `tensorboard` package, which is imported lazily and without TensorFlow. The server answers only this user.

An import of TensorFlow would take seconds and half a gigabyte, and has no advantage for local files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from clusterkit.task.peers import is_own

if TYPE_CHECKING:
    from clusterkit.tensorboard.scalars import Scalar

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
# Any port is accepted, since a tunnel may use a different port.
_OWN = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
REFUSAL = b"TensorBoard answers to no other host than 127.0.0.1 and localhost.\n"


def for_own_names(application: Application) -> Application:
    """Wrap an application to refuse requests for other host names, since any name can be resolved to 127.0.0.1."""

    def answer(environ: dict[str, Any], begin: Callable[..., Any]) -> Iterable[bytes]:
        if _OWN.fullmatch(environ.get("HTTP_HOST", "")):
            return application(environ, begin)
        begin("421 Misdirected Request", [("content-type", "text/plain"), ("content-length", str(len(REFUSAL)))])
        return [REFUSAL]

    return answer


def for_own_user(server: Any) -> Any:
    """Make the server close connections of other users, and return it."""
    server.verify_request = lambda request, address: is_own(request)
    return server


# If this module exists, TensorBoard uses a stub instead of TensorFlow.
sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))


def open_writer(directory: Path) -> Any:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(directory))


def event_of(scalar: Scalar) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    value = Summary.Value(tag=scalar.tag, simple_value=scalar.value)
    return Event(wall_time=scalar.at, step=scalar.step, summary=Summary(value=[value]))


def serve(logdir: Path, port: int, title: str) -> str:
    """Start TensorBoard's server on localhost, in a thread; return its address. Port 0 means any free port."""
    from tensorboard import default, program

    def server(application: Any, flags: Any) -> Any:
        return for_own_user(program.WerkzeugServer(for_own_names(application), flags))

    board = program.TensorBoard(plugins=default.get_plugins(), server_class=server)
    options = {
        "--logdir": logdir,
        "--host": "127.0.0.1",
        "--port": port,
        "--window_title": title,
        "--reload_interval": 3,
        "--load_fast": "false",  # prevents a second process with another port
    }
    board.configure(argv=[None, *(str(argument) for option in options.items() for argument in option)])
    address: str = board.launch()
    return address
