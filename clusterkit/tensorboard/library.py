"""TensorBoard's own library, imported where it is needed, and told to do without TensorFlow.

With TensorFlow it would take seconds and half a gigabyte, and it gains nothing for files of this machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from clusterkit.tensorboard.series import Scalar

# TensorBoard looks for this module, and where it is there, it uses its stub in TensorFlow's place.
sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))


def writer_in(directory: Path) -> Any:
    """An EventFileWriter, with a new file in that directory. Raises OSError."""
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(directory))


def event_of(scalar: Scalar) -> Any:
    """A scalar as an Event."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    value = Summary.Value(tag=scalar.tag, simple_value=scalar.value)
    return Event(wall_time=scalar.at, step=scalar.step, summary=Summary(value=[value]))


def serve(logdir: Path, port: int, title: str) -> str:
    """Start TensorBoard's server in a thread, at a free port for port 0, for this machine alone; return its address."""
    from tensorboard import default, program

    board = program.TensorBoard(plugins=default.get_plugins())
    options = {
        "--logdir": logdir,
        "--host": "127.0.0.1",
        "--port": port,
        "--window_title": title,
        "--reload_interval": 3,
        "--load_fast": "false",  # no second process, which would have an open port of its own
    }
    board.configure(argv=[None, *(str(word) for option in options.items() for word in option)])
    address: str = board.launch()
    return address
