"""The main program of every companion: calls MODULE's `serve` with the run, the channel and the ARGUMENTS.

    python -c ... MODULE RUN SOCKET NICENESS PARENT ARGUMENTS...

`serve` returns when the other end of SOCKET is closed. PARENT is the process with which this one ends, or 0.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from clusterkit.store.directory import RunDirectory
from clusterkit.task.entry import die_with_parent


def main() -> None:
    """Run the companion. It ends with `os._exit`, since a normal exit takes longer."""
    module, run, descriptor, niceness, parent, *arguments = sys.argv[1:]
    channel = socket.socket(fileno=int(descriptor))
    channel.set_inheritable(False)
    if int(parent):
        die_with_parent(int(parent))
    os.nice(int(niceness))
    try:
        import_module(module).serve(RunDirectory(Path(run)), channel, *arguments)
    except (Exception, SystemExit) as error:
        tell_lost(channel, error)
        os._exit(1)
    os._exit(0)


def tell(channel: socket.socket, message: object) -> None:
    """Send the supervisor a line of JSON."""
    with suppress(OSError):  # the supervisor has closed its end
        channel.sendall(json.dumps(message).encode() + b"\n")


def tell_lost(channel: socket.socket, error: BaseException) -> None:
    """Log the current exception, and send its first line as the reason."""
    traceback.print_exc()
    tell(channel, {"lost": (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")})
