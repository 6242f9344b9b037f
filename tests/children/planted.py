"""`clusterkit` with a defect: the n-th line of its own code that one of the supervisor's threads executes raises.

    planted.py THREAD N MARK COMMAND...

THREAD is how the thread's name begins, or `loop`. The file MARK is made when the line is reached.
"""

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


def trace(frame, event, _):
    global left
    file = frame.f_code.co_filename
    if not file.startswith(OURS) or file == EXEMPT or not threading.current_thread().name.startswith(name):
        return None
    if event == "line":
        left -= 1
        if left == 0:
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
