"""The `tensorboard` package, imported on use and without TensorFlow.

With TensorFlow it would take seconds and half a gigabyte, without any advantage for local files.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from clusterkit.tensorboard.series import Scalar
from clusterkit.tensorboard.visitors import for_own_names, for_own_user

# If this module exists, TensorBoard uses its stub in place of TensorFlow.
sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))


def open_writer(directory: Path) -> Any:
    """Open an EventFileWriter with a new file in a directory. Raises OSError."""
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(directory))


def event_of(scalar: Scalar) -> Any:
    """Convert a scalar to an Event."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    value = Summary.Value(tag=scalar.tag, simple_value=scalar.value)
    return Event(wall_time=scalar.at, step=scalar.step, summary=Summary(value=[value]))


def serve(logdir: Path, port: int, title: str) -> str:
    """Start TensorBoard's server for this user in a thread, on localhost and for port 0 on a free port.

    Returns its address.
    """
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
        "--load_fast": "false",  # else it starts a second process, with a port of its own
    }
    board.configure(argv=[None, *(str(argument) for option in options.items() for argument in option)])
    address: str = board.launch()
    return address
