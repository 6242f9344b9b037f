"""Decides whether a breakpoint or an exception holds the task, that is, stops the task for a debugger.

A held task waits for the user's commands, and the supervisor gets a report. The debugger is task/debugger_pdb.py.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SEND_WITHIN = 2.0  # seconds; the maximum wait for space in the supervisor's pipe
LONGEST_PATH, LONGEST_NAME, LONGEST_ERROR = 500, 100, 200  # characters; a report must fit into one atomic write
muted: list[bool] = []  # not empty once the user has quit the debugger; breakpoints then have no effect
printed: set[str] = set()


def stop(load: Any, frame: FrameType, header: object = None) -> None:
    """Handle a call of `breakpoint()` or `pdb.set_trace()` in `frame`: stop the task if the run's settings allow it."""
    flags = flags_of()
    if "editor" in flags:
        importlib.import_module("debugpy").breakpoint()
    elif "hold" in flags and is_task():
        if (debugger := free_debugger(load)) is not None:
            debugger.header = header
            debugger.set_trace(frame)  # must be the last statement here, since the debugger traces all that follow
    elif "off" not in flags:
        say_once(f"{short(frame.f_code.co_filename)}:{frame.f_lineno} calls breakpoint()", flags)


def hold_after(load: Any, error: BaseException, traceback: TracebackType | None) -> None:
    """Hold the task for the debugger after an exception that ends the program (--pdb)."""
    if traceback is not None and not isinstance(error, KeyboardInterrupt) and is_task():
        load("task/debugger_pdb").own_debugger(load).examine(described(error), traceback)


def examine(load: Any, error: BaseException | None, traceback: TracebackType) -> None:
    """Handle a call of `pdb.post_mortem()`: hold the task if the run's settings allow it."""
    flags = flags_of()
    if "hold" in flags and is_task():
        if (debugger := free_debugger(load)) is not None:
            debugger.examine(described(error), traceback)
    elif "off" not in flags:
        say_once("the program calls pdb.post_mortem()", flags)


def free_debugger(load: Any) -> Any:
    """Return this thread's debugger; None if the user has quit, or if this thread is already at the prompt."""
    debugger = None if muted else load("task/debugger_pdb").own_debugger(load)
    return None if debugger is None or debugger.prompting else debugger


def flags_of() -> list[str]:
    """Return the run's debugger settings: some of `hold`, `pdb`, `off`, `editor` and `hosts`."""
    return os.environ.get("CLUSTERKIT_DEBUGGER", "").partition(":")[0].split(",")


def is_task() -> bool:
    """Return whether this is the task's first process, and not one of its children."""
    return os.getpid() == os.getsid(0)


def say_once(what: str, flags: list[str]) -> None:
    """Print that the task is not held for the debugger, and why; print each reason only once."""
    if not is_task():
        why = "this is a child process of the task, which can't be debugged"
    elif "hosts" in flags:
        why = "tasks of a job on several hosts can't be debugged"
    else:
        why = (
            "nobody can connect, since the run has no terminal. To wait for `clusterkit debug`, add --breakpoints hold"
        )
    if why not in printed:
        printed.add(why)
        print(f"clusterkit: {what}, and the task continues: {why}.", file=sys.stderr, flush=True)


def report(kind: str, **fields: object) -> bool:
    """Write a report to the supervisor's pipe; return whether this succeeded within SEND_WITHIN."""
    attempt = os.environ.get("CLUSTERKIT_ATTEMPT", "1")
    # The supervisor rejects texts with NUL characters, which exceptions and names of generated code may contain.
    fields = {name: value.replace("\0", "␀") if isinstance(value, str) else value for name, value in fields.items()}
    message = {"kind": kind, "attempt": int(attempt) if attempt.isdecimal() else 1, **fields}
    line = json.dumps(message, ensure_ascii=False).encode(errors="replace") + b"\n"
    until = time.monotonic() + SEND_WITHIN
    while True:
        try:
            pipe = os.open(os.environ.get("CLUSTERKIT_PROGRESS", ""), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return os.write(pipe, line) > 0
            finally:
                os.close(pipe)
        except OSError as error:
            if error.errno != errno.EAGAIN or time.monotonic() > until:
                return False
        time.sleep(0.01)


class Hold:
    """A period in which the task is held. Several threads may call `end`, but the end is reported only once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reported = False

    def begin(self, **place: object) -> bool:
        """Report that the task is held; return whether the report was sent."""
        with self._lock:
            self._reported = report("debugger", held=True, **place)
            return self._reported

    def end(self) -> None:
        """Report that the task is no longer held, unless this has already been reported."""
        with self._lock:
            reported, self._reported = self._reported, False
            if reported:
                report("debugger", held=False)


def place_of(frame: FrameType | None, traceback: TracebackType | None) -> dict[str, Any]:
    """Return the file, line and function of a frame, or of a traceback's last frame."""
    line = frame.f_lineno if frame is not None else 0
    while traceback is not None:
        frame, line, traceback = traceback.tb_frame, traceback.tb_lineno, traceback.tb_next
    assert frame is not None
    code = frame.f_code
    return {"file": short(code.co_filename), "line": line or 0, "function": code.co_name[:LONGEST_NAME]}


def short(path: str) -> str:
    """Return a path relative to the working directory if the file is in it; cut off the beginning of a long path."""
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:  # the working directory has been deleted
        return path[-LONGEST_PATH:]
    return (path[len(here) :] if path.startswith(here) else path)[-LONGEST_PATH:]


def described(error: BaseException | None) -> str:
    try:
        text = str(error)
    except Exception:  # the program's exception class may raise anything
        text = "?"
    return f"{type(error).__name__}: {text}".replace("\n", " ")[:LONGEST_ERROR]
