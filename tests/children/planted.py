"""`clusterkit` with a defect: the n-th line of its own code that one of the supervisor's threads executes raises.

    planted.py THREAD N MARK COMMAND...

THREAD is how the thread's name begins, or `loop`. The file MARK is made when the line is reached. Lines that begin with
`with` are left out: an exception at the end of the block, which only a tracer can raise, would leave a lock locked.
"""

import linecache
import sys
import threading
from pathlib import Path

import clusterkit
from clusterkit.cli import main
from clusterkit.supervisor.loop import Loop

OURS = str(Path(clusterkit.__file__).parent)
EXEMPT = str(Path(OURS, "system", "barrier.py"))  # what catches the exception
name, left, mark = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
del sys.argv[1:4]


class Planted(Exception):
    """Nobody expects it."""


def ends_a_block(frame):
    """Whether the line is a `with`, which is executed again at its block's end, before it releases its lock."""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")


def trace(frame, event, _):
    global left
    file = frame.f_code.co_filename
    if not file.startswith(OURS) or file == EXEMPT or not threading.current_thread().name.startswith(name):
        return None
    if event == "line":
        left = max(left - 1, 0) if left >= 0 else left
        if left == 0 and not ends_a_block(frame):
            left = -1
            mark.touch()
            raise Planted(f"at {Path(file).name}:{frame.f_lineno}")
    return trace


run = Loop.run


def traced_run(self):
    threading.current_thread().name = "loop"
    sys.settrace(trace)
    return run(self)


if name == "loop":
    Loop.run = traced_run
else:
    threading.settrace(trace)
main()
